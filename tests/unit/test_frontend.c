/* The driver's side of a session: a device of good will, and replies that are late, wrong or half. */
#include "vhost/frontend.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "mock_vhost.h"
#include "test.h"

#define ALL        VU_BACKEND_PROTOCOL_FEATURES
#define TIMEOUT_MS 20 /* a silent device costs a test that long */
#define REPLY      (VU_FLAG_VERSION | VU_FLAG_REPLY)

/* A device that has written its answers before it is asked. */
struct script {
        struct vu_frontend fe;
        int sock; /* the device's end */
        unsigned fds;
};

static void script_open(struct script *s, uint64_t protocol_features)
{
        int pair[2];

        s->fds = mock_count_fds();
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        s->sock = pair[1];
        vu_frontend_init(&s->fe, pair[0], TIMEOUT_MS);
        s->fe.features = features_device();
        s->fe.protocol_features = protocol_features;
}

static void script_close(struct script *s)
{
        vu_frontend_done(&s->fe);
        close(s->sock);
        EXPECT_EQ(mock_count_fds(), s->fds);
}

static void answer(int sock, uint32_t request, uint32_t flags, uint32_t size, const void *payload,
                   const int *fds, unsigned n_fds)
{
        struct vu_msg m = { .request = request, .flags = flags, .size = size };

        memcpy(m.bytes, payload, size);
        EXPECT_EQ(vu_write(sock, &m, fds, n_fds, 1000), 0);
}

static void answer_u64(struct script *s, uint32_t request, uint64_t value)
{
        answer(s->sock, request, REPLY, 8, &value, NULL, 0);
}

static struct vu_msg request_sent(struct script *s)
{
        struct vu_reader r = { 0 };
        struct vu_msg m;
        const char *why;

        EXPECT_EQ(vu_read(&r, s->sock, &why), 1);
        m = r.msg;
        vu_msg_done(&r);
        return m;
}

/* ---- against our own back end ---- */

static void *serve(void *arg)
{
        struct mock_session *s = arg;
        struct pollfd p = { .fd = vu_backend_fd(s->be), .events = POLLIN };

        while (poll(&p, 1, 5000) == 1 && mock_serve(s))
                ;
        return NULL;
}

TEST(frontend, drives_a_back_end_from_hello_to_stop)
{
        struct vhost_user_region region = { .guest_addr = MOCK_GPA,
                                            .user_addr = MOCK_UVA,
                                            .size = 4 * MOCK_PAGE };
        int memory, call = eventfd(0, EFD_CLOEXEC), kick = eventfd(0, EFD_CLOEXEC);
        struct vu_frontend fe;
        struct mock_session s;
        pthread_t thread;
        uint8_t config[24], status;
        uint32_t base;
        uint64_t n;

        memory = mock_memfd(region.size);
        mock_open(&s, ALL);
        s.dev.config[0] = 0x52;
        s.dev.stop_base = 33;
        vu_frontend_init(&fe, s.sock, 5000);
        EXPECT_EQ(pthread_create(&thread, NULL, serve, &s), 0);
        EXPECT_EQ(vu_frontend_hello(&fe, ALL), 0);
        EXPECT_EQ(fe.features, features_device());
        EXPECT_EQ(fe.protocol_features, ALL);
        EXPECT_EQ(vu_frontend_queue_num(&fe, &n), 0);
        EXPECT_EQ(n, 2);
        EXPECT_EQ(vu_frontend_backend_channel(&fe), 0);
        EXPECT_EQ(vu_frontend_get_config(&fe, 0, sizeof(config), config), 0);
        EXPECT_EQ(config[0], 0x52);
        EXPECT_EQ(vu_frontend_get_config(&fe, 20, sizeof(config), config), -EIO);
        EXPECT_EQ(vu_frontend_set_features(&fe, features_device() | BIT(63) | BIT(62)), -EIO);
        EXPECT_EQ(vu_frontend_set_features(&fe, features_device()), 0);
        EXPECT_EQ(vu_frontend_set_mtu(&fe, 9000), 0);
        EXPECT_EQ(vu_frontend_set_mtu(&fe, 1), -EIO);
        EXPECT_EQ(vu_frontend_set_mem(&fe, &region, &memory, 1), 0);
        for (unsigned i = 0; i < 2; i++) {
                uint64_t at = MOCK_UVA + i * MOCK_PAGE;

                EXPECT_EQ(vu_frontend_vring(&fe, i, 64, at, at + 1024, at + 2048, 0), 0);
                EXPECT_EQ(vu_frontend_vring_fds(&fe, i, i ? -1 : kick, i ? -1 : call, -1), 0);
                EXPECT_EQ(vu_frontend_vring_enable(&fe, i, true), 0);
                EXPECT(s.dev.vring[i].running && s.dev.vring[i].enabled);
        }
        EXPECT(s.dev.vring[0].kick >= 0 && s.dev.vring[0].call >= 0 && s.dev.vring[1].kick < 0);
        EXPECT_EQ(vu_frontend_set_status(&fe, 7), 0);
        EXPECT_EQ(vu_frontend_get_status(&fe, &status), 0);
        EXPECT_EQ(status, 7);
        EXPECT_EQ(vu_backend_config_changed(s.be), 0);
        EXPECT_EQ(vu_frontend_dispatch(&fe), 1);
        EXPECT_EQ(vu_frontend_dispatch(&fe), 0);
        EXPECT_EQ(vu_frontend_alive(&fe), 0);
        EXPECT_EQ(vu_frontend_vring_stop(&fe, 1, &base), 0);
        EXPECT_EQ(base, 33);
        EXPECT(!s.dev.vring[1].running);
        shutdown(fe.sock, SHUT_WR);
        pthread_join(thread, NULL);
        EXPECT_EQ(s.error, -ECONNRESET);
        EXPECT_EQ(vu_frontend_alive(&fe), -ECONNRESET);
        EXPECT(vu_frontend_set_features(&fe, 0) < 0);
        fe.sock = -1; /* mock_close() closes it */
        vu_frontend_done(&fe);
        mock_close(&s);
        close(memory);
        close(call);
        close(kick);
}

