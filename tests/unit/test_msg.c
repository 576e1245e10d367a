/* vhost-user messages on a socket, however they are cut, with any fds. */
#include "vhost/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mock_vhost.h"
#include "test.h"

struct pipe {
        int in, out;
        struct vu_reader reader;
        const char *why;
        unsigned fds;
};

static void open_pipe(struct pipe *p)
{
        int pair[2];

        *p = (struct pipe){ .why = "", .fds = mock_count_fds() };
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        p->in = pair[0];
        p->out = pair[1];
}

static void close_pipe(struct pipe *p)
{
        vu_msg_done(&p->reader);
        if (p->in >= 0)
                close(p->in);
        close(p->out);
        EXPECT_EQ(mock_count_fds(), p->fds);
}

static int read_one(struct pipe *p)
{
        return vu_read(&p->reader, p->out, &p->why);
}

static void send_with_fds(struct pipe *p, const void *bytes, size_t len, unsigned n)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(253 * sizeof(int))];
        } control;
        struct iovec iov = { (void *)(uintptr_t)bytes, len };
        struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
        int fds[253];

        for (unsigned i = 0; i < n; i++)
                fds[i] = p->out; /* not the end whose closing a test waits for */
        memset(&control, 0, sizeof(control));
        control.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
        mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
        EXPECT_EQ(sendmsg(p->in, &mh, 0), (ssize_t)len);
}

TEST(msg, what_is_written_is_read_with_its_fds)
{
        struct vu_msg m = {
                .request = VHOST_USER_SET_VRING_ADDR,
                .flags = VU_FLAG_VERSION | VU_FLAG_NEED_REPLY,
                .size = sizeof(m.addr),
                .addr = {.index = 3, .desc = 1, .used = 2, .avail = 3, .log = 4}
        };
        struct pipe p;
        int fds[2], fd;

        open_pipe(&p);
        fds[0] = p.in;
        fds[1] = p.out;
        EXPECT_EQ(read_one(&p), 0);
        EXPECT_EQ(vu_write(p.in, &m, fds, 2, 1000), 0);
        EXPECT_EQ(read_one(&p), 1);
        EXPECT_EQ(p.reader.msg.request, m.request);
        EXPECT_EQ(p.reader.msg.flags, m.flags);
        EXPECT_EQ(p.reader.msg.size, sizeof(m.addr));
        EXPECT_MEM(&p.reader.msg.addr, &m.addr, sizeof(m.addr));
        EXPECT_EQ(p.reader.msg.n_fds, 2);
        fd = vu_take_fd(&p.reader.msg, 1);
        EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        EXPECT_EQ(vu_take_fd(&p.reader.msg, 1), -1);
        EXPECT_EQ(vu_take_fd(&p.reader.msg, 2), -1);
        vu_msg_done(&p.reader); /* closes the first, not the second */
        EXPECT(fcntl(fd, F_GETFD) >= 0);
        close(fd);
        EXPECT_EQ(read_one(&p), 0);
        close_pipe(&p);
}

/* hostile A02 */
TEST(msg, arrives_whole_however_it_is_cut)
{
        struct vu_msg m = {
                .request = VHOST_USER_SET_VRING_NUM, .flags = VU_FLAG_VERSION, .size = 8, .state = {5, 6}
        };
        uint8_t bytes[20];
        struct pipe p;

        memcpy(bytes, &m, 12);
        memcpy(bytes + 12, &m.state, 8);
        open_pipe(&p);
        for (size_t piece = 1; piece < sizeof(bytes); piece++) {
                for (size_t at = 0; at < sizeof(bytes); at += piece) {
                        size_t len = MIN(piece, sizeof(bytes) - at);

                        EXPECT_EQ(read_one(&p), 0);
                        send_with_fds(&p, bytes + at, len, at + len == sizeof(bytes));
                }
                EXPECT_EQ(read_one(&p), 1);
                EXPECT_EQ(p.reader.msg.state.index, 5);
                EXPECT_EQ(p.reader.msg.state.num, 6);
                EXPECT_EQ(p.reader.msg.n_fds, 1); /* they may come with any byte */
                vu_msg_done(&p.reader);
        }
        close_pipe(&p);
}

TEST(msg, never_reads_past_its_end)
{
        struct vu_msg m = { .request = VHOST_USER_SET_OWNER, .flags = VU_FLAG_VERSION };
        struct pipe p;

        open_pipe(&p);
        EXPECT_EQ(vu_write(p.in, &m, NULL, 0, 1000), 0);
        m.request = VHOST_USER_SET_VRING_KICK;
        m.size = 8;
        EXPECT_EQ(vu_write(p.in, &m, &p.in, 1, 1000), 0);
        EXPECT_EQ(read_one(&p), 1);
        EXPECT_EQ(p.reader.msg.request, VHOST_USER_SET_OWNER);
        EXPECT_EQ(p.reader.msg.n_fds, 0);
        vu_msg_done(&p.reader);
        EXPECT_EQ(read_one(&p), 1);
        EXPECT_EQ(p.reader.msg.request, VHOST_USER_SET_VRING_KICK);
        EXPECT_EQ(p.reader.msg.n_fds, 1);
        close_pipe(&p);
}

