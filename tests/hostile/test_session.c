/* A hostile or faulty front end, message by message.  Every session here is closed by mock_close(), which fails when a file
 * descriptor or a mapping is left. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mock_vhost.h"
#include "scale.h"
#include "test.h"

#define ALL VU_BACKEND_PROTOCOL_FEATURES
#define ASK (VU_FLAG_VERSION | VU_FLAG_NEED_REPLY)

/* A request as a front end of good will would send it. */
struct sample {
        uint32_t size;
        unsigned n_fds;
        bool fixed; /* the payload has one size only */
        union {
                uint64_t u64;
                struct vhost_vring_state state;
                struct vhost_vring_addr addr;
                struct vhost_user_config config;
                struct {
                        uint32_t n, padding;
                        struct vhost_user_region region;
                } table;
                struct {
                        uint64_t padding;
                        struct vhost_user_region region;
                } reg;
        };
};

static struct sample sample_of(uint32_t request)
{
        struct vhost_user_region region = { .guest_addr = MOCK_GPA,
                                            .user_addr = MOCK_UVA,
                                            .size = 4 * MOCK_PAGE };
        struct sample p = { .fixed = true };

        switch (request) {
        case VHOST_USER_SET_FEATURES:
                p.u64 = features_device();
                p.size = 8;
                break;
        case VHOST_USER_SET_PROTOCOL_FEATURES:
                p.u64 = ALL;
                p.size = 8;
                break;
        case VHOST_USER_SET_MEM_TABLE:
                p.table.n = 1;
                p.table.region = region;
                p.size = sizeof(p.table);
                p.n_fds = 1;
                p.fixed = false;
                break;
        case VHOST_USER_SET_VRING_NUM:
                p.state.num = 16;
                p.size = sizeof(p.state);
                break;
        case VHOST_USER_SET_VRING_ADDR:
                p.addr = (struct vhost_vring_addr){ .desc = MOCK_UVA,
                                                    .avail = MOCK_UVA + 512,
                                                    .used = MOCK_UVA + 1024 };
                p.size = sizeof(p.addr);
                break;
        case VHOST_USER_SET_VRING_BASE:
        case VHOST_USER_GET_VRING_BASE:
        case VHOST_USER_SET_VRING_ENABLE:
        case VHOST_USER_SET_VRING_ENDIAN:
        case VHOST_USER_VRING_KICK:
                p.size = sizeof(p.state);
                break;
        case VHOST_USER_SET_VRING_KICK:
        case VHOST_USER_SET_VRING_CALL:
        case VHOST_USER_SET_VRING_ERR:
                p.size = 8;
                p.n_fds = 1;
                break;
        case VHOST_USER_NET_SET_MTU:
                p.u64 = 1500;
                p.size = 8;
                break;
        case VHOST_USER_SEND_RARP:
        case VHOST_USER_SET_STATUS:
        case VHOST_USER_CLOSE_CRYPTO_SESSION:
                p.u64 = 1;
                p.size = 8;
                break;
        case VHOST_USER_SET_LOG_BASE:
        case VHOST_USER_SET_INFLIGHT_FD:
        case VHOST_USER_GET_INFLIGHT_FD:
                p.size = 24;
                p.n_fds = request != VHOST_USER_GET_INFLIGHT_FD;
                break;
        case VHOST_USER_GET_CONFIG:
        case VHOST_USER_SET_CONFIG:
                p.config.size = 6;
                p.size = 18;
                p.fixed = false;
                break;
        case VHOST_USER_ADD_MEM_REG:
        case VHOST_USER_REM_MEM_REG:
                p.reg.region = region;
                p.size = sizeof(p.reg);
                p.n_fds = request == VHOST_USER_ADD_MEM_REG;
                break;
        case VHOST_USER_SET_LOG_FD:
        case VHOST_USER_SET_BACKEND_REQ_FD:
        case VHOST_USER_GPU_SET_SOCKET:
                p.n_fds = 1;
                break;
        default:
                break;
        }
        return p;
}

/* The fds that samples come with: one of each kind, made once a test. */
struct fds {
        int memory, event, sockets[2];
};

static void fds_open(struct fds *f)
{
        f->memory = mock_memfd(16 * MOCK_PAGE);
        f->event = eventfd(0, EFD_CLOEXEC);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->sockets), 0);
}

static void fds_close(struct fds *f)
{
        close(f->memory);
        close(f->event);
        close(f->sockets[0]);
        close(f->sockets[1]);
}

