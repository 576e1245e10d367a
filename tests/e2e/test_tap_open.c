/* Opening a TAP: by name, in another namespace, into a bridge, persistent, inherited; and what is said and left behind when it
 * cannot be. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "lab.h"
#include "port/netlink.h"
#include "test.h"
#include "vwire/port.h"

#define LAB()                                                                                                \
        do {                                                                                                 \
                if (!lab_enter())                                                                            \
                        SKIP("needs the right to make a network namespace");                                 \
        } while (0)

static struct vw_port *port;
static const char *why;

static int try_open(const char *spec, unsigned pairs)
{
        struct vw_port_config config = { .pairs = pairs };

        port = NULL;
        why = NULL;
        return vw_port_open(spec, &config, &port, &why);
}

/* Fails with this error and a sentence that has this part, and leaves nothing behind. */
static void refused(const char *spec, unsigned pairs, int r, const char *part)
{
        unsigned fds = lab_count_fds(), links = lab_count_links();

        EXPECT_EQ(try_open(spec, pairs), r);
        EXPECT(!port);
        if (!strstr(why, part))
                fail_msg("'%s' is not in '%s'", part, why);
        EXPECT_EQ(lab_count_fds(), fds);
        EXPECT_EQ(lab_count_links(), links);
}

static void opened(const char *spec, unsigned pairs)
{
        if (try_open(spec, pairs) < 0)
                fail_msg("%s", why);
}

static struct vw_port_info info(void)
{
        struct vw_port_info i;

        vw_port_info(port, &i);
        return i;
}

TEST(tap_open, makes_a_tap_that_goes_with_the_port)
{
        LAB();
        opened("tap:vwt0", 1);
        EXPECT(if_nametoindex("vwt0"));
        EXPECT(info().link_up);
        vw_port_close(port);
        EXPECT(!if_nametoindex("vwt0"));
        EXPECT_EQ(errno, ENODEV);
}

TEST(tap_open, gives_it_an_mtu)
{
        LAB();
        struct vw_port_config config = { .pairs = 1, .mtu = 9000 };

        EXPECT_EQ(vw_port_open("tap:vwt0", &config, &port, &why), 0);
        EXPECT_EQ(info().mtu, 9000);
        EXPECT(vw_port_rx_max(port, 0) > 9018);
        vw_port_close(port);
        config.mtu = 70000;
        EXPECT_EQ(vw_port_open("tap:vwt0", &config, &port, &why), -EINVAL);
        EXPECT(strstr(why, "cannot set its MTU to 70000"));
}

TEST(tap_open, lets_the_kernel_choose_a_number)
{
        LAB();
        opened("tap:vwt%d", 2);
        EXPECT_STR(info().name, "vwt0");
        vw_port_close(port);
}

TEST(tap_open, attaches_what_somebody_made_with_one_queue_or_many)
{
        LAB();
        EXPECT(lab_sh("ip tuntap add vws mode tap && ip tuntap add vwm mode tap multi_queue"));
        opened("tap:vws", 1);
        EXPECT(info().link_up);
        vw_port_close(port);
        opened("tap:vwm", 1);
        EXPECT_EQ(vw_port_set_active(port, 1), 0);
        vw_port_close(port);
        opened("tap:vwm", 3);
        vw_port_close(port);
        EXPECT(if_nametoindex("vws") && if_nametoindex("vwm"));
        refused("tap:vws", 2, -EINVAL, "not a TAP with several queues: take one queue pair, or make it with");
}

TEST(tap_open, counts_what_is_dropped_from_now_on_only)
{
        LAB();
        int sock;

        EXPECT(lab_sh("ip tuntap add vws mode tap && ip link set vws up"));
        opened("tap:vws", 1);
        sock = lab_packet_socket("vws", false);
        for (unsigned i = 0; i < 2000; i++)
                EXPECT_EQ(write(sock, "0123456789abcdefghij", 20), 20);
        EXPECT(info().dropped > 0);
        vw_port_close(port);
        close(sock);
        opened("tap:vws", 1);
        EXPECT_EQ(info().dropped, 0);
        vw_port_close(port);
}

TEST(tap_open, refuses_what_is_taken_or_no_tap)
{
        LAB();
        opened("tap:vwt0", 1);
        struct vw_port *first = port;

        refused("tap:vwt0", 1, -EBUSY, "in use by another program");
        vw_port_close(first);
        refused("tap:lo", 1, -EINVAL, "not a TAP: take another name");
        refused("tap:12345678901234567", 1, -EINVAL, "NAME is over the limit of 15 characters");
        EXPECT(lab_sh("ip tuntap add vwtun mode tun"));
        refused("tap:vwtun", 1, -EINVAL, "not a TAP");
}

