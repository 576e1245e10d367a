/* The pcap tee: what crosses a port is copied into a ring of its lane, and a thread of the capture writes the rings to the file.  A
 * worker never waits for the file: what finds its ring full is lost to the capture and counted.
 *
 * A capture lives as long as its port, on or off, so lanes never see it go.  Starting and stopping changes one number, the
 * session; each record carries the session it was made in, and the writer drops those of another, so that a lane
 * needs neither a lock nor a message to be told. */
#pragma once
#include "base/atomics.h"
#include "port/recring.h"
#include "vwire/port.h"

struct capture_lane {
        struct recring ring;
        /* worker counts, anybody reads */
        uint64_t lost __attribute__((aligned(CACHE_LINE)));
};

struct capture {
        /* control thread writes, lanes read: 0 is off */
        uint32_t session;
        /* lanes set it when they ring the bell, the writer clears it */
        uint32_t rung;
        int bell; /* eventfd */
        /* control thread only */
        struct writer *writer; /* or NULL */
        uint32_t last_session;
        uint8_t *memory;
        /* the writer counts, anybody reads */
        uint64_t lost;
        unsigned n_lanes;
        struct capture_lane lanes[];
};

/* ---- control thread ---- */

int capture_new(unsigned lanes, struct capture **ret_capture);
void capture_free(struct capture *c); /* stops it first */

/* Takes the fd on success only; stops what ran before.  0 or -errno. */
int capture_start(struct capture *c, int fd);

/* Returns when what was recorded has been written, or could not be without waiting. */
void capture_stop(struct capture *c);

uint64_t capture_lost(const struct capture *c);

/* ---- the lane's worker thread ---- */

static inline bool capture_on(const struct capture *c)
{
        return load_relaxed(&c->session);
}

/* Nanoseconds since 1970, for capture_frame(). */
uint64_t capture_clock(void);

void capture_frame(struct capture *c, unsigned lane, const struct vw_pkt *pkt, uint64_t ns);
