/* Receive through a whole device: room, buffers of all kinds, filters, offloads that the guest lacks. */
#include <string.h>

#include "device/queue.h"
#include "frames.h"
#include "front.h"
#include "net/hdr.h"
#include "scale.h"
#include "sport.h"
#include "test.h"

static struct front f;
static struct sport port;

static void begin(uint64_t features, unsigned size)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        sport_init(&port);
        config.port = port.port;
        config.nice = 0;
        config.mtu = 1500;
        front_open(&f, &config);
        front_connect(&f, features, size);
}

static void end(void)
{
        front_close(&f);
        sport_free(&port);
}

static void put(uint32_t len, uint32_t number)
{
        static uint8_t frame[66000];

        memset(frame, (int)(number % 251), len);
        memcpy(frame + 12, "\x88\xb5", 2);
        memcpy(frame + 14, &number, sizeof(number));
        EXPECT(sport_put(&port, 0, frame, len, NULL));
}

/* Takes one frame out of its buffers; its length without header, or -1. */
static int take(uint8_t *ret_frame, struct vw_net_hdr *ret_hdr)
{
        static struct vq_used used[1024];
        static unsigned have, next;
        uint8_t *head;
        uint32_t len = 0;
        unsigned n;

        if (next == have) {
                next = 0;
                have = front_reap(&f, 0, used, ARRAY_SIZE(used));
                if (have == 0)
                        return -1;
        }
        head = front_slot(&f, 0, (unsigned)((uintptr_t)used[next].cookie - 1));
        if (used[next].len == 0) {
                next++;
                return -1;
        }
        n = (unsigned)(head[10] | head[11] << 8);
        if (ret_hdr)
                net_hdr_decode(head, 12, ret_hdr);
        EXPECT(n >= 1);
        for (unsigned i = 0; i < n; i++, next++) {
                if (next == have)
                        have += front_reap(&f, 0, used + have, ARRAY_SIZE(used) - have);
                EXPECT(next < have); /* all of them were visible at once */
                memcpy(ret_frame + len, front_slot(&f, 0, (unsigned)((uintptr_t)used[next].cookie - 1)),
                       used[next].len);
                len += used[next].len;
        }
        memmove(ret_frame, ret_frame + 12, len - 12);
        return (int)len - 12;
}

static bool why_says(const char *words)
{
        char text[1024];

        pthread_mutex_lock(&f.lock);
        vw_device_why(f.dev, 0, text, sizeof(text));
        pthread_mutex_unlock(&f.lock);
        return strstr(text, words);
}

static uint64_t cpu_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* hostile F03, T-VH-23: with nothing to put it into, a frame waits and nobody spins */
TEST(device_rx, a_frame_waits_in_the_port_while_the_worker_sleeps)
{
        static uint8_t frame[66000];
        uint64_t cpu;
        unsigned calls;

        begin(F(mrg_rxbuf), 64);
        for (unsigned i = 0; i < 10; i++)
                put(100, i);
        EXPECT_SOON(front_stats(&f, 0).counters[VW_C_no_buffers] == 1);
        calls = __atomic_load_n(&port.rx_calls, __ATOMIC_RELAXED);
        cpu = cpu_ns();
        nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
        EXPECT(cpu_ns() - cpu < 60000000); /* the control thread polls in this harness */
        EXPECT_EQ(__atomic_load_n(&port.rx_calls, __ATOMIC_RELAXED), calls);
        EXPECT_EQ(front_stats(&f, 0).counters[VW_C_packets], 0);
        front_post(&f, 0, 64, 1600);
        front_kick(&f, 0);
        for (unsigned i = 0; i < 10; i++) {
                EXPECT_SOON(take(frame, NULL) == 100);
                EXPECT_MEM(frame + 14, &i, sizeof(i));
        }
        EXPECT_EQ(front_stats(&f, 0).counters[VW_C_no_buffers], 1);
        end();
}

/* The port's readiness is not reported while the queue is starved, so what the worker knows of it must be right: two frames take the last
 * buffers, the port is found empty, and others come one by one with a buffer each. */