static int fd_for(const struct fds *f, uint32_t request)
{
        switch (request) {
        case VHOST_USER_SET_MEM_TABLE:
        case VHOST_USER_ADD_MEM_REG:
        case VHOST_USER_SET_LOG_BASE:
        case VHOST_USER_SET_INFLIGHT_FD:
                return f->memory;
        case VHOST_USER_SET_BACKEND_REQ_FD:
        case VHOST_USER_GPU_SET_SOCKET:
                return f->sockets[1];
        default:
                return f->event;
        }
}

static enum verdict say_sample(struct mock_session *s, uint32_t request, const struct fds *f)
{
        struct sample p = sample_of(request);
        int fd = fd_for(f, request);

        return mock_say(s, request, ASK, &p.u64, p.size, &fd, p.n_fds, NULL);
}

static bool served(uint32_t request)
{
        switch (request) {
        case 0:
        case VHOST_USER_SET_LOG_BASE:
        case VHOST_USER_SET_LOG_FD:
        case VHOST_USER_SEND_RARP:
        case VHOST_USER_IOTLB_MSG:
        case VHOST_USER_SET_VRING_ENDIAN:
        case VHOST_USER_VRING_KICK:
                return false;
        default:
                return request < VHOST_USER_CREATE_CRYPTO_SESSION || request == VHOST_USER_RESET_DEVICE ||
                       (request >= VHOST_USER_GET_MAX_MEM_SLOTS && request <= VHOST_USER_GET_STATUS);
        }
}

static bool has_reply(uint32_t request)
{
        return request == VHOST_USER_GET_FEATURES || request == VHOST_USER_GET_PROTOCOL_FEATURES ||
               request == VHOST_USER_GET_QUEUE_NUM || request == VHOST_USER_GET_VRING_BASE ||
               request == VHOST_USER_GET_CONFIG || request == VHOST_USER_GET_MAX_MEM_SLOTS ||
               request == VHOST_USER_GET_STATUS;
}

static bool needs_protocol_feature(uint32_t request)
{
        switch (request) {
        case VHOST_USER_GET_QUEUE_NUM:
        case VHOST_USER_NET_SET_MTU:
        case VHOST_USER_SET_BACKEND_REQ_FD:
        case VHOST_USER_GET_CONFIG:
        case VHOST_USER_SET_CONFIG:
        case VHOST_USER_RESET_DEVICE:
        case VHOST_USER_GET_MAX_MEM_SLOTS:
        case VHOST_USER_ADD_MEM_REG:
        case VHOST_USER_REM_MEM_REG:
        case VHOST_USER_SET_STATUS:
        case VHOST_USER_GET_STATUS:
                return true;
        default:
                return false;
        }
}

/* ---- the codec ---- */

/* hostile A01 */
TEST(session, ends_at_a_header_of_eleven_bytes)
{
        const uint32_t header[3] = { VHOST_USER_GET_FEATURES, VU_FLAG_VERSION, 0 };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_send_bytes(&s, header, 11);
        EXPECT(mock_serve(&s));
        shutdown(s.sock, SHUT_WR);
        EXPECT(!mock_serve(&s));
        EXPECT(strstr(s.why, "short header"));
        mock_close(&s);
}

/* hostile A02 */
TEST(session, answers_a_request_that_comes_byte_by_byte)
{
        const uint32_t header[3] = { VHOST_USER_GET_FEATURES, VU_FLAG_VERSION, 0 };
        struct mock_session s;
        struct vu_msg reply;

        mock_open(&s, ALL);
        for (unsigned i = 0; i < sizeof(header); i++) {
                EXPECT(!mock_receive(&s, &reply));
                mock_send_bytes(&s, (const uint8_t *)header + i, 1);
                EXPECT(mock_serve(&s));
        }
        EXPECT(mock_receive(&s, &reply));
        EXPECT_EQ(reply.u64, features_device());
        mock_close(&s);
}

/* hostile A04 */
TEST(session, ends_at_once_at_a_payload_of_four_gigabytes)
{
        struct mock_session s;

        mock_open(&s, ALL);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_FEATURES, ASK, NULL, UINT32_MAX, NULL, 0, NULL), CLOSED);
        EXPECT(strstr(s.why, "too long"));
        mock_close(&s);
}

