/* Front ends that come, break off and go at every moment, and memory that changes under running rings: nothing is kept, nobody else
 * notices. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "invariants.h"
#include "mock_vhost.h"
#include "scale.h"
#include "test.h"

static struct siege s;

/* ---- a session as bytes ---- */

#define MEMORY (64 << 10)
#define RING   0x1000 /* bytes between two rings, each on a page of its own */
#define FRAMES 8
#define GPA    UINT64_C(0x10000)
#define UVA    UINT64_C(0x7f0000000000)
#define PROTOCOL                                                                                             \
        (BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_CONFIG) |                                 \
         BIT(VHOST_USER_PROTOCOL_F_BACKEND_REQ) | BIT(VHOST_USER_PROTOCOL_F_STATUS) |                        \
         BIT(VHOST_USER_PROTOCOL_F_RESET_DEVICE))

struct session {
        struct vu_msg msg[32];
        unsigned n, enabled, disabled; /* the messages that start and stop the rings */
        int memory, event, sockets[2];
};

static struct vu_msg *say(struct session *v, uint32_t request, uint32_t size)
{
        struct vu_msg *m = &v->msg[v->n++];

        *m = (struct vu_msg){ .request = request, .flags = VU_FLAG_VERSION, .size = size };
        return m;
}

static void say_u64(struct session *v, uint32_t request, uint64_t value)
{
        say(v, request, 8)->u64 = value;
}

static void say_fd(struct session *v, uint32_t request, uint64_t value, uint32_t size, int fd)
{
        struct vu_msg *m = say(v, request, size);

        m->u64 = value;
        m->fds[m->n_fds++] = fd;
}

static void say_state(struct session *v, uint32_t request, uint32_t index, uint32_t num)
{
        say(v, request, 8)->state = (struct vhost_vring_state){ index, num };
}

static void say_ring(struct session *v, uint32_t index)
{
        uint64_t at = UVA + index * RING;

        say_fd(v, VHOST_USER_SET_VRING_CALL, index, 8, v->event);
        say_state(v, VHOST_USER_SET_VRING_NUM, index, 16);
        say_state(v, VHOST_USER_SET_VRING_BASE, index, 0);
        say(v, VHOST_USER_SET_VRING_ADDR, sizeof(struct vhost_vring_addr))->addr =
                (struct vhost_vring_addr){ .index = index, .desc = at, .avail = at + 512, .used = at + 1024 };
        say_fd(v, VHOST_USER_SET_VRING_ERR, index, 8, v->event);
        say_fd(v, VHOST_USER_SET_VRING_KICK, index, 8, v->event);
}

/* Frames that wait on the tx ring, and buffers on the rx ring, from the first moment on. */
static void fill_rings(int fd)
{
        uint8_t *va = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        EXPECT(va != MAP_FAILED);
        memset(va, 0, MEMORY);
        for (unsigned q = 0; q < 2; q++) {
                struct vring_desc *desc = (struct vring_desc *)(va + q * RING);
                struct vring_avail *avail = (struct vring_avail *)(va + q * RING + 512);

                for (uint16_t i = 0; i < FRAMES; i++) {
                        desc[i] = (struct vring_desc){ .addr = GPA + 0x4000 + 0x800u * i + q * 0x4000,
                                                       .len = 12 + 60,
                                                       .flags = q ? 0 : VRING_DESC_F_WRITE };
                        avail->ring[i] = i;
                }
                avail->idx = FRAMES;
        }
        munmap(va, MEMORY);
}

/* What an honest front end says from its first word to its last. */
static void write_session(struct session *v)
{
        struct vu_msg *m;

        *v = (struct session){ .memory = mock_memfd(MEMORY), .event = eventfd(0, EFD_CLOEXEC) };
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v->sockets), 0);
        say(v, VHOST_USER_GET_FEATURES, 0);
        say(v, VHOST_USER_GET_PROTOCOL_FEATURES, 0);
        say_u64(v, VHOST_USER_SET_PROTOCOL_FEATURES, PROTOCOL);
        say(v, VHOST_USER_GET_QUEUE_NUM, 0);
        say_fd(v, VHOST_USER_SET_BACKEND_REQ_FD, 0, 0, v->sockets[1]);
        say(v, VHOST_USER_SET_OWNER, 0);
        m = say(v, VHOST_USER_GET_CONFIG, 18);
        m->config.size = 6;
        say_u64(v, VHOST_USER_SET_FEATURES, F(version_1) | F(protocol_features));
        m = say(v, VHOST_USER_SET_MEM_TABLE, 8 + sizeof(struct vhost_user_region));
        m->mem.nregions = 1;
        m->mem.regions[0] = (struct vhost_user_region){ .guest_addr = GPA, .user_addr = UVA, .size = MEMORY };
        m->fds[m->n_fds++] = v->memory;
        say_ring(v, 0);
        say_ring(v, 1);
        say_state(v, VHOST_USER_SET_VRING_ENABLE, 0, 1);
        v->enabled = v->n;
        say_state(v, VHOST_USER_SET_VRING_ENABLE, 1, 1);
        say_u64(v, VHOST_USER_SET_STATUS, 7);
        say_state(v, VHOST_USER_SET_VRING_ENABLE, 0, 0);
        say_state(v, VHOST_USER_GET_VRING_BASE, 0, 0);
        v->disabled = v->n;
        say_state(v, VHOST_USER_GET_VRING_BASE, 1, 0);
        say(v, VHOST_USER_RESET_DEVICE, 0);
        EXPECT(v->n <= ARRAY_SIZE(v->msg));
}