TEST(tap_open, keeps_a_persistent_one)
{
        LAB();
        opened("tap:vwt0,persist", 1);
        vw_port_close(port);
        EXPECT(if_nametoindex("vwt0"));
        opened("tap:vwt0", 1);
        vw_port_close(port);
        EXPECT(if_nametoindex("vwt0"));
        EXPECT(lab_sh("ip link del vwt0"));
}

TEST(tap_open, joins_a_bridge_and_leaves_it_again)
{
        LAB();
        refused("tap:vwt0,bridge=vwbr", 1, -ENODEV,
                "no bridge vwbr: make it with 'ip link add vwbr type bridge'");
        EXPECT(lab_sh("ip link add vwbr type bridge && ip tuntap add vwp mode tap"));
        opened("tap:vwt0,bridge=vwbr", 1);
        EXPECT(info().bridged);
        vw_port_close(port);
        opened("tap:vwp,bridge=vwbr", 1);
        EXPECT(lab_sh("ip link show vwp | grep -q 'master vwbr'"));
        vw_port_close(port);
        EXPECT(!lab_sh("ip link show vwp | grep -q 'master vwbr'"));
        EXPECT(lab_sh("ip link set vwp master vwbr"));
        opened("tap:vwp,bridge=vwbr", 1);
        vw_port_close(port);
        EXPECT(lab_sh("ip link show vwp | grep -q 'master vwbr'"));
        refused("tap:vwt0,bridge=lo", 1, -EOPNOTSUPP, "cannot join the bridge lo");
}

TEST(tap_open, works_in_a_namespace_by_name)
{
        LAB();
        char spec[64], name[32];

        snprintf(name, sizeof(name), "vw-port-%d", getpid());
        if (!lab_sh("ip netns add %s", name))
                SKIP("needs ip netns");
        snprintf(spec, sizeof(spec), "tap:vwt0,netns=%s", name);
        if (try_open(spec, 2) < 0) {
                lab_sh("ip netns del %s", name);
                fail_msg("%s", why);
        }
        EXPECT(!if_nametoindex("vwt0"));
        EXPECT(lab_sh("ip -n %s link show vwt0 | grep -q UP", name));
        EXPECT(lab_sh("ip -n %s link set vwt0 mtu 1300", name));
        EXPECT_EQ(info().mtu, 1300);
        EXPECT_EQ(vw_port_set_identity(port, NULL, 1400), 0);
        EXPECT(lab_sh("ip -n %s link show vwt0 | grep -q 'mtu 1400'", name));
        vw_port_close(port);
        EXPECT(!lab_sh("ip -n %s link show vwt0 2>/dev/null", name));
        EXPECT(lab_sh("ip netns del %s", name));
        refused(spec, 1, -ENOENT, "make it with 'ip netns add");
}

TEST(tap_open, works_in_a_namespace_by_process_id)
{
        LAB();
        char spec[64];
        pid_t pid = lab_neighbour();

        snprintf(spec, sizeof(spec), "tap:vwt0,netns=%d", pid);
        opened(spec, 1);
        EXPECT(!if_nametoindex("vwt0"));
        EXPECT(lab_sh("grep -q vwt0 /proc/%d/net/dev", pid));
        vw_port_close(port);
        EXPECT(!lab_sh("grep -q vwt0 /proc/%d/net/dev", pid));
        lab_neighbour_end(pid);
        refused(spec, 1, -ENOENT, "cannot open the namespace");
        refused("tap:vwt0,netns=../../etc", 1, -EINVAL, "cannot open the namespace");
}

/* ---- inherited fds ---- */

static int tun_fd(const char *name, int flags)
{
        struct ifreq req = { .ifr_flags = (short)flags };
        int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

        strncpy(req.ifr_name, name, IF_NAMESIZE - 1);
        EXPECT_EQ(ioctl(fd, TUNSETIFF, &req), 0);
        return fd;
}

#define GOOD_FLAGS (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)

TEST(tap_open, takes_fds_over)
{
        LAB();
        unsigned fds = lab_count_fds();
        char spec[64];
        int a = tun_fd("vwt0", GOOD_FLAGS | IFF_MULTI_QUEUE),
            b = tun_fd("vwt0", GOOD_FLAGS | IFF_MULTI_QUEUE);

        snprintf(spec, sizeof(spec), "tap:fd=%d+%d", a, b);
        opened(spec, 2);
        EXPECT_STR(info().name, "vwt0");
        EXPECT(!info().link_up); /* as it was */
        EXPECT(lab_sh("ip link set vwt0 up"));
        EXPECT(info().link_up);
        EXPECT_EQ(vw_port_set_active(port, 1), 0);
        EXPECT(fcntl(vw_port_fd(port, 1), F_GETFL) & O_NONBLOCK);
        vw_port_close(port);
        EXPECT_EQ(lab_count_fds(), fds);
        EXPECT(!if_nametoindex("vwt0"));
}

