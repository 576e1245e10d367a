/* Setting a TAP up while one call of the system fails: a clean refusal or a port that works, nothing left behind, and the
 * next try succeeds. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/check.h"
#include "faults.h"
#include "lab.h"
#include "test.h"
#include "vwire/port.h"

static int tap_fd(void)
{
        struct ifreq req = { .ifr_name = "vwi", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
        int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

        return ioctl(fd, TUNSETIFF, &req) < 0 ? -1 : fd;
}

/* hostile J09 */
TEST(tap_faults, leave_nothing_behind_whichever_call_fails)
{
        static const int errors[] = { ENOMEM, EMFILE, EPERM, ENOSPC };
        static const char *const specs[] = {
                "tap:vwt0",  "tap:vwt0,bridge=vwbr,persist", "tap:vwp,bridge=vwbr", "tap:vwt0,netns=self",
                "tap:fd=%d",
        };

        if (!lab_enter())
                SKIP("needs the right to make a network namespace");
        faults_subject(true);
        EXPECT(lab_sh("ip link add vwbr type bridge && ip tuntap add vwp mode tap"));
        for (size_t s = 0; s < ARRAY_SIZE(specs); s++) {
                for (size_t e = 0; e < ARRAY_SIZE(errors); e++) {
                        bool fired;
                        long n = 0;

                        do {
                                struct vw_port_config config = { .pairs = 1 };
                                struct vw_port *port = NULL;
                                const char *why = NULL;
                                char spec[64];
                                int fd = strchr(specs[s], '%') ? tap_fd() : -1, r;
                                unsigned fds = lab_count_fds(), links = lab_count_links();

                                snprintf(spec, sizeof(spec), specs[s], fd);
                                if (strstr(spec, "netns"))
                                        sprintf(strstr(spec, "self"), "%d", getpid());
                                faults_once(n++, errors[e]);
                                r = vw_port_open(spec, &config, &port, &why);
                                fired = faults_off();
                                if (r < 0) {
                                        EXPECT(!port);
                                        EXPECT(strncmp(why, spec, strlen(spec)) == 0);
                                        EXPECT_EQ(lab_count_fds(), fds);
                                        EXPECT_EQ(lab_count_links(), links);
                                        if (vw_port_open(spec, &config, &port, &why) < 0)
                                                fail_msg("%s", why);
                                } else {
                                        struct vw_port_info info;

                                        vw_port_info(port, &info);
                                        EXPECT_EQ(vw_port_set_rx_offloads(port, VW_OFFLOAD_ALL), 0);
                                }
                                vw_port_close(port);
                                if (strstr(spec, "persist"))
                                        EXPECT(lab_sh("ip link del vwt0"));
                                EXPECT_EQ(lab_count_fds(), fds - (fd >= 0));
                                EXPECT_EQ(lab_count_links(), links - (fd >= 0));
                        } while (fired);
                        EXPECT(n > 5);
                }
        }
}

/* hostile J08 */
TEST(tap_faults, run_without_offloads_that_the_kernel_refuses)
{
        struct vw_port_config config = { .pairs = 1 };
        struct vw_port_info info;
        struct vw_port *port;
        const char *why;

        if (!lab_enter())
                SKIP("needs the right to make a network namespace");
        faults_subject(true);
        faults_ioctl(TUNSETOFFLOAD, EINVAL);
        EXPECT_EQ(vw_port_open("tap:vwt0", &config, &port, &why), 0);
        EXPECT(faults_off());
        vw_port_info(port, &info);
        EXPECT_EQ(info.tx_offloads, VW_OFFLOAD_ALL & ~VW_OFFLOAD_USO);
        EXPECT_EQ(vw_port_set_rx_offloads(port, VW_OFFLOAD_ALL), 0);
        vw_port_info(port, &info);
        EXPECT_EQ(info.rx_offloads, VW_OFFLOAD_ALL & ~VW_OFFLOAD_USO);
        vw_port_close(port);
}

#define BURST  32
#define BURSTS 6 /* together few enough for the receiving socket */

/* Sends bursts, starting over with what was not taken; counts results by what they are. */
static void send_bursts(struct vw_port *port, unsigned bursts, int error, unsigned *sent, unsigned *lost)
{
        uint8_t frame[60] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };
        struct iovec iov[BURST][2];
        struct vw_pkt pkts[BURST];
        int result[BURST];

        for (unsigned b = 0; b < bursts; b++) {
                for (unsigned i = 0; i < BURST; i++) {
                        iov[i][1] = (struct iovec){ frame, sizeof(frame) };
                        pkts[i] = (struct vw_pkt){ .iov = &iov[i][1], .n_iov = 1, .len = sizeof(frame) };
                }
                for (unsigned at = 0; at < BURST;) {
                        int n = vw_port_tx(port, 0, pkts + at, BURST - at, result + at);

                        EXPECT(n >= 0);
                        at += (unsigned)n;
                }
                for (unsigned i = 0; i < BURST; i++) {
                        EXPECT(result[i] == 0 || result[i] == error);
                        ++*(result[i] ? lost : sent);
                }
        }
}

/* hostile J05, J04: an error is the loss of that frame, an interruption or a full port of none */
TEST(tap_faults, of_single_frames_lose_those_frames_and_no_other)
{
        static const struct {
                int error;
                bool loses;
        } rows[] = {
                {ENOBUFS, true },
                { ENOMEM, true },
                { EINVAL, true },
                { EINTR,  false},
                { EAGAIN, false}
        };
        struct vw_port_config config = { .pairs = 1 };

        if (!lab_enter())
                SKIP("needs the right to make a network namespace");
        faults_subject(true);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                unsigned sent = 0, lost = 0, seen = 0, received = 0, errors = 0;
                struct vw_port *port;
                uint8_t buf[2048];
                const char *why;
                int sock;

                EXPECT_EQ(vw_port_open("tap:vwt0", &config, &port, &why), 0);
                sock = lab_packet_socket("vwt0", false);
                faults_storm(10, rows[i].error);
                send_bursts(port, BURSTS, -rows[i].error, &sent, &lost);
                EXPECT(faults_off());
                EXPECT(faults_count() >= BURSTS * BURST / 10);
                EXPECT_EQ(lost, rows[i].loses ? faults_count() : 0);
                EXPECT_EQ(sent + lost, BURSTS * BURST);
                while (read(sock, buf, sizeof(buf)) > 0)
                        seen++;
                EXPECT_EQ(seen, sent);

                for (unsigned n = 0; n < 100; n++)
                        EXPECT_EQ(write(sock, buf, 60), 60);
                faults_storm(10, rows[i].error);
                for (unsigned n = 0; n < 200; n++) {
                        struct iovec iov[2] = {
                                {0           },
                                { buf, sizeof(buf) }
                        };
                        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 1 };
                        int r = vw_port_rx(port, 0, &pkt);

                        received += r == 1;
                        errors += r < 0;
                        EXPECT(r == 1 || r == 0 || r == -rows[i].error);
                }
                EXPECT_EQ(received, 100);
                EXPECT(rows[i].loses ? errors > 0 : errors == 0);
                faults_off();
                close(sock);
                vw_port_close(port);
        }
}
