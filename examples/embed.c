/* embed: a device in this program, without a socket of its own.  It makes a pair of connected sockets, serves one
 * end with a port that sends every frame back, and hands the other to a program that drives it:
 *
 *     embed PROGRAM [ARG]        runs PROGRAM --fd=N ARG
 */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vwire/device.h>

static pid_t start(char **argv, int fd)
{
        char option[32];
        pid_t pid = fork();

        if (pid == 0) {
                snprintf(option, sizeof(option), "--fd=%d", fd);
                execl(argv[1], argv[1], option, argv[2], (char *)NULL);
                perror(argv[1]);
                _exit(127);
        }
        return pid;
}

int main(int argc, char **argv)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        const struct vw_port_config port_config = { .pairs = 1 };
        struct vw_device *dev = NULL;
        struct vw_stats stats;
        const char *why = "";
        int sv[2], status = 1;

        if (argc < 2) {
                fprintf(stderr, "usage: embed PROGRAM [ARG]\n");
                return 2;
        }
        if (vw_port_open("loop", &port_config, &config.port, &why) < 0 ||
            vw_device_new(&config, &dev, &why) < 0) {
                fprintf(stderr, "embed: %s\n", why);
                return 1;
        }
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) < 0 || start(argv, sv[1]) < 0 ||
            vw_device_serve(dev, sv[0]) < 0) {
                perror("embed");
                return 1;
        }
        close(sv[1]);

        /* The workers are the device's own threads; here we only serve the session until the program leaves. */
        struct pollfd p = { .fd = vw_device_fd(dev), .events = POLLIN };

        while (vw_device_serving(dev) && poll(&p, 1, 10000) > 0)
                if (vw_device_dispatch(dev) < 0)
                        break;
        vw_device_stats(dev, &stats);
        for (unsigned i = 0; i < stats.n_queues; i++)
                printf("queue %u: %llu packets\n", stats.queues[i].index,
                       (unsigned long long)stats.queues[i].counters[VW_C_packets]);
        wait(&status);
        vw_device_free(dev);
        vw_port_close(config.port);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
