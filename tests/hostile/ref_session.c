#include "ref_session.h"

#include <string.h>

enum { VERSION = 1, IS_REPLY = 4, WANTS_REPLY = 8 };
enum {
        F_MQ = 0,
        F_REPLY_ACK = 3,
        F_MTU = 4,
        F_BACKEND_REQ = 5,
        F_CONFIG = 9,
        F_RESET = 13,
        F_SLOTS = 15,
        F_STATUS = 16
};
#define NEVER_NEEDED          64
#define HAS_PROTOCOL_FEATURES (UINT64_C(1) << 30)

/* What a message must look like, by its number in the protocol. */
struct shape {
        bool served, early, replies;
        uint32_t least, most; /* payload */
        unsigned files_least, files_most;
        unsigned needs; /* the number of a protocol feature */
        enum { NO_RING, RING_NUMBER, RING_NUMBER_AND_FILE } ring;
};

static struct shape shape_of(uint32_t request)
{
        struct shape s = { .served = true, .needs = NEVER_NEEDED };

        switch (request) {
        case 1:  /* GET_FEATURES */
        case 15: /* GET_PROTOCOL_FEATURES */
                s.early = s.replies = true;
                break;
        case 3: /* SET_OWNER */
                s.early = true;
                break;
        case 4: /* RESET_OWNER */
                break;
        case 2: /* SET_FEATURES */
                s.least = s.most = 8;
                break;
        case 16: /* SET_PROTOCOL_FEATURES */
                s.early = true;
                s.least = s.most = 8;
                break;
        case 5: /* SET_MEM_TABLE */
                s.least = 8;
                s.most = 8 + 8 * 32;
                s.files_most = 8;
                break;
        case 8:  /* SET_VRING_NUM */
        case 10: /* SET_VRING_BASE */
        case 18: /* SET_VRING_ENABLE */
                s.least = s.most = 8;
                s.ring = RING_NUMBER;
                break;
        case 11: /* GET_VRING_BASE */
                s.least = s.most = 8;
                s.ring = RING_NUMBER;
                s.replies = true;
                break;
        case 9: /* SET_VRING_ADDR */
                s.least = s.most = 40;
                s.ring = RING_NUMBER;
                break;
        case 12: /* SET_VRING_KICK */
        case 13: /* SET_VRING_CALL */
        case 14: /* SET_VRING_ERR */
                s.least = s.most = 8;
                s.files_most = 1;
                s.ring = RING_NUMBER_AND_FILE;
                break;
        case 17: /* GET_QUEUE_NUM */
                s.early = s.replies = true;
                s.needs = F_MQ;
                break;
        case 20: /* NET_SET_MTU */
                s.least = s.most = 8;
                s.needs = F_MTU;
                break;
        case 21: /* SET_BACKEND_REQ_FD */
                s.early = true;
                s.files_least = s.files_most = 1;
                s.needs = F_BACKEND_REQ;
                break;
        case 24: /* GET_CONFIG */
                s.early = s.replies = true;
                s.least = 12;
                s.most = 4096;
                s.needs = F_CONFIG;
                break;
        case 25: /* SET_CONFIG */
                s.least = 12;
                s.most = 12 + 256;
                s.needs = F_CONFIG;
                break;
        case 34: /* RESET_DEVICE */
                s.needs = F_RESET;
                break;
        case 36: /* GET_MAX_MEM_SLOTS */
                s.early = s.replies = true;
                s.needs = F_SLOTS;
                break;
        case 37: /* ADD_MEM_REG */
                s.least = s.most = 40;
                s.files_least = s.files_most = 1;
                s.needs = F_SLOTS;
                break;
        case 38: /* REM_MEM_REG */
                s.least = s.most = 40;
                s.files_most = 1;
                s.needs = F_SLOTS;
                break;
        case 39: /* SET_STATUS */
                s.least = s.most = 8;
                s.needs = F_STATUS;
                break;
        case 40: /* GET_STATUS */
                s.replies = true;
                s.needs = F_STATUS;
                break;
        default:
                s.served = false;
        }
        return s;
}

