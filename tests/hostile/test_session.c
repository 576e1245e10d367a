/* A hostile or faulty front end, message by message: how each is put, what fds it brings, and when it comes.  Every session here is closed
 * by mock_close(), which fails when a file descriptor or a mapping is left. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mock_vhost.h"
#include "samples.h"
#include "scale.h"
#include "test.h"

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
