/* The control socket's server, over socket pairs: pieces of lines, long ones, many clients, slow ones, files. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/proto.h"
#include "ctl/server.h"
#include "ctl/sock.h"
#include "ctl_script.h"
#include "scale.h"

struct rig {
        struct ctl_script script;
        struct ctl_server *server;
        int client;
};

static int add_client(struct rig *rig)
{
        int pair[2];

        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        ctl_server_add(rig->server, pair[1]);
        return pair[0];
}

static void rig_init(struct rig *rig)
{
        const char *why;

        ctl_script_init(&rig->script);
        EXPECT_EQ(ctl_server_new(NULL, &ctl_script_ops, &rig->script, &rig->server, &why), 0);
        rig->client = add_client(rig);
}

static void rig_done(struct rig *rig)
{
        close(rig->client);
        ctl_server_free(rig->server);
        ctl_script_done(&rig->script);
}

/* Until nothing is ready any more. */
static void serve(struct rig *rig)
{
        struct pollfd p = { .fd = ctl_server_fd(rig->server), .events = POLLIN };

        while (poll(&p, 1, 0) == 1)
                ctl_server_dispatch(rig->server);
}

static void say(struct rig *rig, const char *text)
{
        EXPECT_EQ(send(rig->client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
        serve(rig);
}

static const char *hear(int fd)
{
        static char buf[4096];
        ssize_t n = recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);

        buf[n < 0 ? 0 : n] = '\0';
        return n == 0 ? "(closed)" : buf;
}

static int count_fds(void)
{
        int n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

#define STOP    "{\"id\":1,\"command\":\"stop\"}\n"
#define STOPPED "{\"id\":1,\"return\":{}}\n"

TEST(ctl_server, answers_a_line)
{
        struct rig rig;

        rig_init(&rig);
        say(&rig, STOP);
        EXPECT_STR(hear(rig.client), STOPPED);
        EXPECT(rig.script.stopped);
        rig_done(&rig);
}

TEST(ctl_server, waits_for_the_end_of_a_line)
{
        struct rig rig;
        const char *line = STOP;

        rig_init(&rig);
        for (size_t i = 0; i < strlen(line); i++) {
                EXPECT_STR(hear(rig.client), "");
                say(&rig, (char[]){ line[i], '\0' });
        }
        EXPECT_STR(hear(rig.client), STOPPED);
        rig_done(&rig);
}

TEST(ctl_server, answers_several_lines_in_order)
{
        struct rig rig;

        rig_init(&rig);
        say(&rig, "{\"id\":1,\"command\":\"nope\"}\n{\"id\":2,\"command\":\"stop\"}\n{\"id\":3,\"comm");
        EXPECT_STR(
                hear(rig.client),
                "{\"id\":1,\"error\":{\"class\":\"unknown-command\",\"message\":\"there is no command nope\"}}\n"
                "{\"id\":2,\"return\":{}}\n");
        say(&rig, "and\":\"stop\"}\n");
        EXPECT_STR(hear(rig.client), "{\"id\":3,\"return\":{}}\n");
        rig_done(&rig);
}

TEST(ctl_server, a_last_line_may_do_without_its_newline)
{
        struct rig rig;

        rig_init(&rig);
        say(&rig, "{\"id\":1,\"command\":\"stop\"}");
        EXPECT_STR(hear(rig.client), "");
        shutdown(rig.client, SHUT_WR);
        serve(&rig);
        EXPECT_STR(hear(rig.client), STOPPED);
        EXPECT_STR(hear(rig.client), "(closed)");
        EXPECT_EQ(ctl_server_clients(rig.server), 0);
        rig_done(&rig);
}

TEST(ctl_server, malformed_json_costs_an_error_and_not_the_connection)
{
        struct rig rig;

        rig_init(&rig);
        say(&rig, "\n{{{\n" STOP);
        EXPECT(strstr(hear(rig.client), "\"invalid-value\""));
        EXPECT(rig.script.stopped);
        rig_done(&rig);
}

TEST(ctl_server, a_line_over_the_limit_ends_the_connection_with_a_word)
{
        struct rig rig;
        char part[4096];

        rig_init(&rig);
        memset(part, ' ', sizeof(part));
        for (unsigned i = 0; i < CTL_LINE_MAX / sizeof(part); i++) {
                EXPECT_EQ(send(rig.client, part, sizeof(part), MSG_NOSIGNAL), sizeof(part));
                serve(&rig);
        }
        EXPECT_STR(
                hear(rig.client),
                "{\"id\":null,\"error\":{\"class\":\"invalid-value\",\"message\":\"the line is over the limit of "
                "65536 bytes\"}}\n");
        EXPECT_STR(hear(rig.client), "(closed)");
        EXPECT_EQ(ctl_server_clients(rig.server), 0);
        rig_done(&rig);
}

TEST(ctl_server, a_line_of_just_the_limit_is_read)
{
        struct rig rig;
        static char line[CTL_LINE_MAX];

        rig_init(&rig);
        memset(line, ' ', sizeof(line));
        memcpy(line, STOP, strlen(STOP) - 1);
        line[sizeof(line) - 1] = '\n';
        for (size_t at = 0; at < sizeof(line); at += 4096) {
                EXPECT_EQ(send(rig.client, line + at, 4096, MSG_NOSIGNAL), 4096);
                serve(&rig);
        }
        EXPECT_STR(hear(rig.client), STOPPED);
        rig_done(&rig);
}

TEST(ctl_server, a_client_that_does_not_read_is_not_read_from_and_harms_nobody)
{
        static const char command[] = "{\"id\":1,\"command\":\"stats\"}\n";
        struct rig rig;
        unsigned sent = 0, answered = 0;
        char buf[65536];
        int other;

        rig_init(&rig);
        other = add_client(&rig);
        for (unsigned i = 0; i < 100000; i++) {
                ssize_t n = send(rig.client, command, sizeof(command) - 1, MSG_NOSIGNAL);

                if (n < 0) {
                        EXPECT_EQ(errno, EAGAIN);
                        break;
                }
                EXPECT_EQ(n, sizeof(command) - 1);
                sent++;
                serve(&rig);
        }
        EXPECT(sent < 100000);

        EXPECT_EQ(send(other, STOP, strlen(STOP), MSG_NOSIGNAL), strlen(STOP));
        serve(&rig);
        EXPECT_STR(hear(other), STOPPED);

        /* once it reads, every command is answered */
        while (answered < sent) {
                ssize_t n = recv(rig.client, buf, sizeof(buf), 0);

                EXPECT(n > 0);
                for (ssize_t i = 0; i < n; i++)
                        answered += buf[i] == '\n';
                serve(&rig);
        }
        EXPECT_EQ(recv(rig.client, buf, sizeof(buf), 0), -1);
        close(other);
        rig_done(&rig);
}

TEST(ctl_server, serves_many_clients_and_tells_the_one_too_many)
{
        struct rig rig;
        int fds[CTL_CLIENTS_MAX + 1] = { 0 };

        rig_init(&rig);
        fds[0] = rig.client;
        for (unsigned i = 1; i <= CTL_CLIENTS_MAX; i++)
                fds[i] = add_client(&rig);
        EXPECT_EQ(ctl_server_clients(rig.server), CTL_CLIENTS_MAX);
        for (unsigned i = 0; i < CTL_CLIENTS_MAX; i++)
                EXPECT_EQ(send(fds[i], STOP, strlen(STOP), MSG_NOSIGNAL), strlen(STOP));
        serve(&rig);
        for (unsigned i = 0; i < CTL_CLIENTS_MAX; i++)
                EXPECT_STR(hear(fds[i]), STOPPED);
        EXPECT(strstr(hear(fds[CTL_CLIENTS_MAX]), "\"too many clients\""));
        EXPECT_STR(hear(fds[CTL_CLIENTS_MAX]), "(closed)");
        for (unsigned i = 1; i <= CTL_CLIENTS_MAX; i++)
                close(fds[i]);
        serve(&rig);
        EXPECT_EQ(ctl_server_clients(rig.server), 1);
        rig_done(&rig);
}

TEST(ctl_server, clients_that_come_and_go_leave_nothing)
{
        struct rig rig;
        int before;

        rig_init(&rig);
        before = count_fds();
        for (unsigned i = 0; i < test_scale(1000, 10000); i++) {
                int fd = add_client(&rig);

                if (i % 3)
                        EXPECT_EQ(send(fd, "{\"id\":1,\"com", 11, MSG_NOSIGNAL), 11);
                if (i % 2)
                        serve(&rig);
                close(fd);
                serve(&rig);
        }
        EXPECT_EQ(ctl_server_clients(rig.server), 1);
        EXPECT_EQ(count_fds(), before);
        rig_done(&rig);
}

/* ---- files ---- */

static void send_files(int sock, const char *text, const int *fds, unsigned n)
{
        struct iovec iov = { .iov_base = (char *)text, .iov_len = strlen(text) };
        union {
                char bytes[CMSG_SPACE(8 * sizeof(int))];
                struct cmsghdr align;
        } control = { 0 };
        struct msghdr msg = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = CMSG_SPACE(n * sizeof(int)) };

        *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                 .cmsg_type = SCM_RIGHTS,
                                                 .cmsg_len = CMSG_LEN(n * sizeof(int)) };
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, n * sizeof(int));
        EXPECT_EQ(sendmsg(sock, &msg, MSG_NOSIGNAL), (ssize_t)iov.iov_len);
}

