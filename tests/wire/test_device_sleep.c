/* When the worker arms its timer, seen from the system calls: the linker puts this file in their way. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

#include "base/atomics.h"
#include "front.h"
#include "scale.h"
#include "sport.h"
#include "test.h"

static struct front f;
static struct sport port;
static uint64_t arms, sleeps, arms_in_runs;
static bool armed; /* and not slept yet */

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old);
int __real_epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
                        const sigset_t *mask);
int __wrap_epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
                        const sigset_t *mask);

static bool is_worker(void)
{
        char name[16] = "";

        prctl(PR_GET_NAME, name);
        return !strcmp(name, "vw-worker-0");
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old)
{
        if (is_worker()) {
                counter_add(&arms, 1);
                armed = true;
        }
        return __real_timerfd_settime(fd, flags, spec, old);
}

int __wrap_epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
                        const sigset_t *mask)
{
        if (is_worker()) {
                counter_add(&sleeps, !timeout);
                counter_add(&arms_in_runs, timeout && armed);
                armed = false;
        }
        return __real_epoll_pwait2(epfd, events, max, timeout, mask);
}

static void drain_port(void)
{
        uint8_t frame[100];

        while (sport_get(&port, 0, frame, sizeof(frame), NULL) >= 0)
                continue;
}

/* Sends n packets; the ring never runs dry for want of trying. */
static void send_all(uint64_t n)
{
        static const uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };
        uint64_t sent = 0, back = 0, until = front_now() + UINT64_C(60000000000);

        while (back < n) {
                for (unsigned k = 0; k < 32 && sent < n && front_send(&f, 0, frame, sizeof(frame), NULL); k++)
                        sent++;
                front_kick(&f, 1);
                drain_port();
                back += front_reap(&f, 1, NULL, 256);
                EXPECT(front_now() < until);
        }
}

/* T-COAL-10 */
TEST(device_sleep, the_timer_is_armed_at_the_end_of_a_run_and_once_at_most)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        sport_init(&port);
        config.port = port.port;
        config.nice = 0;
        config.tx_usecs = 1000;
        config.tx_frames = 1000;
        front_open(&f, &config);
        front_connect(&f, F(event_idx), 256);
        for (unsigned i = 0; i < 50; i++) {
                send_all(1);
                EXPECT_SOON(front_stats(&f, 1).counters[VW_C_coalesce_timer] == i + 1);
        }
        EXPECT(load_relaxed(&arms) > 0 && load_relaxed(&arms) <= load_relaxed(&sleeps));
        send_all(test_scale(200000, 1000000));
        EXPECT_EQ(load_relaxed(&arms_in_runs), 0);
        EXPECT(load_relaxed(&arms) <= load_relaxed(&sleeps));
        EXPECT(front_stats(&f, 1).counters[VW_C_calls_coalesced] > 0);
        front_close(&f);
        sport_free(&port);
}
