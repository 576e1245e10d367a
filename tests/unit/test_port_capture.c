/* The pcap tee: the file is read back; what cannot be written is counted and never in the way. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "port/capture.h"
#include "scale.h"
#include "test.h"

static uint8_t memory[VW_FRAME_MAX];

static struct vw_port *open_port(const char *spec, unsigned pairs)
{
        struct vw_port_config config = { .pairs = pairs };
        struct vw_port *port = NULL;
        const char *why = NULL;

        if (vw_port_open(spec, &config, &port, &why) < 0)
                fail_msg("%s", why);
        return port;
}

static int send_frame(struct vw_port *port, unsigned lane, uint32_t len, uint8_t value)
{
        uint8_t frame[VW_FRAME_MAX];
        struct iovec iov[2] = {
                {0   },
                { frame, len }
        };
        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 1, .len = len };
        int result;

        memset(frame, value, len);
        return vw_port_tx(port, lane, &pkt, 1, &result);
}

static int receive_frame(struct vw_port *port, unsigned lane)
{
        struct iovec iov[2] = {
                {0              },
                { memory, sizeof(memory) }
        };
        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 1 };

        return vw_port_rx(port, lane, &pkt);
}

/* Reads a capture back, record by record. */
struct reader {
        int fd;
        uint64_t ns; /* of the record last read */
        uint8_t frame[VW_FRAME_MAX];
};

static bool reader_header(struct reader *r)
{
        uint32_t h[6];

        if (read(r->fd, h, sizeof(h)) != sizeof(h))
                return false;
        EXPECT_EQ(h[0], 0xa1b23c4d);
        EXPECT_EQ(h[1], 2 | 4 << 16);
        EXPECT(h[4] >= VW_FRAME_MAX);
        EXPECT_EQ(h[5], 1);
        return true;
}

/* The length of the next frame, or -1 at the end; a part of a record fails the test. */
static int reader_next(struct reader *r)
{
        uint32_t h[4];
        ssize_t n = read(r->fd, h, sizeof(h));

        if (n == 0)
                return -1;
        EXPECT_EQ(n, sizeof(h));
        EXPECT_EQ(h[2], h[3]);
        EXPECT(h[1] < 1000000000);
        EXPECT(h[2] <= sizeof(r->frame));
        EXPECT_EQ(read(r->fd, r->frame, h[2]), h[2]);
        r->ns = h[0] * UINT64_C(1000000000) + h[1];
        return (int)h[2];
}

static int memfile(struct reader *r)
{
        r->fd = memfd_create("capture", MFD_CLOEXEC);
        EXPECT(r->fd >= 0);
        return dup(r->fd);
}

static void rewind_file(const struct reader *r)
{
        EXPECT_EQ(lseek(r->fd, 0, SEEK_SET), 0);
}

TEST(capture, records_both_directions_in_order)
{
        static struct reader r;
        struct vw_port *port = open_port("loop", 1);
        uint64_t before = capture_clock(), last = before;

        EXPECT_EQ(vw_port_capture(port, memfile(&r)), 0);
        EXPECT_EQ(send_frame(port, 0, 100, 1), 1);
        EXPECT_EQ(send_frame(port, 0, VW_FRAME_MAX, 2), 1);
        EXPECT_EQ(receive_frame(port, 0), 1);
        EXPECT_EQ(send_frame(port, 0, 60, 3), 1);
        EXPECT_EQ(vw_port_capture(port, -1), 0);
        EXPECT_EQ(send_frame(port, 0, 60, 4), 1);
        EXPECT_EQ(vw_port_capture_lost(port), 0);

        rewind_file(&r);
        EXPECT(reader_header(&r));
        static const int lengths[] = { 100, VW_FRAME_MAX, 100, 60 };
        static const uint8_t values[] = { 1, 2, 1, 3 };

        for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
                EXPECT_EQ(reader_next(&r), lengths[i]);
                EXPECT_EQ(r.frame[50], values[i]);
                EXPECT(r.ns >= last);
                last = r.ns;
        }
        EXPECT(last <= capture_clock());
        EXPECT_EQ(reader_next(&r), -1);
        close(r.fd);
        vw_port_close(port);
}

TEST(capture, is_a_valid_file_even_without_a_frame)
{
        static struct reader r;
        struct vw_port *port = open_port("null", 1);

        EXPECT_EQ(vw_port_capture(port, -1), 0);
        EXPECT_EQ(vw_port_capture(port, memfile(&r)), 0);
        vw_port_close(port);
        rewind_file(&r);
        EXPECT(reader_header(&r));
        EXPECT_EQ(reader_next(&r), -1);
        close(r.fd);
}