TEST(device_rx, a_frame_that_comes_when_the_last_buffer_has_gone_waits_for_the_next)
{
        static uint8_t frame[66000];

        begin(F(mrg_rxbuf), 64);
        put(100, 0);
        EXPECT_SOON(front_stats(&f, 0).counters[VW_C_no_buffers] == 1);
        put(100, 1);
        front_post(&f, 0, 2, 1600);
        front_kick(&f, 0);
        EXPECT_SOON(take(frame, NULL) == 100);
        EXPECT_SOON(take(frame, NULL) == 100);
        for (unsigned i = 2; i < 100; i++) {
                put(100, i);
                EXPECT_SOON(front_stats(&f, 0).counters[VW_C_no_buffers] == i);
                front_post(&f, 0, 1, 1600);
                front_kick(&f, 0);
                EXPECT_SOON(take(frame, NULL) == 100);
        }
        EXPECT_EQ(front_stats(&f, 0).counters[VW_C_packets], 100);
        end();
}

/* hostile F09 */
TEST(device_rx, a_frame_waits_for_enough_buffers_and_is_delivered_whole)
{
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(F(mrg_rxbuf), 64);
        front_post(&f, 0, 3, 400);
        front_kick(&f, 0);
        put(1400, 1);
        put(100, 2);
        EXPECT_SOON(front_stats(&f, 0).counters[VW_C_no_buffers] == 1);
        front_kick_raw(&f, 0); /* a kick without buffers changes nothing */
        EXPECT_EQ(front_stats(&f, 0).counters[VW_C_packets], 0);
        EXPECT_EQ(take(frame, NULL), -1);
        front_post(&f, 0, 10, 400);
        front_kick(&f, 0);
        EXPECT_SOON(take(frame, NULL) == 1400);
        EXPECT_SOON(take(frame, NULL) == 100);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets], 2);
        EXPECT_EQ(front_drops(&s), 0);
        end();
}

/* hostile F04, F09: a driver with buffers for what comes, which is less than what might */
TEST(device_rx, buffers_that_hold_the_frame_but_not_the_longest_are_enough)
{
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(F(mrg_rxbuf), 64);
        __atomic_store_n(&port.rx_max, VW_FRAME_MAX, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < 100; i++) {
                uint32_t len = 60 + i * 13;

                front_post(&f, 0, i % 4 == 0, 2000); /* sometimes the buffers are there first */
                front_kick(&f, 0);
                put(len, i);
                front_post(&f, 0, i % 4 != 0, 2000);
                front_kick(&f, 0);
                EXPECT_SOON(take(frame, NULL) == (int)len);
                EXPECT_MEM(frame + 14, &i, sizeof(i));
        }
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets], 100);
        EXPECT_EQ(front_drops(&s), 0);
        end();
}

/* A frame that was read before there was room for it outlives the ring, and a queue that is switched off counts it. */
TEST(device_rx, a_frame_that_was_read_ahead_is_delivered_or_counted)
{
        static uint8_t frame[66000];
        unsigned number = 7;

        begin(F(mrg_rxbuf), 64);
        __atomic_store_n(&port.rx_max, VW_FRAME_MAX, __ATOMIC_RELAXED);
        front_post(&f, 0, 1, 100);
        front_kick(&f, 0);
        put(600, number);
        EXPECT_SOON(
                why_says("a frame waits here for buffers: the ring has room for 100 bytes, it needs 612"));
        front_renew(&f, 0);
        front_post(&f, 0, 1, 700);
        front_kick(&f, 0);
        EXPECT_SOON(take(frame, NULL) == 600);
        EXPECT_MEM(frame + 14, &number, sizeof(number));
        front_post(&f, 0, 1, 100);
        front_kick(&f, 0);
        put(600, number);
        EXPECT_SOON(why_says("a frame waits here"));
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 0, false), 0);
        EXPECT_SOON(front_stats(&f, 0).drops[VW_DROP_DISABLED] == 1);
        end();
}

/* hostile F04 */
TEST(device_rx, one_buffer_at_a_time_loses_nothing)
{
        static uint8_t frame[66000];
        unsigned n = (unsigned)test_scale(3000, 1000000), sent = 0;
        struct vw_queue_stats s;

        begin(F(event_idx), 2);
        front_post(&f, 0, 1, 1600);
        front_kick(&f, 0);
        for (unsigned i = 0; i < n; i++) {
                while (sent < n && sent < i + 8)
                        put(100, sent++);
                EXPECT_SOON(take(frame, NULL) == 100);
                EXPECT_MEM(frame + 14, &i, sizeof(i));
                EXPECT_EQ(front_post(&f, 0, 1, 1600), 1);
                front_kick(&f, 0);
        }
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets], n);
        EXPECT_EQ(front_drops(&s), 0);
        end();
}