TEST(frontend, works_with_a_back_end_without_protocol_features)
{
        struct script s;

        script_open(&s, 0);
        answer_u64(&s, VHOST_USER_GET_FEATURES, F(version_1));
        EXPECT_EQ(vu_frontend_hello(&s.fe, ALL), 0);
        EXPECT_EQ(s.fe.protocol_features, 0);
        EXPECT_EQ(request_sent(&s).request, VHOST_USER_SET_OWNER);
        EXPECT_EQ(request_sent(&s).request, VHOST_USER_GET_FEATURES);
        EXPECT_EQ(vu_frontend_vring_enable(&s.fe, 0, true), 0); /* nothing to say */
        EXPECT_EQ(vu_frontend_set_features(&s.fe, F(version_1)), 0);
        EXPECT_EQ(request_sent(&s).request, VHOST_USER_SET_FEATURES);
        script_close(&s);
}

TEST(frontend, sends_nothing_that_was_not_negotiated)
{
        struct script s;
        uint8_t byte;
        uint64_t n;

        script_open(&s, BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK));
        EXPECT_EQ(vu_frontend_queue_num(&s.fe, &n), -EOPNOTSUPP);
        EXPECT_EQ(vu_frontend_get_config(&s.fe, 0, 1, &byte), -EOPNOTSUPP);
        EXPECT_EQ(vu_frontend_set_status(&s.fe, 1), -EOPNOTSUPP);
        EXPECT_EQ(vu_frontend_get_status(&s.fe, &byte), -EOPNOTSUPP);
        EXPECT_EQ(vu_frontend_set_mtu(&s.fe, 1500), -EOPNOTSUPP);
        EXPECT_EQ(vu_frontend_backend_channel(&s.fe), -EOPNOTSUPP);
        EXPECT_EQ(recv(s.sock, &byte, 1, MSG_DONTWAIT), -1);
        script_close(&s);
}

/* ---- hostile devices ---- */

/* hostile M22 */
TEST(frontend, takes_no_reply_for_another)
{
        static const struct {
                uint32_t request, flags, size;
                unsigned n_fds;
                const char *why;
        } bad[] = {
                {VHOST_USER_GET_PROTOCOL_FEATURES, REPLY,           8,              0, "another request" },
                { VHOST_USER_GET_FEATURES,         VU_FLAG_VERSION, 8,              0, "not marked"      },
                { VHOST_USER_GET_FEATURES,         VU_FLAG_REPLY,   8,              0, "version"         },
                { VHOST_USER_GET_FEATURES,         REPLY,           0,              0, "wrong size"      },
                { VHOST_USER_GET_FEATURES,         REPLY,           7,              0, "wrong size"      },
                { VHOST_USER_GET_FEATURES,         REPLY,           9,              0, "wrong size"      },
                { VHOST_USER_GET_FEATURES,         REPLY,           VU_PAYLOAD_MAX, 0, "wrong size"      },
                { VHOST_USER_GET_FEATURES,         REPLY,           8,              1, "file descriptors"},
                { VHOST_USER_GET_FEATURES,         REPLY,           8,              8, "file descriptors"},
        };
        static const uint8_t zeros[VU_PAYLOAD_MAX];

        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                int fds[8];
                struct script s;

                script_open(&s, 0);
                for (unsigned j = 0; j < 8; j++)
                        fds[j] = s.sock;
                answer(s.sock, bad[i].request, bad[i].flags, bad[i].size, zeros, fds, bad[i].n_fds);
                EXPECT_EQ(vu_frontend_hello(&s.fe, ALL), -EPROTO);
                if (!strstr(s.fe.why, bad[i].why))
                        fail_msg("\"%s\" does not say \"%s\"", s.fe.why, bad[i].why);
                script_close(&s);
        }
}