TEST(capture, leaves_out_what_the_port_did_not_take)
{
        static struct reader r;
        struct vw_port *port = open_port("loop", 1);
        unsigned taken = 0;

        EXPECT_EQ(vw_port_capture(port, memfile(&r)), 0);
        while (send_frame(port, 0, 30000, 1) == 1)
                taken++;
        vw_port_close(port);
        rewind_file(&r);
        EXPECT(reader_header(&r));
        while (reader_next(&r) >= 0)
                taken--;
        EXPECT_EQ(taken, 0);
        close(r.fd);
}

TEST(capture, starts_over_into_another_file)
{
        static struct reader r[2];
        struct vw_port *port = open_port("null", 1);

        EXPECT_EQ(vw_port_capture(port, memfile(&r[0])), 0);
        EXPECT_EQ(send_frame(port, 0, 60, 1), 1);
        EXPECT_EQ(vw_port_capture(port, memfile(&r[1])), 0);
        EXPECT_EQ(send_frame(port, 0, 61, 2), 1);
        vw_port_close(port);
        for (int i = 0; i < 2; i++) {
                rewind_file(&r[i]);
                EXPECT(reader_header(&r[i]));
                EXPECT_EQ(reader_next(&r[i]), 60 + i);
                EXPECT_EQ(reader_next(&r[i]), -1);
                close(r[i].fd);
        }
}

TEST(capture, drops_what_a_slow_lane_recorded_for_the_session_before)
{
        static struct reader r;
        struct capture *c;
        struct vw_pkt pkt = { .len = 0 };
        uint32_t old;

        EXPECT_EQ(capture_new(1, &c), 0);
        EXPECT_EQ(capture_start(c, memfile(&r)), 0);
        close(r.fd);
        old = c->session;
        capture_stop(c);
        c->session = old; /* as a lane still sees it */
        capture_frame(c, 0, &pkt, 1);
        EXPECT_EQ(capture_start(c, memfile(&r)), 0);
        capture_frame(c, 0, &pkt, 2);
        capture_free(c);
        rewind_file(&r);
        EXPECT(reader_header(&r));
        EXPECT_EQ(reader_next(&r), 0);
        EXPECT_EQ(r.ns, 2);
        EXPECT_EQ(reader_next(&r), -1);
        close(r.fd);
}

TEST(capture, merges_lanes_by_time)
{
        static struct reader r;
        struct capture *c;
        struct vw_pkt pkt = { .len = 0 };
        uint64_t last = 0;

        EXPECT_EQ(capture_new(3, &c), 0);
        EXPECT_EQ(capture_start(c, memfile(&r)), 0);
        capture_stop(c);
        /* recorded before the writer starts, so that it finds all at once */
        c->session = c->last_session + 1;
        for (uint64_t i = 0; i < 300; i++)
                capture_frame(c, (unsigned)(i * i % 3), &pkt, i + 1);
        close(r.fd);
        EXPECT_EQ(capture_start(c, memfile(&r)), 0);
        capture_free(c);
        rewind_file(&r);
        EXPECT(reader_header(&r));
        for (; reader_next(&r) == 0; last++)
                EXPECT_EQ(r.ns, last + 1);
        EXPECT_EQ(last, 300);
        close(r.fd);
}

/* hostile J14 */
TEST(capture, counts_what_a_full_disk_refuses_and_cuts_the_file_at_a_record)
{
        static struct reader r;
        struct rlimit before, tight;
        struct vw_port *port = open_port("null", 1);
        uint64_t sent = 0, found = 0;
        char path[] = "/tmp/vw-capture-XXXXXX";

        r.fd = mkstemp(path);
        EXPECT(r.fd >= 0);
        unlink(path);
        EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
        tight = (struct rlimit){ .rlim_cur = 1000000, .rlim_max = before.rlim_max };
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
        EXPECT_EQ(vw_port_capture(port, dup(r.fd)), 0);
        for (; sent < 400; sent++)
                EXPECT_EQ(send_frame(port, 0, 10000, 1), 1);
        EXPECT_EQ(vw_port_capture(port, -1), 0);
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
        rewind_file(&r);
        EXPECT(reader_header(&r));
        while (reader_next(&r) == 10000)
                found++;
        EXPECT(found > 0);
        EXPECT(found < sent);
        EXPECT_EQ(found + vw_port_capture_lost(port), sent);
        close(r.fd);
        vw_port_close(port);
}

