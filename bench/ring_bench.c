/* What the rings alone cost, without ports, payload or notifications that sleep.
 *
 *      ring_bench [packets]       ns a packet: one thread that plays both halves, and two threads that poll
 *      ring_bench --callgrind     the counted part for bench/ring_instructions.sh
 *
 * tx: the driver offers readable chains of one piece; rx: it offers writable ones.  Each line is key=value. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "wire.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) ((void)(name))
#endif

#define FRAME 64 /* bytes of a piece */

struct bench {
        struct wire w;
        bool rx;
        unsigned burst;
        uint64_t packets; /* to be done */
        /* the driver's */
        uint64_t offered, reaped, kicks;
        /* the device's */
        uint64_t served, calls;
        int cpu; /* of the device thread */
};

/* ---- one step of each half ---- */

static unsigned drive(struct bench *b)
{
        struct wire *w = &b->w;
        struct vq_used used[VQ_BURST];
        unsigned n, done;
        int got = vq_driver_reap(&w->drv, used, VQ_BURST);

        check(got >= 0);
        b->reaped += (unsigned)got;
        n = MIN(b->burst, vq_driver_free(&w->drv));
        if (b->offered + n > b->packets)
                n = (unsigned)(b->packets - b->offered);
        for (done = 0; done < n; done++) {
                struct vq_piece piece = { wire_gpa(w, done * FRAME), FRAME };

                if (vq_driver_add(&w->drv, &piece, !b->rx, b->rx, b))
                        break;
        }
        b->offered += done;
        vq_driver_publish(&w->drv);
        b->kicks += vq_driver_kick_needed(&w->drv);
        return done + (unsigned)got;
}

static unsigned serve(struct bench *b)
{
        struct wire *w = &b->w;
        int n = wire_pop(w, b->burst);

        check(n >= 0);
        if (!n)
                return 0;
        for (int i = 0; i < n; i++) {
                check(w->chains[i].iov[0].iov_len == FRAME);
                w->chains[i].written = w->chains[i].len_in;
        }
        vq_device_push(&w->dev, w->chains, (unsigned)n);
        vq_device_publish(&w->dev);
        b->calls += vq_device_call_needed(&w->dev);
        b->served += (unsigned)n;
        return (unsigned)n;
}

static void start(struct bench *b, bool rx, unsigned size, unsigned burst, uint64_t packets)
{
        *b = (struct bench){
                .w = wire_new(size, F(event_idx)), .rx = rx, .burst = burst, .packets = packets
        };
        vq_driver_call_disable(&b->w.drv);
        vq_device_kick_disable(&b->w.dev);
}

/* Fills an rx ring as a driver would, and keeps a tx ring half full, so that all of a large ring is in use. */
static void prime(struct bench *b)
{
        unsigned n = b->rx ? b->w.cfg.size : b->w.cfg.size / 2;
        unsigned burst = b->burst;

        b->burst = MIN(n, burst);
        while (n >= b->burst && drive(b))
                n -= b->burst;
        b->burst = burst;
}

static void report(const struct bench *b, const char *threads, uint64_t ns)
{
        printf("bench=ring dir=%s size=%u burst=%u threads=%s packets=%ju ns_per_packet=%.1f mpps=%.2f kicks=%ju "
               "calls=%ju\n",
               b->rx ? "rx" : "tx", b->w.cfg.size, b->burst, threads, (uintmax_t)b->packets,
               (double)ns / (double)b->packets, (double)b->packets * 1e3 / (double)ns, (uintmax_t)b->kicks,
               (uintmax_t)b->calls);
        fflush(stdout);
}

/* ---- one thread ---- */

static void one_thread(bool rx, unsigned size, unsigned burst, uint64_t packets)
{
        struct bench b;
        uint64_t t;

        start(&b, rx, size, burst, packets);
        prime(&b);
        t = clock_now();
        while (b.reaped < b.packets) {
                serve(&b);
                drive(&b);
        }
        report(&b, "1", clock_now() - t);
        wire_free(&b.w);
}

/* ---- two threads ---- */

static void pin(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set); /* where it is not allowed the numbers are only noisier */
}

static void *device(void *arg)
{
        struct bench *b = arg;

        pin(b->cpu);
        while (b->served < b->packets)
                if (!serve(b))
                        cpu_relax();
        return NULL;
}

static void two_threads(bool rx, unsigned size, unsigned burst, uint64_t packets)
{
        struct bench b;
        pthread_t thread;
        uint64_t t;

        start(&b, rx, size, burst, packets);
        b.cpu = 1;
        pin(0);
        if (rx)
                prime(&b);
        t = clock_now();
        check(!pthread_create(&thread, NULL, device, &b));
        while (b.reaped < b.packets)
                if (!drive(&b))
                        cpu_relax();
        pthread_join(thread, NULL);
        report(&b, "2", clock_now() - t);
        wire_free(&b.w);
}

/* ---- instructions ---- */

/* The same work twice: counted is first what the driver does, then what the device does. */
static void count(bool rx, unsigned size, unsigned burst, uint64_t packets)
{
        for (unsigned half = 0; half < 2; half++) {
                struct bench b;
                char label[64];

                start(&b, rx, size, burst, packets + 2 * size);
                prime(&b);
                CALLGRIND_ZERO_STATS;
                for (uint64_t first = b.served; b.served - first < packets;) {
                        if (half)
                                CALLGRIND_TOGGLE_COLLECT;
                        serve(&b);
                        CALLGRIND_TOGGLE_COLLECT;
                        drive(&b);
                        if (!half)
                                CALLGRIND_TOGGLE_COLLECT;
                }
                snprintf(label, sizeof(label), "half=%s dir=%s size=%u burst=%u packets=%ju",
                         half ? "device" : "driver", rx ? "rx" : "tx", size, burst, (uintmax_t)packets);
                CALLGRIND_DUMP_STATS_AT(label);
                wire_free(&b.w);
        }
}

int main(int argc, char **argv)
{
        static const unsigned sizes[] = { 256, 32768 }, bursts[] = { 1, 32, 64 };
        bool counting = argc > 1 && !strcmp(argv[1], "--callgrind");
        bool alone = argc > 2 && !strcmp(argv[2], "one"); /* thread */
        uint64_t packets = argc > 1 && !counting ? strtoull(argv[1], NULL, 10) : 5000000;

        for (unsigned rx = 0; rx < 2; rx++) {
                for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
                        for (unsigned i = 0; i < ARRAY_SIZE(bursts); i++) {
                                if (counting) {
                                        count(rx, sizes[s], bursts[i], 64 * 1024);
                                        continue;
                                }
                                one_thread(rx, sizes[s], bursts[i], packets);
                                if (!alone)
                                        two_threads(rx, sizes[s], bursts[i], packets);
                        }
                }
        }
        return 0;
}