/* hostile A06 */
TEST(session, refuses_every_payload_that_is_a_byte_short_or_long)
{
        struct fds f;

        fds_open(&f);
        for (uint32_t request = 1; request < VHOST_USER_REQUEST_MAX; request++) {
                struct sample p = sample_of(request);
                int fd = fd_for(&f, request);

                for (int off = -1; off <= 1; off += 2) {
                        uint8_t payload[sizeof(p) + 1] = { 0 };
                        struct mock_session s;

                        if (!served(request) || (off < 0 && !p.size) || (off > 0 && !p.fixed))
                                continue;
                        mock_open(&s, ALL);
                        mock_hello(&s, ALL);
                        memcpy(payload, &p.u64, p.size);
                        EXPECT_EQ(mock_say(&s, request, ASK, payload, p.size + (uint32_t)off, &fd, p.n_fds,
                                           NULL),
                                  has_reply(request) ? (request == VHOST_USER_GET_CONFIG ? REPLIED : CLOSED)
                                                     : REFUSED);
                        EXPECT_EQ(s.dev.maps, 0);
                        mock_close(&s);
                }
        }
        fds_close(&f);
}

/* hostile A06 */
TEST(session, ends_at_more_payload_than_a_request_can_fill)
{
        static const struct {
                uint32_t request, most;
        } longest[] = {
                {VHOST_USER_SET_MEM_TABLE, sizeof(((struct vu_msg *)NULL)->mem)   },
                { VHOST_USER_GET_CONFIG,   sizeof(((struct vu_msg *)NULL)->config)},
                { VHOST_USER_SET_CONFIG,   sizeof(((struct vu_msg *)NULL)->config)},
        };
        struct fds f;

        fds_open(&f);
        for (unsigned i = 0; i < ARRAY_SIZE(longest); i++) {
                struct sample p = sample_of(longest[i].request);
                uint8_t payload[512] = { 0 };
                struct mock_session s;

                memcpy(payload, &p.u64, p.size);
                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(mock_say(&s, longest[i].request, VU_FLAG_VERSION, payload, longest[i].most + 1,
                                   &f.memory, p.n_fds, NULL),
                          CLOSED);
                EXPECT(strstr(s.why, "payload of the wrong size"));
                EXPECT_EQ(s.dev.maps, 0);
                mock_close(&s);
        }
        fds_close(&f);
}

/* hostile A08 A09 */
TEST(session, refuses_what_it_does_not_serve)
{
        static const uint32_t unserved[] = { 0,
                                             200,
                                             1000,
                                             UINT32_MAX,
                                             VHOST_USER_SET_LOG_BASE,
                                             VHOST_USER_SET_LOG_FD,
                                             VHOST_USER_SEND_RARP,
                                             VHOST_USER_SET_VRING_ENDIAN,
                                             VHOST_USER_CREATE_CRYPTO_SESSION,
                                             VHOST_USER_CLOSE_CRYPTO_SESSION,
                                             VHOST_USER_POSTCOPY_ADVISE,
                                             VHOST_USER_POSTCOPY_LISTEN,
                                             VHOST_USER_POSTCOPY_END,
                                             VHOST_USER_GET_INFLIGHT_FD,
                                             VHOST_USER_SET_INFLIGHT_FD,
                                             VHOST_USER_GPU_SET_SOCKET,
                                             VHOST_USER_VRING_KICK,
                                             VHOST_USER_GET_SHARED_OBJECT,
                                             VHOST_USER_IOTLB_MSG };
        struct fds f;

        fds_open(&f);
        for (unsigned i = 0; i < ARRAY_SIZE(unserved); i++) {
                struct mock_session s;

                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(say_sample(&s, unserved[i], &f), REFUSED);
                EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_FEATURES), REPLIED);
                EXPECT_EQ(mock_say(&s, unserved[i], VU_FLAG_VERSION, NULL, 0, NULL, 0, NULL), CLOSED);
                EXPECT(strstr(s.why, "not served"));
                mock_close(&s);
        }
        fds_close(&f);
}

/* hostile A10 */
TEST(session, ends_at_another_protocol_version)
{
        static const uint32_t versions[] = { 0, 2, 3 };

        for (unsigned i = 0; i < 3; i++) {
                struct mock_session s;

                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(mock_say(&s, VHOST_USER_GET_FEATURES, versions[i] | VU_FLAG_NEED_REPLY, NULL, 0,
                                   NULL, 0, NULL),
                          CLOSED);
                EXPECT(strstr(s.why, "version"));
                mock_close(&s);
        }
}

TEST(session, refuses_a_reply_in_place_of_a_request)
{
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_OWNER, ASK | VU_FLAG_REPLY, NULL, 0, NULL, 0, NULL), REFUSED);
        mock_close(&s);
}

