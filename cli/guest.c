#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define PROGRAM "/tmp/vwire" /* ours, where the guest finds it whatever lies below /tmp outside */
#define INIT    "/tmp/guest-init"

static const char init[] =
        "#!/bin/sh\n"
        "mount -t proc proc /proc\n"
        "mount -t sysfs sys /sys\n"
        "modules=$(ls -d /usr/lib/uml/modules/*/kernel | tail -1)\n"
        "for m in net/core/failover drivers/net/net_failover drivers/net/virtio_net; do insmod $modules/$m.ko; done\n"
        "n=0; while [ ! -e /sys/class/net/eth0 ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done\n"
        "ip link set lo up\n"
        "ip link set eth0 up\n"
        "ip addr add " LINK_DRIVER_ADDRESS "/24 dev eth0\n"
        "exec " PROGRAM " bench serve " LINK_DRIVER_ADDRESS "\n";

const char *guest_lacks(void)
{
        static const char *const programs[] = { "linux.uml", "insmod", "ip", "unshare" };

        for (unsigned i = 0; i < ARRAY_LEN(programs); i++)
                if (!child_found(programs[i]))
                        return programs[i];
        return NULL;
}

static int copy_program(void)
{
        int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
            to = open(PROGRAM, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0700), r = -EIO;
        struct stat st;

        if (to < 0)
                r = errno == EEXIST ? 0 : -errno; /* an earlier guest's */
        else if (from >= 0 && fstat(from, &st) == 0 &&
                 sendfile(to, from, NULL, (size_t)st.st_size) == st.st_size)
                r = 0;
        if (from >= 0)
                close(from);
        if (to >= 0)
                close(to);
        return r;
}

static int write_init(void)
{
        int fd = open(INIT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700), r = 0;

        if (fd < 0)
                return -errno;
        if (write(fd, init, sizeof(init) - 1) != (ssize_t)sizeof(init) - 1)
                r = -EIO;
        close(fd);
        return r;
}

int guest_start(struct link *l)
{
        char device[80], umid[48];
        /* the guest ignores SIGTERM and has processes of its own: all go with the first of their namespace */
        const char *const argv[] = { "unshare",
                                     "--pid",
                                     "--fork",
                                     "--kill-child",
                                     "--mount-proc",
                                     "linux.uml",
                                     "mem=256M",
                                     "root=/dev/root",
                                     "rootfstype=hostfs",
                                     "rw",
                                     ("init=" INIT),
                                     "con=null",
                                     "con0=null,fd:2",
                                     "quiet",
                                     "uml_dir=/tmp/",
                                     umid,
                                     device,
                                     NULL };
        int r = copy_program();

        if (r == 0)
                r = write_init();
        snprintf(device, sizeof(device), "virtio_uml.device=%s:1", l->socket);
        snprintf(umid, sizeof(umid), "umid=%s", strrchr(l->socket, '/') + 1);
        if (r == 0)
                r = child_start(&l->driver.child, "guest", l->driver.netns, l->driver.log, false, argv);
        return r < 0 ? link_fail(l, "no guest can be started: %s", strerror(-r)) : -1;
}

bool guest_serves(const struct link *l)
{
        FILE *f = fopen(l->driver.log, "re");
        bool serves = false;
        char line[256];

        while (f && !serves && fgets(line, sizeof(line), f))
                serves = strstr(line, GUEST_SERVES);
        if (f)
                fclose(f);
        return serves;
}
