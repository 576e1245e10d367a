/* Either side of src/bench's traffic as a program, for test_traffic.py and e2e/test_grow.py:
 *
 *      traffic_tool server PORT                                       serves until its stdin closes
 *      traffic_tool load KIND SIZE SESSIONS THREADS PORT MILLISECONDS prints what was counted in that time
 *      traffic_tool grow SOCKET OWN SERVER SIZE SESSIONS PORT MILLISECONDS the growing sender on a device: prints what it has counted by
 *                                                                     then, and goes on until its stdin closes */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/grow.h"
#include "bench/load.h"
#include "bench/server.h"

static struct sockaddr_in at(const char *port)
{
        return (struct sockaddr_in){ .sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                     .sin_port = htons((uint16_t)atoi(port)) };
}

static int failed(const char *why)
{
        fprintf(stderr, "traffic_tool: %s\n", why);
        return 1;
}

static int serve(const char *port)
{
        struct sockaddr_in address = at(port);
        struct server *server;
        const char *why;
        char byte;

        if (server_new(&address, &server, &why) < 0)
                return failed(why);
        printf("ready\n");
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        server_free(server);
        return 0;
}

static int put_load(char **arg)
{
        static const char *const names[LOAD_KINDS] = { "tcp_rr", "udp_rr", "tcp_tx",
                                                       "tcp_rx", "udp_tx", "udp_rx" };
        struct load_job job = { .kind = LOAD_KINDS,
                                .size = (unsigned)atoi(arg[1]),
                                .sessions = (unsigned)atoi(arg[2]),
                                .threads = (unsigned)atoi(arg[3]),
                                .server = at(arg[4]) };
        static struct load_mark begin, end;
        struct load *load;
        const char *why;

        for (unsigned i = 0; i < LOAD_KINDS; i++)
                if (!strcmp(names[i], arg[0]))
                        job.kind = i;
        if (load_start(&job, &load, &why) < 0)
                return failed(why);
        if (load_mark(load, &begin) < 0)
                return failed("no first mark");
        poll(NULL, 0, atoi(arg[5]));
        if (load_mark(load, &end) < 0)
                return failed("no second mark");
        load_stop(load);
        printf("all_transactions=%ju all_packets=%ju ", (uintmax_t)latency_total(&end.tally.latency),
               (uintmax_t)end.tally.packets);
        tally_subtract(&end.tally, &begin.tally);
        printf("ns=%ju transactions=%ju bytes=%ju packets=%ju retries=%ju p50_ns=%.0f p99_ns=%.0f\n",
               (uintmax_t)(end.time - begin.time), (uintmax_t)latency_total(&end.tally.latency),
               (uintmax_t)end.tally.bytes, (uintmax_t)end.tally.packets, (uintmax_t)end.tally.retries,
               latency_percentile(&end.tally.latency, 50), latency_percentile(&end.tally.latency, 99));
        return 0;
}

static int put_grow(char **arg)
{
        struct load_job job = { .kind = LOAD_TCP_TX,
                                .size = (unsigned)atoi(arg[3]),
                                .sessions = (unsigned)atoi(arg[4]),
                                .threads = 1,
                                .server = at(arg[5]) };
        static struct load_mark mark;
        struct in_addr own;
        struct grow *grow;
        const char *why;
        char byte;
        int r;

        if (inet_pton(AF_INET, arg[1], &own) != 1 || inet_pton(AF_INET, arg[2], &job.server.sin_addr) != 1)
                return failed("no addresses");
        if (grow_new(arg[0], &grow, &why) < 0)
                return failed(why);
        r = grow_start(grow, own, &job, &why);
        if (r == 0)
                poll(NULL, 0, atoi(arg[6]));
        if (r == 0)
                r = grow_mark(grow, &mark);
        printf("result=%d bytes=%ju packets=%ju\n", r, (uintmax_t)mark.tally.bytes,
               (uintmax_t)mark.tally.packets);
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        grow_free(grow);
        return 0;
}

int main(int argc, char **argv)
{
        if (argc == 3 && !strcmp(argv[1], "server"))
                return serve(argv[2]);
        if (argc == 8 && !strcmp(argv[1], "load"))
                return put_load(argv + 2);
        if (argc == 9 && !strcmp(argv[1], "grow"))
                return put_grow(argv + 2);
        return failed("what?");
}
