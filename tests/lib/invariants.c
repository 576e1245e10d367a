#include "invariants.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "device/queue.h"
#include "mock_vhost.h"
#include "test.h"

#define PACE_NS     200000 /* between two frames of the neighbour */
#define FRAME       60
#define WINDOW_NS   20000000 /* in which CPU time is measured */
#define IDLE        50       /* permille of a CPU */
#define ALIVE_NS    (1 * NSEC_PER_SEC)
#define GUARD_BYTES ((size_t)64 << 10)

static int first_cpu(void)
{
        cpu_set_t set;
        int cpu = 0;

        check(sched_getaffinity(0, sizeof(set), &set) == 0);
        while (!CPU_ISSET((size_t)cpu, &set))
                cpu++;
        return cpu;
}

/* ---- the neighbour: each frame comes back, in order ---- */

static void collect(struct neighbour *n)
{
        struct vq_used used[64];
        unsigned k = front_reap(&n->f, 0, used, ARRAY_SIZE(used));

        front_reap(&n->f, 1, NULL, 64);
        for (unsigned i = 0; i < k; i++) {
                const uint8_t *at =
                        front_slot(&n->f, 0, (unsigned)((uintptr_t)used[i].cookie - 1)) + FRONT_HDR;

                if (used[i].len != FRONT_HDR + FRAME ||
                    memcmp(at + 14, &n->received, sizeof(n->received)) != 0)
                        n->wrong++;
                n->received++;
        }
        if (front_post(&n->f, 0, k, 128))
                front_kick(&n->f, 0);
}

static void *run_neighbour(void *arg)
{
        struct neighbour *n = arg;
        uint64_t until;

        front_post(&n->f, 0, 64, 128);
        front_kick(&n->f, 0);
        while (!load_relaxed(&n->stop)) {
                uint8_t frame[FRAME] = { 2, [6] = 2, [12] = 0x88, 0xb5 };

                memcpy(frame + 14, &n->sent, sizeof(n->sent));
                if (n->sent - n->received < 64 && front_send(&n->f, 0, frame, sizeof(frame), NULL)) {
                        n->sent++;
                        front_kick(&n->f, 1);
                }
                nanosleep(&(struct timespec){ .tv_nsec = PACE_NS }, NULL);
                collect(n);
        }
        until = clock_now() + 5 * NSEC_PER_SEC;
        while (n->received < n->sent && clock_now() < until)
                collect(n);
        return NULL;
}

static void neighbour_begin(struct neighbour *n, int cpu)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        const char *why = NULL;

        *n = (struct neighbour){ 0 };
        check(vw_port_open("loop", &(struct vw_port_config){ .pairs = 1 }, &n->port, &why) == 0);
        config.port = n->port;
        config.nice = 0;
        config.cpus = &cpu;
        config.n_cpus = 1;
        front_open(&n->f, &config);
        front_connect(&n->f, F(event_idx), 128);
        check(pthread_create(&n->thread, NULL, run_neighbour, n) == 0);
}

static void neighbour_end(struct neighbour *n)
{
        struct vw_queue_stats rx, tx;

        store_relaxed(&n->stop, true);
        pthread_join(n->thread, NULL);
        rx = front_stats(&n->f, 0);
        tx = front_stats(&n->f, 1);
        EXPECT(n->sent > 0);
        EXPECT_EQ(n->received, n->sent);
        EXPECT_EQ(n->wrong, 0);
        EXPECT_EQ(tx.counters[VW_C_packets], n->sent);
        EXPECT_EQ(rx.counters[VW_C_packets], n->sent);
        EXPECT_EQ(front_drops(&rx) + front_drops(&tx), 0);
        front_close(&n->f);
        vw_port_close(n->port);
}

/* ---- guard pages around the device's mapping of the memory ---- */

