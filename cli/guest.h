/* A real guest at the driver's end of a link: Linux as a program (User Mode Linux), whose root is the host's and whose virtio_net drives our
 * device.  Inside, `vwire bench serve` does what the server in this process does for a driver of ours. */
#pragma once
#include <stdbool.h>

#include "link.h"

/* The programs that it needs, or the name of the first that is missing; NULL: all are there. */
const char *guest_lacks(void);
/* Boots it on the device of the link, which listens.  A status to exit with, or -1 to go on. */
int guest_start(struct link *l);
/* It has booted and serves. */
bool guest_serves(const struct link *l);
#define GUEST_SERVES "the guest's side is served"