/* hostile F01: every faulty buffer costs the frame that meets it, and the ring goes on */
TEST(device_rx, buffers_too_small_cost_a_frame_each)
{
        static const uint32_t lens[] = { 1, 11, 12, 13, 25 };
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(0, 64);
        for (unsigned i = 0; i < ARRAY_SIZE(lens); i++)
                front_post(&f, 0, 1, lens[i]);
        front_post(&f, 0, 1, 500); /* too small for the next frame */
        front_post(&f, 0, 1, 500); /* large enough for the one after it */
        front_kick(&f, 0);
        for (unsigned i = 0; i < ARRAY_SIZE(lens); i++)
                put(100, i);
        put(1000, 7);
        put(100, 8);
        for (unsigned i = 0; i <= ARRAY_SIZE(lens); i++) {
                struct vq_used used;

                EXPECT_SOON(front_reap(&f, 0, &used, 1) == 1);
                EXPECT_EQ(used.len, 0);
        }
        EXPECT_SOON(take(frame, NULL) == 100);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.drops[VW_DROP_NO_BUFFERS], ARRAY_SIZE(lens));
        EXPECT_EQ(s.drops[VW_DROP_TOO_LONG], 1);
        EXPECT_EQ(s.counters[VW_C_packets], 1);
        EXPECT_EQ(front_drops(&s), ARRAY_SIZE(lens) + 1);
        end();
}

/* hostile F02, B24 */
TEST(device_rx, readable_and_unmapped_buffers_cost_a_frame_and_are_not_written)
{
        static uint8_t frame[66000];
        struct vq_piece pieces[2];
        struct vw_queue_stats s;
        struct vq_used used;
        uint64_t features[] = { 0, F(mrg_rxbuf) };

        for (unsigned k = 0; k < 2; k++) {
                begin(features[k], 64);
                memset(front_slot(&f, 0, 0), 0xee, 2 * FRONT_SLOT);
                pieces[0] = (struct vq_piece){ front_gpa(&f, 0, 0), 100 };
                pieces[1] = (struct vq_piece){ front_gpa(&f, 0, 1), 1600 };
                EXPECT(front_add(&f, 0, pieces, 1, 1, 0));
                pieces[0] = (struct vq_piece){ 0x1000, 1600 };
                EXPECT(front_add(&f, 0, pieces, 0, 1, 0));
                f.q[0].next_slot = 2;
                front_post(&f, 0, 2, 1600);
                front_kick(&f, 0);
                for (unsigned i = 0; i < 3; i++)
                        put(100, i);
                for (unsigned i = 0; i < 2; i++) {
                        EXPECT_SOON(front_reap(&f, 0, &used, 1) == 1);
                        EXPECT_EQ(used.len, 0);
                }
                EXPECT_SOON(take(frame, NULL) == 100);
                EXPECT_EQ(frame[14], 2);
                for (unsigned i = 0; i < 2 * FRONT_SLOT; i++)
                        EXPECT_EQ(front_slot(&f, 0, 0)[i], 0xee);
                s = front_stats(&f, 0);
                EXPECT_EQ(s.drops[VW_DROP_DIRECTION], 1);
                EXPECT_EQ(s.drops[VW_DROP_UNMAPPED], 1);
                EXPECT_EQ(s.counters[VW_C_packets], 1);
                EXPECT_EQ(front_drops(&s), 2);
                end();
        }
}

/* A faulty buffer in the middle: a frame that fits before it does not suffer */
TEST(device_rx, a_faulty_buffer_is_met_in_its_turn)
{
        static uint8_t frame[66000];
        struct vq_piece piece = { 0x1000, 400 };
        struct vw_queue_stats s;
        unsigned zero = 0;
        struct vq_used used[4];

        begin(F(mrg_rxbuf), 64);
        front_post(&f, 0, 2, 400);
        EXPECT(front_add(&f, 0, &piece, 0, 1, 100));
        front_post(&f, 0, 8, 400);
        front_kick(&f, 0);
        put(300, 0);
        EXPECT_SOON(take(frame, NULL) == 300);
        put(700, 1); /* one good one is left before the bad one */
        EXPECT_SOON((zero += front_reap(&f, 0, used, 1)) == 2);
        put(1400, 2);
        EXPECT_SOON(take(frame, NULL) == 1400);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.drops[VW_DROP_UNMAPPED], 1);
        EXPECT_EQ(s.counters[VW_C_packets], 2);
        end();
}

