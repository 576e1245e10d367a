/* Calls to the driver: coalescing, suppression, busy polling, turns, with a real worker.  Exact times are the policies' own
 * tests; here the counters tell what a whole device made of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "front.h"
#include "rng.h"
#include "scale.h"
#include "sport.h"
#include "test.h"

static struct front f;
static struct sport port;

static void begin(struct vw_device_config config, uint64_t features, unsigned size)
{
        sport_init(&port);
        config.port = port.port;
        config.features = ~(uint64_t)0;
        if (!config.pairs)
                config.pairs = 1;
        front_open(&f, &config);
        front_connect(&f, features, size);
}

static void end(void)
{
        front_close(&f);
        sport_free(&port);
}

static void drain_port(void)
{
        uint8_t frame[2000];

        for (unsigned lane = 0; lane < SPORT_LANES; lane++)
                while (sport_get(&port, lane, frame, sizeof(frame), NULL) >= 0)
                        continue;
}

static void offer(unsigned pair, unsigned n)
{
        static const uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };

        for (unsigned i = 0; i < n; i++)
                EXPECT(front_send(&f, pair, frame, sizeof(frame), NULL));
        front_kick(&f, 2 * pair + 1);
}

/* One at a time: each is a publication of its own. */
static void send_each(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                offer(0, 1);
                EXPECT_SOON(front_reap(&f, 1, NULL, 1) == 1);
                drain_port();
        }
}

static void set(struct vw_setting a, struct vw_setting b)
{
        pthread_mutex_lock(&f.lock);
        EXPECT_EQ(vw_device_set(f.dev, (struct vw_setting[]){ a, b }, 2, &(const char *){ NULL }), 0);
        pthread_mutex_unlock(&f.lock);
}

static uint64_t counter(unsigned queue, enum vw_counter c)
{
        return front_stats(&f, queue).counters[c];
}

/* A busy machine may take longer for a few frames than calls can be held back (10 ms).  Then the counters tell, and the case is
 * tried again. */
static bool too_slow(unsigned queue)
{
        if (counter(queue, VW_C_coalesce_timer) == 0)
                return false;
        end();
        return true;
}

#define EXPECT_IN_TIME(body)                                                                                 \
        do {                                                                                                 \
                unsigned tries_ = 0;                                                                         \
                while (!body() && tries_ < 100)                                                              \
                        tries_++;                                                                            \
                EXPECT(tries_ < 100);                                                                        \
        } while (0)

static bool held_until_five(void)
{
        uint64_t held;

        begin((struct vw_device_config){ .tx_usecs = VW_USECS_MAX, .tx_frames = 5 }, 0, 256);
        EXPECT_EQ(front_calls(&f, 1), 1); /* the one at SET_VRING_CALL */
        send_each(4);
        held = counter(1, VW_C_calls);
        if (too_slow(1))
                return false;
        EXPECT_EQ(held, 1);
        send_each(1);
        EXPECT_SOON(front_calls(&f, 1) == 2);
        if (too_slow(1))
                return false;
        EXPECT_EQ(counter(1, VW_C_calls), 2);
        EXPECT_EQ(counter(1, VW_C_coalesce_frames), 1);
        EXPECT_EQ(counter(1, VW_C_calls_coalesced), 4);
        end();
        return true;
}

/* T-COAL-01 */
TEST(device_calls, are_held_back_until_the_frames_are_enough)
{
        EXPECT_IN_TIME(held_until_five);
}

/* T-COAL-02 */
TEST(device_calls, are_made_at_once_when_either_parameter_is_zero)
{
        begin((struct vw_device_config){ .tx_usecs = 100, .tx_frames = 0 }, 0, 256);
        send_each(5);
        EXPECT_SOON(counter(1, VW_C_calls) == 6);
        EXPECT_EQ(front_calls(&f, 1), 6);
        EXPECT_EQ(counter(1, VW_C_calls_coalesced), 0);
        end();
}

