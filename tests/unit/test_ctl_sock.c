/* Sockets by path: whose they are, who may come, what stays behind. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "ctl/proto.h"
#include "ctl/sock.h"
#include "scale.h"

static const char *fresh_path(void)
{
        static char path[64];

        snprintf(path, sizeof(path), "/tmp/vw-test-sock-%d", (int)getpid());
        unlink(path);
        return path;
}

TEST(ctl_sock, listens_accepts_and_removes_its_path)
{
        const char *path = fresh_path(), *why;
        struct sock_listener l = SOCK_LISTENER_NONE;
        struct stat st;
        int client, served;

        EXPECT_EQ(sock_listen(&l, path, 0640, (gid_t)-1, &why), 0);
        EXPECT_EQ(lstat(path, &st), 0);
        EXPECT_EQ(st.st_mode & 0777, 0640);
        EXPECT_EQ(sock_accept(&l), -EAGAIN);
        client = sock_connect(path, &why);
        EXPECT(client >= 0);
        served = sock_accept(&l);
        EXPECT(served >= 0);
        EXPECT(fcntl(served, F_GETFL) & O_NONBLOCK);
        EXPECT(fcntl(served, F_GETFD) & FD_CLOEXEC);
        close(client);
        close(served);
        sock_close(&l);
        EXPECT_EQ(l.fd, -1);
        EXPECT_EQ(lstat(path, &st), -1);
        sock_close(&l);
}

TEST(ctl_sock, as_many_as_may_come_at_once_are_let_in)
{
        const char *path = fresh_path(), *why;
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        struct sock_listener l;
        int clients[CTL_CLIENTS_MAX];

        snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
        EXPECT_EQ(sock_listen(&l, path, 0600, (gid_t)-1, &why), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++) {
                clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
                EXPECT_EQ(connect(clients[i], (struct sockaddr *)&addr, sizeof(addr)), 0);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++)
                close(clients[i]);
        sock_close(&l);
}

TEST(ctl_sock, the_mode_does_not_depend_on_the_umask_and_leaves_it)
{
        const char *path = fresh_path(), *why;
        struct sock_listener l;
        mode_t before = umask(0077);
        struct stat st;

        EXPECT_EQ(sock_listen(&l, path, 0666, (gid_t)-1, &why), 0);
        EXPECT_EQ(lstat(path, &st), 0);
        EXPECT_EQ(st.st_mode & 0777, 0666);
        EXPECT_EQ(umask(before), 0077);
        sock_close(&l);
}

TEST(ctl_sock, a_stale_socket_is_replaced)
{
        const char *path = fresh_path(), *why;
        struct sock_listener l, stale;

        EXPECT_EQ(sock_listen(&stale, path, 0600, (gid_t)-1, &why), 0);
        close(stale.fd); /* as a killed process leaves it */
        EXPECT_EQ(sock_listen(&l, path, 0600, (gid_t)-1, &why), 0);
        close(stale.spare);
        sock_close(&l);
}

/* One of many processes that start at the same moment: 0 if it listens.  It does so until all have tried. */
static int rival(const char *path, int start, int tried, int over)
{
        struct sock_listener l = SOCK_LISTENER_NONE;
        const char *why;
        char byte = 0;
        int r;

        if (read(start, &byte, 1) != 0)
                return 2;
        r = sock_listen(&l, path, 0600, (gid_t)-1, &why);
        if (write(tried, &byte, 1) != 1 || read(over, &byte, 1) != 0)
                return 2;
        return r < 0;
}

TEST(ctl_sock, of_many_that_replace_a_stale_socket_one_succeeds)
{
        enum { RIVALS = 8 };
        const unsigned rounds = (unsigned)test_scale(300, 5000);
        const char *path = fresh_path(), *why;

        for (unsigned round = 0; round < rounds; round++) {
                int start[2], tried[2], over[2], status;
                struct sock_listener stale;
                unsigned winners = 0;
                pid_t pid[RIVALS];
                char bytes[RIVALS];

                EXPECT_EQ(sock_listen(&stale, path, 0600, (gid_t)-1, &why), 0);
                close(stale.fd);
                close(stale.spare);
                EXPECT(pipe(start) == 0 && pipe(tried) == 0 && pipe(over) == 0);
                for (unsigned i = 0; i < RIVALS; i++) {
                        pid[i] = fork();
                        if (pid[i] == 0) {
                                close(start[1]);
                                close(over[1]);
                                _exit(rival(path, start[0], tried[1], over[0]));
                        }
                }
                close(start[0]);
                close(start[1]); /* now */
                for (unsigned i = 0; i < RIVALS; i++)
                        EXPECT_EQ(read(tried[0], &bytes[i], 1), 1);
                close(over[0]);
                close(over[1]);
                for (unsigned i = 0; i < RIVALS; i++) {
                        EXPECT_EQ(waitpid(pid[i], &status, 0), pid[i]);
                        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) < 2);
                        winners += WEXITSTATUS(status) == 0;
                }
                close(tried[0]);
                close(tried[1]);
                EXPECT_EQ(winners, 1);
                unlink(path);
        }
}

