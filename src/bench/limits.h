/* What this machine can do at all: the prices that every number of a link is made of. */
#pragma once

struct limit {
        const char *name;
        double (*measure)(unsigned ms); /* nanoseconds, from a run of about so long; NAN where it cannot be */
};
extern const struct limit limits[];
extern const unsigned n_limits;
