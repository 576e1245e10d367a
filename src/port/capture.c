/* The pcap tee: a lane pays for a copy and a reading of the clock, the writer's thread for everything else. */
#include "port/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/iov.h"

#define LANE_RING_SIZE (2u << 20)   /* bytes: what a lane makes in some milliseconds at full speed */
#define OUT_SIZE       (256u << 10) /* bytes written at once: several of the longest records */
#define TICK_MS        20 /* how old a frame gets before it is written, when there is little to write */

struct record {
        uint64_t ns;
        uint32_t session, len;
        uint8_t frame[];
};

/* https://www.tcpdump.org/manpages/pcap-savefile.5.html */
struct pcap_file_header {
        uint32_t magic;
        uint16_t major, minor;
        uint32_t zero[2];
        uint32_t snaplen, linktype;
};

struct pcap_record_header {
        uint32_t sec, nsec, len, original_len;
};

#define PCAP_MAGIC_NSEC 0xa1b23c4d
#define PCAP_ETHERNET   1
#define PCAP_SNAPLEN    262144

static_assert(OUT_SIZE >= sizeof(struct pcap_file_header) + sizeof(struct pcap_record_header) + VW_FRAME_MAX,
              "any record fits");

struct writer {
        pthread_t thread;
        struct capture *capture;
        uint32_t session;
        bool stop; /* control writes, the writer reads */
        /* the writer's thread only */
        int fd;
        bool header_due, failed;
        size_t len;         /* of `out` */
        size_t records_at;  /* where the first begins in `out` */
        unsigned n_records; /* in `out` */
        uint8_t out[OUT_SIZE];
};

/* ---- the lane's worker thread ---- */