static uint64_t word(const struct ref_message *m, unsigned at, unsigned bytes)
{
        uint64_t value = 0;

        for (unsigned i = 0; i < bytes; i++)
                value |= (uint64_t)m->payload[at + i] << (8 * i);
        return value;
}

static bool well_shaped(const struct ref_session *s, const struct ref_message *m, const struct shape *shape)
{
        uint64_t ring = 0;

        if (!shape->served || m->flags & IS_REPLY)
                return false;
        if (m->size < shape->least || m->size > shape->most)
                return false;
        if (m->n_files < shape->files_least || m->n_files > shape->files_most)
                return false;
        if (!s->owned && !shape->early)
                return false;
        if (shape->needs != NEVER_NEEDED && !(s->protocol >> shape->needs & 1))
                return false;
        if (shape->ring == RING_NUMBER)
                ring = word(m, 0, 4);
        if (shape->ring == RING_NUMBER_AND_FILE) {
                ring = word(m, 0, 8);
                if ((ring & 0x100) == (m->n_files ? 0x100u : 0)) /* the mark says that no file comes */
                        return false;
                ring &= ~UINT64_C(0x100);
        }
        return ring < REF_RINGS;
}

/* ---- memory ---- */

static bool may_be_a_region(const struct ref_region *r)
{
        if (r->file != REF_MEMORY && r->file != REF_OTHER_MEMORY)
                return false;
        return r->size && r->guest + r->size >= r->guest && r->user + r->size >= r->user &&
               r->offset + r->size >= r->offset && r->offset + r->size <= REF_FILE_BYTES;
}

static bool apart(const struct ref_region *a, const struct ref_region *b)
{
        return a->guest + a->size <= b->guest || b->guest + b->size <= a->guest;
}

static struct ref_region region_at(const struct ref_message *m, unsigned at, enum ref_file file)
{
        return (struct ref_region){ .guest = word(m, at, 8),
                                    .size = word(m, at + 8, 8),
                                    .user = word(m, at + 16, 8),
                                    .offset = word(m, at + 24, 8),
                                    .file = file,
                                    .times = 1 };
}

static bool lies_in_one(const struct ref_session *s, uint64_t user, uint64_t bytes)
{
        for (unsigned i = 0; i < s->n_regions; i++) {
                const struct ref_region *r = &s->region[i];

                if (user >= r->user && user < r->user + r->size)
                        return user + bytes <= r->user + r->size;
        }
        return false;
}

/* ---- rings ---- */

enum start { STARTED, WAITS, CANNOT };

static enum start try_to_start(struct ref_session *s, struct ref_ring *r)
{
        if (r->runs || !r->has_size || !r->has_addresses || !r->has_kick || !s->has_features || !s->n_regions)
                return WAITS;
        if (r->desc % 16 || r->avail % 2 || r->used % 4)
                return CANNOT;
        if (!lies_in_one(s, r->desc, 16 * (uint64_t)r->size) ||
            !lies_in_one(s, r->avail, 6 + 2 * (uint64_t)r->size) ||
            !lies_in_one(s, r->used, 6 + 8 * (uint64_t)r->size))
                return WAITS;
        r->runs = true;
        r->starts++;
        return STARTED;
}

static void start_what_can(struct ref_session *s)
{
        for (unsigned i = 0; i < REF_RINGS; i++)
                try_to_start(s, &s->ring[i]);
}

static void stop(struct ref_session *s, struct ref_ring *r)
{
        if (!r->runs)
                return;
        r->runs = false;
        r->stops++;
        r->base = s->stop_base;
        r->has_base = true;
}

static uint32_t base_of(const struct ref_ring *r)
{
        return r->has_base ? r->base : r->was_reset ? r->stopped_at : 0;
}

static void reset(struct ref_session *s)
{
        for (unsigned i = 0; i < REF_RINGS; i++) {
                struct ref_ring *r = &s->ring[i], fresh = { .was_reset = true };

                stop(s, r);
                fresh.stopped_at = base_of(r);
                fresh.call = r->call;
                fresh.err = r->err;
                fresh.starts = r->starts;
                fresh.stops = r->stops;
                fresh.enabled = r->enabled; /* the device is told to forget that as a whole */
                *r = fresh;
        }
        s->has_features = false;
        s->features = 0;
}

