#include "bench/rings.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "ring/vq.h"
#include "virtio/features.h"

#define GPA          UINT64_C(0x100000000) /* where the memory lies for the device */
#define BURST        32                    /* packets between two publications */
#define PIECE_MIN    64                    /* bytes of a piece of which nothing is copied */
#define COPIES       4096 /* buffers that the device copies from or to, in turn, as a pool would have */
#define LOOK_EVERY   1024 /* bursts between two looks at the clock */
#define COUNT_BURSTS 8    /* of each half, that are counted */

struct bench {
        const struct rings_load *load;
        uint8_t *memory,
                *copies; /* shared: the ring, then a slot for each entry; private: the device's own */
        size_t bytes, slots, slot; /* of all; where the slots begin; of one */
        struct mem_map *map;
        struct vq_config cfg;
        struct vq_driver drv;
        struct vq_device dev;
        struct iov_pool pool;
        struct vq_chain chains[VQ_BURST];
        uint32_t next_slot, next_copy;
        int cpu; /* of the device's thread */
        bool over;
        /* the driver's */
        _Alignas(CACHE_LINE) uint64_t reaped;
        uint64_t kicks;
        /* the device's */
        _Alignas(CACHE_LINE) uint64_t served;
        uint64_t calls;
};

/* ---- life ---- */

static bool start(struct bench *b, const struct rings_load *load)
{
        struct mem_region region;
        const char *why;
        size_t copy = ALIGN_UP(MAX(load->size, 1u), CACHE_LINE);

        *b = (struct bench){
                .load = load,
                .cfg = {.size = (uint16_t)load->entries, .features = F(version_1) | F(event_idx)}
        };
        b->slot = ALIGN_UP(MAX(load->size, (unsigned)PIECE_MIN), CACHE_LINE);
        b->slots = ALIGN_UP(vq_driver_bytes(load->layout, load->entries, b->cfg.features), 4096);
        b->bytes = b->slots + b->slot * load->entries;
        b->memory = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE,
                         -1, 0);
        b->copies = aligned_alloc(CACHE_LINE, copy * COPIES);
        b->pool.size = 4 * VQ_BURST;
        b->pool.iov = calloc(b->pool.size, sizeof(*b->pool.iov));
        if (b->memory == MAP_FAILED || !b->copies || !b->pool.iov)
                return false;
        memset(b->copies, 1, copy * COPIES);
        region = (struct mem_region){ .gpa = GPA, .uva = GPA, .size = b->bytes, .va = b->memory };
        if (vq_driver_init(&b->drv, load->layout, &b->cfg, b->memory, GPA) < 0 ||
            mem_map_borrow(&region, 1, &b->map) < 0 || vq_device_init(&b->dev, &b->cfg, b->map, &why) < 0)
                return false;
        vq_driver_call_disable(&b->drv);
        vq_device_kick_disable(&b->dev);
        return true;
}

static void done(struct bench *b)
{
        vq_device_done(&b->dev);
        vq_driver_done(&b->drv);
        mem_map_put(b->map);
        free(b->pool.iov);
        free(b->copies);
        if (b->memory != MAP_FAILED)
                munmap(b->memory, b->bytes);
}

/* ---- one step of each half ---- */

static unsigned drive(struct bench *b)
{
        struct vq_used used[VQ_BURST];
        int got = vq_driver_reap(&b->drv, used, VQ_BURST);
        unsigned n = MIN((unsigned)BURST, vq_driver_free(&b->drv));

        check(got >= 0);
        b->reaped += (unsigned)got;
        for (unsigned i = 0; i < n; i++) {
                const struct vq_piece piece = { GPA + b->slots + b->slot * b->next_slot, (uint32_t)b->slot };

                b->next_slot = (b->next_slot + 1) & (b->load->entries - 1);
                check(vq_driver_add(&b->drv, &piece, !b->load->rx, b->load->rx, b) == 0);
        }
        vq_driver_publish(&b->drv);
        b->kicks += vq_driver_kick_needed(&b->drv);
        return n + (unsigned)got;
}

static void copy(struct bench *b, void *piece)
{
        uint8_t *own = b->copies + ALIGN_UP(b->load->size, CACHE_LINE) * b->next_copy;

        b->next_copy = (b->next_copy + 1) & (COPIES - 1);
        if (b->load->rx)
                memcpy(piece, own, b->load->size);
        else
                memcpy(own, piece, b->load->size);
}