static void end_session(struct session *v)
{
        close(v->memory);
        close(v->event);
        close(v->sockets[0]);
        close(v->sockets[1]);
}

static void send_part(int sock, const struct vu_msg *m, size_t bytes)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = { 0 };
        size_t header = MIN(bytes, (size_t)VU_HEADER_SIZE);
        struct iovec iov[2] = {
                {(void *)(uintptr_t)m,         header        },
                { (void *)(uintptr_t)m->bytes, bytes - header}
        };
        struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };

        if (m->n_fds) {
                control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                                  .cmsg_level = SOL_SOCKET,
                                                  .cmsg_type = SCM_RIGHTS };
                memcpy(CMSG_DATA(&control.align), m->fds, sizeof(int));
                mh.msg_control = &control;
                mh.msg_controllen = sizeof(control);
        }
        EXPECT_EQ(sendmsg(sock, &mh, MSG_NOSIGNAL), (ssize_t)bytes);
}

static bool serving(void)
{
        bool yes;

        pthread_mutex_lock(&s.f.lock);
        yes = vw_device_serving(s.f.dev);
        pthread_mutex_unlock(&s.f.lock);
        return yes;
}

static int serve(int sock)
{
        int r;

        pthread_mutex_lock(&s.f.lock);
        r = vw_device_serve(s.f.dev, sock);
        pthread_mutex_unlock(&s.f.lock);
        return r;
}

static uint64_t packets(unsigned index)
{
        return front_stats(&s.f, index).counters[VW_C_packets];
}

/* The first `n` messages, and `bytes` of the next; then the front end is gone, in the midst of traffic if the tx ring runs. */
static void break_off(const struct session *v, unsigned n, size_t bytes)
{
        uint64_t sent = packets(1);
        int pair[2];

        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        EXPECT_EQ(serve(pair[1]), 0);
        fill_rings(v->memory);
        for (unsigned i = 0; i < n; i++)
                send_part(pair[0], &v->msg[i], VU_HEADER_SIZE + v->msg[i].size);
        if (bytes)
                send_part(pair[0], &v->msg[n], bytes);
        if (n > v->enabled && n <= v->disabled)
                EXPECT_SOON(packets(1) > sent);
        close(pair[0]);
        EXPECT_SOON(!serving());
}

/* hostile K02 */
TEST(hostile_life, front_ends_that_leave_after_any_byte_leave_nothing)
{
        const unsigned step = (unsigned)test_scale(5, 1);
        unsigned fds, mappings;
        struct session v;

        siege_begin(&s, NULL);
        write_session(&v);
        fds = mock_count_fds();
        mappings = mock_count_mappings();
        for (unsigned i = 0; i < v.n; i++)
                for (size_t bytes = 1 + i % step; bytes < VU_HEADER_SIZE + v.msg[i].size; bytes += step) {
                        break_off(&v, i, bytes);
                        EXPECT_SOON(mock_count_fds() == fds);
                        EXPECT_SOON(mock_count_mappings() == mappings);
                }
        end_session(&v);
        siege_end(&s, SIEGE_CLOSED);
}

/* hostile K03 */
TEST(hostile_life, front_ends_that_leave_between_two_messages_leave_nothing_with_data_under_way)
{
        const unsigned rounds = (unsigned)test_scale(3, 100);
        static const uint8_t frame[60] = { 2 };
        unsigned fds, mappings, seen = 0;
        struct session v;

        siege_begin(&s, NULL);
        write_session(&v);
        fds = mock_count_fds();
        mappings = mock_count_mappings();
        for (unsigned i = 0; i <= v.n * rounds; i++) {
                uint8_t got[64];

                for (unsigned k = 0; k < FRAMES; k++)
                        sport_put(&s.port, 0, frame, sizeof(frame), NULL);
                break_off(&v, i % (v.n + 1), 0);
                EXPECT_SOON(mock_count_fds() == fds);
                EXPECT_SOON(mock_count_mappings() == mappings);
                while (sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0)
                        seen++;
        }
        EXPECT_EQ(packets(1), seen);
        EXPECT(seen > 0 && packets(0) > 0);
        end_session(&v);
        siege_end(&s, SIEGE_CLOSED);
}