TEST(device_calls, are_held_back_until_the_time_is_up)
{
        uint64_t began;

        begin((struct vw_device_config){ .tx_usecs = VW_USECS_MAX, .tx_frames = 1000 }, F(event_idx), 256);
        began = front_now();
        send_each(1);
        EXPECT_SOON(front_calls(&f, 1) == 2);
        EXPECT(front_now() - began >= VW_USECS_MAX * UINT64_C(1000));
        EXPECT_EQ(counter(1, VW_C_coalesce_timer), 1);
        EXPECT_EQ(counter(1, VW_C_coalesce_frames), 0);
        end();
}

static void set_held(uint32_t frames)
{
        set((struct vw_setting){ 1, VW_KEY_TX_FRAMES, frames },
            (struct vw_setting){ 1, VW_KEY_TX_USECS, VW_USECS_MAX });
}

static bool released_at_exits(void)
{
        uint64_t calls[4];

        begin((struct vw_device_config){ .tx_usecs = VW_USECS_MAX, .tx_frames = 1000 }, 0, 256);
        send_each(3);
        f.q[1].cfg.base = front_stop(&f, 1);
        calls[0] = front_calls(&f, 1);
        front_start(&f, 1); /* signalled once */
        calls[1] = front_calls(&f, 1);
        send_each(2);
        set_held(2); /* two wait, and two are enough from now on */
        calls[2] = front_calls(&f, 1);
        set_held(1000);
        offer(0, 256);
        EXPECT_SOON((calls[3] = front_calls(&f, 1)) >= 5);
        if (too_slow(1))
                return false;
        for (unsigned i = 0; i < ARRAY_SIZE(calls); i++)
                EXPECT_EQ(calls[i], 2 + i);
        end();
        return true;
}

static bool released_when_broken(void)
{
        uint16_t *avail_idx;

        begin((struct vw_device_config){ .tx_usecs = VW_USECS_MAX, .tx_frames = 1000 }, 0, 64);
        send_each(3);
        avail_idx = (uint16_t *)(f.va + (f.q[1].cfg.avail - FRONT_UVA)) + 1;
        *avail_idx += 1000;
        front_kick_raw(&f, 1);
        EXPECT_SOON(front_stats(&f, 1).broken != NULL);
        if (too_slow(1))
                return false;
        EXPECT_EQ(front_calls(&f, 1), 2);
        end();
        return true;
}

static bool released_at_the_end(void)
{
        int call;

        begin((struct vw_device_config){ .tx_usecs = VW_USECS_MAX, .tx_frames = 1000 }, 0, 64);
        send_each(3);
        if (too_slow(1))
                return false;
        call = dup(f.q[1].call);
        EXPECT_EQ(front_calls(&f, 1), 1);
        front_disconnect(&f);
        EXPECT_SOON(read(call, &(uint64_t){ 0 }, sizeof(uint64_t)) == sizeof(uint64_t));
        close(call);
        end();
        return true;
}

/* A stop, a new call fd, other parameters, a ring that is full, one that breaks, a front end that goes */
TEST(device_calls, that_are_held_back_go_out_at_every_exit)
{
        EXPECT_IN_TIME(released_at_exits);
        EXPECT_IN_TIME(released_when_broken);
        EXPECT_IN_TIME(released_at_the_end);
}

static bool released_when_used_up(void)
{
        uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };

        begin((struct vw_device_config){ .rx_usecs = VW_USECS_MAX, .rx_frames = 1000 }, 0, 8);
        front_post(&f, 0, 3, 1600);
        front_kick(&f, 0);
        for (unsigned i = 0; i < 5; i++)
                EXPECT(sport_put(&port, 0, frame, sizeof(frame), NULL));
        EXPECT_SOON(front_calls(&f, 0) == 2);
        if (too_slow(0))
                return false;
        EXPECT_EQ(counter(0, VW_C_packets), 3);
        end();
        return true;
}

/* A driver that was given no more buffers back than it was told of would wait for ever */
TEST(device_calls, are_not_held_back_from_a_driver_whose_buffers_are_used_up)
{
        EXPECT_IN_TIME(released_when_used_up);
}