TEST(capture, writes_again_when_a_disk_that_was_full_from_the_start_has_room)
{
        static struct reader r;
        struct rlimit before, none;
        struct vw_port *port = open_port("null", 1);
        char path[] = "/tmp/vw-capture-XXXXXX";

        r.fd = mkstemp(path);
        EXPECT(r.fd >= 0);
        unlink(path);
        EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
        none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
        EXPECT_EQ(vw_port_capture(port, dup(r.fd)), 0);
        EXPECT_EQ(send_frame(port, 0, 60, 1), 1);
        while (!vw_port_capture_lost(port))
                sched_yield();
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
        EXPECT_EQ(send_frame(port, 0, 61, 1), 1);
        vw_port_close(port);
        rewind_file(&r);
        EXPECT(reader_header(&r));
        EXPECT_EQ(reader_next(&r), 61);
        EXPECT_EQ(reader_next(&r), -1);
        close(r.fd);
}

TEST(capture, never_waits_for_a_pipe_that_nobody_reads)
{
        struct vw_port *port = open_port("null", 1);
        static struct reader r;
        uint64_t found = 0;
        int p[2];

        EXPECT_EQ(pipe(p), 0);
        EXPECT_EQ(vw_port_capture(port, p[1]), 0);
        for (unsigned i = 0; i < 1000; i++)
                EXPECT_EQ(send_frame(port, 0, 10000, 1), 1);
        EXPECT_EQ(vw_port_capture(port, -1), 0);
        r.fd = p[0];
        EXPECT(reader_header(&r));
        EXPECT(vw_port_capture_lost(port) > 900);
        for (uint32_t h[4]; read(p[0], h, sizeof(h)) == sizeof(h); found++)
                if (read(p[0], r.frame, h[2]) < (ssize_t)h[2])
                        break;
        EXPECT(found > 0);
        EXPECT_EQ(found + vw_port_capture_lost(port), 1000);
        close(p[0]);
        vw_port_close(port);
}

TEST(capture, survives_the_end_of_its_reader)
{
        struct vw_port *port = open_port("null", 1);
        int p[2];

        EXPECT_EQ(pipe(p), 0);
        close(p[0]);
        EXPECT_EQ(vw_port_capture(port, p[1]), 0);
        for (unsigned i = 0; i < 10; i++)
                EXPECT_EQ(send_frame(port, 0, 100, 1), 1);
        vw_port_close(port);
}

TEST(capture, refuses_what_is_no_fd)
{
        struct vw_port *port = open_port("null", 1);

        EXPECT_EQ(vw_port_capture(port, 1000000), -EBADF);
        EXPECT_EQ(vw_port_capture(port, -1), 0);
        vw_port_close(port);
}

struct lane {
        struct vw_port *port;
        unsigned index;
        uint64_t n;
        bool stop;
};

static void *run_lane(void *arg)
{
        struct lane *l = arg;

        while (!load_relaxed(&l->stop)) {
                send_frame(l->port, l->index, 60 + (uint32_t)(l->n % 500), (uint8_t)l->n);
                l->n++;
        }
        return NULL;
}

TEST(capture, starts_and_stops_while_lanes_run)
{
        struct vw_port *port = open_port("null", 2);
        struct lane lanes[2] = {
                {.port = port,  .index = 0},
                { .port = port, .index = 1}
        };
        pthread_t threads[2];

        for (int i = 0; i < 2; i++)
                EXPECT_EQ(pthread_create(&threads[i], NULL, run_lane, &lanes[i]), 0);
        for (uint64_t n = 0; n < test_scale(30, 1000); n++) {
                static struct reader r;

                EXPECT_EQ(vw_port_capture(port, memfile(&r)), 0);
                usleep(1000 * (n % 3));
                EXPECT_EQ(vw_port_capture(port, -1), 0);
                rewind_file(&r);
                EXPECT(reader_header(&r));
                for (int len; (len = reader_next(&r)) >= 0;)
                        EXPECT_EQ(r.frame[len - 1], r.frame[0]);
                close(r.fd);
        }
        for (int i = 0; i < 2; i++) {
                store_relaxed(&lanes[i].stop, true);
                pthread_join(threads[i], NULL);
        }
        vw_port_close(port);
}
