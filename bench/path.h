/* What device_bench and driver_bench share: a packet path in one thread that plays the peer, too, by direction, ring size and length.
 *
 *      PROGRAM [packets]       ns a packet, the peer's half included
 *      PROGRAM --callgrind     the counted part for bench/ring_instructions.sh: the path alone
 *
 * Each line is key=value. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct path {
        const char *name; /* "device" */
        void (*start)(bool rx, unsigned size, uint32_t len);
        void (*step)(void);     /* the path: a burst of it */
        unsigned (*peer)(void); /* the other half; packets that have come back since */
        void (*finish)(void);
};

int path_main(const struct path *p, int argc, char **argv);