/* hostile K04, K06 */
TEST(hostile_life, a_thousand_front_ends_and_as_many_that_have_to_wait)
{
        const unsigned rounds = (unsigned)test_scale(40, 1000);
        static const uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };
        unsigned total = 0;

        siege_begin(&s, NULL);
        for (unsigned i = 0; i < rounds; i++) {
                unsigned sent = 0, back = 0, seen = 0;
                uint8_t got[64];
                int pair[2];

                siege_connect(&s, F(event_idx), 128);
                EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                EXPECT_EQ(serve(pair[1]), -EBUSY);
                close(pair[0]);
                close(pair[1]);
                while (sent < 100)
                        sent += front_send(&s.f, 0, frame, sizeof(frame), NULL);
                front_kick(&s.f, 1);
                EXPECT_SOON((back += front_reap(&s.f, 1, NULL, 64)) == sent);
                while (sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0)
                        seen++;
                EXPECT_EQ(seen, sent);
                total += sent;
                EXPECT_EQ(packets(1), total);
                siege_disconnect(&s);
        }
        siege_end(&s, SIEGE_CLOSED);
}

/* ---- memory ---- */

/* Two tables in turn: the same rings at the same addresses, the buffers' half elsewhere. */
static void table(unsigned k)
{
        uint64_t half = s.f.bytes / 2 / 4096 * 4096;
        struct vhost_user_region regions[2] = {
                {.guest_addr = FRONT_GPA,       .user_addr = FRONT_UVA, .size = half},
                { .guest_addr = FRONT_GPA + half,
                 .user_addr = FRONT_UVA + half,
                 .size = s.f.bytes - half,
                 .mmap_offset = half }
        };
        int fds[2] = { s.f.memfd, s.f.memfd };

        if (k % 2) { /* the same memory as one region */
                regions[0].size = s.f.bytes;
                EXPECT_EQ(vu_frontend_set_mem(&s.f.fe, regions, fds, 1), 0);
        } else {
                EXPECT_EQ(vu_frontend_set_mem(&s.f.fe, regions, fds, 2), 0);
        }
}

/* hostile B14 */
TEST(hostile_life, memory_tables_are_swapped_while_both_rings_are_busy)
{
        const unsigned rounds = (unsigned)test_scale(200, 10000);
        static const uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };
        unsigned sent = 0, back = 0, seen = 0, put = 0, received = 0, k;
        uint8_t got[64];

        siege_begin(&s, NULL);
        siege_connect(&s, F(event_idx) | F(mrg_rxbuf), 64);
        front_post(&s.f, 0, 64, 1000);
        front_kick(&s.f, 0);
        for (unsigned i = 0; i < rounds || back < sent || received < put; i++) {
                for (unsigned j = 0; j < 20 && i < rounds; j++) {
                        sent += front_send(&s.f, 0, frame, sizeof(frame), NULL);
                        put += sport_put(&s.port, 0, frame, sizeof(frame), NULL);
                }
                front_kick(&s.f, 1);
                if (i < rounds)
                        table(i);
                back += front_reap(&s.f, 1, NULL, 64);
                received += k = front_reap(&s.f, 0, NULL, 64);
                if (front_post(&s.f, 0, k, 1000))
                        front_kick(&s.f, 0);
                while (sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0)
                        seen++;
        }
        EXPECT_SOON((seen += sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0) == sent);
        EXPECT_EQ(packets(1), sent);
        EXPECT_EQ(packets(0), put);
        siege_end(&s, SIEGE_LIVES);
}

/* hostile C32, C33, T-VH-24 */
TEST(hostile_life, rings_that_stop_and_start_under_load_lose_and_double_nothing)
{
        const unsigned rounds = (unsigned)test_scale(200, 10000);
        uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 }, got[64];
        unsigned sent = 0, back = 0, seen = 0;

        siege_begin(&s, NULL);
        siege_connect(&s, F(event_idx), 64);
        for (unsigned i = 0; i < rounds; i++) {
                for (unsigned k = 0; k < 20; k++) {
                        memcpy(frame + 14, &sent, sizeof(sent));
                        sent += front_send(&s.f, 0, frame, sizeof(frame), NULL);
                }
                if (i % 3)
                        front_kick(&s.f, 1);
                s.f.q[1].cfg.base = front_stop(&s.f, 1);
                vq_driver_publish(&s.f.q[1].vq); /* and nobody is kicked */
                front_start(&s.f, 1);
                back += front_reap(&s.f, 1, NULL, 64);
                while (sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0) {
                        EXPECT_MEM(got + 14, &seen, sizeof(seen));
                        seen++;
                }
        }
        while (seen < sent) {
                EXPECT_SOON(sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0);
                EXPECT_MEM(got + 14, &seen, sizeof(seen));
                seen++;
        }
        EXPECT_SOON((back += front_reap(&s.f, 1, NULL, 64)) == sent);
        EXPECT_EQ(packets(1), sent);
        siege_end(&s, SIEGE_LIVES);
}
