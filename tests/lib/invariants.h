/* What holds whatever a front end does to a device, checked around each case that lies to one:
 *
 *  - the process lives, and no sanitizer speaks;
 *  - nothing beside the memory that the front end shares was touched: pages around it fault; nothing in it but what was posted
 *    for writing has changed;
 *  - the worker, idle again, uses less than 5 % of a CPU within a second;
 *  - the session lives, unless the case is about its end, and the device serves the next one within a second: a frame each way;
 *  - when front ends have gone, there are as many fds and mappings as before they came;
 *  - a neighbour, a second device on the same CPU whose traffic keeps a steady pace, has lost no frame.
 *
 *      struct siege s;
 *      siege_begin(&s, &config);
 *      siege_connect(&s, features, 64);
 *      ... lies, through s.f and s.port, and what has to come of them ...
 *      siege_end(&s, SIEGE_LIVES);
 *
 * Between begin and end front ends may come and go by siege_connect() and siege_disconnect(). */
#pragma once
#include "front.h"
#include "sport.h"

struct neighbour {
        struct front f;
        struct vw_port *port;
        pthread_t thread;
        bool stop;
        uint64_t sent, received, wrong;
};

#define SIEGE_GUARDS 16

struct siege {
        struct front f;    /* the device under siege and its front end */
        struct sport port; /* of the device */
        unsigned pairs;
        bool connected;
        unsigned fds, mappings; /* before a front end came */
        void *guards[SIEGE_GUARDS];
        unsigned n_guards;
        struct neighbour neighbour;
};

enum siege_session { SIEGE_LIVES, SIEGE_CLOSED };

/* `config` (NULL: defaults) needs no port and no CPUs. */
void siege_begin(struct siege *s, const struct vw_device_config *config);
void siege_connect(struct siege *s, uint64_t features, unsigned size);
/* The memory is watched as it is now; siege_connect() does that by itself. */
void siege_watch(struct siege *s);
void siege_disconnect(struct siege *s);
void siege_end(struct siege *s, enum siege_session session);

/* CPU time of the device's workers, in nanoseconds. */
uint64_t siege_cpu(const struct siege *s);
/* Waits until they use less than `permille` of a CPU; false if they do not within a second. */
bool siege_idle(const struct siege *s, unsigned permille);
