/* Runs experiments: lets the variants of each cell take turns, again and again, and records what the rig counts. */
#pragma once
#include <stdbool.h>

#include "bench/record.h"

struct bench_plan {
        const struct experiment *const *experiments;
        unsigned n_experiments;
        bool quick;
        bool linux_guest; /* at the driver's end, for the variants that it knows */
        unsigned repeat;  /* rounds of each cell */
};

unsigned bench_window_ms(bool quick);
/* How long it will take. */
double bench_seconds(const struct bench_plan *plan);
/* Fills the record, also when it ends early: told to stop (then 0 is returned) or something failed. */
int bench_run(const struct bench_plan *plan, struct record *record);
