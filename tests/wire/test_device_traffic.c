/* A whole device behind a real session: frames both ways, exact accounting, what happens to a frame that cannot go on. */
#include <string.h>

#include "front.h"
#include "sport.h"
#include "test.h"

static struct front f;
static struct sport port;

static void begin(unsigned pairs, uint64_t features, unsigned size)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        sport_init(&port);
        config.port = port.port;
        config.pairs = pairs;
        config.nice = 0;
        front_open(&f, &config);
        front_connect(&f, features, size);
}

static void end(void)
{
        front_close(&f);
        sport_free(&port);
}

static void fill(uint8_t *frame, uint32_t len, uint32_t number)
{
        memset(frame, (int)(number % 251), len);
        memcpy(frame, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x88\xb5", 14);
        memcpy(frame + 14, &number, MIN(sizeof(number), len - 14));
}

TEST(device_traffic, sends_frames_in_order_and_counts_them)
{
        uint8_t out[1514], in[2000];
        unsigned n = 300, sent = 0, got = 0;
        struct vw_queue_stats s;
        int len;

        begin(1, F(event_idx), 64);
        while (got < n) {
                while (sent < n && front_send(&f, 0, (fill(out, 60 + sent, sent), out), 60 + sent, NULL))
                        sent++;
                front_kick(&f, 1);
                front_reap(&f, 1, NULL, 64);
                while ((len = sport_get(&port, 0, in, sizeof(in), NULL)) >= 0) {
                        fill(out, 60 + got, got);
                        EXPECT_EQ(len, 60 + got);
                        EXPECT_MEM(in, out, (size_t)len);
                        got++;
                }
        }
        EXPECT_SOON(front_stats(&f, 1).counters[VW_C_packets] == n);
        s = front_stats(&f, 1);
        EXPECT_EQ(front_drops(&s), 0);
        EXPECT_EQ(s.counters[VW_C_bytes], n * 60 + n * (n - 1) / 2);
        end();
}

static void receive(uint64_t features, unsigned size, uint32_t buf, unsigned n)
{
        uint8_t frame[1514];
        struct vw_queue_stats s;
        struct vq_used used[64];
        unsigned put = 0, got = 0, have = 0;
        uint32_t left = 0, at = 0;
        uint8_t whole[2000];

        begin(1, features, size);
        while (got < n) {
                unsigned k;

                while (put < n && put < got + 20 &&
                       sport_put(&port, 0, (fill(frame, 60 + put, put), frame), 60 + put, NULL))
                        put++;
                front_post(&f, 0, 64, buf);
                front_kick(&f, 0);
                k = front_reap(&f, 0, used, 64);
                for (unsigned i = 0; i < k; i++) {
                        uint8_t *p = front_slot(&f, 0, (unsigned)((uintptr_t)used[i].cookie - 1));

                        if (!left) {
                                left = p[10];
                                at = 0;
                                EXPECT_EQ(p[11], 0);
                        }
                        EXPECT(left >= 1);
                        memcpy(whole + at, p, used[i].len);
                        at += used[i].len;
                        left--;
                        if (left) {
                                EXPECT_EQ(used[i].len, buf);
                                continue;
                        }
                        fill(frame, 60 + got, got);
                        EXPECT_EQ(at, 12 + 60 + got);
                        EXPECT_MEM(whole + 12, frame, 60 + got);
                        got++;
                        have++;
                }
        }
        EXPECT_SOON(front_stats(&f, 0).counters[VW_C_packets] == n);
        s = front_stats(&f, 0);
        EXPECT_EQ(front_drops(&s), 0);
        EXPECT_EQ(s.counters[VW_C_bytes], n * 60 + n * (n - 1) / 2);
        end();
}

TEST(device_traffic, receives_frames_into_one_buffer_each)
{
        receive(F(event_idx), 64, 1600, 300);
}

/* T-VH-19, hostile F06 */
TEST(device_traffic, receives_frames_over_several_buffers)
{
        receive(F(event_idx) | F(mrg_rxbuf), 64, 100, 300);
        receive(F(mrg_rxbuf), 256, 12, 40);
}

/* T-VH-18, hostile F07 */
TEST(device_traffic, says_one_buffer_without_mergeable_ones)
{
        uint8_t frame[60];
        struct vq_used used;

        begin(1, 0, 4);
        front_post(&f, 0, 1, 1600);
        front_kick(&f, 0);
        fill(frame, 60, 0);
        EXPECT(sport_put(&port, 0, frame, 60, NULL));
        EXPECT_SOON(front_reap(&f, 0, &used, 1) == 1);
        EXPECT_EQ(used.len, 72);
        EXPECT_EQ(front_slot(&f, 0, 0)[10], 1);
        EXPECT_EQ(front_slot(&f, 0, 0)[11], 0);
        end();
}