static bool any_runs(const struct ref_session *s)
{
        for (unsigned i = 0; i < REF_RINGS; i++)
                if (s->ring[i].runs)
                        return true;
        return false;
}

/* Takes the changed ring if it can be started or has to wait, and nothing of it if it cannot. */
static bool change(struct ref_session *s, struct ref_ring *r, struct ref_ring changed)
{
        struct ref_ring before = *r;

        *r = changed;
        if (try_to_start(s, r) != CANNOT)
                return true;
        *r = before;
        return false;
}

static bool is_notifier(enum ref_file file, bool for_kick)
{
        if (file == REF_EVENT)
                return true;
        return for_kick ? file == REF_PIPE_IN : file == REF_PIPE_OUT || file == REF_SOCKET;
}

/* ---- what messages mean.  False: refused ---- */

static bool set_features(struct ref_session *s, uint64_t features)
{
        if (features & ~s->offered)
                return false;
        if (any_runs(s))
                return features == s->features;
        if (!s->consistent(features))
                return false;
        s->features = features;
        s->has_features = true;
        for (unsigned i = 0; i < REF_RINGS && !(features & HAS_PROTOCOL_FEATURES); i++)
                s->ring[i].enabled = true;
        start_what_can(s);
        return true;
}

static bool set_mem_table(struct ref_session *s, const struct ref_message *m)
{
        struct ref_region table[8];
        uint64_t n = word(m, 0, 4);

        if (!n || n > 8 || m->size < 8 + 32 * n || m->n_files != n)
                return false;
        for (unsigned i = 0; i < n; i++) {
                table[i] = region_at(m, 8 + 32 * i, m->file[i]);
                if (!may_be_a_region(&table[i]))
                        return false;
                for (unsigned j = 0; j < i; j++)
                        if (!apart(&table[i], &table[j]))
                                return false;
        }
        memcpy(s->region, table, sizeof(table));
        s->n_regions = (unsigned)n;
        start_what_can(s);
        return true;
}

static struct ref_region *known(struct ref_session *s, const struct ref_region *as)
{
        for (unsigned i = 0; i < s->n_regions; i++) {
                struct ref_region *r = &s->region[i];

                if (r->guest == as->guest && r->size == as->size && r->user == as->user)
                        return r;
        }
        return NULL;
}

static bool add_region(struct ref_session *s, const struct ref_message *m)
{
        struct ref_region new = region_at(m, 8, m->file[0]), *old = known(s, &new);

        if (old && old->offset == new.offset && old->file == new.file) {
                old->times++;
        } else {
                if (!may_be_a_region(&new))
                        return false;
                for (unsigned i = 0; i < s->n_regions; i++)
                        if (!apart(&new, &s->region[i]))
                                return false;
                s->region[s->n_regions++] = new;
        }
        start_what_can(s);
        return true;
}

static bool remove_region(struct ref_session *s, const struct ref_message *m)
{
        struct ref_region as = region_at(m, 8, REF_FILES), *old = known(s, &as);

        if (!old || (m->n_files && m->file[0] != old->file))
                return false;
        if (--old->times == 0)
                *old = s->region[--s->n_regions];
        start_what_can(s);
        return true;
}

static bool set_ring(struct ref_session *s, const struct ref_message *m)
{
        struct ref_ring *r = &s->ring[word(m, 0, 4)], changed = *r;
        uint32_t number = (uint32_t)word(m, 4, 4);

        switch (m->request) {
        case 8:
                if (number < 1 || number > 32768 || (s->has_features && number & (number - 1)))
                        return false;
                if (r->runs)
                        return number == r->size;
                changed.size = number;
                changed.has_size = true;
                return change(s, r, changed);
        case 9:
                if (number) /* flags: logging */
                        return false;
                changed.desc = word(m, 8, 8);
                changed.used = word(m, 16, 8);
                changed.avail = word(m, 24, 8);
                changed.has_addresses = true;
                if (r->runs)
                        return changed.desc == r->desc && changed.used == r->used &&
                               changed.avail == r->avail;
                return change(s, r, changed);
        case 10:
                if (r->runs || (s->has_features && number > 0xffff))
                        return false;
                changed.base = number;
                changed.has_base = true;
                return change(s, r, changed);
        default: /* 18 */
                if (number > 1)
                        return false;
                r->enabled = number;
                return true;
        }
}

