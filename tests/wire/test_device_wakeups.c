/* Nobody sleeps for ever: the driver sleeps by its call fds and wakes the device only when asked to, while polling,
 * coalescing and adaptive moderation change all the time.  A lost wake-up in either direction stops the traffic for good. */
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "front.h"
#include "rng.h"
#include "scale.h"
#include "test.h"

#define FRAME      64
#define PATIENCE   5000 /* ms: a wake-up that has not come by then is lost, whatever the machine does */
#define IDLE       100 /* ms: a ring that has work for so long, while the device's worker sleeps, is forgotten */
#define IDLE_LOOKS 20 /* 1 ms apart, since a worker sleeps between two deadlines, too */
#define CHANGE_GAP UINT64_C(1000000)

static struct front f;

struct traffic {
        uint64_t sent, done, got, posted, slept;
        uint64_t rng;
};

static void change_something(struct traffic *t)
{
        struct vw_setting s[] = {
                {-1,                          VW_KEY_POLL_US, rng_below(&t->rng, 3) ? 0 : rng_below(&t->rng,               200) },
                { -1,                          VW_KEY_TX_USECS,                                      rng_below(&t->rng,               2) ? 0 : rng_below(&t->rng, 200) },
                { -1,                       VW_KEY_TX_FRAMES,                                    rng_below(&t->rng,                                                   80)                                                    },
                { -1,                        VW_KEY_RX_USECS,                                     rng_below(&t->rng,  2) ? 0 : rng_below(&t->rng,200) },
                { -1, VW_KEY_RX_FRAMES,           rng_below(&t->rng,                          80)                                                                                                               },
                { -1,          VW_KEY_ADAPTIVE,           rng_below(&t->rng,  4)},
        };

        pthread_mutex_lock(&f.lock);
        EXPECT_EQ(vw_device_set(f.dev, s, ARRAY_SIZE(s), &(const char *){ NULL }), 0);
        pthread_mutex_unlock(&f.lock);
}

static void reap(struct traffic *t)
{
        unsigned n;

        do {
                unsigned tx = front_reap(&f, 1, NULL, 64), rx = front_reap(&f, 0, NULL, 64);

                t->done += tx;
                t->got += rx;
                n = tx + rx;
        } while (n);
}

/* What the worker has run so far, in ns, and 0 while it runs or waits for a CPU. */
static uint64_t run_time_of_sleeper(void)
{
        DIR *tasks = opendir("/proc/self/task");
        uint64_t ns = 0;
        char path[300], state = '?';

        for (struct dirent *e; tasks && (e = readdir(tasks));) {
                FILE *stat, *schedstat;

                snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
                stat = fopen(path, "r");
                snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
                schedstat = fopen(path, "r");
                if (stat && schedstat && fscanf(stat, "%*d (vw-worker-0) %c", &state) == 1 && state == 'S' &&
                    fscanf(schedstat, "%" SCNu64, &ns) != 1)
                        ns = 0;
                if (stat)
                        fclose(stat);
                if (schedstat)
                        fclose(schedstat);
        }
        if (tasks)
                closedir(tasks);
        return ns;
}

static bool worker_sleeps_on(void)
{
        uint64_t before = run_time_of_sleeper();

        for (unsigned i = 0; i < IDLE_LOOKS && before; i++) {
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
                if (run_time_of_sleeper() != before)
                        return false;
        }
        return before;
}

/* True: a call came in time. */
static bool wait_for_call(struct pollfd p[2])
{
        for (unsigned ms = 0; ms < PATIENCE; ms += IDLE) {
                if (poll(p, 2, IDLE) > 0)
                        return true;
                if (worker_sleeps_on())
                        return poll(p, 2, 0) > 0; /* one that came between the two looks */
        }
        return false;
}

/* Asks for calls and, if there is still nothing, sleeps.  False: nothing came. */
static bool sleep_until_called(struct traffic *t)
{
        struct pollfd p[2] = {
                {.fd = f.q[0].call,  .events = POLLIN},
                { .fd = f.q[1].call, .events = POLLIN}
        };
        bool rx = vq_driver_call_enable(&f.q[0].vq), tx = vq_driver_call_enable_delayed(&f.q[1].vq);
        bool woken = rx || tx || (t->slept++, wait_for_call(p));

        front_calls(&f, 0);
        front_calls(&f, 1);
        vq_driver_call_disable(&f.q[0].vq);
        vq_driver_call_disable(&f.q[1].vq);
        return woken;
}

static void run(uint64_t features, unsigned size, uint64_t n)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        uint8_t frame[FRAME] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };
        struct traffic t = { .rng = size + features };
        uint64_t next_change = 0;
        struct vw_queue_stats s;
        const char *why = NULL;
        struct vw_port *port;

        EXPECT_EQ(vw_port_open("loop", &(struct vw_port_config){ .pairs = 1 }, &port, &why), 0);
        config.port = port;
        config.nice = 0;
        front_open(&f, &config);
        front_connect(&f, features, size);
        while (t.got < n) {
                unsigned burst = 1 + rng_below(&t.rng, 1 + rng_below(&t.rng, 64));

                while (t.sent < n && burst-- && front_send(&f, 0, frame, sizeof(frame), NULL))
                        t.sent++;
                front_kick(&f, 1);
                reap(&t);
                t.posted += front_post(&f, 0, features & F(mrg_rxbuf) ? size : 1 + rng_below(&t.rng, 64),
                                       FRONT_SLOT);
                front_kick(&f, 0);
                if (front_now() > next_change) {
                        next_change = front_now() + CHANGE_GAP;
                        change_something(&t);
                }
                if (t.got < t.sent && t.posted > t.got && !sleep_until_called(&t)) {
                        char text[1024];

                        for (unsigned i = 0; i < 2; i++) {
                                vw_device_why(f.dev, i, text, sizeof(text));
                                print_error("%s\n", text);
                        }
                        print_error("sent %llu done %llu got %llu posted %llu\n", (unsigned long long)t.sent,
                                    (unsigned long long)t.done, (unsigned long long)t.got,
                                    (unsigned long long)t.posted);
                        EXPECT(false);
                }
        }
        for (unsigned tries = 0; t.done < n && tries < 100; tries++, reap(&t))
                EXPECT(sleep_until_called(&t) || t.done == n);
        EXPECT_EQ(t.done, n);
        EXPECT(t.slept > n / 1000);
        s = front_stats(&f, 0);
        EXPECT_EQ(s.counters[VW_C_packets], n);
        EXPECT_EQ(front_drops(&s), 0);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], n);
        front_close(&f);
        vw_port_close(port);
}

TEST(device_wakeups, none_is_lost_with_event_indices)
{
        run(F(event_idx) | F(mrg_rxbuf), 256, test_scale(200000, 100000000));
}

TEST(device_wakeups, none_is_lost_in_a_small_ring)
{
        run(F(event_idx), 4, test_scale(20000, 1000000));
}

TEST(device_wakeups, none_is_lost_with_flags)
{
        run(F(mrg_rxbuf), 256, test_scale(100000, 10000000));
}
