/* Records of what the worker's duel, polling and moderation decided, to be asked again elsewhere: was that right, and why was it so?
 *
 * The policies are functions of their state and of the calls they get.  A recording begins with policies that have learned
 * nothing, so the calls alone are the whole record; it is text, a line each, times in ns:
 *
 *      WORKER duel TIME forget|span WORK WAY               WAY, poll, nap or sleep, is what was decided
 *      QUEUE polling TIME set|begin|hit|miss|yield|woke VALUE STOLEN       begin's VALUE: the deadline decided, 0 for none
 *      QUEUE moderation TIME init|note|apply|beside N OUTSTANDING PHASE HOLDS     PHASE and HOLDS are what was decided
 *
 * Workers write into memory only, and the control thread writes the file when the recording is over.  A policy that has used
 * up its memory records no more; what there is then is a record from the beginning all the same. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "device/queue.h"

#define EVENTS        65536 /* of a policy of a queue: 2 MiB; some seconds of a busy link */
#define WORKERS_MAX   VW_QUEUE_PAIRS_MAX
#define QUEUES_MAX    (2 * VW_QUEUE_PAIRS_MAX + 1)
#define TIME_MAX      (UINT64_C(1) << 56) /* two years: sums of times stay in 64 bits */
#define PUBLISHED_MAX (2 * VW_QUEUE_SIZE_MAX)
#define FIRST_LINE    "vwire trace 1: queue policy time-ns step numbers\n"

static const char *const duel_words[] = { "forget", "span" };
static const char *const way_words[] = { "poll", "nap", "sleep" };
static const char *const polling_words[] = { "set", "begin", "hit", "miss", "yield", "woke" };
static const char *const moderation_words[] = { "init", "note", "apply", "beside" };
static const char *const phase_words[] = { "off", "trial", "check", "on" };
static_assert(ARRAY_SIZE(duel_words) == DUEL_SPAN + 1, "a word each");
static_assert(ARRAY_SIZE(way_words) == DUEL_WAYS, "a word each");
static_assert(ARRAY_SIZE(polling_words) == POLLING_WOKE + 1, "a word each");
static_assert(ARRAY_SIZE(moderation_words) == MODERATION_BESIDE + 1, "a word each");
static_assert(ARRAY_SIZE(phase_words) == MODERATION_PHASES, "a word each");

struct recording {
        struct polling_trace polling;
        struct moderation_trace moderation;
        struct polling_event polls[EVENTS];
        struct moderation_event notes[EVENTS];
};

struct duel_recording {
        struct duel_trace duel;
        struct duel_event spans[EVENTS];
};

struct dev_trace {
        int fd;
        struct duel_recording *workers;
        struct recording queues[]; /* by index; memory that is not written to is not taken */
};

/* ---- recording: on the worker ---- */

static void record_queue(struct dev_queue *q, struct recording *rec, uint64_t now)
{
        q->settings = SETTINGS_NONE;
        polling_trace_begin(&q->polling, &rec->polling, rec->polls, EVENTS);
        moderation_trace_begin(&q->moderation, &rec->moderation, rec->notes, EVENTS);
        polling_forget(&q->polling, now);
        dev_queue_adopt_settings(q, now);
}

static void begin_recording(void *arg)
{
        struct dev_worker *w = arg;
        struct vw_device *dev = w->dev;

        duel_trace_begin(&w->duel, &dev->trace->workers[w->index].duel, dev->trace->workers[w->index].spans,
                         EVENTS);
        for (unsigned i = 0; i < dev->n_vrings; i++)
                if (dev->queues[i].worker == w)
                        record_queue(&dev->queues[i], &dev->trace->queues[i], clock_now());
}

static void end_recording(void *arg)
{
        struct dev_worker *w = arg;
        struct vw_device *dev = w->dev;

        duel_trace_end(&w->duel);
        for (unsigned i = 0; i < dev->n_vrings; i++)
                if (dev->queues[i].worker == w) {
                        polling_trace_end(&dev->queues[i].polling);
                        moderation_trace_end(&dev->queues[i].moderation);
                }
}

/* ---- writing ---- */