static bool set_notifier(struct ref_session *s, const struct ref_message *m)
{
        struct ref_ring *r = &s->ring[word(m, 0, 1)], changed;
        bool kick = m->request == 12;

        if (m->n_files && !is_notifier(m->file[0], kick))
                return false;
        if (m->request == 13)
                r->call = m->n_files;
        if (m->request == 14)
                r->err = m->n_files;
        if (!kick)
                return true;
        stop(s, r);
        changed = *r;
        changed.has_kick = true;
        return change(s, r, changed);
}

static bool set_config(const struct ref_message *m)
{
        (void)m;
        return false; /* the device has no field that can be written */
}

static bool carry_out(struct ref_session *s, const struct ref_message *m, uint64_t *ret_reply)
{
        struct ref_ring *r;

        switch (m->request) {
        case 1:
                *ret_reply = s->offered;
                return true;
        case 2:
                return set_features(s, word(m, 0, 8));
        case 3:
                s->owned = true;
                return true;
        case 4:
                for (unsigned i = 0; i < REF_RINGS; i++) {
                        stop(s, &s->ring[i]);
                        s->ring[i].enabled = false;
                }
                return true;
        case 5:
                return set_mem_table(s, m);
        case 8:
        case 9:
        case 10:
        case 18:
                return set_ring(s, m);
        case 11:
                r = &s->ring[word(m, 0, 4)];
                stop(s, r);
                r->has_kick = false;
                *ret_reply = base_of(r);
                return true;
        case 12:
        case 13:
        case 14:
                return set_notifier(s, m);
        case 15:
                *ret_reply = s->protocol_offered;
                return true;
        case 16:
                if (word(m, 0, 8) & ~s->protocol_offered)
                        return false;
                s->protocol = word(m, 0, 8);
                return true;
        case 17:
                *ret_reply = s->queue_num;
                return true;
        case 20:
                if (word(m, 0, 8) < 68 || word(m, 0, 8) > 65535)
                        return false;
                s->mtu = word(m, 0, 8);
                return true;
        case 21:
                return m->file[0] == REF_SOCKET;
        case 24: /* its way to say no is an empty reply */
                return true;
        case 25:
                return set_config(m);
        case 34:
                reset(s);
                return true;
        case 36:
                *ret_reply = 509;
                return true;
        case 37:
                return add_region(s, m);
        case 38:
                return remove_region(s, m);
        case 39:
                if (word(m, 0, 8) > 255)
                        return false;
                if (!word(m, 0, 8))
                        reset(s);
                s->status = (uint8_t)word(m, 0, 8);
                return true;
        default: /* 40 */
                *ret_reply = s->status;
                return true;
        }
}

static bool acknowledges(const struct ref_session *s, const struct ref_message *m)
{
        return m->flags & WANTS_REPLY && s->protocol >> F_REPLY_ACK & 1;
}

enum ref_verdict ref_say(struct ref_session *s, const struct ref_message *m, uint64_t *ret_reply)
{
        struct shape shape = shape_of(m->request);
        bool asked = acknowledges(s, m), fine;

        fine = well_shaped(s, m, &shape) && carry_out(s, m, ret_reply);
        asked |= acknowledges(s, m); /* the message that agrees on it counts */
        if (shape.served && shape.replies)
                return fine ? REF_REPLIED : REF_CLOSED;
        if (!asked)
                return fine ? REF_SILENT : REF_CLOSED;
        return fine ? REF_ACCEPTED : REF_REFUSED;
}