uint64_t capture_clock(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static void ring_bell(const struct capture *c)
{
        uint64_t one = 1;

        check(write(c->bell, &one, sizeof(one)) == sizeof(one));
}

void capture_frame(struct capture *c, unsigned lane, const struct vw_pkt *pkt, uint64_t ns)
{
        struct capture_lane *l = &c->lanes[lane];
        uint32_t session = load_relaxed(&c->session);
        struct record *rec;

        if (!session)
                return;
        rec = pkt->len <= VW_FRAME_MAX ? recring_reserve(&l->ring, (uint32_t)sizeof(*rec) + pkt->len) : NULL;
        if (!rec) {
                counter_add(&l->lost, 1);
                return;
        }
        rec->ns = ns;
        rec->session = session;
        rec->len = pkt->len;
        iov_to_buf(pkt->iov, pkt->n_iov, 0, rec->frame, pkt->len);
        recring_put(&l->ring);
        if (recring_used(&l->ring) > l->ring.size / 2 && !load_relaxed(&c->rung)) {
                store_relaxed(&c->rung, 1);
                ring_bell(c);
        }
}

/* ---- the writer's thread ---- */

static void put_file_header(struct writer *w)
{
        struct pcap_file_header h = {
                .magic = PCAP_MAGIC_NSEC,
                .major = 2,
                .minor = 4,
                .snaplen = PCAP_SNAPLEN,
                .linktype = PCAP_ETHERNET,
        };

        memcpy(w->out, &h, sizeof(h));
        w->len = sizeof(h);
        w->header_due = false;
}

static bool put_record(struct writer *w, const struct record *rec)
{
        struct pcap_record_header h = {
                .sec = (uint32_t)(rec->ns / NSEC_PER_SEC),
                .nsec = (uint32_t)(rec->ns % NSEC_PER_SEC),
                .len = rec->len,
                .original_len = rec->len,
        };

        if (w->len + sizeof(h) + rec->len > sizeof(w->out))
                return false;
        memcpy(w->out + w->len, &h, sizeof(h));
        memcpy(w->out + w->len + sizeof(h), rec->frame, rec->len);
        w->len += sizeof(h) + rec->len;
        w->n_records++;
        return true;
}

/* The oldest record of this session in a lane, or NULL.  Records of another session were made by a lane that had not
 * seen it end. */
static const struct record *oldest(const struct writer *w, unsigned lane)
{
        struct recring *ring = &w->capture->lanes[lane].ring;
        struct record *rec;
        uint32_t len;

        while ((rec = recring_peek(ring, &len)) && rec->session != w->session)
                recring_take(ring);
        return rec;
}

/* Moves records from the lanes to `out`, by time, until one of both is exhausted. */
static void gather(struct writer *w)
{
        struct capture *c = w->capture;
        const struct record *next[VW_QUEUE_PAIRS_MAX];
        const unsigned n = c->n_lanes;

        w->len = 0;
        w->n_records = 0;
        if (w->header_due)
                put_file_header(w);
        w->records_at = w->len;
        store_relaxed(&c->rung, 0);
        for (unsigned i = 0; i < n; i++)
                next[i] = oldest(w, i);
        for (;;) {
                unsigned first = n;

                for (unsigned i = 0; i < n; i++)
                        if (next[i] && (first == n || next[i]->ns < next[first]->ns))
                                first = i;
                if (first == n || !put_record(w, next[first]))
                        break;
                recring_take(&c->lanes[first].ring);
                next[first] = oldest(w, first);
        }
}

static void drain_bell(const struct capture *c)
{
        uint64_t n;

        while (read(c->bell, &n, sizeof(n)) > 0)
                continue;
}

/* Waits until the file takes more; false if the capture is to stop instead. */
static bool wait_writable(struct writer *w)
{
        struct pollfd p[2] = {
                {.fd = w->fd,             .events = POLLOUT},
                { .fd = w->capture->bell, .events = POLLIN },
        };

        if (load_acquire(&w->stop))
                return false;
        if (poll(p, 2, -1) > 0 && p[1].revents)
                drain_bell(w->capture);
        return true;
}

/* How much of the first `done` bytes of `out` is whole; takes the whole records off the count of records. */
static size_t whole_records(struct writer *w, size_t done)
{
        size_t end = w->records_at;
        struct pcap_record_header h;

        if (end > done)
                return 0;
        while (end + sizeof(h) <= done) {
                memcpy(&h, w->out + end, sizeof(h));
                if (end + sizeof(h) + h.len > done)
                        break;
                end += sizeof(h) + h.len;
                w->n_records--;
        }
        return end;
}

/* Writes `out`.  What a full disk cuts short is cut off again, so that the file stays one that can be read, and later
 * records may fit; a pipe that nobody reads any more ends the writing. */
static void flush(struct writer *w)
{
        off_t start = lseek(w->fd, 0, SEEK_CUR), end;
        size_t done = 0;

        while (done < w->len && !w->failed) {
                ssize_t n = write(w->fd, w->out + done, w->len - done);

                if (n >= 0)
                        done += (size_t)n;
                else if (errno == EAGAIN && wait_writable(w))
                        continue;
                else if (errno != EINTR)
                        break;
        }
        if (done == w->len)
                return;
        end = start + (off_t)whole_records(w, done);
        counter_add(&w->capture->lost, w->n_records);
        if (start < 0 || ftruncate(w->fd, end) < 0 || lseek(w->fd, end, SEEK_SET) < 0)
                w->failed = true;
        else
                w->header_due = w->records_at > 0 && end == start; /* not even that */
}

static void *write_records(void *arg)
{
        struct writer *w = arg;
        struct pollfd p = { .fd = w->capture->bell, .events = POLLIN };
        bool last;

        do {
                last = load_acquire(&w->stop);
                do {
                        gather(w);
                        if (w->len)
                                flush(w);
                } while (w->n_records);
                if (!last && poll(&p, 1, TICK_MS) > 0)
                        drain_bell(w->capture);
        } while (!last);
        return NULL;
}

/* ---- control thread ---- */

int capture_new(unsigned lanes, struct capture **ret_capture)
{
        size_t size = ALIGN_UP(sizeof(struct capture) + lanes * sizeof(struct capture_lane), CACHE_LINE);
        struct capture *c = aligned_alloc(CACHE_LINE, size);
        int r;

        if (!c)
                return -ENOMEM;
        memset(c, 0, size);
        c->n_lanes = lanes;
        c->memory = MAP_FAILED;
        c->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (c->bell >= 0) /* pages that no lane writes to cost nothing */
                c->memory = mmap(NULL, (size_t)lanes * LANE_RING_SIZE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (c->memory == MAP_FAILED) {
                r = -errno;
                capture_free(c);
                return r;
        }
        for (unsigned i = 0; i < lanes; i++)
                c->lanes[i].ring = (struct recring){
                        .bytes = c->memory + (size_t)i * LANE_RING_SIZE,
                        .size = LANE_RING_SIZE,
                };
        *ret_capture = c;
        return 0;
}

void capture_free(struct capture *c)
{
        if (!c)
                return;
        capture_stop(c);
        if (c->memory != MAP_FAILED)
                munmap(c->memory, (size_t)c->n_lanes * LANE_RING_SIZE);
        if (c->bell >= 0)
                close(c->bell);
        free(c);
}

/* A thread that no signal interrupts, and that no pipe without a reader kills. */
static int start_thread(struct writer *w)
{
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&w->thread, NULL, write_records, w);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

int capture_start(struct capture *c, int fd)
{
        struct writer *w;
        int flags = fcntl(fd, F_GETFL), r;

        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return -errno;
        w = calloc(1, sizeof(*w));
        if (!w)
                return -ENOMEM;
        capture_stop(c);
        c->last_session = c->last_session == UINT32_MAX ? 1 : c->last_session + 1;
        w->capture = c;
        w->session = c->last_session;
        w->fd = fd;
        w->header_due = true;
        r = start_thread(w);
        if (r < 0) {
                free(w);
                return r;
        }
        c->writer = w;
        store_relaxed(&c->session, w->session);
        return 0;
}

void capture_stop(struct capture *c)
{
        struct writer *w = c->writer;

        if (!w)
                return;
        store_relaxed(&c->session, 0);
        store_release(&w->stop, true);
        ring_bell(c);
        pthread_join(w->thread, NULL);
        close(w->fd);
        free(w);
        c->writer = NULL;
}

uint64_t capture_lost(const struct capture *c)
{
        uint64_t lost = load_relaxed(&c->lost);

        for (unsigned i = 0; i < c->n_lanes; i++)
                lost += load_relaxed(&c->lanes[i].lost);
        return lost;
}