/* hostile A13 */
TEST(session, acknowledges_nothing_before_that_was_negotiated)
{
        const uint64_t ack = BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK);
        struct mock_session s;

        mock_open(&s, ALL);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), SILENT);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, features_device()), SILENT);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_PROTOCOL_FEATURES, VU_FLAG_VERSION, &ack, sizeof(ack), NULL, 0,
                           NULL),
                  SILENT);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), ACCEPTED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, 0), ACCEPTED);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), SILENT);
        /* User Mode Linux waits for it */
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ack), ACCEPTED);
        mock_close(&s);
}

/* hostile A14; mock_say() fails at a second reply */
TEST(session, replies_once_to_a_request_that_has_a_reply_of_its_own)
{
        struct fds f;
        struct mock_session s;

        fds_open(&f);
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (uint32_t request = 1; request < VHOST_USER_REQUEST_MAX; request++)
                if (has_reply(request))
                        EXPECT_EQ(say_sample(&s, request, &f), REPLIED);
        mock_close(&s);
        fds_close(&f);
}

/* ---- file descriptors ---- */

/* hostile A15 A19 */
TEST(session, ends_at_more_fds_than_a_message_may_have)
{
        static const unsigned counts[] = { 9, 253 };
        struct fds f;
        int many[253];

        fds_open(&f);
        for (unsigned i = 0; i < 253; i++)
                many[i] = f.memory;
        for (unsigned i = 0; i < 2; i++) {
                struct sample p = sample_of(VHOST_USER_SET_MEM_TABLE);
                struct mock_session s;

                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(mock_say(&s, VHOST_USER_SET_MEM_TABLE, ASK, &p.u64, p.size, many, counts[i], NULL),
                          CLOSED);
                EXPECT(strstr(s.why, "too many file descriptors"));
                mock_close(&s);
        }
        fds_close(&f);
}

/* Nobody waits for an answer to the sample with these fds: the session ends by that rule. */
static void expect_closed_by(const char *rule, uint64_t protocol_features, uint32_t request, const int *fds,
                             unsigned n_fds)
{
        struct sample p = sample_of(request);
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, protocol_features);
        EXPECT_EQ(mock_say(&s, request, VU_FLAG_VERSION, &p.u64, p.size, fds, n_fds, NULL), CLOSED);
        if (!strstr(s.why, rule))
                fail_msg("\"%s\" does not say \"%s\"", s.why, rule);
        mock_close(&s);
}

/* hostile A16 */
TEST(session, refuses_an_fd_where_none_is_due)
{
        struct fds f;

        fds_open(&f);
        for (uint32_t request = 1; request < VHOST_USER_REQUEST_MAX; request++) {
                struct sample p = sample_of(request);
                struct mock_session s;
                unsigned before;

                if (!served(request) || p.n_fds || request == VHOST_USER_REM_MEM_REG)
                        continue;
                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                before = mock_count_fds();
                EXPECT_EQ(mock_say(&s, request, ASK, &p.u64, p.size, &f.event, 1, NULL),
                          has_reply(request) ? CLOSED : REFUSED);
                if (!has_reply(request))
                        EXPECT_EQ(mock_count_fds(), before);
                mock_close(&s);
                expect_closed_by("number of file descriptors", ALL, request, &f.event, 1);
        }
        fds_close(&f);
}

/* hostile A17 */
TEST(session, refuses_a_message_without_the_fd_that_it_needs)
{
        for (uint32_t request = 1; request < VHOST_USER_REQUEST_MAX; request++) {
                struct sample p = sample_of(request);
                struct mock_session s;

                if (!p.n_fds)
                        continue;
                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(mock_say(&s, request, ASK, &p.u64, p.size, NULL, 0, NULL), REFUSED);
                mock_close(&s);
                expect_closed_by(served(request) ? "file descriptor" : "not served", ALL, request, NULL, 0);
        }
}

TEST(session, refuses_an_fd_that_comes_with_the_mark_that_there_is_none)
{
        struct mock_session s;
        struct fds f;

        fds_open(&f);
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0 | VU_VRING_NOFD, f.event), REFUSED);
        mock_close(&s);
        fds_close(&f);
}

