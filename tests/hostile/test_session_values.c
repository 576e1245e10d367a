/* A hostile or faulty front end: messages that are well put and say what cannot be. */
#include <errno.h>
#include <unistd.h>

#include "mock_vhost.h"
#include "samples.h"
#include "test.h"

/* hostile A28 */
TEST(session_values, compares_ring_indices_in_full_width)
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
TEST(session_values, refuses_features_that_were_not_offered)
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
TEST(session_values, refuses_protocol_features_that_were_not_offered_and_their_requests)
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

TEST(session_values, refuses_protocol_features_where_the_device_does_not_offer_them)
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
TEST(session_values, answers_a_configuration_request_out_of_bounds_with_nothing)
{
        static const struct {
                uint32_t offset, size, payload;
        } bad[] = {
                {0,           0,          12            },
                { 0,          25,         37            },
                { 24,         1,          13            },
                { 23,         2,          14            },
                { UINT32_MAX, 1,          13            },
                { 0,          256,        268           },
                { UINT32_MAX, 256,        268           },
                { 0,          257,        268           },
                { 0,          257,        269           },
                { 0,          4084,       VU_PAYLOAD_MAX},
                { 0,          6,          12            },
                { 0,          6,          17            },
                { 0,          6,          19            },
                { 0,          UINT32_MAX, 12            },
                { 0,          UINT32_MAX, 268           },
                { 0,          0,          13            }
        };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                const uint32_t payload[VU_PAYLOAD_MAX / 4] = { bad[i].offset, bad[i].size };
                struct vu_msg reply;

                EXPECT_EQ(mock_say(&s, VHOST_USER_GET_CONFIG, ASK, payload, bad[i].payload, NULL, 0, &reply),
                          REPLIED);
                EXPECT_EQ(reply.size, 0);
        }
        mock_close(&s);
}

/* hostile A37 */
TEST(session_values, takes_an_mtu_of_68_to_65535_only)
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
TEST(session_values, refuses_iotlb_messages_which_it_never_offered_to_take)
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

TEST(session_values, refuses_values_that_mean_nothing)
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
TEST(session_values, refuses_sizes_that_a_split_ring_cannot_have)
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
TEST(session_values, refuses_the_message_that_completes_a_misaligned_ring)
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
TEST(session_values, waits_with_a_ring_that_crosses_the_end_of_its_region)
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