static void write_spans(FILE *out, unsigned worker, const struct duel_trace *t)
{
        for (unsigned i = 0; i < t->n; i++)
                fprintf(out, "%u duel %" PRIu64 " %s %" PRIu64 " %s\n", worker, t->events[i].now,
                        duel_words[t->events[i].step], t->events[i].work, way_words[t->events[i].way]);
}

static void write_polls(FILE *out, unsigned queue, const struct polling_trace *t)
{
        for (unsigned i = 0; i < t->n; i++)
                fprintf(out, "%u polling %" PRIu64 " %s %" PRIu64 " %" PRIu64 "\n", queue, t->events[i].now,
                        polling_words[t->events[i].step], t->events[i].value, t->events[i].stolen);
}

static void write_notes(FILE *out, unsigned queue, const struct moderation_trace *t)
{
        for (unsigned i = 0; i < t->n; i++)
                fprintf(out, "%u moderation %" PRIu64 " %s %u %u %s %d\n", queue, t->events[i].now,
                        moderation_words[t->events[i].step], t->events[i].n, t->events[i].outstanding,
                        phase_words[t->events[i].next], t->events[i].holds);
}

static int write_all(const struct dev_trace *trace, unsigned n_workers, unsigned n_queues)
{
        FILE *out = fdopen(trace->fd, "w");
        bool failed;

        if (!out) {
                close(trace->fd);
                return -ENOMEM;
        }
        fputs(FIRST_LINE, out);
        for (unsigned i = 0; i < n_workers; i++)
                write_spans(out, i, &trace->workers[i].duel);
        for (unsigned i = 0; i < n_queues; i++) {
                write_polls(out, i, &trace->queues[i].polling);
                write_notes(out, i, &trace->queues[i].moderation);
        }
        failed = ferror(out);
        return fclose(out) == EOF || failed ? -EIO : 0;
}

static void free_trace(struct vw_device *dev)
{
        free(dev->trace->workers);
        free(dev->trace);
        dev->trace = NULL;
}

static int begin_trace(struct vw_device *dev, int fd)
{
        struct stat st;

        if (dev->trace)
                return -EBUSY;
        if (fstat(fd, &st) < 0 ||
            !S_ISREG(st.st_mode)) /* whoever reads a pipe could make the control thread wait */
                return -EINVAL;
        dev->trace = calloc(1, sizeof(*dev->trace) + dev->n_vrings * sizeof(struct recording));
        if (!dev->trace)
                return -ENOMEM;
        dev->trace->workers = calloc(dev->n_workers, sizeof(*dev->trace->workers));
        if (!dev->trace->workers) {
                free_trace(dev);
                return -ENOMEM;
        }
        dev->trace->fd = fd;
        for (unsigned i = 0; i < dev->n_workers; i++)
                dev_on_worker(&dev->workers[i], begin_recording, &dev->workers[i]);
        return 0;
}

int vw_device_trace(struct vw_device *dev, int fd)
{
        int r;

        if (fd >= 0)
                return begin_trace(dev, fd);
        if (!dev->trace)
                return -EALREADY;
        for (unsigned i = 0; i < dev->n_workers; i++)
                dev_on_worker(&dev->workers[i], end_recording, &dev->workers[i]);
        r = write_all(dev->trace, dev->n_workers, dev->n_vrings);
        free_trace(dev);
        return r;
}

/* ---- replaying ---- */

struct replay {
        struct {
                struct duel duel;
                uint64_t time;
        } workers[WORKERS_MAX];
        struct {
                struct polling polling;
                struct moderation moderation;
                uint64_t polling_time, moderation_time;
        } queues[QUEUES_MAX];
};

static bool find_word(const char *word, const char *const *words, unsigned n, unsigned *ret_at)
{
        for (unsigned i = 0; i < n; i++)
                if (!strcmp(word, words[i])) {
                        *ret_at = i;
                        return true;
                }
        return false;
}

static bool later(uint64_t *last, uint64_t now)
{
        bool ok = now >= *last && now < TIME_MAX;

        *last = now;
        return ok;
}

static const char unreadable[] = "unreadable", otherwise[] = "decided otherwise";