/* hostile I01; a connected local stream socket is what User Mode Linux has for a pipe */
TEST(session, takes_eventfds_and_pipes_as_notifiers_and_nothing_else)
{
        static const uint32_t requests[] = { VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL,
                                             VHOST_USER_SET_VRING_ERR };
        struct mock_session s;
        int pipes[2], bad[5];
        struct fds f;

        fds_open(&f);
        EXPECT_EQ(pipe(pipes), 0);
        bad[0] = f.memory;
        bad[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* connected to nothing */
        bad[2] = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bad[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
        bad[4] = epoll_create1(EPOLL_CLOEXEC);
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < 3; i++) {
                bool kick = requests[i] == VHOST_USER_SET_VRING_KICK;

                for (unsigned j = 0; j < 5; j++)
                        EXPECT_EQ(mock_u64_fd(&s, requests[i], 0, bad[j]), REFUSED);
                EXPECT_EQ(mock_u64_fd(&s, requests[i], 0, f.event), ACCEPTED);
                EXPECT_EQ(mock_u64_fd(&s, requests[i], 0, pipes[!kick]), ACCEPTED);
                EXPECT_EQ(mock_u64_fd(&s, requests[i], 0, pipes[kick]), REFUSED);
                EXPECT_EQ(mock_u64_fd(&s, requests[i], 0, f.sockets[0]), kick ? REFUSED : ACCEPTED);
                EXPECT_EQ(mock_u64(&s, requests[i], 0 | VU_VRING_NOFD), ACCEPTED);
        }
        mock_close(&s);
        for (unsigned j = 1; j < 5; j++)
                close(bad[j]);
        close(pipes[0]);
        close(pipes[1]);
        fds_close(&f);
}

TEST(session, takes_a_socket_as_back_end_channel_and_nothing_else)
{
        struct mock_session s;
        struct fds f;

        fds_open(&f);
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_BACKEND_REQ_FD, ASK, NULL, 0, &f.event, 1, NULL), REFUSED);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_BACKEND_REQ_FD, ASK, NULL, 0, &f.memory, 1, NULL), REFUSED);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_BACKEND_REQ_FD, ASK, NULL, 0, f.sockets, 1, NULL), ACCEPTED);
        mock_close(&s);
        fds_close(&f);
}

/* ---- order ---- */

/* hostile A24 */
TEST(session, refuses_ring_set_up_before_the_owner_is_known)
{
        static const uint32_t early[] = { VHOST_USER_GET_FEATURES,
                                          VHOST_USER_SET_OWNER,
                                          VHOST_USER_GET_PROTOCOL_FEATURES,
                                          VHOST_USER_SET_PROTOCOL_FEATURES,
                                          VHOST_USER_GET_QUEUE_NUM,
                                          VHOST_USER_SET_BACKEND_REQ_FD,
                                          VHOST_USER_GET_CONFIG,
                                          VHOST_USER_GET_MAX_MEM_SLOTS };
        struct fds f;

        fds_open(&f);
        for (uint32_t request = 1; request < VHOST_USER_REQUEST_MAX; request++) {
                struct mock_session s;
                bool legal = false;

                if (!served(request))
                        continue;
                for (unsigned i = 0; i < ARRAY_SIZE(early); i++)
                        legal |= request == early[i];
                mock_open(&s, ALL);
                EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL), ACCEPTED);
                EXPECT_EQ(say_sample(&s, request, &f), has_reply(request) ? (legal ? REPLIED : CLOSED)
                                                       : legal            ? ACCEPTED
                                                                          : REFUSED);
                EXPECT(!s.dev.vring[0].starts && !s.dev.maps);
                mock_close(&s);

                mock_open(&s, ALL); /* the very first word, and nothing negotiated */
                if (!legal)
                        EXPECT_EQ(say_sample(&s, request, &f), CLOSED);
                mock_close(&s);
        }
        fds_close(&f);
}

/* hostile A26 */
TEST(session, stands_every_pair_of_requests)
{
        struct fds f;
        unsigned ends = 0, lives = 0;

        fds_open(&f);
        for (unsigned hello = 0; hello < 2; hello++)
                for (uint32_t a = 0; a <= VHOST_USER_REQUEST_MAX; a++)
                        for (uint32_t b = 0; b <= VHOST_USER_REQUEST_MAX; b++) {
                                struct mock_session s;

                                mock_open(&s, ALL);
                                if (hello)
                                        mock_hello(&s, ALL);
                                if (say_sample(&s, a, &f) != CLOSED)
                                        say_sample(&s, b, &f);
                                if (s.be)
                                        lives++;
                                else
                                        ends++;
                                mock_close(&s);
                        }
        EXPECT(ends && lives);
        fds_close(&f);
}

