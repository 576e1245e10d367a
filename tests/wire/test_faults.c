/* Device and driver, joined, while calls of the system fail at one end: it says so, leaves nothing behind, and works the next time.  The
 * other end's threads are not hit.  Storms of faults that mean "again" cost nothing at all. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "echo.h"
#include "faults.h"
#include "scale.h"
#include "test.h"
#include "vhost/frontend.h"
#include "vwire/device.h"
#include "vwire/driver.h"

#define PATIENCE (60 * NSEC_PER_SEC)
#define FRAMES   8 /* that must come back before a link counts as one that works */

/* What a call can fail with: all of them in full runs, every day one for each call in turn. */
static const int errors[] = { ENOMEM, EMFILE, EPERM, EINTR, EAGAIN, ENOBUFS, EIO };

/* ---- the device's end: a control thread ---- */

struct host {
        bool subject;
        struct vw_device_config config;
        int fd, stop;
        int result; /* of what came last: making the device, serving */
        struct vw_device *dev;
        pthread_t thread;
};

static int become_subject(void *ctx)
{
        faults_subject(((struct host *)ctx)->subject);
        return 0;
}

static int serve(struct host *h)
{
        const char *why = "";
        int r = vw_device_new(&h->config, &h->dev, &why);

        return r < 0 ? r : vw_device_serve(h->dev, h->fd);
}

static void *run_host(void *arg)
{
        struct host *h = arg;
        struct pollfd p[2] = {
                {.fd = -1,       .events = POLLIN},
                { .fd = h->stop, .events = POLLIN}
        };

        faults_subject(h->subject);
        h->result = serve(h);
        faults_subject(false);
        if (h->result < 0)
                close(h->fd);
        if (h->dev)
                p[0].fd = vw_device_fd(h->dev);
        while (!(poll(p, 2, -1) > 0 && p[1].revents)) {
                faults_subject(h->subject);
                if (h->dev)
                        vw_device_dispatch(h->dev);
                faults_subject(false);
        }
        vw_device_free(h->dev);
        return NULL;
}

static void host_start(struct host *h, bool subject, int fd)
{
        struct vw_device_config c = VW_DEVICE_CONFIG_INIT;
        struct vw_port_config pc = { .pairs = 1 };
        const char *why;

        EXPECT_EQ(vw_port_open("loop", &pc, &c.port, &why), 0);
        c.nice = 0;
        c.worker_start = become_subject;
        c.worker_ctx = h;
        *h = (struct host){ .subject = subject, .config = c, .fd = fd, .stop = eventfd(0, EFD_CLOEXEC) };
        EXPECT_EQ(pthread_create(&h->thread, NULL, run_host, h), 0);
}

static void host_stop(struct host *h)
{
        uint64_t one = 1;

        EXPECT_EQ(write(h->stop, &one, sizeof(one)), sizeof(one));
        pthread_join(h->thread, NULL);
        close(h->stop);
        vw_port_close(h->config.port);
}

/* ---- the driver's end: the test's thread ---- */

struct guest {
        bool subject;
        struct echo echo;
};

static int guest_start(struct guest *g, bool subject, int fd)
{
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;
        const char *why = "";
        int r;

        *g = (struct guest){ .subject = subject };
        c.ops = &echo_ops;
        c.ctx = &g->echo;
        c.tx_bufs = 256;
        c.queue_size = 256;
        faults_subject(subject);
        r = vw_driver_new(&c, &g->echo.drv, &why);
        if (r == 0)
                r = vw_driver_connect(g->echo.drv, fd, &why);
        faults_subject(false);
        if (r < 0) {
                EXPECT(*why);
                close(fd);
        }
        return r;
}

/* Frames go out, come back in order, and are done; or the device leaves before. */
static bool exchange(struct guest *g, uint64_t count)
{
        struct echo *e = &g->echo;
        uint64_t until = clock_now() + PATIENCE;
        bool there = true;

        faults_subject(g->subject);
        while (there && (e->received < count || e->done < count) && clock_now() < until) {
                while (e->sent < count && echo_send(e, 64))
                        continue;
                vw_driver_xmit(e->drv, 0, NULL, 0, false);
                if (vw_driver_poll(e->drv, 0, 64) == 0)
                        vw_driver_wait(e->drv, 0, clock_now() + NSEC_PER_MSEC);
                there = vw_driver_dispatch(e->drv) != -ENOTCONN;
        }
        faults_subject(false);
        if (e->bad)
                fail_msg("%s failed: %d frames out of order", faults_name(), (int)e->bad);
        return e->received == count && e->done == count;
}

/* ---- one fault ---- */

