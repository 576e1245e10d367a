/* Many devices and much of everything: a neighbour that wastes a CPU gets no more than its part of it, idle devices cost nothing, lies
 * by the thousand leave a few lines in the log. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomics.h"
#include "device/queue.h"
#include "invariants.h"
#include "scale.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)

static uint64_t cpu_of(const struct front *f)
{
        uint64_t sum = 0;

        for (unsigned i = 0; i < f->dev->n_workers; i++) {
                struct timespec t;
                clockid_t clock;

                EXPECT_EQ(pthread_getcpuclockid(f->dev->workers[i].thread, &clock), 0);
                EXPECT_EQ(clock_gettime(clock, &t), 0);
                sum += (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
        }
        return sum;
}

/* ---- one CPU for two ---- */

/* Every descriptor of the tx ring is a chain of its own, of `len` bytes. */
static void fill(struct front *f, uint32_t len)
{
        struct vring_split *ring = front_raw(f, 1);

        memset(front_slot(f, 1, 0), 0, FRONT_SLOT);
        front_wrote(f, front_slot(f, 1, 0), FRONT_SLOT);
        for (uint16_t i = 0; i <= ring->mask; i++) {
                split_desc_store(&ring->desc[i], front_gpa(f, 1, 0), len, 0, 0);
                ring->avail->ring[i] = i;
        }
}

/* Offers all of them again, as soon as they have been used. */
static void offer_all(struct front *f)
{
        struct vring_split *ring = front_raw(f, 1);
        uint16_t used = load_acquire(&ring->used->idx);

        store_release(&ring->avail->idx, (uint16_t)(used + ring->mask + 1));
        fence_full();
        if (!(load_relaxed(&ring->used->flags) & VRING_USED_F_NO_NOTIFY))
                front_kick_raw(f, 1);
}

static int cpu_of_siege(const struct siege *s)
{
        return s->f.dev->cpus[0];
}

/* hostile N01 */
TEST(hostile_many, a_flood_of_tiny_descriptors_takes_no_more_than_its_share_of_a_cpu)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        uint64_t until, hostile, honest;
        static struct front rival;
        struct vw_port *port;
        const char *why;
        struct siege s;
        int cpu;

        siege_begin(&s, NULL);
        siege_connect(&s, 0, 1024);
        cpu = cpu_of_siege(&s);
        EXPECT_EQ(vw_port_open("null", &(struct vw_port_config){ .pairs = 1 }, &port, &why), 0);
        config.port = port;
        config.nice = 0;
        config.cpus = &cpu;
        config.n_cpus = 1;
        front_open(&rival, &config);
        front_connect(&rival, 0, 1024);
        fill(&s.f, 1);
        fill(&rival, FRONT_HDR + 60);
        hostile = siege_cpu(&s);
        honest = cpu_of(&rival);
        until = front_now() + test_scale(1, 10) * SECOND / 2;
        while (front_now() < until) {
                offer_all(&s.f);
                offer_all(&rival);
        }
        hostile = siege_cpu(&s) - hostile;
        honest = cpu_of(&rival) - honest;
        if (honest * 10 < (honest + hostile) * 4)
                print_error("honest %llu us, hostile %llu us\n", (unsigned long long)honest / 1000,
                            (unsigned long long)hostile / 1000);
        EXPECT(honest * 10 >= (honest + hostile) * 4);
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_packets], 0);
        EXPECT(front_stats(&s.f, 1).drops[VW_DROP_SHORT] > 1000);
        EXPECT(front_stats(&rival, 1).counters[VW_C_packets] > 1000);
        front_close(&rival);
        vw_port_close(port);
        siege_end(&s, SIEGE_LIVES);
}

/* ---- idle ones ---- */

#define IDLE 64
#define BUSY 2