/* hostile F06: num_buffers up to the ring's size; a header over several pieces */
TEST(device_rx, the_longest_frame_over_any_number_of_buffers)
{
        static const uint32_t lens[] = { 2048, 1024, 300, 129 };
        static uint8_t frame[66000];
        struct vw_net_hdr hdr;

        for (unsigned k = 0; k < ARRAY_SIZE(lens); k++) {
                begin(F(mrg_rxbuf) | F(event_idx), 1024);
                __atomic_store_n(&port.rx_max, VW_FRAME_MAX, __ATOMIC_RELAXED);
                for (unsigned i = 0; i < 3; i++) {
                        uint32_t len = i == 1 ? 60 : VW_FRAME_MAX - i, n = (12 + len + lens[k] - 1) / lens[k];

                        while (front_post(&f, 0, 64, lens[k]) == 64)
                                continue;
                        front_kick(&f, 0);
                        put(len, i);
                        EXPECT_SOON(take(frame, &hdr) == (int)len);
                        EXPECT_EQ(hdr.num_buffers, n);
                        EXPECT_MEM(frame + 14, &i, sizeof(i));
                        for (uint32_t b = 18; b < len; b++)
                                EXPECT_EQ(frame[b], i);
                }
                end();
        }
}

TEST(device_rx, a_ring_that_can_never_hold_the_longest_frame_takes_those_that_fit)
{
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(F(mrg_rxbuf), 4);
        front_post(&f, 0, 4, 200);
        front_kick(&f, 0);
        put(300, 0);
        EXPECT_SOON(take(frame, NULL) == 300);
        EXPECT_EQ(front_post(&f, 0, 2, 200), 2);
        front_kick(&f, 0);
        put(900, 1);
        EXPECT_SOON(front_stats(&f, 0).drops[VW_DROP_TOO_LONG] == 1);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets] + front_drops(&s), 2);
        EXPECT_EQ(front_reap(&f, 0, NULL, 4), 0); /* the buffers are for others */
        put(700, 2);
        EXPECT_SOON(take(frame, NULL) == 700);
        end();
}

/* hostile F13 */
TEST(device_rx, a_disabled_queue_gets_nothing_and_counts_it)
{
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(0, 64);
        front_post(&f, 0, 8, 1600);
        front_kick(&f, 0);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 0, false), 0);
        for (unsigned i = 0; i < 5; i++)
                put(100, i);
        EXPECT_SOON(front_stats(&f, 0).drops[VW_DROP_DISABLED] == 5);
        EXPECT_EQ(take(frame, NULL), -1);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 0, true), 0);
        put(100, 6);
        EXPECT_SOON(take(frame, NULL) == 100);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets], 1);
        EXPECT_EQ(front_drops(&s), 5);
        end();
}

/* What the guest did not accept is made up: checksums and segments, each a packet of its own */
TEST(device_rx, completes_in_software_what_the_guest_lacks)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 5000, .partial = true };
        static uint8_t frame[66000], got[66000];
        struct frame_view view;
        struct vw_net_hdr hdr;
        uint32_t len = frame_build(&spec, frame, &hdr), bytes = 0;
        int n;

        begin(F(mrg_rxbuf), 64);
        __atomic_store_n(&port.rx_max, VW_FRAME_MAX, __ATOMIC_RELAXED);
        front_post(&f, 0, 64, 1600);
        front_kick(&f, 0);
        hdr.gso_type = VW_GSO_TCPV4;
        hdr.gso_size = 1400;
        EXPECT(sport_put(&port, 0, frame, len, &hdr));
        for (unsigned i = 0; i < 4; i++) {
                EXPECT_SOON((n = take(got, &hdr)) > 0);
                EXPECT_EQ(hdr.flags | hdr.gso_type, 0);
                EXPECT(!frame_wrong(got, (uint32_t)n, &view));
                bytes += view.end - view.payload;
        }
        EXPECT_EQ(bytes, 5000);
        EXPECT_EQ(front_stats(&f, 0).counters[VW_C_packets], 4);
        end();

        begin(F(mrg_rxbuf) | F(guest_csum) | F(guest_tso4), 64);
        EXPECT_EQ(__atomic_load_n(&port.rx_offloads, __ATOMIC_RELAXED), VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4);
        front_post(&f, 0, 64, 1600);
        front_kick(&f, 0);
        __atomic_store_n(&port.rx_max, VW_FRAME_MAX, __ATOMIC_RELAXED);
        len = frame_build(&spec, frame, &hdr);
        hdr.gso_type = VW_GSO_TCPV4;
        hdr.gso_size = 1400;
        EXPECT(sport_put(&port, 0, frame, len, &hdr));
        EXPECT_SOON((n = take(got, &hdr)) > 0);
        EXPECT_EQ(n, len);
        EXPECT_EQ(hdr.gso_size, 1400);
        end();
}

