#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int notify_open(int *ret_fd)
{
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        const char *path = getenv("NOTIFY_SOCKET");
        socklen_t len;
        int fd;

        *ret_fd = -1;
        if (!path)
                return 0;
        if ((*path != '/' && *path != '@') || strlen(path) >= sizeof(addr.sun_path))
                return -EINVAL;
        memcpy(addr.sun_path, path, strlen(path));
        len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
        if (*path == '@') /* an abstract address begins with a zero byte */
                addr.sun_path[0] = '\0';
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (connect(fd, (const struct sockaddr *)&addr, len) < 0) {
                int r = -errno;

                close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

int notify_ready(int fd)
{
        int r = 0;

        if (fd < 0)
                return 0;
        if (send(fd, "READY=1", 7, MSG_NOSIGNAL) < 0)
                r = -errno;
        close(fd);
        return r;
}