static const char *replay_duel(struct replay *r, unsigned worker, const char *step, uint64_t now,
                               const char *line)
{
        char word[16] = "";
        unsigned at, way;
        uint64_t work;

        if (worker >= WORKERS_MAX || sscanf(line, "%*u %*s %*u %*s %" SCNu64 " %15s", &work, word) != 2 ||
            !find_word(step, duel_words, ARRAY_SIZE(duel_words), &at) ||
            !find_word(word, way_words, ARRAY_SIZE(way_words), &way) || !later(&r->workers[worker].time, now))
                return unreadable;
        return duel_repeat(&r->workers[worker].duel, &(struct duel_event){ .now = now,
                                                                           .work = work,
                                                                           .step = (enum duel_step)at,
                                                                           .way = (enum duel_way)way })
                       ? NULL
                       : otherwise;
}

static const char *replay_poll(struct replay *r, unsigned queue, const char *step, uint64_t now,
                               const char *line)
{
        uint64_t value, stolen;
        unsigned at;

        if (queue >= QUEUES_MAX ||
            sscanf(line, "%*u %*s %*u %*s %" SCNu64 " %" SCNu64, &value, &stolen) != 2 ||
            !find_word(step, polling_words, ARRAY_SIZE(polling_words), &at) || stolen >= TIME_MAX ||
            (at == POLLING_SET && value > VW_POLL_US_MAX) || !later(&r->queues[queue].polling_time, now))
                return unreadable;
        return polling_repeat(&r->queues[queue].polling,
                              &(struct polling_event){ now, value, stolen, (enum polling_step)at })
                       ? NULL
                       : otherwise;
}

static const char *replay_note(struct replay *r, unsigned queue, const char *step, uint64_t now,
                               const char *line)
{
        unsigned n, outstanding, holds, at, next;
        char phase[16] = "";

        if (queue >= QUEUES_MAX ||
            sscanf(line, "%*u %*s %*u %*s %u %u %15s %u", &n, &outstanding, phase, &holds) != 4 ||
            !find_word(step, moderation_words, ARRAY_SIZE(moderation_words), &at) ||
            !find_word(phase, phase_words, ARRAY_SIZE(phase_words), &next) || holds > 1 ||
            n > PUBLISHED_MAX || !later(&r->queues[queue].moderation_time, now))
                return unreadable;
        return moderation_repeat(&r->queues[queue].moderation,
                                 &(struct moderation_event){ .now = now,
                                                             .n = n,
                                                             .outstanding = outstanding,
                                                             .step = (enum moderation_step)at,
                                                             .next = (enum moderation_phase)next,
                                                             .holds = holds })
                       ? NULL
                       : otherwise;
}

/* What is wrong with it, or NULL: the file may come from anywhere. */
static const char *replay_line(struct replay *r, const char *line)
{
        char policy[16] = "", step[16] = "";
        unsigned whose;
        uint64_t now;

        if (sscanf(line, "%u %15s %" SCNu64 " %15s", &whose, policy, &now, step) != 4)
                return unreadable;
        if (!strcmp(policy, "duel"))
                return replay_duel(r, whose, step, now, line);
        if (!strcmp(policy, "polling"))
                return replay_poll(r, whose, step, now, line);
        if (!strcmp(policy, "moderation"))
                return replay_note(r, whose, step, now, line);
        return unreadable;
}

static int64_t replay_file(FILE *in, struct replay *r, const char **ret_why)
{
        static __thread char why[128];
        char line[256];
        int64_t n;

        *ret_why = "this is no record of `vwire ctl PATH trace`";
        if (!fgets(line, sizeof(line), in) || strcmp(line, FIRST_LINE) != 0)
                return -EPROTO;
        for (n = 0; fgets(line, sizeof(line), in); n++) {
                const char *fault = replay_line(r, line);

                if (!fault)
                        continue;
                snprintf(why, sizeof(why), "line %" PRId64 ": %s: %.60s", n + 2, fault, line);
                why[strcspn(why, "\n")] = '\0';
                *ret_why = why;
                return -EPROTO;
        }
        return n;
}

int64_t vw_trace_replay(int fd, const char **ret_why)
{
        struct replay *r = calloc(1, sizeof(*r));
        FILE *in = r ? fdopen(fd, "r") : NULL;
        int64_t n;

        *ret_why = "out of memory";
        n = in ? replay_file(in, r, ret_why) : -ENOMEM;
        if (in)
                fclose(in);
        else
                close(fd);
        free(r);
        return n;
}