/* T-COAL-11 */
TEST(device_calls, of_one_pair_do_not_wake_another)
{
        begin((struct vw_device_config){ .pairs = 4, .tx_usecs = 1000, .tx_frames = 1000 },
              F(mq) | F(ctrl_vq), 64);
        for (unsigned i = 0; i < 9; i++)
                front_calls(&f, i);
        offer(3, 1);
        EXPECT_SOON(front_calls(&f, 7) == 2);
        for (unsigned i = 0; i < 9; i++)
                EXPECT_EQ(front_calls(&f, i), i == 7 ? 2 : 1);
        end();
}

/* T-TX-20's other side: what the driver does not want is counted and not sent */
TEST(device_calls, that_the_driver_does_not_want_are_not_made)
{
        begin((struct vw_device_config){ 0 }, F(event_idx), 256);
        vq_driver_call_disable(&f.q[1].vq);
        send_each(20);
        EXPECT_SOON(counter(1, VW_C_calls_suppressed) >= 19);
        EXPECT(counter(1, VW_C_calls) <= 2);
        end();
}

/* 10,000 frames with a random schedule of everything that touches coalescing lose no interrupt: the driver sleeps by its call fd */
TEST(device_calls, are_never_lost_whatever_changes_meanwhile)
{
        unsigned n = (unsigned)test_scale(3000, 100000), sent = 0, back = 0, idle = 0;
        uint64_t rng = 99;

        begin((struct vw_device_config){ .tx_usecs = 50, .tx_frames = 8, .poll_us = 20 }, F(event_idx), 64);
        while (back < n) {
                unsigned k = rng_below(&rng, 20);

                while (sent < n && k-- && front_send(&f, 0, (const uint8_t[60]){ 2 }, 60, NULL))
                        sent++;
                front_kick(&f, 1);
                switch (rng_below(&rng, 40)) {
                case 0:
                        set((struct vw_setting){ -1, VW_KEY_TX_USECS, rng_below(&rng, 200) },
                            (struct vw_setting){ -1, VW_KEY_TX_FRAMES, rng_below(&rng, 40) });
                        break;
                case 1:
                        set((struct vw_setting){ -1, VW_KEY_POLL_US, rng_below(&rng, 100) },
                            (struct vw_setting){ -1, VW_KEY_ADAPTIVE, rng_below(&rng, 4) });
                        break;
                case 2:
                        EXPECT_EQ(vu_frontend_vring_fds(&f.fe, 1, f.q[1].kick, f.q[1].call, -1), 0);
                        break;
                case 3:
                        f.q[1].cfg.base = front_stop(&f, 1);
                        front_start(&f, 1);
                        break;
                }
                drain_port();
                back += front_reap(&f, 1, NULL, 64);
                if (back < sent && !vq_driver_call_enable(&f.q[1].vq)) {
                        uint64_t calls = f.q[1].calls;

                        /* woken by a call and by nothing else */
                        EXPECT_SOON((drain_port(), front_calls(&f, 1) > calls));
                        idle++;
                }
        }
        EXPECT(idle > 0);
        EXPECT_EQ(counter(1, VW_C_packets), n);
        end();
}

/* Sends and waits for each without sleeping, so that the next follows at once. */
static void ping(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                uint64_t until = front_now() + UINT64_C(5000000000);

                offer(0, 1);
                while (front_reap(&f, 1, NULL, 1) == 0)
                        EXPECT(front_now() < until);
                drain_port();
        }
}

/* Polls that others on the CPU disturb are given up, so that on a busy machine there may be few hits */
TEST(device_calls, polling_looks_for_work_and_ends)
{
        uint64_t until = front_now() + UINT64_C(2000000000), before, ns;
        struct vw_queue_stats s;

        begin((struct vw_device_config){ .poll_us = 1000 }, F(event_idx), 256);
        do
                ping(100);
        while (counter(1, VW_C_poll_hits) == 0 && front_now() < until);
        s = front_stats(&f, 1);
        EXPECT(s.counters[VW_C_poll_hits] + s.counters[VW_C_poll_misses] + s.counters[VW_C_poll_ns] > 0);
        until = front_now() + UINT64_C(5000000000);
        ns = counter(1, VW_C_poll_ns);
        do { /* 100 ms later than the last work it has long stopped */
                before = ns;
                nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
                ns = counter(1, VW_C_poll_ns);
        } while (ns != before && front_now() < until);
        EXPECT_EQ(ns, before);
        end();
}

