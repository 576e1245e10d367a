/* Random sequences of vhost-user messages, legal ones and others, get the same verdicts from the session and from the reference, and leave
 * the same rings running with the same numbers after each message. */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mock_vhost.h"
#include "ref_session.h"
#include "rng.h"
#include "scale.h"
#include "test.h"

#define ALL       VU_BACKEND_PROTOCOL_FEATURES
#define STOP_BASE 77

static uint64_t rng;
static int files[REF_FILES], pipe_end;

static uint32_t below(uint32_t n)
{
        return rng_below(&rng, n);
}

#define PICK(array) ((array)[below(ARRAY_SIZE(array))])

static void open_files(void)
{
        int ends[2];

        files[REF_MEMORY] = mock_memfd(REF_FILE_BYTES);
        files[REF_OTHER_MEMORY] = mock_memfd(REF_FILE_BYTES);
        files[REF_EVENT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        EXPECT_EQ(pipe(ends), 0);
        files[REF_PIPE_IN] = ends[0];
        files[REF_PIPE_OUT] = ends[1];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        files[REF_SOCKET] = ends[0];
        pipe_end = ends[1];
}

static void close_files(void)
{
        for (unsigned i = 0; i < REF_FILES; i++)
                close(files[i]);
        close(pipe_end);
}

/* ---- a random message ---- */

struct message {
        struct ref_message m;
        uint8_t payload[512];
};

static void put(struct message *m, unsigned at, unsigned bytes, uint64_t value)
{
        memcpy(m->payload + at, &value, bytes);
}

/* Mostly one of the rings, and what means nothing now and then. */
static uint32_t ring(void)
{
        static const uint32_t odd[] = { REF_RINGS, 6, 255, 256, UINT32_MAX };

        return below(40) ? below(2) : PICK(odd);
}

static uint64_t features(void)
{
        static const uint64_t sets[] = {
                F(version_1) | F(protocol_features), F(version_1), 0, F(version_1) | F(host_tso4),
                F(version_1) | F(ring_packed),       UINT64_MAX
        };

        return below(3) ? features_device() : PICK(sets);
}

/* Of two files, with neighbours, overlaps, and regions that cannot be. */
static void put_region(struct message *m, unsigned at, unsigned i)
{
        static const struct vhost_user_region some[] = {
                {0x10000,            0x8000,  0x7f0000000000, 0     },
                { 0x18000,           0x8000,  0x7f0000008000, 0x8000},
                { 0x20000,           0x1000,  0x7f0000010000, 0x3000},
                { 0x14000,           0x1000,  0x7f0000020000, 0     },
                { 0x30000,           0,       0x7f0000030000, 0     },
                { 0x30000,           0x10000, 0x7f0000030000, 0x1000},
                { UINT64_MAX - 4095, 0x8000,  0x7f0000040000, 0     },
                { 0x40000,           0x8000,  UINT64_MAX - 1, 0     },
        };
        const struct vhost_user_region *r = &some[below(12) ? i % 3 : below(ARRAY_SIZE(some))];

        memcpy(m->payload + at, r, sizeof(*r));
}

static void add_file(struct message *m, enum ref_file usual)
{
        m->m.file[m->m.n_files++] = below(20) ? usual : (enum ref_file)below(REF_FILES);
}

static enum ref_file memory_file(void)
{
        return below(8) ? REF_MEMORY : REF_OTHER_MEMORY;
}

static void fill_mem_table(struct message *m)
{
        uint32_t n = 1 + below(3);

        for (uint32_t i = 0; i < n; i++) {
                put_region(m, 8 + 32 * i, i);
                add_file(m, memory_file());
        }
        m->m.size = 8 + 32 * n;
        if (below(16) == 0) {
                static const uint32_t odd[] = { 0, 4, 8, 9, UINT32_MAX };

                n = PICK(odd);
        }
        put(m, 0, 4, n);
}

static void fill_addresses(struct message *m)
{
        static const uint64_t odd[] = { 0, 1, 2, 4, 8, 0x7ff0, 0x8000, 0x100000 };
        uint32_t index = ring();
        uint64_t at = UINT64_C(0x7f0000000000) + (index % 4) * 0x1000u;

        put(m, 0, 4, index);
        put(m, 4, 4, below(30) ? 0 : 1);
        put(m, 8, 8, at + (below(16) ? 0 : PICK(odd)));
        put(m, 16, 8, at + 0x400 + (below(16) ? 0 : PICK(odd)));
        put(m, 24, 8, at + 0x200 + (below(16) ? 0 : PICK(odd)));
        m->m.size = 40;
}

static void fill_number(struct message *m, uint32_t request)
{
        static const uint32_t sizes[] = { 0, 1, 2, 3, 8, 256, 32768, 32769, 65536 };
        static const uint32_t bases[] = { 0, 1, 77, 65535, 65536, UINT32_MAX };
        uint32_t number = 0;

        if (request == VHOST_USER_SET_VRING_NUM)
                number = below(3) ? 16 : PICK(sizes);
        else if (request == VHOST_USER_SET_VRING_BASE)
                number = below(3) ? 5 : PICK(bases);
        else if (request == VHOST_USER_SET_VRING_ENABLE)
                number = below(20) ? below(2) : PICK(bases);
        put(m, 0, 4, ring());
        put(m, 4, 4, number);
        m->m.size = 8;
}

static void fill_notifier(struct message *m, uint32_t request)
{
        bool none = below(8) == 0;

        put(m, 0, 8, (uint64_t)ring() | (none ? 0x100 : 0));
        m->m.size = 8;
        if (!none)
                add_file(m, below(4)                               ? REF_EVENT
                            : request == VHOST_USER_SET_VRING_KICK ? REF_PIPE_IN
                                                                   : REF_PIPE_OUT);
}

static void fill_u64(struct message *m, uint64_t value)
{
        put(m, 0, 8, value);
        m->m.size = 8;
}

static void fill(struct message *m, uint32_t request)
{
        static const uint64_t mtus[] = { 0, 67, 68, 1500, 65535, 65536, UINT64_MAX };
        static const uint64_t states[] = { 0, 1, 3, 7, 15, 255, 256 };

        switch (request) {
        case VHOST_USER_SET_FEATURES:
                fill_u64(m, features());
                break;
        case VHOST_USER_SET_PROTOCOL_FEATURES:
                fill_u64(m, below(4)   ? ALL
                            : below(2) ? ALL & ~(uint64_t)BIT(below(20))
                                       : ALL | BIT(below(64)));
                break;
        case VHOST_USER_NET_SET_MTU:
                fill_u64(m, PICK(mtus));
                break;
        case VHOST_USER_SET_STATUS:
                fill_u64(m, PICK(states));
                break;
        case VHOST_USER_SET_MEM_TABLE:
                fill_mem_table(m);
                break;
        case VHOST_USER_ADD_MEM_REG:
        case VHOST_USER_REM_MEM_REG:
                put_region(m, 8, below(3));
                m->m.size = 40;
                if (request == VHOST_USER_ADD_MEM_REG || below(2))
                        add_file(m, memory_file());
                break;
        case VHOST_USER_SET_VRING_NUM:
        case VHOST_USER_SET_VRING_BASE:
        case VHOST_USER_SET_VRING_ENABLE:
        case VHOST_USER_GET_VRING_BASE:
                fill_number(m, request);
                break;
        case VHOST_USER_SET_VRING_ADDR:
                fill_addresses(m);
                break;
        case VHOST_USER_SET_VRING_KICK:
        case VHOST_USER_SET_VRING_CALL:
        case VHOST_USER_SET_VRING_ERR:
                fill_notifier(m, request);
                break;
        case VHOST_USER_SET_BACKEND_REQ_FD:
                add_file(m, REF_SOCKET);
                break;
        case VHOST_USER_GET_CONFIG:
        case VHOST_USER_SET_CONFIG:
                put(m, 4, 4, 6);
                m->m.size = 12 + 6;
                break;
        default:
                break;
        }
}

/* What a front end says most weighs most. */
static uint32_t request(void)
{
        static const uint32_t usual[] = {
                VHOST_USER_SET_FEATURES,   VHOST_USER_SET_MEM_TABLE,    VHOST_USER_SET_VRING_NUM,
                VHOST_USER_SET_VRING_ADDR, VHOST_USER_SET_VRING_ADDR,   VHOST_USER_SET_VRING_BASE,
                VHOST_USER_GET_VRING_BASE, VHOST_USER_SET_VRING_KICK,   VHOST_USER_SET_VRING_KICK,
                VHOST_USER_SET_VRING_CALL, VHOST_USER_SET_VRING_ENABLE, VHOST_USER_ADD_MEM_REG,
                VHOST_USER_REM_MEM_REG,
        };

        if (below(4))
                return PICK(usual);
        return below(50) ? below(VHOST_USER_REQUEST_MAX) : rng_next(&rng);
}

static void make(struct message *m)
{
        *m = (struct message){ .m.payload = m->payload };
        m->m.request = request();
        m->m.flags =
                VU_FLAG_VERSION | (below(30) ? VU_FLAG_NEED_REPLY : 0) | (below(100) ? 0 : VU_FLAG_REPLY);
        fill(m, m->m.request);
        if (below(60) == 0)
                m->m.size += below(2) ? 1 : -(m->m.size > 0);
        if (below(60) == 0 && m->m.n_files < 8)
                add_file(m, REF_EVENT);
        else if (below(60) == 0 && m->m.n_files)
                m->m.n_files--;
}

/* ---- the comparison ---- */

struct trial {
        struct mock_session s;
        struct ref_session ref;
        uint64_t seed;
        unsigned step;
};

static void same(struct trial *t, const struct message *m, const char *what, uint64_t is, uint64_t should)
{
        if (is != should)
                print_error("seed %llu step %u request %u flags %x: %s is %llx and should be %llx\n",
                            (unsigned long long)t->seed, t->step, m->m.request, m->m.flags, what,
                            (unsigned long long)is, (unsigned long long)should);
        EXPECT_EQ(is, should);
}

static void compare_rings(struct trial *t, const struct message *m)
{
        for (unsigned i = 0; i < REF_RINGS; i++) {
                const struct mock_vring *v = &t->s.dev.vring[i];
                const struct ref_ring *r = &t->ref.ring[i];

                same(t, m, "running", v->running, r->runs);
                same(t, m, "starts", v->starts, r->starts);
                same(t, m, "stops", v->stops, r->stops);
                same(t, m, "enabled", v->enabled, r->enabled);
                same(t, m, "call", v->call >= 0, r->call);
                same(t, m, "err", v->err >= 0, r->err);
                if (!r->runs)
                        continue;
                same(t, m, "size", v->cfg.size, r->size);
                same(t, m, "desc", v->cfg.desc, r->desc);
                same(t, m, "avail", v->cfg.avail, r->avail);
                same(t, m, "used", v->cfg.used, r->used);
                same(t, m, "base", v->cfg.base, r->has_base ? r->base : 0);
                same(t, m, "ring's features", v->cfg.features, t->ref.features);
        }
}

static void compare(struct trial *t, const struct message *m)
{
        same(t, m, "regions", t->s.dev.map ? t->s.dev.map->n : 0, t->ref.n_regions);
        same(t, m, "features", t->s.dev.features, t->ref.features);
        same(t, m, "protocol features", vu_backend_protocol_features(t->s.be), t->ref.protocol);
        same(t, m, "status", t->s.dev.status, t->ref.status);
        same(t, m, "mtu", t->s.dev.mtu, t->ref.mtu);
        compare_rings(t, m);
}

static uint64_t reply_number(uint32_t asked, const struct vu_msg *reply)
{
        return asked == VHOST_USER_GET_VRING_BASE ? reply->state.num : reply->u64;
}

/* One message to both.  False: the session has ended, for both. */
static bool step(struct trial *t, struct message *m)
{
        int fds[8];
        uint64_t number = UINT64_MAX;
        enum ref_verdict should;
        struct vu_msg reply;
        enum verdict is;

        for (unsigned i = 0; i < m->m.n_files; i++)
                fds[i] = files[m->m.file[i]];
        is = mock_say(&t->s, m->m.request, m->m.flags, m->payload, m->m.size, fds, m->m.n_files, &reply);
        should = ref_say(&t->ref, &m->m, &number);
        same(t, m, "verdict", is, (uint64_t)should);
        if (is == CLOSED)
                return false;
        if (is == REPLIED && number != UINT64_MAX)
                same(t, m, "reply", reply_number(m->m.request, &reply), number);
        compare(t, m);
        return true;
}

static bool consistent(uint64_t features)
{
        return features_closed(features) == features;
}

static unsigned trial(uint64_t seed, unsigned steps)
{
        static struct trial t;
        struct message m;
        bool lives = true;

        rng = seed;
        t = (struct trial){ .seed = seed };
        mock_open(&t.s, ALL);
        t.s.dev.stop_base = STOP_BASE;
        t.ref = (struct ref_session){ .offered = features_device(),
                                      .protocol_offered = ALL,
                                      .stop_base = STOP_BASE,
                                      .queue_num = 2,
                                      .consistent = consistent };
        for (unsigned i = 0; i < 2 && lives && below(16); i++) { /* the usual beginning, mostly */
                m = (struct message){ .m.payload = m.payload };
                m.m.request = i ? VHOST_USER_SET_OWNER : VHOST_USER_SET_PROTOCOL_FEATURES;
                m.m.flags = VU_FLAG_VERSION | VU_FLAG_NEED_REPLY;
                if (i == 0)
                        fill_u64(&m, ALL);
                lives = step(&t, &m);
        }
        for (t.step = 0; lives && t.step < steps; t.step++) {
                make(&m);
                lives = step(&t, &m);
        }
        mock_close(&t.s);
        for (unsigned i = 0; i < REF_RINGS; i++)
                if (t.ref.ring[i].starts)
                        return 1;
        return 0;
}

/* hostile A26 */
TEST(sequences, of_random_messages_get_the_references_verdicts)
{
        const uint64_t n = test_scale(3000, 1000000);
        uint64_t started = 0;

        open_files();
        for (uint64_t seed = 1; seed <= n; seed++)
                started += trial(seed * UINT64_C(0x9e3779b97f4a7c15), 120);
        EXPECT(started > n / 4); /* rings did run in many of them */
        close_files();
}
