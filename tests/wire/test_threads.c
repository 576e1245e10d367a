/* Driver and device in two threads that really sleep on eventfds: no wake-up is lost, no packet is seen half, and with
 * ThreadSanitizer every word that one writes and the other reads is ordered by pair A or B.
 *
 * What each thread does next (how many, whether to sleep early, which request for an interrupt) comes from a generator.
 * A sleeper that is not woken within LOST_MS while there is work for it fails the test. */
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ring/event.h"
#include "rng.h"
#include "scale.h"
#include "test.h"
#include "wire.h"

#define LOST_MS 20000 /* far more than any schedule of a busy machine */

struct link {
        struct wire w;
        int kick, call; /* eventfds */
        uint64_t packets;
        unsigned buffers; /* of a packet, at most: 1 or more with merged buffers */
        uint64_t rng_driver, rng_device;
        /* the device thread's */
        uint64_t served;
        /* the driver thread's */
        uint64_t completed, sleeps, steps_back;
        bool lost_driver, lost_device; /* each thread its own */
        bool stop;                     /* driver to device, with a kick */
};

static void ring_bell(int fd)
{
        check(write(fd, &(uint64_t){ 1 }, 8) == 8);
}

/* False: nobody rang. */
static bool sleep_on(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };
        uint64_t count;

        return poll(&p, 1, LOST_MS) == 1 && read(fd, &count, 8) == 8;
}

/* ---- the device thread ---- */

/* Fills packets of a random number of buffers; what does not make a whole packet is rewound. */
static unsigned serve_rx(struct link *l, int n)
{
        struct wire *w = &l->w;
        unsigned done = 0;

        while (done < (unsigned)n) {
                unsigned k = 1 + rng_below(&l->rng_device, l->buffers);

                if (done + k > (unsigned)n)
                        break;
                for (unsigned i = 0; i < k; i++) {
                        uint64_t *data = w->chains[done + i].iov[0].iov_base;

                        data[0] = l->served;
                        data[1] = i ? 0 : k;
                        w->chains[done + i].written = 16;
                }
                vq_device_push(&w->dev, &w->chains[done], k);
                done += k;
                l->served++;
                if (rng_below(&l->rng_device, 2))
                        vq_device_publish(&w->dev);
        }
        vq_device_rewind(&w->dev, &w->chains[done], (unsigned)n - done);
        return done;
}

static void *device(void *arg)
{
        struct link *l = arg;
        struct wire *w = &l->w;

        while (!load_acquire(&l->stop)) {
                int n = wire_pop(w, 1 + rng_below(&l->rng_device, 16));
                unsigned done;

                if (n < 0)
                        break;
                done = serve_rx(l, n);
                vq_device_publish(&w->dev);
                if (done && vq_device_call_needed(&w->dev))
                        ring_bell(l->call);
                if (n > 0 && rng_below(&l->rng_device, 4))
                        continue;
                if (vq_device_kick_enable(&w->dev))
                        continue;
                if (!sleep_on(l->kick)) {
                        store_relaxed(&l->lost_device, true);
                        break;
                }
                vq_device_kick_disable(&w->dev);
        }
        return NULL;
}

/* ---- the driver thread ---- */

/* Posts up to n buffers; before it sleeps the driver posts all, or the device could wait for more than there are. */
static void post(struct link *l, unsigned n)
{
        struct wire *w = &l->w;

        while (n-- && vq_driver_free(&w->drv)) {
                uint16_t id = w->drv.split.free_head;
                uint64_t *data = (uint64_t *)(w->drv_va + w->buf + id * 64u);

                data[0] = data[1] = UINT64_MAX;
                EXPECT_EQ(vq_driver_add(&w->drv, &(struct vq_piece){ wire_gpa(w, id * 64u), 64 }, 0, 1, data),
                          0);
        }
        vq_driver_publish(&w->drv);
        if (vq_driver_kick_needed(&w->drv))
                ring_bell(l->kick);
}