/* T-VH-09, T-VH-10: a flood in one direction leaves the other its turns */
TEST(device_calls, a_flood_of_frames_does_not_starve_the_other_direction)
{
        uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };
        uint64_t before;

        begin((struct vw_device_config){ .workers = 1 }, F(mrg_rxbuf), 256);
        for (unsigned round = 0; round < 50; round++) {
                front_post(&f, 0, 64, 100);
                front_kick(&f, 0);
                while (sport_put(&port, 0, frame, sizeof(frame), NULL))
                        continue;
                before = counter(0, VW_C_packets);
                offer(0, 1);
                EXPECT_SOON((front_reap(&f, 0, NULL, 64), front_post(&f, 0, 64, 100), front_kick(&f, 0),
                             front_reap(&f, 1, NULL, 1) == 1));
                EXPECT(counter(0, VW_C_packets) >= before);
        }
        end();
}

/* T-VH-14: long before the poll would end, at least when nobody else wants the CPU */
TEST(device_calls, a_queue_that_polls_yields_to_its_neighbour)
{
        unsigned soon = 0;

        begin((struct vw_device_config){ .pairs = 2, .workers = 1 }, F(mq) | F(ctrl_vq), 64);
        set((struct vw_setting){ 1, VW_KEY_POLL_US, VW_POLL_US_MAX },
            (struct vw_setting){ 1, VW_KEY_POLL_US, VW_POLL_US_MAX });
        for (unsigned i = 0; i < 50; i++) {
                uint64_t began;

                offer(0, 1);
                EXPECT_SOON(front_reap(&f, 1, NULL, 1) == 1);
                began = front_now();
                offer(1, 1);
                EXPECT_SOON(front_reap(&f, 3, NULL, 1) == 1);
                soon += front_now() - began < VW_POLL_US_MAX * UINT64_C(500);
        }
        EXPECT(soon > 25);
        end();
}

/* Adaptive moderation leaves request and response alone */
TEST(device_calls, adaptive_holds_nothing_back_from_a_request)
{
        struct vw_queue_stats s;

        begin((struct vw_device_config){ .adaptive = VW_ADAPTIVE_BOTH }, 0, 256);
        send_each(1000);
        s = front_stats(&f, 1);
        EXPECT(s.settings.adaptive);
        EXPECT_EQ(s.settings.usecs, 0);
        EXPECT(s.counters[VW_C_calls_coalesced] < 20);
        end();
}

static int trace(int fd)
{
        int r;

        pthread_mutex_lock(&f.lock);
        r = vw_device_trace(f.dev, fd);
        pthread_mutex_unlock(&f.lock);
        return r;
}

static unsigned lines_with(FILE *file, const char *queue, const char *step)
{
        char line[256];
        unsigned n = 0;

        rewind(file);
        while (fgets(line, sizeof(line), file))
                n += !strncmp(line, queue, strlen(queue)) && strstr(line, step);
        return n;
}

/* By the record of what was decided, since on a busy machine naps are given up; but a load is asked there only if enough of it gets a CPU */
TEST(device_calls, polling_is_compared_with_naps)
{
        bool enough = false;

        begin((struct vw_device_config){ .poll_us = VW_POLL_US_MAX }, F(event_idx), 256);
        for (unsigned i = 0; i < 5 && !enough; i++) {
                uint64_t until = front_now() + UINT64_C(1000000000), packets = counter(1, VW_C_packets);
                FILE *file = tmpfile();

                EXPECT_EQ(trace(dup(fileno(file))), 0);
                while (front_now() < until)
                        ping(100);
                EXPECT_EQ(trace(-1), 0);
                enough = counter(1, VW_C_packets) - packets >= 20000 &&
                         lines_with(file, "0 duel ", " span ") >= 100;
                EXPECT(!enough || lines_with(file, "0 duel ", " poll\n"));
                EXPECT(!enough || lines_with(file, "0 duel ", " nap\n"));
                fclose(file);
        }
        end();
        if (!enough)
                SKIP("no second in which the load had a CPU");
}