TEST(ctl_sock, a_socket_in_use_is_refused)
{
        const char *path = fresh_path(), *why;
        struct sock_listener l, second = SOCK_LISTENER_NONE;
        char words[128];
        int client;

        EXPECT_EQ(sock_listen(&l, path, 0600, (gid_t)-1, &why), 0);
        EXPECT_EQ(sock_listen(&second, path, 0600, (gid_t)-1, &why), -EADDRINUSE);
        snprintf(words, sizeof(words), "%s is in use: another process listens there", path);
        EXPECT_STR(why, words);
        EXPECT_EQ(second.fd, -1);
        client = sock_connect(path, &why);
        EXPECT(client >= 0);
        close(client);
        sock_close(&l);
}

TEST(ctl_sock, what_is_no_socket_is_never_removed)
{
        const char *path = fresh_path(), *why;
        struct sock_listener l = SOCK_LISTENER_NONE;
        struct stat st;

        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        EXPECT_EQ(sock_listen(&l, path, 0600, (gid_t)-1, &why), -EEXIST);
        EXPECT(strstr(why, "exists and is no socket"));
        EXPECT_EQ(lstat(path, &st), 0);
        unlink(path);
        EXPECT_EQ(symlink("/nowhere", path), 0);
        EXPECT_EQ(sock_listen(&l, path, 0600, (gid_t)-1, &why), -EEXIST);
        unlink(path);
}

TEST(ctl_sock, another_process_socket_at_the_path_is_not_removed_at_the_end)
{
        const char *path = fresh_path(), *why;
        struct sock_listener first, second;
        struct stat st;

        EXPECT_EQ(sock_listen(&first, path, 0600, (gid_t)-1, &why), 0);
        unlink(path);
        EXPECT_EQ(sock_listen(&second, path, 0600, (gid_t)-1, &why), 0);
        sock_close(&first);
        EXPECT_EQ(lstat(path, &st), 0);
        sock_close(&second);
        EXPECT_EQ(lstat(path, &st), -1);
}

TEST(ctl_sock, failures_say_what_to_do)
{
        struct sock_listener l = SOCK_LISTENER_NONE, stale;
        const char *path = fresh_path(), *why;
        char longest[200];

        memset(longest, 'x', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        EXPECT_EQ(sock_listen(&l, longest, 0600, (gid_t)-1, &why), -ENAMETOOLONG);
        EXPECT(strstr(why, "a socket's path has 1 to 107 bytes"));
        EXPECT_EQ(sock_connect(longest, &why), -ENAMETOOLONG);
        EXPECT_EQ(sock_connect("", &why), -ENAMETOOLONG);
        EXPECT_EQ(sock_listen(&l, "/nowhere/at/all", 0600, (gid_t)-1, &why), -ENOENT);
        EXPECT_STR(why, "/nowhere/at/all: cannot listen: No such file or directory");
        EXPECT_EQ(sock_connect(path, &why), -ENOENT);
        EXPECT(strstr(why, "there is no such socket: is it the --ctl=PATH of a running device or driver?"));
        EXPECT_EQ(sock_listen(&stale, path, 0600, (gid_t)-1, &why), 0);
        close(stale.fd);
        close(stale.spare);
        EXPECT_EQ(sock_connect(path, &why), -ECONNREFUSED);
        EXPECT(strstr(why, "nobody listens there any more"));
        unlink(path);
}

/* hostile J09 */
TEST(ctl_sock, a_client_is_turned_away_when_there_are_no_more_fds)
{
        const char *path = fresh_path(), *why;
        struct rlimit before, few;
        struct sock_listener l;
        int client, served;
        char byte;

        EXPECT_EQ(sock_listen(&l, path, 0600, (gid_t)-1, &why), 0);
        client = sock_connect(path, &why);
        EXPECT(client >= 0);
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = (struct rlimit){ .rlim_cur = (rlim_t)MAX(client, l.spare) + 1, .rlim_max = before.rlim_max };
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        served = sock_accept(&l);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
        EXPECT_EQ(served, -EMFILE);
        EXPECT(l.spare >= 0);
        EXPECT_EQ(recv(client, &byte, 1, MSG_DONTWAIT), 0);
        close(client);
        client = sock_connect(path, &why);
        served = sock_accept(&l);
        EXPECT(served >= 0);
        close(served);
        close(client);
        sock_close(&l);
}