/* What a front end says from beginning to end, as one stream. */
static const uint32_t script[] = {
        VHOST_USER_GET_FEATURES,   VHOST_USER_GET_PROTOCOL_FEATURES, VHOST_USER_SET_PROTOCOL_FEATURES,
        VHOST_USER_GET_QUEUE_NUM,  VHOST_USER_SET_BACKEND_REQ_FD,    VHOST_USER_SET_OWNER,
        VHOST_USER_GET_CONFIG,     VHOST_USER_SET_VRING_CALL,        VHOST_USER_SET_FEATURES,
        VHOST_USER_SET_MEM_TABLE,  VHOST_USER_SET_VRING_NUM,         VHOST_USER_SET_VRING_BASE,
        VHOST_USER_SET_VRING_ADDR, VHOST_USER_SET_VRING_KICK,        VHOST_USER_SET_VRING_CALL,
        VHOST_USER_SET_VRING_ERR,  VHOST_USER_SET_VRING_ENABLE,      VHOST_USER_SET_STATUS,
        VHOST_USER_GET_STATUS,     VHOST_USER_GET_VRING_BASE,        VHOST_USER_REM_MEM_REG,
        VHOST_USER_RESET_DEVICE,
};

/* hostile K03 */
TEST(session, leaves_nothing_behind_when_the_front_end_goes_between_any_two_messages)
{
        struct fds f;

        fds_open(&f);
        for (unsigned end = 0; end <= ARRAY_SIZE(script); end++) {
                struct mock_session s;

                mock_open(&s, ALL);
                for (unsigned i = 0; i < end; i++)
                        EXPECT(say_sample(&s, script[i], &f) != CLOSED);
                EXPECT_EQ(s.dev.vring[0].running, end > 13 && end < 20);
                shutdown(s.sock, SHUT_RDWR);
                EXPECT(!mock_serve(&s));
                EXPECT_EQ(s.error, -ECONNRESET);
                mock_close(&s);
        }
        fds_close(&f);
}

/* hostile K02 */
TEST(session, leaves_nothing_behind_when_the_front_end_goes_after_any_byte)
{
        struct fds f;

        fds_open(&f);
        for (unsigned last = 0; last < ARRAY_SIZE(script); last++) {
                struct sample p = sample_of(script[last]);
                int fd = fd_for(&f, script[last]);

                for (uint32_t bytes = 1; bytes < VU_HEADER_SIZE + p.size; bytes++) {
                        struct vu_msg m = { .request = script[last], .flags = ASK, .size = p.size };
                        struct mock_session s;

                        mock_open(&s, ALL);
                        for (unsigned i = 0; i < last; i++)
                                EXPECT(say_sample(&s, script[i], &f) != CLOSED);
                        mock_send_part(&s, &m, &p.u64, bytes, &fd, p.n_fds);
                        EXPECT(mock_serve(&s));
                        shutdown(s.sock, SHUT_RDWR);
                        EXPECT(!mock_serve(&s));
                        EXPECT_EQ(s.error, -EPROTO);
                        mock_close(&s);
                }
        }
        fds_close(&f);
}

/* hostile A21 */
TEST(session, holds_no_more_after_a_hundred_thousand_of_the_same_messages)
{
        static const uint32_t requests[] = { VHOST_USER_SET_VRING_NUM, VHOST_USER_GET_INFLIGHT_FD,
                                             VHOST_USER_SET_LOG_FD,    VHOST_USER_SET_VRING_CALL,
                                             VHOST_USER_SET_MEM_TABLE, VHOST_USER_ADD_MEM_REG };
        const uint64_t n = test_scale(500, 100000);
        struct mock_session s;
        unsigned fds, mappings;
        struct fds f;

        fds_open(&f);
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(requests); i++)
                EXPECT(say_sample(&s, requests[i], &f) != CLOSED);
        fds = mock_count_fds();
        mappings = mock_count_mappings();
        for (unsigned i = 0; i < ARRAY_SIZE(requests); i++)
                for (uint64_t k = 0; k < n; k++)
                        EXPECT(say_sample(&s, requests[i], &f) != CLOSED);
        EXPECT_EQ(mock_count_fds(), fds);
        EXPECT_EQ(mock_count_mappings(), mappings);
        mock_close(&s);
        fds_close(&f);
}

/* ---- meanings ---- */

