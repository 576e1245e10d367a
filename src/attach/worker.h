/* The threads that turn the lanes: lane i belongs to worker i modulo their number, for life. */
#pragma once
#include "attach/lane.h"

/* transmit buffers a pair: what a TAP's own queue holds; larger rings stop at that */
#define ATTACH_BUFS_MAX 1024

struct workers;

/* `alarm`: an eventfd that is rung when a lane finds its rings broken.  0 or -errno. */
int workers_start(const struct attach_config *config, struct lane *lanes, unsigned n_lanes, int alarm,
                  struct workers **ret_workers);
/* Ends the threads; they have left their pairs when it returns.  NULL is fine. */
void workers_stop(struct workers *w);