static void make_pair(int pair[2])
{
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

/* A link from beginning to end, whichever end is hit.  True if frames came through. */
static bool try_link(bool hit_device, bool hit_driver)
{
        struct host h;
        struct guest g;
        bool works;
        int pair[2];

        make_pair(pair);
        host_start(&h, hit_device, pair[1]);
        works = guest_start(&g, hit_driver, pair[0]) == 0;
        if (works)
                works = exchange(&g, FRAMES);
        vw_driver_free(g.echo.drv);
        host_stop(&h);
        return works;
}

static void expect_same(struct faults_holdings before, struct faults_holdings after, const char *call)
{
        if (before.fds == after.fds && before.memfds_mapped == after.memfds_mapped &&
            before.threads == after.threads)
                return;
        fail_msg("after %s failed: fds %u -> %u, mappings %u -> %u, threads %u -> %u", call, before.fds,
                 after.fds, before.memfds_mapped, after.memfds_mapped, before.threads, after.threads);
}

static void sweep(bool device, bool driver)
{
        struct faults_holdings before;
        unsigned survived = 0, n_errors = (unsigned)test_scale(1, ARRAY_SIZE(errors));

        EXPECT(try_link(false, false)); /* what is made once stays */
        before = faults_hold();
        for (unsigned e = 0; e < n_errors; e++) {
                /* rounds on end without a fault: the last calls have been reached with each error */
                unsigned idle = 0;

                for (long n = 0; idle < ARRAY_SIZE(errors); n++) {
                        bool works, fired;

                        faults_once(n, errors[((unsigned)n + e) % ARRAY_SIZE(errors)]);
                        works = try_link(device, driver);
                        fired = faults_off();
                        idle = fired ? 0 : idle + 1;
                        if (!works && !fired)
                                fail_msg("no link, and no fault either");
                        survived += works;
                        expect_same(before, faults_hold(), faults_name());
                        if (!try_link(false, false))
                                fail_msg("no link after %s had failed", faults_name());
                }
        }
        print_message("# survived %u faults\n", survived);
}

/* hostile J09 */
TEST(faults, of_one_call_leave_nothing_of_a_device_behind)
{
        sweep(true, false);
}

/* hostile J09 */
TEST(faults, of_one_call_leave_nothing_of_a_driver_behind)
{
        sweep(false, true);
}

/* The driver looked, found nothing, and did not run until its time was over; meanwhile the reply has come. */
TEST(faults, a_reply_that_is_there_is_taken_however_late_the_driver_is)
{
        const struct vu_msg reply = { .request = VHOST_USER_GET_STATUS,
                                      .flags = VU_FLAG_VERSION | VU_FLAG_REPLY,
                                      .size = 8,
                                      .u64 = 7 };
        struct vu_frontend fe;
        uint8_t status = 0;
        int pair[2], r;

        make_pair(pair);
        EXPECT_EQ(vu_write(pair[1], &reply, NULL, 0, 0), 0);
        vu_frontend_init(&fe, pair[0], 0);
        fe.protocol_features = BIT(VHOST_USER_PROTOCOL_F_STATUS);
        faults_subject(true);
        faults_once(1, EAGAIN); /* the request is sent; the first look for its reply is in vain */
        r = vu_frontend_get_status(&fe, &status);
        EXPECT(faults_off());
        EXPECT_STR(faults_name(), "recvmsg");
        EXPECT_EQ(r, 0);
        EXPECT_EQ(status, 7);
        EXPECT_EQ(vu_frontend_get_status(&fe, &status), -ETIMEDOUT);
        faults_subject(false);
        vu_frontend_done(&fe);
        close(pair[1]);
}

/* ---- storms ---- */

struct rain {
        pthread_t thread, on[2];
        bool stop;
        unsigned fallen;
};

static void take_signal(int number)
{
        (void)number;
}

/* 10,000 signals a second on each of two threads. */
static void *run_rain(void *arg)
{
        struct rain *r = arg;

        while (!load_relaxed(&r->stop)) {
                for (size_t i = 0; i < ARRAY_SIZE(r->on); i++)
                        pthread_kill(r->on[i], SIGUSR1);
                r->fallen++;
                nanosleep(&(struct timespec){ .tv_nsec = 30000 }, NULL); /* and 50 us of slack */
        }
        return NULL;
}

/* hostile I10 */
TEST(faults, interruptions_by_the_thousand_have_no_effect)
{
        const struct sigaction act = { .sa_handler = take_signal }; /* no SA_RESTART */
        struct faults_holdings before = faults_hold();
        uint64_t count = test_scale(100000, 5000000), begin;
        struct sigaction was;
        struct host h;
        struct guest g;
        int pair[2];

        sigaction(SIGUSR1, &act, &was);
        make_pair(pair);
        faults_storm(3, EINTR); /* for threads that block signals */
        host_start(&h, true, pair[1]);
        struct rain rain = {
                .on = {pthread_self(), h.thread}
        };
        EXPECT_EQ(pthread_create(&rain.thread, NULL, run_rain, &rain), 0);
        begin = clock_now();
        EXPECT_EQ(guest_start(&g, true, pair[0]), 0);
        EXPECT(exchange(&g, count));
        begin = clock_now() - begin;
        store_relaxed(&rain.stop, true);
        pthread_join(rain.thread, NULL);
        vw_driver_free(g.echo.drv);
        host_stop(&h);
        EXPECT(faults_off());
        sigaction(SIGUSR1, &was, NULL);
        print_message("# %u interruptions, and %.0f signals a second\n", faults_count(),
                      2e9 * rain.fallen / (double)begin);
        expect_same(before, faults_hold(), "interrupted calls");
}
