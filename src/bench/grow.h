/* A guest's TCP sender in this process, on a driver of ours: what the kernel's would be if it were not behind a TAP, which lets
 * packets go before they are sent.
 *
 * Each session's program writes without a pause.  What may be sent goes out at once, as large as it is; while the session must
 * wait (for its flow, the queue, or the peer's window) its writes gather into one segment.  So the segments grow, up to 64 KiB, when
 * and only when something holds the sender back: with completions, the byte account of its flow does. */
#pragma once
#include <netinet/in.h>

#include "bench/load.h"

struct grow;

/* Connects to the device at a vhost-user socket.  0 or -errno with a sentence; the same for the others. */
int grow_new(const char *socket_path, struct grow **ret_grow, const char **ret_why);
void grow_free(struct grow *g); /* NULL is fine */
/* Settings of the driver, as in "tx-mode=napi bql=off". */
int grow_set(struct grow *g, const char *settings, const char **ret_why);

/* Opens `sessions` to the server, a bench/server behind the device, each writing `size` bytes at a time. */
int grow_start(struct grow *g, struct in_addr own, const struct load_job *job, const char **ret_why);
/* As load_mark(): bytes are those that the peer has acknowledged. */
int grow_mark(struct grow *g, struct load_mark *ret_mark);
uint64_t grow_cpu_ns(const struct grow *g);
void grow_stop(struct grow *g);