/* hostile M22 */
TEST(frontend, does_not_believe_in_a_reply_of_four_gigabytes)
{
        const uint32_t header[3] = { VHOST_USER_GET_FEATURES, REPLY, UINT32_MAX };
        struct script s;

        script_open(&s, 0);
        EXPECT_EQ(write(s.sock, header, sizeof(header)), sizeof(header));
        EXPECT_EQ(vu_frontend_hello(&s.fe, ALL), -EPROTO);
        EXPECT(strstr(s.fe.why, "too long"));
        script_close(&s);
}

/* hostile M22 */
TEST(frontend, waits_for_no_reply_or_half_of_one_only_so_long)
{
        const uint32_t words[5] = { VHOST_USER_GET_FEATURES, REPLY, 8 };

        for (size_t bytes = 0; bytes < sizeof(words); bytes += 4) {
                uint64_t start = clock_now();
                struct script s;

                script_open(&s, 0);
                EXPECT_EQ(write(s.sock, words, bytes), (ssize_t)bytes);
                EXPECT_EQ(vu_frontend_hello(&s.fe, ALL), -ETIMEDOUT);
                EXPECT(clock_now() - start >= TIMEOUT_MS * NSEC_PER_MSEC);
                script_close(&s);
        }
}

TEST(frontend, waits_for_a_device_that_does_not_read_only_so_long)
{
        struct script s;
        int r;

        script_open(&s, 0);
        do
                r = vu_frontend_set_features(&s.fe, 0);
        while (!r);
        EXPECT_EQ(r, -ETIMEDOUT);
        script_close(&s);
}

TEST(frontend, notices_a_device_that_left_or_speaks_out_of_turn)
{
        struct script s;

        script_open(&s, 0);
        EXPECT_EQ(vu_frontend_alive(&s.fe), 0);
        answer_u64(&s, VHOST_USER_GET_FEATURES, 0);
        EXPECT_EQ(vu_frontend_alive(&s.fe), -EPROTO);
        script_close(&s);
        script_open(&s, 0);
        shutdown(s.sock, SHUT_RDWR);
        EXPECT_EQ(vu_frontend_alive(&s.fe), -ECONNRESET);
        EXPECT(vu_frontend_hello(&s.fe, ALL) < 0);
        script_close(&s);
}

TEST(frontend, tells_a_refusal_from_a_lie)
{
        struct script s;

        script_open(&s, BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK));
        answer_u64(&s, VHOST_USER_SET_FEATURES, 1);
        EXPECT_EQ(vu_frontend_set_features(&s.fe, 0), -EIO);
        EXPECT(request_sent(&s).flags & VU_FLAG_NEED_REPLY);
        answer_u64(&s, VHOST_USER_SET_FEATURES, 0);
        EXPECT_EQ(vu_frontend_set_features(&s.fe, 0), 0);
        answer_u64(&s, VHOST_USER_SET_MEM_TABLE, 0);
        EXPECT_EQ(vu_frontend_set_features(&s.fe, 0), -EPROTO);
        script_close(&s);
}

TEST(frontend, checks_that_a_reply_is_about_what_was_asked)
{
        struct vhost_vring_state other = { 1, 5 };
        struct vhost_user_config config = { .offset = 4, .size = 2 };
        uint8_t buf[2] = { 0xee, 0xee };
        uint32_t base = 99;
        struct script s;

        script_open(&s, ALL);
        answer(s.sock, VHOST_USER_GET_VRING_BASE, REPLY, sizeof(other), &other, NULL, 0);
        EXPECT_EQ(vu_frontend_vring_stop(&s.fe, 0, &base), -EPROTO);
        EXPECT_EQ(base, 99);
        answer(s.sock, VHOST_USER_GET_CONFIG, REPLY, 14, &config, NULL, 0);
        EXPECT_EQ(vu_frontend_get_config(&s.fe, 3, 2, buf), -EPROTO);
        config.size = 256;
        answer(s.sock, VHOST_USER_GET_CONFIG, REPLY, 14, &config, NULL, 0);
        EXPECT_EQ(vu_frontend_get_config(&s.fe, 4, 2, buf), -EPROTO);
        answer(s.sock, VHOST_USER_GET_CONFIG, REPLY, 268, &config, NULL, 0);
        EXPECT_EQ(vu_frontend_get_config(&s.fe, 4, 2, buf), -EPROTO);
        answer(s.sock, VHOST_USER_GET_CONFIG, REPLY, 0, "", NULL, 0);
        EXPECT_EQ(vu_frontend_get_config(&s.fe, 4, 2, buf), -EIO);
        EXPECT_EQ(buf[0], 0xee);
        answer_u64(&s, VHOST_USER_GET_STATUS, 256);
        EXPECT_EQ(vu_frontend_get_status(&s.fe, buf), -EPROTO);
        EXPECT_EQ(buf[0], 0xee);
        script_close(&s);
}

