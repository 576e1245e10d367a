/* The side of a measurement with the load and the clock: sessions to a bench/server, on threads of its own.
 *
 * Directions are the driver's, and the server is the driver's side: TCP_TX is what the server sends, TCP_RX what it receives.
 * Bytes count when the receiver has them: for TCP_RX those that its kernel has acknowledged. */
#pragma once
#include <netinet/in.h>

#include "bench/crew.h"

enum load_kind {
        LOAD_TCP_RR, /* a message there, one back, the next */
        LOAD_UDP_RR,
        LOAD_TCP_TX, /* messages as fast as they go */
        LOAD_TCP_RX,
        LOAD_UDP_TX,
        LOAD_UDP_RX,
        LOAD_KINDS
};

#define LOAD_SESSIONS_MAX 1000

struct load_job {
        enum load_kind kind;
        unsigned size;     /* bytes of a message, 1..TRAFFIC_MESSAGE_MAX */
        unsigned sessions; /* 1..LOAD_SESSIONS_MAX */
        unsigned threads;  /* that send, at most `sessions` */
        struct sockaddr_in server;
};

struct load_mark {
        uint64_t time; /* ns */
        struct tally tally;
};

struct load;

/* Connects all sessions and lets them run.  0 or -errno with a sentence. */
int load_start(const struct load_job *job, struct load **ret_load, const char **ret_why);
/* What has been done up to now.  0, or -errno when the server does not answer. */
int load_mark(struct load *l, struct load_mark *ret_mark);
uint64_t load_cpu_ns(const struct load *l);
void load_stop(struct load *l);