/* hostile N03 */
TEST(hostile_many, idle_devices_cost_nothing)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        struct rlimit files = { 8192, 8192 };
        static struct front f[IDLE + BUSY];
        struct vw_port *port[IDLE + BUSY];
        uint64_t cpu = 0, begun, spent;
        const char *why;

        setrlimit(RLIMIT_NOFILE, &files);
        for (unsigned i = 0; i < IDLE + BUSY; i++) {
                EXPECT_EQ(vw_port_open("null", &(struct vw_port_config){ .pairs = 1 }, &port[i], &why), 0);
                config.port = port[i];
                config.nice = 0;
                front_open(&f[i], &config);
                front_connect(&f[i], F(event_idx), 256);
        }
        for (unsigned i = 0; i < BUSY; i++)
                fill(&f[IDLE + i], FRONT_HDR + 60);
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL); /* each has started and gone to sleep */
        for (unsigned i = 0; i < IDLE; i++)
                cpu += cpu_of(&f[i]);
        begun = front_now();
        while (front_now() - begun < SECOND / 2)
                for (unsigned i = 0; i < BUSY; i++)
                        offer_all(&f[IDLE + i]);
        spent = front_now() - begun;
        for (unsigned i = 0; i < IDLE; i++)
                cpu -= cpu_of(&f[i]);
        EXPECT(-cpu * 100 < spent);
        for (unsigned i = 0; i < BUSY; i++)
                EXPECT(front_stats(&f[IDLE + i], 1).counters[VW_C_packets] > 1000);
        for (unsigned i = 0; i < IDLE + BUSY; i++) {
                front_close(&f[i]);
                vw_port_close(port[i]);
        }
}

/* ---- the log ---- */

struct diary {
        unsigned lines;
        uint64_t suppressed;
        const char *about;
};

static struct diary broken = { .about = "queue broken" }, refused = { .about = "message refused" },
                    gone = { .about = "front end has gone" };

static void note(struct diary *d, const char *text)
{
        const char *more = strstr(text, "suppressed=");

        if (strncmp(text, d->about, strlen(d->about)) != 0)
                return;
        counter_add(&d->lines, 1u);
        if (more)
                counter_add(&d->suppressed, strtoull(more + strlen("suppressed="), NULL, 10));
}

static void write_down(void *ctx, enum vw_log_level level, const char *component, const char *text)
{
        (void)ctx, (void)level, (void)component;
        note(&broken, text);
        note(&refused, text);
        note(&gone, text);
}

/* Ten a second, and each that was held back is in the count of a later one. */
static void expect_few(const struct diary *d, uint64_t happened, uint64_t ns)
{
        uint64_t seconds = ns / SECOND + 2;

        if (d->lines > 10 * seconds || d->lines + d->suppressed > happened)
                print_error("%s: %u lines, %llu suppressed\n", d->about, d->lines,
                            (unsigned long long)d->suppressed);
        EXPECT(d->lines > 0 && d->lines <= 10 * seconds);
        EXPECT(d->lines + d->suppressed <= happened);
}

/* hostile N05 */
TEST(hostile_many, lies_by_the_thousand_leave_a_few_lines_in_the_log)
{
        const unsigned n = (unsigned)test_scale(300, 20000);
        uint64_t begun = front_now(), ns;
        struct siege s;

        vw_set_log(VW_LOG_INFO, write_down, NULL);
        siege_begin(&s, NULL);
        siege_connect(&s, 0, 64);
        for (unsigned i = 0; i < n; i++) {
                front_raw_offer(&s.f, 1, 64);
                front_kick_raw(&s.f, 1);
                EXPECT_SOON(front_stats(&s.f, 1).broken);
                front_renew(&s.f, 1);
                EXPECT_EQ(vu_frontend_set_mtu(&s.f.fe, 1), -EIO);
        }
        ns = front_now() - begun;
        expect_few(&broken, n, ns);
        expect_few(&refused, n, ns);
        siege_disconnect(&s);
        begun = front_now();
        gone = (struct diary){ .about = gone.about };
        for (unsigned i = 0; i < n; i++) {
                siege_connect(&s, 0, 64);
                siege_disconnect(&s);
        }
        expect_few(&gone, n, front_now() - begun);
        siege_end(&s, SIEGE_CLOSED);
        vw_set_log(VW_LOG_INFO, NULL, NULL);
}