/* hostile A28 */
TEST(session, compares_ring_indices_in_full_width)
{
        static const uint32_t by_state[] = { VHOST_USER_SET_VRING_NUM, VHOST_USER_SET_VRING_BASE,
                                             VHOST_USER_SET_VRING_ENABLE };
        static const uint32_t wide[] = { MOCK_VRINGS, MOCK_VRINGS + 1, 255,       256,
                                         0x10000,     0x80000000,      UINT32_MAX };
        static const uint32_t by_fd[] = { VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL,
                                          VHOST_USER_SET_VRING_ERR };
        static const uint64_t wider[] = { MOCK_VRINGS, MOCK_VRINGS + 1,       255,       0x200,
                                          0x10000,     UINT64_C(0x100000001), UINT64_MAX };
        struct mock_session s;
        struct fds f;

        fds_open(&f);
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(wide); i++) {
                for (unsigned j = 0; j < 3; j++)
                        EXPECT_EQ(mock_state(&s, by_state[j], wide[i], 1), REFUSED);
                EXPECT_EQ(mock_addr(&s, wide[i], MOCK_UVA, MOCK_UVA, MOCK_UVA), REFUSED);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(wider); i++)
                for (unsigned j = 0; j < 3; j++) {
                        EXPECT_EQ(mock_u64_fd(&s, by_fd[j], wider[i] & ~(uint64_t)VU_VRING_NOFD, f.event),
                                  REFUSED);
                        EXPECT_EQ(mock_u64(&s, by_fd[j], wider[i] | VU_VRING_NOFD), REFUSED);
                }
        for (unsigned i = 0; i < MOCK_VRINGS; i++)
                EXPECT(!s.dev.vring[i].enables && s.dev.vring[i].call < 0 && s.dev.vring[i].err < 0);
        mock_close(&s);
        for (unsigned i = 0; i < ARRAY_SIZE(wide); i++) {
                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(mock_state(&s, VHOST_USER_GET_VRING_BASE, wide[i], 0), CLOSED);
                mock_close(&s);
        }
        fds_close(&f);
}

/* hostile A30 */
TEST(session, refuses_features_that_were_not_offered)
{
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned bit = 0; bit < 64; bit++)
                if (!(features_device() & BIT(bit)))
                        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, features_device() | BIT(bit)),
                                  REFUSED);
        /* which needs csum */
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, F(version_1) | F(host_tso4)), REFUSED);
        EXPECT_EQ(s.dev.features, features_device());
        mock_close(&s);
}

/* hostile A32 */
TEST(session, refuses_protocol_features_that_were_not_offered_and_their_requests)
{
        struct mock_session s;
        struct fds f;

        fds_open(&f);
        mock_open(&s, ALL);
        mock_hello(&s, BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK));
        for (unsigned bit = 0; bit < 64; bit++)
                if (!(ALL & BIT(bit)))
                        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL | BIT(bit)), REFUSED);
        EXPECT_EQ(vu_backend_protocol_features(s.be), BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK));
        mock_close(&s);
        for (uint32_t request = 1; request < VHOST_USER_REQUEST_MAX; request++) {
                int fd = fd_for(&f, request);

                if (needs_protocol_feature(request))
                        expect_closed_by("not negotiated", BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK), request, &fd,
                                         sample_of(request).n_fds);
        }
        fds_close(&f);
}

TEST(session, refuses_protocol_features_where_the_device_does_not_offer_them)
{
        struct mock_session s;

        mock_open(&s, ALL);
        s.dev.offered &= ~F(protocol_features);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_PROTOCOL_FEATURES), CLOSED);
        mock_close(&s);
        mock_open(&s, ALL);
        s.dev.offered &= ~F(protocol_features);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, 0), CLOSED);
        mock_close(&s);
}

/* hostile A35 */
TEST(session, answers_a_configuration_request_out_of_bounds_with_nothing)
{
        static const struct {
                uint32_t offset, size, payload;
        } bad[] = {
                {0,           0,          12 },
                { 0,          25,         37 },
                { 24,         1,          13 },
                { 23,         2,          14 },
                { UINT32_MAX, 1,          13 },
                { 0,          256,        268},
                { UINT32_MAX, 256,        268},
                { 0,          257,        268},
                { 0,          6,          12 },
                { 0,          6,          17 },
                { 0,          6,          19 },
                { 0,          UINT32_MAX, 12 },
                { 0,          UINT32_MAX, 268},
                { 0,          0,          13 }
        };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                struct vhost_user_config c = { .offset = bad[i].offset, .size = bad[i].size };
                struct vu_msg reply;

                EXPECT_EQ(mock_say(&s, VHOST_USER_GET_CONFIG, ASK, &c, bad[i].payload, NULL, 0, &reply),
                          REPLIED);
                EXPECT_EQ(reply.size, 0);
        }
        mock_close(&s);
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_say(&s, VHOST_USER_GET_CONFIG, ASK, (uint8_t[269]){ 0 }, 269, NULL, 0, NULL), CLOSED);
        mock_close(&s);
}

