#include "path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "counted.h"

#define WARM    8    /* bursts before anything is counted */
#define COUNTED 4096 /* packets */

static void measure(const struct path *p, bool rx, unsigned size, uint32_t len, uint64_t packets)
{
        uint64_t done = 0, t;

        p->start(rx, size, len);
        t = clock_now();
        while (done < packets) {
                p->step();
                done += p->peer();
        }
        t = clock_now() - t;
        p->finish();
        printf("bench=%s dir=%s size=%u len=%u packets=%" PRIu64 " ns_per_packet=%.1f mpps=%.2f\n", p->name,
               rx ? "rx" : "tx", size, len, done, (double)t / (double)done, (double)done * 1e3 / (double)t);
        fflush(stdout);
}

static void count(const struct path *p, bool rx, unsigned size, uint32_t len)
{
        uint64_t done = 0;
        char label[64];

        p->start(rx, size, len);
        for (unsigned i = 0; i < WARM; i++) {
                p->step();
                p->peer();
        }
        CALLGRIND_ZERO_STATS;
        while (done < COUNTED) {
                CALLGRIND_TOGGLE_COLLECT;
                p->step();
                CALLGRIND_TOGGLE_COLLECT;
                done += p->peer();
        }
        snprintf(label, sizeof(label), "half=%s-path dir=%s size=%u len=%u packets=%" PRIu64, p->name,
                 rx ? "rx" : "tx", size, len, done);
        CALLGRIND_DUMP_STATS_AT(label);
        p->finish();
}

int path_main(const struct path *p, int argc, char **argv)
{
        static const unsigned sizes[] = { 256, 32768 };
        static const uint32_t lens[] = { 64, 1500 };
        bool counting = argc > 1 && !strcmp(argv[1], "--callgrind");
        uint64_t packets = argc > 1 && !counting ? strtoull(argv[1], NULL, 0) : 2000000;

        for (unsigned rx = 0; rx < 2; rx++)
                for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
                        for (unsigned k = 0; k < ARRAY_SIZE(lens); k++)
                                if (counting)
                                        count(p, rx, sizes[i], lens[k]);
                                else
                                        measure(p, rx, sizes[i], lens[k], packets);
        return 0;
}
