/* What the experiments of `vwire bench` run on: lanes, each two network namespaces with a path between them, a server in the near one
 * (the guest's) and load from the far one.  All of it is made in this process and its children, and goes with them. */
#pragma once
#include <stdint.h>

#include "bench/experiment.h"
#include "bench/load.h"
#include "bench/record.h"

struct rig;

/* Everything that is counted, up to a moment. */
struct rig_mark {
        uint64_t time; /* ns */
        struct tally tally;
        uint64_t cpu_device, cpu_driver, cpu_guest, cpu_load; /* ns */
        /* of the device; by enum vw_queue_kind: rx, tx */
        uint64_t packets[2], bytes[2], calls[2], kicks;
        /* of the driver */
        uint64_t rx_bytes, truesize, buffer_size, sizes[RECORD_SIZES]; /* as in struct vw_queue_stats */
};

/* Each returns -1 to go on, or has said what went wrong and returns the status to exit with. */
/* `linux_guest`: at the driver's end of a link; its settings are its own. */
int rig_start(enum rig_kind kind, bool linux_guest, struct rig **ret_rig);
/* Brings device and driver to these settings, starting from the defaults. */
int rig_set(struct rig *rig, const char *device, const char *driver);
int rig_begin(struct rig *rig, const struct cell *cell);
int rig_mark(struct rig *rig, struct rig_mark *ret_mark);
void rig_end(struct rig *rig);
void rig_stop(struct rig *rig); /* NULL is fine */

/* What happened between two marks, in the metrics of a cell. */
void rig_sample(const struct cell *cell, const struct rig_mark *before, const struct rig_mark *after,
                struct sample *ret_sample);
