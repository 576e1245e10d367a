/* Checksums against a sum that takes no short cuts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "frames.h"
#include "net/csum.h"
#include "rng.h"
#include "test.h"

/* The complement of the naive sum, in memory byte order like ours. */
static uint16_t naive(const uint8_t *bytes, uint32_t len)
{
        return htons((uint16_t)~frame_sum(bytes, len, 0));
}

static void fill(uint8_t *bytes, uint32_t len, uint64_t *rng)
{
        for (uint32_t i = 0; i < len; i++)
                bytes[i] = (uint8_t)rng_next(rng);
}

TEST(csum, rfc1071_example)
{
        static const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };

        EXPECT_EQ(frame_sum(bytes, sizeof(bytes), 0), 0xddf2);
        EXPECT_EQ(net_csum_fold(net_csum_add(0, bytes, sizeof(bytes))), htons(0xffff - 0xddf2));
}

TEST(csum, ipv4_header_with_its_checksum_sums_to_nothing)
{
        static const uint8_t ip[] = { 0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                      0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7 };
        uint8_t blank[sizeof(ip)];

        EXPECT_EQ(net_csum_fold(net_csum_add(0, ip, sizeof(ip))), 0);
        memcpy(blank, ip, sizeof(ip));
        blank[10] = blank[11] = 0;
        EXPECT_EQ(net_csum_fold(net_csum_add(0, blank, sizeof(blank))), htons(0xb861));
}

TEST(csum, equals_the_naive_sum_at_every_length_and_alignment)
{
        uint64_t rng = 1;
        uint8_t buf[400];

        fill(buf, sizeof(buf), &rng);
        for (uint32_t at = 0; at < 16; at++)
                for (uint32_t len = 0; len < 300; len++)
                        EXPECT_EQ(net_csum_fold(net_csum_add(0, buf + at, len)), naive(buf + at, len));
}

TEST(csum, carries_are_never_lost)
{
        uint8_t *ones = malloc(VW_FRAME_MAX);

        memset(ones, 0xff, VW_FRAME_MAX);
        for (uint32_t len = VW_FRAME_MAX - 40; len <= VW_FRAME_MAX; len++)
                EXPECT_EQ(net_csum_fold(net_csum_add(0, ones, len)), naive(ones, len));
        EXPECT_EQ(net_csum_fold(0), 0xffff);
        EXPECT_EQ(net_csum_fold(UINT64_MAX), 0);
        EXPECT_EQ(net_csum_fold(net_csum_add(UINT64_MAX, ones, 2)), 0);
        EXPECT_EQ(net_csum_fold(net_csum_add(UINT64_MAX - 1, "\x01\0\0\0\0\0\0", 8)), 0);
        EXPECT_EQ(net_csum_join(UINT64_MAX, 1), 1);
        free(ones);
}

TEST(csum, completes_what_the_stack_left)
{
        uint8_t *partial = malloc(VW_FRAME_MAX), *whole = malloc(VW_FRAME_MAX);
        static const uint32_t payloads[] = { 0, 1, 2, 3, 63, 64, 65, 1447, 1448, 9001, 65000 };

        for (unsigned v6 = 0; v6 < 2; v6++) {
                for (unsigned udp = 0; udp < 2; udp++) {
                        for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) {
                                struct frame_spec spec = {
                                        .v6 = v6,
                                        .vlans = i % 3,
                                        .proto = udp ? IPPROTO_UDP : IPPROTO_TCP,
                                        .tcp_words = 3,
                                        .payload = payloads[i],
                                };
                                struct vw_net_hdr hdr;
                                struct frame_view view;
                                uint32_t len = frame_build(&spec, whole, NULL);

                                EXPECT(!frame_wrong(whole, len, &view));
                                spec.partial = true;
                                EXPECT_EQ(frame_build(&spec, partial, &hdr), len);
                                EXPECT(frame_wrong(partial, len, &view));
                                EXPECT_EQ(net_csum_complete(partial, len, hdr.csum_start, hdr.csum_offset),
                                          0);
                                EXPECT_MEM(partial, whole, len);
                        }
                }
        }
        free(partial);
        free(whole);
}

/* A UDP checksum of 0 would say that there is none; TCP has no such rule and keeps it. */
TEST(csum, zero_of_udp_becomes_all_ones)
{
        for (unsigned udp = 0; udp < 2; udp++) {
                struct frame_spec spec = { .proto = udp ? IPPROTO_UDP : IPPROTO_TCP, .payload = 8 };
                struct vw_net_hdr hdr;
                uint8_t frame[200], *field;
                uint32_t len = frame_build(&spec, frame, NULL), payload = len - 8, sum;

                spec.partial = true;
                frame_build(&spec, frame + 100, &hdr);
                field = frame + hdr.csum_start + hdr.csum_offset;
                /* what the checksum is short of nothing goes into the payload */
                sum = field[0] * 256u + field[1] + frame[payload] * 256u + frame[payload + 1];
                sum = sum % 65536 + sum / 65536;
                memcpy(frame, frame + 100, len);
                frame[payload] = (uint8_t)(sum / 256);
                frame[payload + 1] = (uint8_t)sum;
                EXPECT_EQ(net_csum_complete(frame, len, hdr.csum_start, hdr.csum_offset), 0);
                EXPECT_EQ(field[0] * 256 + field[1], udp ? 0xffff : 0);
        }
}

/* hostile E08 */
TEST(csum, refuses_a_field_outside_the_frame)
{
        uint8_t frame[64] = { 0 }, before[64] = { 0 };

        EXPECT_EQ(net_csum_complete(frame, 64, 64, 0), -EINVAL);
        EXPECT_EQ(net_csum_complete(frame, 64, 63, 0), -EINVAL);
        EXPECT_EQ(net_csum_complete(frame, 64, 34, 30), -EINVAL);
        EXPECT_EQ(net_csum_complete(frame, 64, 0xffff, 0xfffe), -EINVAL);
        EXPECT_EQ(net_csum_complete(frame, 0, 0, 0), -EINVAL);
        EXPECT_EQ(net_csum_complete(frame, 64, 34, 7), -EINVAL);
        EXPECT_MEM(frame, before, 64);
        EXPECT_EQ(net_csum_complete(frame, 64, 34, 28), 0);
}
