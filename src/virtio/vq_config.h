/* What one end knows of a virtqueue before it runs: plain numbers from the peer, none of them trusted.
 * vq_device_init() and vq_driver_init() are the gate; after it nobody asks again. */
#pragma once
#include <stdint.h>

struct vq_config {
        uint32_t size;
        /* in the address space of mem_map_uva(): vhost-user gives the front end's virtual addresses */
        uint64_t desc, avail, used;
        /* split: avail index; packed: avail | wrap << 15 | used << 16 | used wrap << 31.  A packed base of 0 is ambiguous: it is also what
         * User Mode Linux says of a fresh ring, whose first descriptor is not marked used. */
        uint32_t base;
        uint64_t features; /* as negotiated for the device */
};
