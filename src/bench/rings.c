#include "bench/rings.h"

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
#define PIECE_MIN    64                    /* bytes of a piece of which nothing is copied */
#define COPIES       4096 /* buffers that the device copies from or to, in turn, as a pool would have */
#define LOOK_EVERY   1024 /* turns between two looks at the clock */
#define COUNT_BURSTS 8    /* of each half, that are counted */

struct rings {
        struct rings_load load;
        uint8_t *memory;           /* shared: the ring, then a slot for each entry */
        uint8_t *copies;           /* private: the device's own */
        size_t bytes, slots, slot; /* of all; where the slots begin; of one */
        struct mem_map *map;
        struct vq_config cfg;
        bool over;
        /* the driver's */
        _Alignas(CACHE_LINE) struct vq_driver drv;
        uint32_t next_slot;
        uint64_t reaped, kicks;
        /* the device's */
        _Alignas(CACHE_LINE) struct vq_device dev;
        struct iov_pool pool;
        struct vq_chain chains[VQ_BURST];
        uint32_t next_copy;
        uint64_t calls;
};

/* ---- life ---- */

static bool start(struct rings *r, const struct rings_load *load)
{
        struct mem_region region;
        const char *why;
        size_t copy = ALIGN_UP(MAX(load->size, 1u), CACHE_LINE);

        *r = (struct rings){
                .load = *load,
                .cfg = {.size = (uint16_t)load->entries, .features = F(version_1) | F(event_idx)}
        };
        r->load.burst = load->burst ? load->burst : RINGS_BURST;
        r->slot = ALIGN_UP(MAX(load->size, (unsigned)PIECE_MIN), CACHE_LINE);
        r->slots = ALIGN_UP(vq_driver_bytes(load->layout, load->entries, r->cfg.features), 4096);
        r->bytes = r->slots + r->slot * load->entries;
        r->memory = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE,
                         -1, 0);
        r->copies = aligned_alloc(CACHE_LINE, copy * COPIES);
        r->pool.size = 4 * VQ_BURST;
        r->pool.iov = calloc(r->pool.size, sizeof(*r->pool.iov));
        if (r->memory == MAP_FAILED || !r->copies || !r->pool.iov)
                return false;
        memset(r->copies, 1, copy * COPIES);
        region = (struct mem_region){ .gpa = GPA, .uva = GPA, .size = r->bytes, .va = r->memory };
        if (vq_driver_init(&r->drv, load->layout, &r->cfg, r->memory, GPA) < 0 ||
            mem_map_borrow(&region, 1, &r->map) < 0 || vq_device_init(&r->dev, &r->cfg, r->map, &why) < 0)
                return false;
        vq_driver_call_disable(&r->drv);
        vq_device_kick_disable(&r->dev);
        return true;
}

struct rings *rings_new(const struct rings_load *load)
{
        struct rings *r = aligned_alloc(CACHE_LINE, sizeof(*r));

        if (r && !start(r, load)) {
                rings_free(r);
                r = NULL;
        }
        return r;
}

void rings_free(struct rings *r)
{
        if (!r)
                return;
        vq_device_done(&r->dev);
        vq_driver_done(&r->drv);
        mem_map_put(r->map);
        free(r->pool.iov);
        free(r->copies);
        if (r->memory != MAP_FAILED)
                munmap(r->memory, r->bytes);
        free(r);
}

/* ---- one step of each half ---- */

unsigned rings_drive(struct rings *r)
{
        struct vq_used used[VQ_BURST];
        int got = vq_driver_reap(&r->drv, used, VQ_BURST);
        unsigned n = MIN(r->load.burst, vq_driver_free(&r->drv));

        check(got >= 0);
        r->reaped += (unsigned)got;
        for (unsigned i = 0; i < n; i++) {
                const struct vq_piece piece = { GPA + r->slots + r->slot * r->next_slot, (uint32_t)r->slot };

                r->next_slot = (r->next_slot + 1) & (r->load.entries - 1);
                check(vq_driver_add(&r->drv, &piece, !r->load.rx, r->load.rx, r) == 0);
        }
        vq_driver_publish(&r->drv);
        r->kicks += vq_driver_kick_needed(&r->drv);
        return n + (unsigned)got;
}