/* T-VH-14: nor where a queue of the worker is not to be polled, whose kick would wait for the end of it */
TEST(device_calls, without_polling_there_is_no_nap)
{
        begin((struct vw_device_config){ .adaptive = VW_ADAPTIVE_BOTH }, F(event_idx), 256);
        ping(5000);
        set((struct vw_setting){ 1, VW_KEY_POLL_US, 50 }, (struct vw_setting){ 1, VW_KEY_ADAPTIVE, 0 });
        ping(5000);
        EXPECT_EQ(counter(1, VW_C_naps), 0);
        end();
}

/* What was decided while everything changed is decided again by the record */
TEST(device_calls, decisions_are_recorded_and_replay)
{
        FILE *file = tmpfile();
        const char *why = "";

        begin((struct vw_device_config){ .poll_us = 50, .adaptive = VW_ADAPTIVE_BOTH }, F(event_idx), 256);
        ping(500); /* learned before: it must not matter */
        EXPECT_EQ(trace(-1), -EALREADY);
        EXPECT_EQ(trace(dup(fileno(file))), 0);
        EXPECT_EQ(trace(fileno(file)), -EBUSY);
        ping(500);
        set((struct vw_setting){ -1, VW_KEY_ADAPTIVE, 0 }, (struct vw_setting){ -1, VW_KEY_POLL_US, 10 });
        ping(100);
        set((struct vw_setting){ -1, VW_KEY_ADAPTIVE, 3 }, (struct vw_setting){ -1, VW_KEY_TX_USECS, 100 });
        ping(500);
        EXPECT_EQ(trace(-1), 0);
        rewind(file);
        EXPECT(vw_trace_replay(dup(fileno(file)), &why) > 1000);
        EXPECT(lines_with(file, "0 duel ", " forget 0 poll") >= 1);
        EXPECT(lines_with(file, "0 duel ", " span ") >= 1);
        EXPECT_EQ(counter(1, VW_C_packets), 1600);
        end();
        fclose(file);
}

TEST(device_calls, a_queue_hears_of_its_pair_and_of_no_other)
{
        FILE *file = tmpfile();

        begin((struct vw_device_config){ .pairs = 2, .workers = 1, .adaptive = VW_ADAPTIVE_BOTH },
              F(mq) | F(ctrl_vq), 64);
        EXPECT_EQ(trace(dup(fileno(file))), 0);
        send_each(20);
        EXPECT_EQ(trace(-1), 0);
        EXPECT_EQ(lines_with(file, "1 moderation ", " note 1 1 "), 20);
        EXPECT_EQ(lines_with(file, "0 moderation ", " beside 1 "), 20);
        EXPECT_EQ(lines_with(file, "", " beside "), 20);
        end();
        fclose(file);
}

TEST(device_calls, no_record_is_made_into_a_pipe_or_of_anything_else)
{
        FILE *file = tmpfile();
        const char *why = "";
        int pipes[2];

        begin((struct vw_device_config){ .poll_us = 50 }, 0, 256);
        EXPECT_EQ(pipe(pipes), 0);
        EXPECT_EQ(trace(pipes[1]), -EINVAL);
        EXPECT_EQ(trace(-1), -EALREADY);
        end();
        close(pipes[0]);
        close(pipes[1]);
        EXPECT_EQ(vw_trace_replay(dup(fileno(file)), &why), -EPROTO); /* an empty file */
        EXPECT(strstr(why, "this is no record"));
        fputs("something else\n", file);
        rewind(file);
        EXPECT_EQ(vw_trace_replay(dup(fileno(file)), &why), -EPROTO);
        EXPECT(strstr(why, "this is no record"));
        fclose(file);
}

/* ---- why ---- */

static void why(unsigned queue, char *text, size_t len)
{
        pthread_mutex_lock(&f.lock);
        vw_device_why(f.dev, queue, text, len);
        pthread_mutex_unlock(&f.lock);
}

static bool says(unsigned queue, const char *words)
{
        char text[1024];

        why(queue, text, sizeof(text));
        return strstr(text, words);
}