static void guard(struct siege *s, uintptr_t at)
{
        void *page = mmap((void *)at, GUARD_BYTES, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

        if (page == MAP_FAILED)
                return; /* something lies there already; mostly it is our own guard */
        check(s->n_guards < SIEGE_GUARDS);
        s->guards[s->n_guards++] = page;
}

static void guard_mappings(struct siege *s)
{
        uintptr_t ranges[SIEGE_GUARDS / 2][2], begin, end;
        FILE *f = fopen("/proc/self/maps", "re");
        unsigned n = 0;
        char line[512];

        check(f);
        while (fgets(line, sizeof(line), f) && n < ARRAY_SIZE(ranges))
                if (strstr(line, "/memfd:front") && sscanf(line, "%lx-%lx", &begin, &end) == 2) {
                        ranges[n][0] = begin;
                        ranges[n++][1] = end;
                }
        fclose(f);
        for (unsigned i = 0; i < n; i++) {
                guard(s, ranges[i][0] - GUARD_BYTES);
                guard(s, ranges[i][1]);
        }
}

static void drop_guards(struct siege *s)
{
        while (s->n_guards > 0)
                munmap(s->guards[--s->n_guards], GUARD_BYTES);
}

/* ---- CPU time ---- */

uint64_t siege_cpu(const struct siege *s)
{
        uint64_t sum = 0;

        for (unsigned i = 0; i < s->f.dev->n_workers; i++) {
                struct timespec t;
                clockid_t clock;

                check(pthread_getcpuclockid(s->f.dev->workers[i].thread, &clock) == 0);
                check(clock_gettime(clock, &t) == 0);
                sum += (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
        }
        return sum;
}

bool siege_idle(const struct siege *s, unsigned permille)
{
        uint64_t until = clock_now() + NSEC_PER_SEC;

        do {
                uint64_t cpu = siege_cpu(s), begin = clock_now();

                nanosleep(&(struct timespec){ .tv_nsec = WINDOW_NS }, NULL);
                if ((siege_cpu(s) - cpu) * 1000 < (clock_now() - begin) * permille)
                        return true;
        } while (clock_now() < until);
        return false;
}

/* ---- the siege ---- */

void siege_begin(struct siege *s, const struct vw_device_config *config)
{
        struct vw_device_config c = VW_DEVICE_CONFIG_INIT;
        int cpu = first_cpu();

        *s = (struct siege){ 0 };
        if (config)
                c = *config;
        sport_init(&s->port);
        c.port = s->port.port;
        c.nice = 0;
        c.cpus = &cpu;
        c.n_cpus = 1;
        s->pairs = c.pairs;
        front_open(&s->f, &c);
        neighbour_begin(&s->neighbour, cpu);
        s->fds = mock_count_fds();
        s->mappings = mock_count_mappings();
}

void siege_watch(struct siege *s)
{
        s->connected = true;
        guard_mappings(s);
        front_shadow(&s->f);
}

void siege_connect(struct siege *s, uint64_t features, unsigned size)
{
        front_connect(&s->f, features, size);
        siege_watch(s);
}

void siege_disconnect(struct siege *s)
{
        if (!s->connected)
                return;
        EXPECT(front_intact(&s->f));
        s->connected = false;
        front_disconnect(&s->f);
        drop_guards(s);
        EXPECT_EQ(mock_count_fds(), s->fds);
        EXPECT_EQ(mock_count_mappings(), s->mappings);
}

/* A new front end, and a frame each way. */
static void expect_alive(struct siege *s)
{
        const uint8_t frame[FRAME] = { 2, [6] = 2, [12] = 0x88, 0xb5 };
        uint64_t begin = clock_now();
        uint8_t got[2 * FRAME];

        while (sport_get(&s->port, 0, got, sizeof(got), NULL) >= 0)
                continue; /* of the siege */
        front_connect(&s->f, 0, 64);
        EXPECT(front_send(&s->f, 0, frame, sizeof(frame), NULL));
        front_kick(&s->f, 1);
        EXPECT_SOON(sport_get(&s->port, 0, got, sizeof(got), NULL) == FRAME);
        front_post(&s->f, 0, 64, 1600);
        front_kick(&s->f, 0);
        EXPECT(sport_put(&s->port, 0, frame, sizeof(frame), NULL));
        EXPECT_SOON(front_reap(&s->f, 0, NULL, 64) > 0);
        EXPECT(clock_now() - begin < ALIVE_NS);
        front_disconnect(&s->f);
}

void siege_end(struct siege *s, enum siege_session session)
{
        uint8_t status;

        EXPECT(siege_idle(s, IDLE));
        if (s->connected)
                EXPECT_EQ(vu_frontend_get_status(&s->f.fe, &status) == 0, session == SIEGE_LIVES);
        siege_disconnect(s);
        expect_alive(s);
        EXPECT_EQ(mock_count_fds(), s->fds);
        EXPECT_EQ(mock_count_mappings(), s->mappings);
        neighbour_end(&s->neighbour);
        front_close(&s->f);
        sport_free(&s->port);
}
