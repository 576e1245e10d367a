/* A reference for what a vhost-user session must make of any sequence of messages, written from the protocol's text and from what the
 * head of src/vhost/backend.h promises where that leaves something open; it shares no line, type or constant with the product.
 * It knows nothing of sockets: a message is numbers and kinds of files. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum ref_file { REF_MEMORY, REF_OTHER_MEMORY, REF_EVENT, REF_PIPE_IN, REF_PIPE_OUT, REF_SOCKET, REF_FILES };

#define REF_FILE_BYTES UINT64_C(0x10000) /* of either memory */
#define REF_RINGS      5
#define REF_REGIONS    16

struct ref_message {
        uint32_t request, flags, size;
        const uint8_t *payload;
        unsigned n_files;
        enum ref_file file[8];
};

enum ref_verdict { REF_SILENT, REF_ACCEPTED, REF_REFUSED, REF_REPLIED, REF_CLOSED };

struct ref_region {
        uint64_t guest, size, user, offset;
        enum ref_file file;
        unsigned times; /* it was added */
};

struct ref_ring {
        bool has_size, has_addresses, has_base, has_kick;
        uint32_t size, base;
        uint64_t desc, avail, used;
        bool runs, enabled, call, err;
        bool was_reset;
        uint32_t stopped_at;
        unsigned starts, stops;
};

struct ref_session {
        /* of the device, given */
        uint64_t offered, protocol_offered;
        uint32_t stop_base;    /* what a ring that stops says */
        uint32_t config_bytes; /* none of them can be written */
        uint64_t queue_num;
        bool (*consistent)(uint64_t features);
        /* what has been said */
        bool owned, has_features;
        uint64_t features, protocol, mtu;
        uint8_t status;
        struct ref_region region[REF_REGIONS];
        unsigned n_regions;
        struct ref_ring ring[REF_RINGS];
};

/* What becomes of the message; *ret_reply is the number that a reply carries, if it carries one. */
enum ref_verdict ref_say(struct ref_session *s, const struct ref_message *m, uint64_t *ret_reply);