/* hostile A01 K02 */
TEST(msg, end_inside_a_message_is_told_from_an_orderly_one)
{
        struct vu_msg m = { .request = VHOST_USER_SET_VRING_NUM, .flags = VU_FLAG_VERSION, .size = 8 };
        uint8_t bytes[20] = { 0 };

        memcpy(bytes, &m, 12);
        for (size_t len = 0; len < sizeof(bytes); len++) {
                struct pipe p;

                open_pipe(&p);
                if (len)
                        send_with_fds(&p, bytes, len, 1);
                close(p.in);
                p.in = -1;
                EXPECT_EQ(read_one(&p), len ? -EPROTO : -ECONNRESET);
                EXPECT_STR(p.why, !len       ? "the peer has left"
                                  : len < 12 ? "the peer has left within a message: short header"
                                             : "the peer has left within a message: short payload");
                close_pipe(&p);
        }
}

/* hostile A04 A10 */
TEST(msg, of_another_version_or_too_long_is_refused_by_its_header)
{
        static const struct {
                uint32_t flags, size;
                const char *why;
        } bad[] = {
                {0,                0,                  "version" },
                { 2,               0,                  "version" },
                { 3,               0,                  "version" },
                { VU_FLAG_VERSION, UINT32_MAX,         "too long"},
                { VU_FLAG_VERSION, VU_PAYLOAD_MAX + 1, "too long"}
        };

        for (unsigned i = 0; i < 5; i++) {
                uint32_t header[3] = { VHOST_USER_GET_FEATURES, bad[i].flags, bad[i].size };
                struct pipe p;

                open_pipe(&p);
                send_with_fds(&p, header, sizeof(header), 3);
                EXPECT_EQ(read_one(&p), -EPROTO);
                EXPECT(strstr(p.why, bad[i].why));
                close_pipe(&p);
        }
}

TEST(msg, of_the_greatest_length_is_read)
{
        static struct vu_msg m = { .request = 1000, .flags = VU_FLAG_VERSION, .size = VU_PAYLOAD_MAX };
        struct pipe p;

        m.bytes[VU_PAYLOAD_MAX - 1] = 0x5a;
        open_pipe(&p);
        EXPECT_EQ(vu_write(p.in, &m, NULL, 0, 1000), 0);
        EXPECT_EQ(read_one(&p), 1);
        EXPECT_EQ(p.reader.msg.bytes[VU_PAYLOAD_MAX - 1], 0x5a);
        close_pipe(&p);
}

/* hostile A15 A19 */
TEST(msg, with_too_many_fds_keeps_none_of_them)
{
        static const unsigned counts[] = { 9, 16, 253 };
        uint32_t header[3] = { VHOST_USER_SET_MEM_TABLE, VU_FLAG_VERSION, 100 };

        for (unsigned i = 0; i < 3; i++) {
                struct pipe p;

                open_pipe(&p);
                send_with_fds(&p, header, sizeof(header), counts[i]);
                EXPECT_EQ(read_one(&p), -EPROTO);
                EXPECT(strstr(p.why, "too many"));
                close_pipe(&p);
        }
}

/* hostile A15 */
TEST(msg, with_too_many_fds_in_small_portions_keeps_none_of_them_either)
{
        uint32_t header[3] = { VHOST_USER_SET_MEM_TABLE, VU_FLAG_VERSION, 100 };
        struct pipe p;

        open_pipe(&p);
        send_with_fds(&p, header, sizeof(header), 5);
        EXPECT_EQ(read_one(&p), 0);
        send_with_fds(&p, "abcd", 4, 3);
        EXPECT_EQ(read_one(&p), 0);
        EXPECT_EQ(p.reader.msg.n_fds, 8);
        send_with_fds(&p, "abcd", 4, 1);
        EXPECT_EQ(read_one(&p), -EPROTO);
        close_pipe(&p);
}

TEST(msg, writer_waits_for_a_reader_only_so_long)
{
        struct vu_msg m = { .request = VHOST_USER_SET_OWNER,
                            .flags = VU_FLAG_VERSION,
                            .size = VU_PAYLOAD_MAX };
        struct pipe p;
        int r;

        open_pipe(&p);
        do
                r = vu_write(p.in, &m, NULL, 0, 1);
        while (!r);
        EXPECT_EQ(r, -ETIMEDOUT);
        EXPECT_EQ(vu_write(p.in, &m, NULL, 0, 0), -ETIMEDOUT);
        close_pipe(&p);
}

TEST(msg, writer_to_nobody_gets_an_error_and_no_signal)
{
        struct vu_msg m = { .request = VHOST_USER_SET_OWNER, .flags = VU_FLAG_VERSION };
        struct pipe p;

        open_pipe(&p);
        close(p.in);
        p.in = -1;
        EXPECT_EQ(vu_write(p.out, &m, NULL, 0, 1000), -ECONNRESET);
        close_pipe(&p);
}

TEST(msg, every_request_has_a_name)
{
        for (uint32_t r = 1; r < VHOST_USER_REQUEST_MAX; r++)
                EXPECT(strcmp(vu_request_name(r), "unknown request"));
        EXPECT_STR(vu_request_name(0), "unknown request");
        EXPECT_STR(vu_request_name(VHOST_USER_REQUEST_MAX), "unknown request");
        EXPECT_STR(vu_request_name(UINT32_MAX), "unknown request");
        EXPECT_STR(vu_request_name(VHOST_USER_REM_MEM_REG), "REM_MEM_REG");
}
