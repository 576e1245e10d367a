#include "lab.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

bool lab_enter(void)
{
        int fd;

        if (unshare(CLONE_NEWNET) < 0)
                return false;
        fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC);
        if (fd >= 0) {
                if (write(fd, "1", 1) != 1)
                        fprintf(stderr, "# IPv6 stays on\n");
                close(fd);
        }
        return lab_sh("ip link set lo up");
}

bool lab_sh(const char *fmt, ...)
{
        char line[512];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        return system(line) == 0;
}

unsigned lab_count_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        while (dir && readdir(dir))
                n++;
        closedir(dir);
        return n;
}

unsigned lab_count_links(void)
{
        struct if_nameindex *list = if_nameindex();
        unsigned n = 0;

        while (list && list[n].if_index)
                n++;
        if_freenameindex(list);
        return n;
}

int lab_packet_socket(const char *ifname, bool vnet_hdr)
{
        int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
        struct sockaddr_ll addr = {
                .sll_family = AF_PACKET,
                .sll_protocol = htons(ETH_P_ALL),
                .sll_ifindex = (int)if_nametoindex(ifname),
        };

        if (fd < 0 || !addr.sll_ifindex ||
            (vnet_hdr && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) < 0) ||
            setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) < 0 ||
            bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
                close(fd);
                return -1;
        }
        return fd;
}

pid_t lab_neighbour(void)
{
        int ready[2];
        char byte;
        pid_t pid;

        if (pipe(ready) < 0)
                abort();
        pid = fork();
        if (pid == 0) {
                if (unshare(CLONE_NEWNET) == 0 && write(ready[1], "", 1) == 1)
                        pause();
                _exit(1);
        }
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1)
                abort();
        close(ready[0]);
        return pid;
}

void lab_neighbour_end(pid_t pid)
{
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
}
