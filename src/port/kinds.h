/* What port.c and the kinds of ports agree on: a parsed spec, and one way to refuse it. */
#pragma once
#include <stdint.h>

#include "vwire/port.h"

/* A spec after parsing, KIND:NAME,key=value,word: what was not said is zero. */
struct port_args {
        const char *spec; /* as it was given, for messages */
        char name[64];
        char netns[64], bridge[64];
        bool persist;
        int fds[VW_QUEUE_PAIRS_MAX];
        unsigned n_fds;
        uint64_t size, rate, count;
        bool clone;
};

/* Opens one kind.  On success *ret_ops and *ret_self go to vw_port_new(). */
typedef int port_open_fn(const struct port_args *args, const struct vw_port_config *config,
                         const struct vw_port_ops **ret_ops, void **ret_self, const char **ret_why);

port_open_fn tap_open, loop_open, null_open, gen_open;

/* Puts a sentence about `spec` into *ret_why (thread-local storage) and returns -err. */
int port_refuse(const char **ret_why, int err, const char *spec, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