TEST(ctl_server, a_file_reaches_the_command_that_it_came_with)
{
        struct rig rig;
        int file = open("/dev/null", O_WRONLY | O_CLOEXEC), before;

        rig_init(&rig);
        before = count_fds();
        EXPECT_EQ(send(rig.client, "{\"id\":1,\"command\":\"why\"}\n", 25, MSG_NOSIGNAL), 25);
        send_files(rig.client, "{\"id\":2,\"command\":\"pcap\",\"arguments\":{\"on\":true}}\n", &file, 1);
        serve(&rig);
        EXPECT(strstr(hear(rig.client), "{\"id\":2,\"return\":{}}"));
        EXPECT(rig.script.file >= 0);
        EXPECT(fcntl(rig.script.file, F_GETFD) & FD_CLOEXEC);
        EXPECT_EQ(count_fds(), before + 1);
        close(file);
        rig_done(&rig);
}

TEST(ctl_server, files_that_nobody_takes_are_closed)
{
        int files[8], before, held;
        struct rig rig;

        for (unsigned i = 0; i < 8; i++)
                files[i] = open("/dev/null", O_WRONLY | O_CLOEXEC);
        rig_init(&rig);
        before = count_fds();
        for (unsigned i = 0; i < 100; i++) {
                send_files(rig.client, STOP, files, 1 + i % 8);
                serve(&rig);
                EXPECT_STR(hear(rig.client), STOPPED);
        }
        held = count_fds();
        EXPECT(held <= before + 1);
        for (unsigned i = 0; i < 8; i++)
                close(files[i]);
        close(rig.client);
        serve(&rig);
        EXPECT_EQ(ctl_server_clients(rig.server), 0);
        EXPECT_EQ(count_fds(), before - 10);
        rig.client = -1;
        rig_done(&rig);
}

/* ---- by path ---- */

TEST(ctl_server, listens_for_its_user_only_and_removes_its_socket)
{
        struct ctl_script script;
        struct ctl_server *server;
        char path[64];
        const char *why;
        struct stat st;

        snprintf(path, sizeof(path), "/tmp/vw-test-ctl-%d", (int)getpid());
        ctl_script_init(&script);
        EXPECT_EQ(ctl_server_new(path, &ctl_script_ops, &script, &server, &why), 0);
        EXPECT_EQ(lstat(path, &st), 0);
        EXPECT(S_ISSOCK(st.st_mode));
        EXPECT_EQ(st.st_mode & 0777, 0600);
        ctl_server_free(server);
        EXPECT_EQ(lstat(path, &st), -1);
        ctl_script_done(&script);
}