/* T-VH-19: when the first buffer of a packet is there, all are. */
static bool receive(struct link *l)
{
        struct vq_used used[VQ_BURST];
        uint64_t *data;
        unsigned n;

        if (vq_driver_reap(&l->w.drv, used, 1) != 1)
                return false;
        data = used[0].cookie;
        EXPECT_EQ(data[0], l->completed);
        n = (unsigned)data[1];
        EXPECT(n >= 1 && n <= l->buffers);
        EXPECT_EQ(vq_driver_reap(&l->w.drv, used, n - 1), (int)n - 1);
        for (unsigned i = 0; i + 1 < n; i++) {
                data = used[i].cookie;
                EXPECT_EQ(data[0], l->completed);
        }
        l->completed++;
        return true;
}

/* Asks in one of the two ways; counts if the event index has moved back.  True: look again.  Packets of many buffers do not go
 * with the delayed way: the device may wait for more buffers than the quarter that is left. */
static bool ask(struct link *l)
{
        bool delayed = l->buffers == 1 && !rng_below(&l->rng_driver, 4);
        uint16_t before = wire_used_event(&l->w), after;
        bool again = delayed ? vq_driver_call_enable_delayed(&l->w.drv) : vq_driver_call_enable(&l->w.drv);

        after = wire_used_event(&l->w);
        l->steps_back += (uint16_t)(after - before) > UINT16_MAX / 2;
        return again;
}

static void drive(struct link *l)
{
        while (l->completed < l->packets) {
                post(l, rng_below(&l->rng_driver, l->w.cfg.size + 1));
                while (receive(l) && rng_below(&l->rng_driver, 16))
                        ;
                if (rng_below(&l->rng_driver, 2))
                        continue;
                post(l, l->w.cfg.size);
                if (ask(l))
                        continue;
                l->sleeps++;
                if (!sleep_on(l->call)) {
                        l->lost_driver = true;
                        break;
                }
                vq_driver_call_disable(&l->w.drv);
        }
}

static void run(unsigned size, uint64_t features, unsigned buffers, uint64_t packets)
{
        struct link l = {
                .w = wire_new_at(size, features, 65000),
                .kick = eventfd(0, EFD_CLOEXEC),
                .call = eventfd(0, EFD_CLOEXEC),
                .packets = packets,
                .buffers = buffers,
                .rng_driver = size + features + buffers,
                .rng_device = size + features + buffers + 12345,
        };
        pthread_t thread;

        EXPECT_EQ(pthread_create(&thread, NULL, device, &l), 0);
        drive(&l);
        store_release(&l.stop, true);
        ring_bell(l.kick);
        pthread_join(thread, NULL);
        if (l.lost_driver || l.lost_device)
                wire_dump(&l.w);
        EXPECT(!l.lost_driver && !l.lost_device);
        EXPECT(!l.w.dev.broken && !l.w.drv.broken);
        EXPECT(l.completed >= packets);
        EXPECT_EQ(l.steps_back, 0);
        EXPECT(l.sleeps > 0);
        close(l.kick);
        close(l.call);
        wire_free(&l.w);
}

/* T-RX-26, T-VH-13, T-VH-19, hostile P03 */
TEST(threads, no_wake_up_is_lost_and_no_packet_is_seen_half)
{
        static const uint64_t combinations[] = { 0, F(event_idx), F(indirect_desc),
                                                 F(event_idx) | F(indirect_desc) };
        static const unsigned sizes[] = { 2, 8, 256 };
        uint64_t packets = test_scale(20000, 1000000);

        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
                for (unsigned k = 0; k < ARRAY_SIZE(combinations); k++)
                        for (unsigned merged = 0; merged < 2; merged++)
                                run(sizes[i], combinations[k], merged ? MIN(sizes[i], 5u) : 1, packets);
}