/* ---- the back-end channel ---- */

static int open_channel(struct script *s)
{
        struct vu_reader r = { 0 };
        const char *why;
        int fd;

        answer_u64(s, VHOST_USER_SET_BACKEND_REQ_FD, 0);
        EXPECT_EQ(vu_frontend_backend_channel(&s->fe), 0);
        EXPECT_EQ(vu_read(&r, s->sock, &why), 1);
        fd = vu_take_fd(&r.msg, 0);
        vu_msg_done(&r);
        EXPECT(fd >= 0);
        return fd;
}

TEST(frontend, answers_on_the_channel_what_wants_an_answer)
{
        struct vu_reader r = { 0 };
        struct script s;
        const char *why;
        int channel;

        script_open(&s, ALL);
        channel = open_channel(&s);
        answer(channel, VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VU_FLAG_VERSION | VU_FLAG_NEED_REPLY, 0, "",
               NULL, 0);
        EXPECT_EQ(vu_frontend_dispatch(&s.fe), 1);
        EXPECT_EQ(vu_read(&r, channel, &why), 1);
        EXPECT_EQ(r.msg.u64, 0);
        vu_msg_done(&r);
        EXPECT_EQ(vu_frontend_dispatch(&s.fe), 0);
        close(channel);
        EXPECT_EQ(vu_frontend_dispatch(&s.fe), -ECONNRESET);
        EXPECT_EQ(s.fe.backend_req, -1);
        EXPECT_EQ(vu_frontend_dispatch(&s.fe), 0);
        script_close(&s);
}

/* hostile M22 */
TEST(frontend, closes_a_channel_on_which_the_device_lies)
{
        static const struct {
                uint32_t request, flags, size;
                unsigned n_fds;
                int result; /* of dispatch */
        } said[] = {
                {VHOST_USER_BACKEND_CONFIG_CHANGE_MSG,  VU_FLAG_VERSION,                      0,  0, 1      },
                { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VU_FLAG_VERSION,                      8,  0, -EPROTO},
                { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VU_FLAG_VERSION,                      0,  1, -EPROTO},
                { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, REPLY,                                0,  0, -EPROTO},
                { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, 0,                                    0,  0, -EPROTO},
                { VHOST_USER_BACKEND_VRING_CALL,        VU_FLAG_VERSION,                      8,  0, -EPROTO},
                { 3,                                    VU_FLAG_VERSION | VU_FLAG_NEED_REPLY, 24, 1, 0      }, /* answered with "no" */
        };

        for (unsigned i = 0; i < ARRAY_SIZE(said); i++) {
                uint8_t zeros[24] = { 0 };
                struct script s;
                int channel;

                script_open(&s, ALL);
                channel = open_channel(&s);
                answer(channel, said[i].request, said[i].flags, said[i].size, zeros, &channel, said[i].n_fds);
                EXPECT_EQ(vu_frontend_dispatch(&s.fe), said[i].result);
                EXPECT_EQ(s.fe.backend_req < 0, said[i].result < 0);
                EXPECT_EQ(vu_frontend_alive(&s.fe), 0); /* the session itself is none the worse */
                close(channel);
                script_close(&s);
        }
}

TEST(frontend, is_not_kept_by_a_flood_on_the_channel)
{
        struct script s;
        int channel;

        script_open(&s, ALL);
        channel = open_channel(&s);
        for (unsigned i = 0; i < 100; i++)
                answer(channel, VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VU_FLAG_VERSION, 0, "", NULL, 0);
        for (unsigned i = 0; i < 3; i++)
                EXPECT_EQ(vu_frontend_dispatch(&s.fe), 1);
        close(channel);
        script_close(&s);
}

TEST(frontend, done_accepts_what_was_never_begun)
{
        struct vu_frontend fe = { 0 };

        vu_frontend_done(&fe);
        vu_frontend_done(&fe);
}