TEST(tap_open, finds_an_inherited_tap_in_another_namespace)
{
        LAB();
        char spec[64];
        int fd = tun_fd("vwt0", GOOD_FLAGS);

        EXPECT(lab_sh("ip link set vwt0 mtu 1234 up"));
        LAB();
        snprintf(spec, sizeof(spec), "tap:fd=%d", fd);
        opened(spec, 1);
        EXPECT_STR(info().name, "vwt0");
        EXPECT_EQ(info().mtu, 1234);
        EXPECT(info().link_up);
        vw_port_close(port);
}

TEST(tap_open, refuses_fds_that_will_not_do_and_leaves_them_alone)
{
        LAB();
        int good = tun_fd("vwt0", GOOD_FLAGS), tun = tun_fd("vwt1", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR),
            bare = tun_fd("vwt2", IFF_TAP | IFF_NO_PI), other = tun_fd("vwt3", GOOD_FLAGS);
        char spec[64];
        const struct {
                const char *fmt;
                int a, b;
                unsigned pairs;
                int r;
                const char *part;
        } rows[] = {
                {"tap:fd=%d",              good,          0,     2, -EINVAL, "1 fds for 2 queue pairs: one for each is needed"},
                { "tap:fd=%d",             tun,           0,     1, -EINVAL,
                 "was not opened with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR"                                                    },
                { "tap:fd=%d",             bare,          0,     1, -EINVAL,
                 "was not opened with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR"                                                    },
                { "tap:fd=%d+%d",          good,          other, 2, -EINVAL, "belongs to vwt3, not to vwt0"                   },
                { "tap:fd=%d,persist",     good,          0,     1, -EINVAL, "fd= goes with no other option"                  },
                { "tap:vwt4,fd=%d",        good,          0,     1, -EINVAL, "fd= goes with no other option"                  },
                { "tap:fd=%d,netns=1",     good,          0,     1, -EINVAL, "fd= goes with no other option"                  },
                { "tap:fd=%d,bridge=vwbr", good,          0,     1, -EINVAL, "fd= goes with no other option"                  },
                { "tap:fd=%d",             99999,         0,     1, -EBADF,  "is not a TAP's"                                 },
                { "tap:fd=%d",             STDERR_FILENO, 0,     1, -EINVAL, "is not a TAP's"                                 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                snprintf(spec, sizeof(spec), rows[i].fmt, rows[i].a, rows[i].b);
                refused(spec, rows[i].pairs, rows[i].r, rows[i].part);
        }
        close(good), close(tun), close(bare), close(other);
}

/* ---- without rights ---- */

/* Runs `check` in a child without any right; its result. */
static int without_rights(int (*run)(void))
{
        pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ? 99 : run());
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        EXPECT(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static int run_make(void)
{
        return try_open("tap:vwt0", 1) < 0 && strstr(why, "run as root or hand a fd over with tap:fd=N") ? 0
                                                                                                         : 1;
}

static char inherited[64];

static int run_inherit(void)
{
        struct vw_port_info i;

        if (try_open(inherited, 1) < 0)
                return 1;
        vw_port_info(port, &i);
        vw_port_close(port);
        return strcmp(i.name, "vwt0") || !i.link_up || i.mtu != 1500 ? 2 : 0;
}

/* Its namespace is out of reach, so nothing is known about it but what the fd says. */
static int run_inherit_from_elsewhere(void)
{
        const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
        int r;

        if (try_open(inherited, 1) < 0)
                return 1;
        r = vw_port_set_identity(port, mac, 1400);
        vw_port_close(port);
        return r == -EPERM ? 0 : 2;
}

TEST(tap_open, changes_no_interface_that_it_cannot_see)
{
        LAB();
        int fd = tun_fd("vwt0", GOOD_FLAGS);

        LAB(); /* another namespace than the TAP's */
        snprintf(inherited, sizeof(inherited), "tap:fd=%d", fd);
        EXPECT_EQ(without_rights(run_inherit_from_elsewhere), 0);
        close(fd);
}

TEST(tap_open, asks_nobody_through_a_socket_that_is_not_open)
{
        struct netlink nl = { 0 };
        struct netlink_link link;

        EXPECT_EQ(netlink_get(&nl, "lo", 0, &link), -EOPNOTSUPP);
        EXPECT_EQ(netlink_event_fd(&nl), -1);
        netlink_close(&nl);
}

TEST(tap_open, says_what_to_do_without_rights)
{
        LAB();
        EXPECT_EQ(without_rights(run_make), 0);
}

TEST(tap_open, takes_a_fd_over_without_rights)
{
        LAB();
        int fd = tun_fd("vwt0", GOOD_FLAGS);

        EXPECT(lab_sh("ip link set vwt0 up"));
        snprintf(inherited, sizeof(inherited), "tap:fd=%d", fd);
        EXPECT_EQ(without_rights(run_inherit), 0);
        close(fd);
}