/* hostile A37 */
TEST(session, takes_an_mtu_of_68_to_65535_only)
{
        static const struct {
                uint64_t mtu;
                enum verdict verdict;
        } cases[] = {
                {0,               REFUSED },
                { 67,             REFUSED },
                { 68,             ACCEPTED},
                { 1500,           ACCEPTED},
                { 65535,          ACCEPTED},
                { 65536,          REFUSED },
                { BIT(32) + 1500, REFUSED },
                { BIT(63),        REFUSED }
        };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                s.dev.mtu = 0;
                EXPECT_EQ(mock_u64(&s, VHOST_USER_NET_SET_MTU, cases[i].mtu), cases[i].verdict);
                EXPECT_EQ(s.dev.mtu, cases[i].verdict == ACCEPTED ? cases[i].mtu : 0);
        }
        mock_close(&s);
}

/* hostile A40 */
TEST(session, refuses_iotlb_messages_which_it_never_offered_to_take)
{
        static const struct {
                uint64_t iova, size, uaddr;
                uint8_t perm, type;
        } messages[] = {
                {0,               4096, MOCK_UVA, 3, 2},
                { 0,              0,    MOCK_UVA, 3, 2},
                { UINT64_MAX - 1, 4096, MOCK_UVA, 3, 2},
                { 0,              4096, MOCK_UVA, 0, 2},
                { 0,              0,    0,        0, 3}
        };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(messages); i++)
                EXPECT_EQ(mock_say(&s, VHOST_USER_IOTLB_MSG, ASK, &messages[i], sizeof(messages[i]), NULL, 0,
                                   NULL),
                          REFUSED);
        mock_close(&s);
}

TEST(session, refuses_values_that_mean_nothing)
{
        struct vhost_vring_addr logged = {
                .flags = 1, .desc = MOCK_UVA, .avail = MOCK_UVA, .used = MOCK_UVA
        };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_ENABLE, 0, 2), REFUSED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_STATUS, 256), REFUSED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_BASE, 0, 0x10000), REFUSED);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_VRING_ADDR, ASK, &logged, sizeof(logged), NULL, 0, NULL),
                  REFUSED);
        mock_close(&s);
}

/* ---- rings that cannot be ---- */

/* hostile C01 */
TEST(session, refuses_sizes_that_a_split_ring_cannot_have)
{
        static const uint32_t bad[] = { 0, 3, 5, 7, 32767, 32769, 65536, 0x10000, 0x80000000, UINT32_MAX };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
                EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, bad[i]), REFUSED);
        for (uint32_t n = 1; n <= 32768; n *= 2)
                EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, n), ACCEPTED);
        mock_close(&s);
}

/* hostile C03: the device looks at the pointers, and its refusal is the message's */
TEST(session, refuses_the_message_that_completes_a_misaligned_ring)
{
        for (unsigned part = 0; part < 3; part++)
                for (unsigned by = 1; by <= 8; by *= 2) {
                        uint64_t at[3] = { MOCK_UVA, MOCK_UVA + 512, MOCK_UVA + 1024 };
                        unsigned align[3] = { 16, 2, 4 };
                        struct mock_session s;
                        int memory;

                        if (by % align[part] == 0)
                                continue;
                        at[part] += by;
                        mock_open(&s, ALL);
                        memory = mock_hello_with_memory(&s, ALL, 4);
                        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 16), ACCEPTED);
                        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_VRING_KICK, 0 | VU_VRING_NOFD), ACCEPTED);
                        EXPECT_EQ(mock_addr(&s, 0, at[0], at[1], at[2]), REFUSED);
                        EXPECT_EQ(s.dev.vring[0].starts, 0);
                        close(memory);
                        mock_close(&s);
                }
}

/* hostile C04 A23 */
TEST(session, waits_with_a_ring_that_crosses_the_end_of_its_region)
{
        struct vhost_user_region next = { .guest_addr = MOCK_GPA + 4 * MOCK_PAGE,
                                          .user_addr = MOCK_UVA + 4 * MOCK_PAGE,
                                          .size = MOCK_PAGE };
        uint64_t end = MOCK_UVA + 4 * MOCK_PAGE;
        struct mock_session s;
        int memory;

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 16), ACCEPTED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_VRING_KICK, 0 | VU_VRING_NOFD), ACCEPTED);
        EXPECT_EQ(mock_addr(&s, 0, end - 16, MOCK_UVA, MOCK_UVA + 512), ACCEPTED);
        /* adjacent there, not here */
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_ADD_MEM_REG, &next, memory), ACCEPTED);
        EXPECT(!s.dev.vring[0].running);
        EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA + 1024, MOCK_UVA, UINT64_MAX - 3), ACCEPTED);
        EXPECT(!s.dev.vring[0].running);
        EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA + 1024, MOCK_UVA, MOCK_UVA + 512), ACCEPTED);
        EXPECT(s.dev.vring[0].running);
        close(memory);
        mock_close(&s);
}