static void copy(struct rings *r, void *piece)
{
        uint8_t *own = r->copies + ALIGN_UP(r->load.size, CACHE_LINE) * r->next_copy;

        r->next_copy = (r->next_copy + 1) & (COPIES - 1);
        if (r->load.rx)
                memcpy(piece, own, r->load.size);
        else
                memcpy(own, piece, r->load.size);
}

unsigned rings_serve(struct rings *r)
{
        int n;

        r->pool.used = 0;
        n = vq_device_pop(&r->dev, &r->pool, r->chains, r->load.burst);
        check(n >= 0);
        if (!n)
                return 0;
        for (int i = 0; i < n; i++) {
                if (r->load.size)
                        copy(r, r->chains[i].iov[0].iov_base);
                r->chains[i].written = r->chains[i].len_in;
        }
        vq_device_push(&r->dev, r->chains, (unsigned)n);
        vq_device_publish(&r->dev);
        r->calls += vq_device_call_needed(&r->dev);
        return (unsigned)n;
}

void rings_prime(struct rings *r)
{
        unsigned wanted = r->load.rx ? r->load.entries : r->load.entries / 2;

        for (unsigned n = 0, more = 1; n < wanted && more; n += more)
                more = rings_drive(r);
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
        struct rings *r = arg;

        pin(1);
        while (!load_relaxed(&r->over))
                if (!rings_serve(r))
                        cpu_relax();
        return NULL;
}

static void drive_all(struct rings *r, bool alone, uint64_t packets, uint64_t ns,
                      struct rings_speed *ret_speed)
{
        uint64_t begun = clock_now(), before = r->reaped, now;

        do {
                for (unsigned i = 0; i < LOOK_EVERY; i++) {
                        if (alone)
                                rings_serve(r);
                        if (!rings_drive(r))
                                cpu_relax();
                }
                now = clock_now();
        } while (r->reaped - before < packets && now - begun < ns);
        *ret_speed = (struct rings_speed){ .packets = r->reaped - before, .ns = now - begun };
}

bool rings_speed(const struct rings_load *load, unsigned threads, uint64_t packets, uint64_t ns,
                 struct rings_speed *ret_speed)
{
        struct rings *r = rings_new(load);
        cpu_set_t before;
        pthread_t thread;
        bool good = r;

        CPU_ZERO(&before);
        sched_getaffinity(0, sizeof(before), &before);
        pin(0);
        if (good)
                rings_prime(r);
        if (good && threads > 1)
                good = pthread_create(&thread, NULL, serve_all, r) == 0;
        if (good) {
                drive_all(r, threads == 1, packets, ns, ret_speed);
                store_relaxed(&r->over, true);
                if (threads > 1)
                        pthread_join(thread, NULL);
                ret_speed->kicks = r->kicks;
                ret_speed->calls = r->calls;
        }
        sched_setaffinity(0, sizeof(before), &before);
        rings_free(r);
        return good;
}

/* ---- instructions ---- */

enum { NOTHING, DRIVER, DEVICE, WHAT_COUNT };

/* The process that is counted: between two stops lies what is to be counted. */
_Noreturn static void do_and_stop(const struct rings_load *load, unsigned what)
{
        struct rings *r = rings_new(load);

        if (!r || ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(1);
        rings_prime(r);
        for (unsigned i = 0; i < COUNT_BURSTS; i++) {
                if (what != DEVICE)
                        rings_serve(r);
                else
                        rings_drive(r);
                raise(SIGSTOP);
                if (what == DRIVER)
                        rings_drive(r);
                else if (what == DEVICE)
                        rings_serve(r);
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
        unsigned burst = load->burst ? load->burst : RINGS_BURST;
        uint64_t counts[WHAT_COUNT];

        for (unsigned what = 0; what < WHAT_COUNT; what++)
                if (!count(load, what, &counts[what]))
                        return false;
        *ret_driver = (double)(counts[DRIVER] - counts[NOTHING]) / (COUNT_BURSTS * burst);
        *ret_device = (double)(counts[DEVICE] - counts[NOTHING]) / (COUNT_BURSTS * burst);
        return true;
}
