/* Two TAPs joined by the loop of src/bench/splice, for splice_ratio.py.
 *
 * usage: tap_splice [--nice=N] NETNS TAP NETNS TAP
 * Prints `ready` when both TAPs are there and up to be configured; ends with SIGINT or SIGTERM and prints what it carried. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/splice.h"

static int failed(const char *what, const char *why)
{
        fprintf(stderr, "tap_splice: %s: %s\n", what, why);
        return 1;
}

int main(int argc, char **argv)
{
        const char *why, *names[2];
        struct splice_counts counts;
        struct splice *splice;
        int netns[2], nice = 0, number;
        sigset_t signals;

        if (argc > 1 && strncmp(argv[1], "--nice=", 7) == 0) {
                nice = atoi(argv[1] + 7);
                argv++;
                argc--;
        }
        if (argc != 5) {
                fprintf(stderr, "usage: tap_splice [--nice=N] NETNS TAP NETNS TAP\n");
                return 2;
        }
        for (unsigned i = 0; i < 2; i++) {
                char path[128];

                snprintf(path, sizeof(path), "/run/netns/%s", argv[1 + 2 * i]);
                names[i] = argv[2 + 2 * i];
                netns[i] = open(path, O_RDONLY | O_CLOEXEC);
                if (netns[i] < 0)
                        return failed(path, strerror(errno));
        }
        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        sigprocmask(SIG_BLOCK, &signals, NULL);
        if (splice_new(netns, names, nice, &splice, &why) < 0)
                return failed("the TAPs cannot be joined", why);
        printf("ready\n");
        fflush(stdout);
        sigwait(&signals, &number);
        splice_counts(splice, &counts);
        splice_free(splice);
        printf("frames_forth=%" PRIu64 " lost_forth=%" PRIu64 " frames_back=%" PRIu64 " lost_back=%" PRIu64
               "\n",
               counts.frames[0], counts.lost[0], counts.frames[1], counts.lost[1]);
        return 0;
}
