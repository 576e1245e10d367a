/* A port that fails under a device: what it refuses is counted under its reason, what it cannot take yet waits without a CPU. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "invariants.h"
#include "scale.h"
#include "test.h"

static struct siege s;

static void begin(uint64_t features)
{
        siege_begin(&s, NULL);
        siege_connect(&s, features, 64);
}

static void end(void)
{
        siege_end(&s, SIEGE_LIVES);
}

static void drain_port(unsigned *ret_n)
{
        uint8_t got[64];

        while (sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0)
                ++*ret_n;
}

/* hostile J04, T-VH-05 */
TEST(hostile_port, a_full_one_is_waited_for_asleep_and_nothing_is_lost)
{
        const uint64_t until = front_now() + test_scale(200, 10000) * 1000000;
        unsigned sent = 0, seen = 0, back = 0;
        uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 }, got[64];
        struct vw_queue_stats q;

        begin(F(event_idx));
        while (front_stats(&s.f, 1).counters[VW_C_port_full] == 0) {
                memcpy(frame + 14, &sent, sizeof(sent));
                sent += front_send(&s.f, 0, frame, sizeof(frame), NULL);
                front_kick(&s.f, 1);
                back += front_reap(&s.f, 1, NULL, 64);
        }
        do
                EXPECT(siege_idle(&s, 10));
        while (front_now() < until);
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_packets] + front_drops(&(struct vw_queue_stats){ 0 }),
                  back);
        while (seen < sent) {
                EXPECT_SOON(sport_get(&s.port, 0, got, sizeof(got), NULL) == sizeof(frame));
                EXPECT_MEM(got + 14, &seen, sizeof(seen));
                seen++;
        }
        EXPECT_SOON((back += front_reap(&s.f, 1, NULL, 64)) == sent);
        q = front_stats(&s.f, 1);
        EXPECT_EQ(q.counters[VW_C_packets], sent);
        EXPECT_EQ(front_drops(&q), 0);
        end();
}

static char last_words[256];

static void remember(void *ctx, enum vw_log_level level, const char *component, const char *text)
{
        (void)ctx, (void)level, (void)component;
        if (strstr(text, "port refused"))
                snprintf(last_words, sizeof(last_words), "%s", text);
}

/* hostile J01, J05, T-VH-04 */
TEST(hostile_port, errors_of_one_frame_in_ten_cost_these_frames)
{
        static const int errors[] = { ENOBUFS, ENOMEM, EINVAL, EIO, EINTR, ENETDOWN };
        const unsigned each = (unsigned)test_scale(300, 20000);
        static const uint8_t frame[60] = { 2 };
        unsigned sent = 0, seen = 0, back = 0;
        struct vw_queue_stats q;
        char number[32];

        vw_set_log(VW_LOG_WARN, remember, NULL);
        begin(0);
        store_relaxed(&s.port.tx_every, 10);
        for (unsigned i = 0; i < ARRAY_SIZE(errors); i++) {
                uint64_t failed = load_relaxed(&s.port.tx_failures);

                store_relaxed(&s.port.tx_errno, errors[i]);
                for (unsigned k = 0; k < each;) {
                        bool fits = front_send(&s.f, 0, frame, sizeof(frame), NULL);

                        k += fits;
                        sent += fits;
                        if (k % 32 == 0 || !fits)
                                front_kick(&s.f, 1);
                        back += front_reap(&s.f, 1, NULL, 64);
                        drain_port(&seen);
                }
                front_kick(&s.f, 1);
                EXPECT_SOON((back += front_reap(&s.f, 1, NULL, 64)) == sent);
                EXPECT(load_relaxed(&s.port.tx_failures) - failed >= each / 10 - 1);
                if (i == 0) { /* later ones may be held back: ten a second */
                        snprintf(number, sizeof(number), "errno=%d ", errors[i]);
                        EXPECT(strstr(last_words, number));
                }
        }
        store_relaxed(&s.port.tx_errno, 0);
        drain_port(&seen);
        q = front_stats(&s.f, 1);
        EXPECT_EQ(q.counters[VW_C_packets], seen);
        EXPECT_EQ(front_drops(&q), load_relaxed(&s.port.tx_failures));
        EXPECT_EQ(q.counters[VW_C_packets] + front_drops(&q), sent);
        EXPECT(q.drops[VW_DROP_PORT_DOWN] > 0 && q.drops[VW_DROP_PORT_ERROR] > q.drops[VW_DROP_PORT_DOWN]);
        end();
        vw_set_log(VW_LOG_WARN, NULL, NULL);
}

