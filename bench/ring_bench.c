/* What the rings alone cost, without ports, payload or notifications that sleep.
 *
 *      ring_bench [packets [one]] ns a packet: one thread that plays both halves, and (unless `one`) two threads that poll
 *      ring_bench --callgrind     the counted part for bench/ring_instructions.sh
 *
 * tx: the driver offers readable chains of one piece; rx: it offers writable ones.  Each line is key=value. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench/rings.h"
#include "counted.h"

#define COUNTED (64 * 1024) /* packets */

static void measure(const struct rings_load *load, unsigned threads, uint64_t packets)
{
        struct rings_speed s;

        check(rings_speed(load, threads, packets, UINT64_MAX, &s));
        printf("bench=ring dir=%s size=%u burst=%u threads=%u packets=%" PRIu64
               " ns_per_packet=%.1f mpps=%.2f kicks=%" PRIu64 " calls=%" PRIu64 "\n",
               load->rx ? "rx" : "tx", load->entries, load->burst, threads, s.packets,
               (double)s.ns / (double)s.packets, (double)s.packets * 1e3 / (double)s.ns, s.kicks, s.calls);
        fflush(stdout);
}

/* The same work twice: counted is first what the driver does, then what the device does. */
static void count(const struct rings_load *load)
{
        for (unsigned half = 0; half < 2; half++) {
                struct rings *r = rings_new(load);
                char label[64];

                check(r);
                rings_prime(r);
                CALLGRIND_ZERO_STATS;
                for (uint64_t served = 0; served < COUNTED;) {
                        if (half)
                                CALLGRIND_TOGGLE_COLLECT;
                        served += rings_serve(r);
                        CALLGRIND_TOGGLE_COLLECT;
                        rings_drive(r);
                        if (!half)
                                CALLGRIND_TOGGLE_COLLECT;
                }
                snprintf(label, sizeof(label), "half=%s dir=%s size=%u burst=%u packets=%u",
                         half ? "device" : "driver", load->rx ? "rx" : "tx", load->entries, load->burst,
                         COUNTED);
                CALLGRIND_DUMP_STATS_AT(label);
                rings_free(r);
        }
}

int main(int argc, char **argv)
{
        static const unsigned sizes[] = { 256, 32768 }, bursts[] = { 1, 32, 64 };
        bool counting = argc > 1 && !strcmp(argv[1], "--callgrind");
        bool alone = argc > 2 && !strcmp(argv[2], "one"); /* thread */
        uint64_t packets = argc > 1 && !counting ? strtoull(argv[1], NULL, 10) : 5000000;

        for (unsigned rx = 0; rx < 2; rx++)
                for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++)
                        for (unsigned i = 0; i < ARRAY_SIZE(bursts); i++) {
                                const struct rings_load load = { .rx = rx,
                                                                 .entries = sizes[s],
                                                                 .burst = bursts[i] };

                                if (counting)
                                        count(&load);
                                for (unsigned t = 1; !counting && t <= (alone ? 1 : 2); t++)
                                        measure(&load, t, packets);
                        }
        return 0;
}
