/* The control thread's loop: file descriptors with a handler each, and one deadline for each watch that wants one.
 * Not for the data path, which has loops of its own. */
#pragma once
#include <stdint.h>

struct evloop;

struct ev_watch {
        /* EPOLLIN ...; may remove any watch, itself too */
        void (*ready)(struct ev_watch *w, uint32_t events);
        /* the deadline came; it is NEVER again by then */
        void (*expired)(struct ev_watch *w, uint64_t now);
        /* evloop's own */
        uint64_t turn; /* in which the deadline was last served */
        struct ev_watch *next;
        uint64_t deadline;
        int fd;
};

int evloop_new(struct evloop **ret_loop);
void evloop_free(struct evloop *loop);

/* Pollable: readable when evloop_dispatch() has something to do (deadlines excepted). */
int evloop_fd(const struct evloop *loop);

/* fd -1: a watch with a deadline only.  The fd stays the caller's.  Zero the watch's own fields first. */
int evloop_add(struct evloop *loop, struct ev_watch *w, int fd, uint32_t events);
int evloop_modify(struct evloop *loop, struct ev_watch *w, uint32_t events);
void evloop_remove(struct evloop *loop, struct ev_watch *w); /* of a watch that was not added: does nothing */
void evloop_deadline(struct evloop *loop, struct ev_watch *w, uint64_t deadline);

/* The nearest deadline of all watches, or NEVER. */
uint64_t evloop_next(const struct evloop *loop);

/* Waits until `deadline` at most (0: does not wait), runs what is ready, each watch once.  Returns 0 or -errno. */
int evloop_dispatch(struct evloop *loop, uint64_t deadline);