TEST(device_rx, a_segment_that_finds_no_buffer_is_counted_as_one_that_had_none)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 5000, .partial = true };
        static uint8_t frame[66000];
        struct vq_piece piece = { .len = 40000 }; /* two are room enough for the longest frame */
        struct vw_queue_stats s;
        struct vw_net_hdr hdr;
        uint32_t len = frame_build(&spec, frame, &hdr);

        begin(F(mrg_rxbuf), 64);
        __atomic_store_n(&port.rx_max, VW_FRAME_MAX, __ATOMIC_RELAXED);
        for (unsigned slot = 0; slot < 40; slot += 20) {
                piece.gpa = front_gpa(&f, 0, slot);
                EXPECT(front_add(&f, 0, &piece, 0, 1, slot));
        }
        front_kick(&f, 0);
        hdr.gso_type = VW_GSO_TCPV4;
        hdr.gso_size = 1400;
        EXPECT(sport_put(&port, 0, frame, len, &hdr)); /* four segments; each takes a buffer */
        EXPECT_SOON(front_stats(&f, 0).drops[VW_DROP_NO_BUFFERS] == 2);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets], 2);
        EXPECT_EQ(front_drops(&s), 2);
        EXPECT_EQ(front_reap(&f, 0, NULL, 64), 2);
        end();
}

/* hostile J05 */
TEST(device_rx, goes_on_after_errors_of_the_port)
{
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(0, 64);
        front_post(&f, 0, 32, 1600);
        front_kick(&f, 0);
        for (unsigned i = 0; i < 20; i++) {
                __atomic_store_n(&port.rx_errno, i % 2 ? 12 : 5, __ATOMIC_RELAXED);
                put(100, i);
                EXPECT_SOON(take(frame, NULL) == 100);
                EXPECT_MEM(frame + 14, &i, sizeof(i));
        }
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets], 20);
        EXPECT_EQ(front_drops(&s), 0);
        end();
}

TEST(device_rx, frames_over_the_mtu_it_was_told_are_not_for_the_guest)
{
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(F(mtu), 64);
        __atomic_store_n(&port.rx_max, 1600, __ATOMIC_RELAXED);
        front_post(&f, 0, 32, 1700);
        front_kick(&f, 0);
        put(1515, 0);
        put(1514, 1);
        EXPECT_SOON(take(frame, NULL) == 1514);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.drops[VW_DROP_MTU], 1);
        EXPECT_EQ(s.counters[VW_C_packets], 1);
        end();
}

/* What a port hands over is held to what it said, and to what a frame is. */
TEST(device_rx, frames_that_no_port_should_have_cost_themselves)
{
        static uint8_t frame[66000];
        struct vw_queue_stats s;

        begin(0, 64);
        __atomic_store_n(&port.rx_max, 1600, __ATOMIC_RELAXED);
        front_post(&f, 0, 32, 1700);
        front_kick(&f, 0);
        put(1601, 0); /* longer than any, though the buffer has room */
        put(13, 1);
        put(14, 2);
        put(1600, 3);
        EXPECT_SOON(take(frame, NULL) == 14);
        EXPECT_SOON(take(frame, NULL) == 1600);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.drops[VW_DROP_TOO_LONG], 1);
        EXPECT_EQ(s.drops[VW_DROP_SHORT], 1);
        EXPECT_EQ(s.counters[VW_C_packets], 2);
        end();
}