/* hostile J05 */
TEST(hostile_port, errors_of_receiving_delay_frames_and_lose_none)
{
        static const int errors[] = { EIO, ENOMEM, EINVAL, ENODEV };
        static const uint8_t frame[60] = { 2 };
        unsigned sent = 0, got = 0;

        begin(0);
        front_post(&s.f, 0, 64, 1600);
        front_kick(&s.f, 0);
        for (unsigned i = 0; i < 20; i++) {
                store_relaxed(&s.port.rx_errno, errors[i % ARRAY_SIZE(errors)]);
                EXPECT(sport_put(&s.port, 0, frame, sizeof(frame), NULL));
                sent++;
                EXPECT_SOON((got += front_reap(&s.f, 0, NULL, 64)) == sent);
        }
        EXPECT_EQ(front_stats(&s.f, 0).counters[VW_C_packets], sent);
        end();
}

static unsigned times_told;

static void count_reads(void *ctx, enum vw_log_level level, const char *component, const char *text)
{
        (void)ctx, (void)level, (void)component;
        if (strstr(text, "port cannot be read"))
                store_relaxed(&times_told, times_told + 1);
}

/* hostile J02 */
TEST(hostile_port, what_goes_on_failing_is_told_ever_more_seldom)
{
        static const uint8_t frame[60] = { 2 };

        times_told = 0;
        vw_set_log(VW_LOG_WARN, count_reads, NULL);
        begin(0);
        front_post(&s.f, 0, 64, 1600);
        front_kick(&s.f, 0);
        store_relaxed(&s.port.rx_more, 7);
        store_relaxed(&s.port.rx_errno, ENODEV);
        EXPECT(sport_put(&s.port, 0, frame, sizeof(frame), NULL));
        EXPECT_SOON(front_reap(&s.f, 0, NULL, 64) == 1);
        EXPECT_EQ(load_relaxed(&times_told), 4); /* at the 1st, 2nd, 4th, 8th */
        end();
        vw_set_log(VW_LOG_WARN, NULL, NULL);
}

/* hostile J02, J07 */
TEST(hostile_port, a_link_that_flaps_is_told_and_the_queues_live)
{
        static const uint8_t frame[1000] = { 2, [12] = 0x88, 0xb5 };
        unsigned seen = 0, back = 0, told = 0;
        uint16_t status;

        begin(F(status));
        for (unsigned i = 0; i < 20; i++) {
                bool up = i % 2;

                store_relaxed(&s.port.link_up, up);
                store_relaxed(&s.port.mtu, up ? 1500 : 500);
                sport_event(&s.port);
                EXPECT_SOON((told = vu_frontend_dispatch(&s.f.fe) == 1));
                EXPECT_EQ(vu_frontend_get_config(&s.f.fe, 6, 2, &status), 0);
                EXPECT_EQ(status, up ? VIRTIO_NET_S_LINK_UP : 0);
                EXPECT(front_send(&s.f, 0, frame, sizeof(frame), NULL));
                front_kick(&s.f, 1);
                EXPECT_SOON((back += front_reap(&s.f, 1, NULL, 64)) == i + 1);
                EXPECT_EQ(front_stats(&s.f, 1).drops[VW_DROP_MTU], i / 2 + 1);
        }
        drain_port(&seen);
        EXPECT_EQ(seen, 10);
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_packets], 10);
        end();
}