static void expect_says(unsigned queue, const char *words)
{
        char text[1024];

        why(queue, text, sizeof(text));
        if (!strstr(text, words))
                print_error("queue %u does not say \"%s\": %s\n", queue, words, text);
        EXPECT(strstr(text, words));
}

/* Who owes whom a notification, and why it has not been sent: the states that a link hangs in */
TEST(device_calls, that_are_not_sent_are_explained)
{
        uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };
        uint16_t *avail_idx;

        begin((struct vw_device_config){ .tx_usecs = VW_USECS_MAX, .tx_frames = 1000 }, F(event_idx), 64);
        expect_says(1, "waits for the driver's kick; the driver wants an interrupt after used 0, used is 0: "
                       "not yet due; ");
        expect_says(1, "; avail=0 taken=0 used=0");
        EXPECT_SOON((offer(0, 1), front_reap(&f, 1, NULL, 64), drain_port(),
                     says(1, "packets is held back for")) &&
                    says(1, "us more (usecs=10000 frames=1000)"));
        EXPECT_SOON((front_reap(&f, 1, NULL, 64), says(1, "it has had it, and asked for none since")));
        EXPECT_SOON((
                front_send(&f, 0, frame, sizeof(frame), NULL),
                vq_driver_publish(&f.q[1].vq), /* and no kick */
                says(1,
                     "1 chains are offered that the worker comes to now; if it was asleep, the driver has not kicked") ||
                        (front_reap(&f, 1, NULL, 64), drain_port(), false)));
        EXPECT(sport_put(&port, 0, frame, sizeof(frame), NULL));
        EXPECT_SOON(says(0, "a frame waits in the port for buffers: the ring has room for 0 bytes"));
        expect_says(
                0,
                "nothing is offered; waits for the driver's kick; the driver wants an interrupt after used 0");
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, false), 0);
        expect_says(1, "disabled by the front end: what the driver sends is discarded");
        f.q[1].cfg.base = front_stop(&f, 1);
        expect_says(1, "stopped; waits for the front end to set it up");
        end();

        begin((struct vw_device_config){ .adaptive = VW_ADAPTIVE_TX }, 0, 64);
        expect_says(1, "; the last interrupt was sent, and nobody has read it"); /* that at SET_VRING_CALL */
        EXPECT_EQ(front_calls(&f, 1), 1);
        EXPECT(!says(1, "nobody has read it"));
        expect_says(1, "; adaptive: interrupts are not held back");
        EXPECT(!says(0, "adaptive"));
        vq_driver_call_disable(&f.q[1].vq);
        send_each(1);
        expect_says(1, "; the driver wants no interrupts now (its flag), used is 1");
        EXPECT(!vq_driver_call_enable(&f.q[1].vq));
        expect_says(1, "; no interrupt is owed");
        avail_idx = (uint16_t *)(f.va + (f.q[1].cfg.avail - FRONT_UVA)) + 1;
        *avail_idx += 1000;
        front_kick_raw(&f, 1);
        EXPECT_SOON(says(1, "broken: "));
        expect_says(1, "its memory is left alone until the front end sets it up again");
        end();
}

TEST(device_calls, wait_for_a_port_or_a_front_end_that_is_named)
{
        begin((struct vw_device_config){ 0 }, 0, 64);
        EXPECT_SOON((front_send(&f, 0, (const uint8_t[60]){ 2 }, 60, NULL), front_kick(&f, 1),
                     front_reap(&f, 1, NULL, 64), counter(1, VW_C_port_full) > 0));
        expect_says(1, "the port is full; waits until it is writable, then goes on with the ");
        drain_port();
        EXPECT_SOON((drain_port(), says(1, "nothing is offered; waits for the driver's kick") ||
                                           (front_reap(&f, 1, NULL, 64), false)));
        front_stop(&f, 1);
        front_ring(&f, 1);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, false), 0);
        front_start(&f, 1);
        EXPECT_SOON(says(1, "disabled by the front end"));
        front_disconnect(&f);

        front_hello(&f, 0, 64);
        front_ring(&f, 1);
        front_start(&f, 1);
        EXPECT_SOON(says(1, "it was never enabled, so kicks are kept; waits for the front end"));
        end();
}