static unsigned serve(struct bench *b)
{
        int n;

        b->pool.used = 0;
        n = vq_device_pop(&b->dev, &b->pool, b->chains, BURST);
        check(n >= 0);
        if (!n)
                return 0;
        for (int i = 0; i < n; i++) {
                if (b->load->size)
                        copy(b, b->chains[i].iov[0].iov_base);
                b->chains[i].written = b->chains[i].len_in;
        }
        vq_device_push(&b->dev, b->chains, (unsigned)n);
        vq_device_publish(&b->dev);
        b->calls += vq_device_call_needed(&b->dev);
        b->served += (unsigned)n;
        return (unsigned)n;
}

/* ---- speed ---- */

static void pin(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set); /* where it is not allowed the numbers are only noisier */
}

static void *serve_all(void *arg)
{
        struct bench *b = arg;

        pin(b->cpu);
        while (!load_relaxed(&b->over))
                if (!serve(b))
                        cpu_relax();
        return NULL;
}

double rings_speed(const struct rings_load *load, unsigned ms)
{
        struct bench *b = aligned_alloc(CACHE_LINE, sizeof(*b));
        double mpps = NAN;
        cpu_set_t before;
        pthread_t thread;

        if (!b)
                return NAN;
        CPU_ZERO(&before);
        sched_getaffinity(0, sizeof(before), &before);
        b->cpu = 0;
        if (start(b, load) && pthread_create(&thread, NULL, serve_all, b) == 0) {
                uint64_t begun = clock_now(), until = begun + ms * NSEC_PER_MSEC, now;

                b->cpu = 1;
                pin(0);
                do {
                        for (unsigned i = 0; i < LOOK_EVERY; i++)
                                if (!drive(b))
                                        cpu_relax();
                        now = clock_now();
                } while (now < until);
                mpps = (double)b->reaped * 1e3 / (double)(now - begun);
                store_relaxed(&b->over, true);
                pthread_join(thread, NULL);
                sched_setaffinity(0, sizeof(before), &before);
        }
        done(b);
        free(b);
        return mpps;
}

/* ---- instructions ---- */

enum { NOTHING, DRIVER, DEVICE, WHAT_COUNT };

/* The process that is counted: between two stops lies what is to be counted. */
_Noreturn static void do_and_stop(const struct rings_load *load, unsigned what)
{
        static struct bench b;

        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || !start(&b, load))
                _exit(1);
        for (unsigned i = 0; i < load->entries / BURST / 2; i++)
                drive(&b); /* half full, as a ring is on average */
        for (unsigned i = 0; i < COUNT_BURSTS; i++) {
                if (what != DEVICE)
                        serve(&b);
                else
                        drive(&b);
                raise(SIGSTOP);
                if (what == DRIVER)
                        drive(&b);
                else if (what == DEVICE)
                        serve(&b);
                raise(SIGSTOP);
        }
        _exit(0);
}

/* Steps from one stop to the next, which are counted; then on to the one after.  False when it has ended. */
static bool step(pid_t pid, uint64_t *count)
{
        int status;

        do {
                if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid ||
                    !WIFSTOPPED(status))
                        return false;
                ++*count;
        } while (WSTOPSIG(status) == SIGTRAP);
        return ptrace(PTRACE_CONT, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid &&
               WIFSTOPPED(status);
}

static bool count(const struct rings_load *load, unsigned what, uint64_t *ret_count)
{
        pid_t pid = fork();
        int status;

        if (pid == 0)
                do_and_stop(load, what);
        *ret_count = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return false;
        if (!WIFSTOPPED(status))
                return false;
        while (step(pid, ret_count))
                continue;
        kill(pid, SIGKILL); /* if it has not ended by itself */
        waitpid(pid, &status, 0);
        return *ret_count > 0;
}

bool rings_instructions(const struct rings_load *load, double *ret_driver, double *ret_device)
{
        uint64_t counts[WHAT_COUNT];

        for (unsigned what = 0; what < WHAT_COUNT; what++)
                if (!count(load, what, &counts[what]))
                        return false;
        *ret_driver = (double)(counts[DRIVER] - counts[NOTHING]) / (COUNT_BURSTS * BURST);
        *ret_device = (double)(counts[DEVICE] - counts[NOTHING]) / (COUNT_BURSTS * BURST);
        return true;
}
