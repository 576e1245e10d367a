/* A TAP that runs: frames and offloads through the kernel, and what happens to it while frames flow. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "lab.h"
#include "test.h"
#include "vwire/port.h"

#define LAB()                                                                                                \
        do {                                                                                                 \
                if (!lab_enter())                                                                            \
                        SKIP("needs the right to make a network namespace");                                 \
        } while (0)

static uint8_t memory[VW_FRAME_MAX];

struct bed {
        struct vw_port *port;
        int sock; /* on the kernel's side of the TAP, frames with their headers */
        unsigned fds, links;
};

static struct bed bed_new(const char *spec, unsigned pairs)
{
        struct vw_port_config config = { .pairs = pairs };
        struct bed b = { .fds = lab_count_fds(), .links = lab_count_links() };
        struct vw_port_info info;
        const char *why = NULL;

        if (vw_port_open(spec, &config, &b.port, &why) < 0)
                fail_msg("%s", why);
        vw_port_info(b.port, &info);
        b.sock = lab_packet_socket(info.name, true);
        EXPECT(b.sock >= 0);
        return b;
}

static void bed_done(struct bed *b)
{
        close(b->sock);
        vw_port_close(b->port);
        EXPECT_EQ(lab_count_fds(), b->fds);
        EXPECT_EQ(lab_count_links(), b->links);
}

static struct vw_port_info port_info(const struct bed *b)
{
        struct vw_port_info info;

        vw_port_info(b->port, &info);
        return info;
}

static int tx(const struct bed *b, unsigned lane, const struct vw_net_hdr *hdr, void *frame, uint32_t len)
{
        struct iovec iov[2] = {
                {0   },
                { frame, len }
        };
        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 1, .len = len };
        int result = 1;

        if (hdr)
                pkt.hdr = *hdr;
        return vw_port_tx(b->port, lane, &pkt, 1, &result) == 1 ? result : -EAGAIN;
}

static int rx(const struct bed *b, unsigned lane, struct vw_pkt *ret_pkt)
{
        static struct iovec iov[2];
        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 1 };
        int r;

        iov[1] = (struct iovec){ memory, vw_port_rx_max(b->port, lane) };
        EXPECT(iov[1].iov_len <= sizeof(memory));
        r = vw_port_rx(b->port, lane, &pkt);
        if (ret_pkt)
                *ret_pkt = pkt;
        return r;
}

/* What the kernel's side sends and receives: a header of ten bytes, then the frame. */
static ssize_t sock_send(const struct bed *b, const struct vw_net_hdr *hdr, const void *frame, size_t len)
{
        struct vw_net_hdr none = { 0 };
        struct iovec iov[2] = {
                {(void *)(hdr ? hdr : &none), 10 },
                { (void *)frame,              len}
        };

        return writev(b->sock, iov, 2);
}

static ssize_t sock_receive(const struct bed *b, struct vw_net_hdr *hdr)
{
        struct iovec iov[2] = {
                {hdr,     10            },
                { memory, sizeof(memory)}
        };

        return readv(b->sock, iov, 2);
}

/* An IPv4 frame from one host to another with a TCP or UDP header and `payload` bytes, the checksum left to an offload. */
static uint32_t make_frame(uint8_t *f, uint8_t proto, uint32_t payload, uint16_t source)
{
        uint32_t l4 = proto == IPPROTO_TCP ? 20 : 8, ip_len = 20 + l4 + payload, sum = 0;

        memset(f, 0, 14 + ip_len);
        memcpy(f, "\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0\x45", 15);
        f[16] = (uint8_t)(ip_len >> 8), f[17] = (uint8_t)ip_len;
        f[20] = 0x40;
        f[22] = 64, f[23] = proto;
        memcpy(f + 26, "\x0a\0\0\x01\x0a\0\0\x02", 8);
        for (int i = 14; i < 34; i += 2)
                sum += (uint32_t)(f[i] << 8 | f[i + 1]);
        sum = ~((sum & 0xffff) + (sum >> 16));
        f[24] = (uint8_t)(sum >> 8), f[25] = (uint8_t)sum;
        f[34] = (uint8_t)(source >> 8), f[35] = (uint8_t)source;
        f[37] = 9;
        if (proto == IPPROTO_TCP) {
                f[46] = 0x50, f[47] = 0x10; /* ACK */
        } else {
                f[38] = (uint8_t)((8 + payload) >> 8), f[39] = (uint8_t)(8 + payload);
        }
        /* the pseudo header's sum, as NEEDS_CSUM wants it */
        sum = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + proto + l4 + payload;
        sum = (sum & 0xffff) + (sum >> 16);
        f[proto == IPPROTO_TCP ? 50 : 40] = (uint8_t)(sum >> 8);
        f[proto == IPPROTO_TCP ? 51 : 41] = (uint8_t)sum;
        for (uint32_t i = 0; i < payload; i++)
                f[34 + l4 + i] = (uint8_t)(i * 7);
        return 14 + ip_len;
}

static struct vw_net_hdr gso_hdr(uint8_t gso_type, uint8_t proto)
{
        return (struct vw_net_hdr){
                .flags = VW_HDR_F_NEEDS_CSUM,
                .gso_type = gso_type,
                .hdr_len = proto == IPPROTO_TCP ? 54 : 42,
                .gso_size = gso_type ? 1400 : 0,
                .csum_start = 34,
                .csum_offset = proto == IPPROTO_TCP ? 16 : 6,
        };
}

/* ---- frames ---- */

TEST(tap, carries_a_frame_each_way)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        uint8_t frame[200];
        struct vw_net_hdr hdr;
        struct vw_pkt pkt;

        make_frame(frame, IPPROTO_UDP, 158, 1);
        EXPECT_EQ(rx(&b, 0, &pkt), 0);
        EXPECT_EQ(tx(&b, 0, NULL, frame, 200), 0);
        EXPECT_EQ(sock_receive(&b, &hdr), 210);
        EXPECT_MEM(memory, frame, 200);
        EXPECT_EQ(sock_send(&b, NULL, frame, 200), 210);
        EXPECT_EQ(rx(&b, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, 200);
        EXPECT_EQ(pkt.hdr.flags, 0);
        EXPECT_EQ(pkt.hdr.gso_type, 0);
        EXPECT_MEM(memory, frame, 200);
        EXPECT_EQ(rx(&b, 0, &pkt), 0);
        bed_done(&b);
}

TEST(tap, tells_what_it_is)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        struct vw_port_info info = port_info(&b);

        EXPECT_STR(info.kind, "tap");
        EXPECT_STR(info.name, "vwt0");
        EXPECT(info.link_up);
        EXPECT_EQ(info.mtu, 1500);
        EXPECT_EQ(info.tx_offloads & VW_OFFLOAD_TSO4, VW_OFFLOAD_TSO4);
        EXPECT_EQ(info.rx_offloads, 0);
        EXPECT_EQ(info.dropped, 0);
        EXPECT(!info.bridged);
        EXPECT(vw_port_fd(b.port, 0) >= 0);
        bed_done(&b);
}

TEST(tap, is_readable_when_a_frame_waits_and_only_then)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        struct pollfd p = { .fd = vw_port_fd(b.port, 0), .events = POLLIN };

        EXPECT_EQ(poll(&p, 1, 0), 0);
        EXPECT_EQ(sock_send(&b, NULL, memory, 100), 110);
        EXPECT_EQ(poll(&p, 1, 0), 1);
        EXPECT_EQ(rx(&b, 0, NULL), 1);
        EXPECT_EQ(poll(&p, 1, 0), 0);
        bed_done(&b);
}

TEST(tap, takes_a_frame_in_more_pieces_than_one_writev_does)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        static struct iovec iov[1 + 1400];
        uint8_t frame[1400];
        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 1400, .len = 1400 };
        struct vw_net_hdr hdr;
        int result;

        make_frame(frame, IPPROTO_UDP, 1400 - 42, 1);
        for (unsigned i = 0; i < 1400; i++)
                iov[1 + i] = (struct iovec){ frame + i, 1 };
        EXPECT_EQ(vw_port_tx(b.port, 0, &pkt, 1, &result), 1);
        EXPECT_EQ(result, 0);
        EXPECT_EQ(sock_receive(&b, &hdr), 1410);
        EXPECT_MEM(memory, frame, 1400);
        pkt.n_iov = 1023;
        pkt.len = 1023;
        EXPECT_EQ(vw_port_tx(b.port, 0, &pkt, 1, &result), 1);
        EXPECT_EQ(result, 0);
        EXPECT_EQ(sock_receive(&b, &hdr), 1033);
        pkt.n_iov = 1024;
        pkt.len = 1024;
        EXPECT_EQ(vw_port_tx(b.port, 0, &pkt, 1, &result), 1);
        EXPECT_EQ(result, 0);
        EXPECT_EQ(sock_receive(&b, &hdr), 1034);
        iov[1].iov_len = VW_FRAME_MAX;
        pkt.len = VW_FRAME_MAX + 1023;
        EXPECT_EQ(vw_port_tx(b.port, 0, &pkt, 1, &result), 1);
        EXPECT_EQ(result, -EMSGSIZE);
        bed_done(&b);
}

TEST(tap, scatters_a_frame_over_more_pieces_than_one_readv_takes)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        static struct iovec iov[1 + 2000];
        uint8_t frame[200];
        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 2000 };

        for (unsigned i = 0; i < 2000; i++)
                iov[1 + i] = (struct iovec){ memory + i, 1 };
        make_frame(frame, IPPROTO_UDP, 158, 1);
        EXPECT_EQ(sock_send(&b, NULL, frame, 200), 210);
        EXPECT_EQ(vw_port_rx(b.port, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, 200);
        EXPECT_MEM(memory, frame, 200);
        bed_done(&b);
}

/* hostile J05: an error is the loss of one frame, those before and after it pass */
TEST(tap, loses_only_the_frame_that_the_kernel_refuses)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        uint8_t frame[100];
        struct iovec iov[5][2];
        struct vw_pkt pkts[5];
        struct vw_net_hdr hdr;
        int result[5];

        make_frame(frame, IPPROTO_UDP, 58, 1);
        for (unsigned i = 0; i < 5; i++) {
                iov[i][1] = (struct iovec){ frame, 100 };
                pkts[i] = (struct vw_pkt){ .iov = &iov[i][1], .n_iov = 1, .len = 100 };
        }
        pkts[1].hdr =
                (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 99, .csum_offset = 60000 };
        iov[3][1].iov_len = pkts[3].len = 5;
        EXPECT_EQ(vw_port_tx(b.port, 0, pkts, 5, result), 5);
        EXPECT_EQ(result[0], 0);
        EXPECT_EQ(result[1], -EINVAL);
        EXPECT_EQ(result[2], 0);
        EXPECT_EQ(result[3], -EINVAL);
        EXPECT_EQ(result[4], 0);
        for (unsigned i = 0; i < 3; i++)
                EXPECT_EQ(sock_receive(&b, &hdr), 110);
        EXPECT_EQ(sock_receive(&b, &hdr), -1);
        bed_done(&b);
}

TEST(tap, counts_what_the_kernel_loses_before_it_is_read)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        unsigned waiting = 0;

        for (unsigned i = 0; i < 3000; i++)
                EXPECT_EQ(sock_send(&b, NULL, memory, 100), 110);
        while (rx(&b, 0, NULL) == 1)
                waiting++;
        EXPECT(waiting > 0);
        EXPECT_EQ(waiting + port_info(&b).dropped, 3000);
        bed_done(&b);
}

/* hostile J04: EAGAIN is a full port, in order, without a loss */
TEST(tap, is_full_while_the_kernel_holds_too_much)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        int sndbuf = 5000, full = 0;
        uint8_t frame[1000];
        struct pollfd p = { .fd = vw_port_fd(b.port, 0), .events = POLLOUT };

        make_frame(frame, IPPROTO_UDP, 1000 - 42, 1);
        EXPECT_EQ(ioctl(p.fd, _IOW('T', 212, int), &sndbuf), 0); /* TUNSETSNDBUF */
        EXPECT(lab_sh(
                "ip link add vwbr type bridge && ip link add vwd type veth peer name vwe && ip link set vwe up && ip link set vwd master vwbr up && "
                "ip link set vwt0 master vwbr && ip link set vwbr up"));
        if (!lab_sh("tc qdisc add dev vwd root tbf rate 400kbit burst 2000 latency 10s 2>/dev/null"))
                print_message("# no tbf in this kernel\n");
        else
                for (int i = 0; i < 100 && !full; i++)
                        full = tx(&b, 0, NULL, frame, sizeof(frame)) == -EAGAIN;
        if (full) {
                EXPECT_EQ(poll(&p, 1, 0), 0);
                EXPECT_EQ(poll(&p, 1, 5000), 1);
                EXPECT_EQ(tx(&b, 0, NULL, frame, sizeof(frame)), 0);
        }
        EXPECT(lab_sh("ip link del vwd && ip link del vwbr"));
        bed_done(&b);
}

/* ---- offloads ---- */

TEST(tap, hands_large_frames_over_whole_only_when_allowed)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        static uint8_t frame[VW_FRAME_MAX];
        struct vw_net_hdr hdr = gso_hdr(VW_GSO_TCPV4, IPPROTO_TCP);
        uint32_t len = make_frame(frame, IPPROTO_TCP, 14000, 1), payload = 0;
        struct vw_pkt pkt;

        EXPECT(vw_port_rx_max(b.port, 0) < 1600);
        EXPECT_EQ(sock_send(&b, &hdr, frame, len), 10 + len);
        for (unsigned n = 0; rx(&b, 0, &pkt) == 1; n++) {
                EXPECT_EQ(pkt.len, 1454);
                EXPECT_EQ(pkt.hdr.flags, 0);
                EXPECT_EQ(pkt.hdr.gso_type, VW_GSO_NONE);
                payload += pkt.len - 54;
        }
        EXPECT_EQ(payload, 14000);

        EXPECT_EQ(vw_port_set_rx_offloads(b.port, VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4), 0);
        EXPECT_EQ(port_info(&b).rx_offloads, VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4);
        EXPECT_EQ(vw_port_rx_max(b.port, 0), VW_FRAME_MAX);
        EXPECT_EQ(sock_send(&b, &hdr, frame, len), 10 + len);
        EXPECT_EQ(rx(&b, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, len);
        EXPECT_EQ(pkt.hdr.flags, VW_HDR_F_NEEDS_CSUM);
        EXPECT_EQ(pkt.hdr.gso_type, VW_GSO_TCPV4);
        EXPECT_EQ(pkt.hdr.gso_size, 1400);
        EXPECT_EQ(pkt.hdr.csum_start, 34);
        EXPECT_EQ(pkt.hdr.csum_offset, 16);
        EXPECT_MEM(memory, frame, len);
        bed_done(&b);
}

TEST(tap, takes_large_frames_with_every_offload_it_says)
{
        LAB();
        static const struct {
                uint32_t offload;
                uint8_t gso, proto;
        } rows[] = {
                {VW_OFFLOAD_CSUM,  VW_GSO_NONE,               IPPROTO_TCP},
                { VW_OFFLOAD_TSO4, VW_GSO_TCPV4,              IPPROTO_TCP},
                { VW_OFFLOAD_ECN,  VW_GSO_TCPV4 | VW_GSO_ECN, IPPROTO_TCP},
                { VW_OFFLOAD_USO,  VW_GSO_UDP_L4,             IPPROTO_UDP},
        };
        struct bed b = bed_new("tap:vwt0", 1);
        static uint8_t frame[VW_FRAME_MAX];

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct vw_net_hdr hdr = gso_hdr(rows[i].gso, rows[i].proto), got = { 0 };
                uint32_t len = make_frame(frame, rows[i].proto, rows[i].gso ? 28000 : 1000, 1);

                if (!(port_info(&b).tx_offloads & rows[i].offload)) {
                        print_message("# the kernel has no offload %x\n", rows[i].offload);
                        continue;
                }
                EXPECT_EQ(tx(&b, 0, &hdr, frame, len), 0);
                EXPECT_EQ(sock_receive(&b, &got), 10 + len);
                EXPECT_MEM(memory, frame, len);
                EXPECT_EQ(got.gso_type, hdr.gso_type);
                EXPECT_EQ(got.gso_size, hdr.gso_size);
                EXPECT_EQ(got.flags, VW_HDR_F_NEEDS_CSUM);
                EXPECT_EQ(got.csum_start, 34);
        }
        bed_done(&b);
}

TEST(tap, carries_the_longest_frames_there_are)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        static uint8_t frame[VW_FRAME_MAX];
        struct vw_net_hdr hdr = gso_hdr(VW_GSO_TCPV4, IPPROTO_TCP);
        /* of the kernel's: 64 KiB - 1 with Ethernet header */
        uint32_t len = make_frame(frame, IPPROTO_TCP, 65535 - 54, 1);
        struct vw_pkt pkt;

        EXPECT_EQ(vw_port_set_rx_offloads(b.port, VW_OFFLOAD_ALL), 0);
        EXPECT_EQ(sock_send(&b, &hdr, frame, len), 10 + len);
        EXPECT_EQ(rx(&b, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, len);
        EXPECT_MEM(memory, frame, len);
        len = make_frame(frame, IPPROTO_TCP, 65535 - 40, 1);
        EXPECT_EQ(tx(&b, 0, &hdr, frame, len), 0);
        EXPECT_EQ(sock_receive(&b, &hdr), 10 + len);
        EXPECT_MEM(memory, frame, len);
        bed_done(&b);
}

TEST(tap, hands_over_no_frame_with_an_offload_that_was_turned_off_while_it_waited)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        static uint8_t frame[VW_FRAME_MAX];
        const uint32_t payload[] = { 14000, 1200 }; /* more than there is room for afterwards, and less */
        struct vw_net_hdr hdr = gso_hdr(VW_GSO_TCPV4, IPPROTO_TCP);
        struct vw_pkt pkt;

        hdr.gso_size = 500;
        for (unsigned i = 0; i < ARRAY_SIZE(payload); i++) {
                uint32_t len = make_frame(frame, IPPROTO_TCP, payload[i], 1);

                EXPECT_EQ(vw_port_set_rx_offloads(b.port, VW_OFFLOAD_ALL), 0);
                EXPECT_EQ(sock_send(&b, &hdr, frame, len), 10 + len);
                EXPECT_EQ(sock_send(&b, NULL, frame, 100), 110);
                EXPECT_EQ(vw_port_set_rx_offloads(b.port, 0), 0);
                EXPECT_EQ(rx(&b, 0, &pkt), 1);
                EXPECT_EQ(pkt.len, 100);
                EXPECT_EQ(port_info(&b).dropped, i + 1);
                EXPECT_EQ(rx(&b, 0, &pkt), 0);
        }
        bed_done(&b);
}

TEST(tap, turns_offloads_off_that_stand_on_others_that_are_off)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);

        EXPECT_EQ(vw_port_set_rx_offloads(b.port, VW_OFFLOAD_ALL & ~VW_OFFLOAD_CSUM), 0);
        EXPECT_EQ(port_info(&b).rx_offloads, 0);
        EXPECT_EQ(vw_port_set_rx_offloads(b.port, VW_OFFLOAD_CSUM | VW_OFFLOAD_ECN), 0);
        EXPECT_EQ(port_info(&b).rx_offloads, VW_OFFLOAD_CSUM);
        bed_done(&b);
}

/* ---- its life ---- */

static bool port_event(const struct bed *b)
{
        struct pollfd p = { .fd = vw_port_event_fd(b->port), .events = POLLIN };
        bool seen = poll(&p, 1, 0) == 1;

        vw_port_event_ack(b->port);
        return seen;
}

/* hostile J01 */
TEST(tap, drops_as_port_down_while_it_is_down_and_recovers)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        uint8_t frame[100];

        make_frame(frame, IPPROTO_UDP, 58, 1);
        vw_port_event_ack(b.port);
        EXPECT(!port_event(&b));
        EXPECT(lab_sh("ip link set vwt0 down"));
        EXPECT(port_event(&b));
        EXPECT(!port_info(&b).link_up);
        EXPECT_EQ(tx(&b, 0, NULL, frame, 100), -ENETDOWN);
        EXPECT_EQ(rx(&b, 0, NULL), 0);
        EXPECT(vw_port_fd(b.port, 0) >= 0);
        EXPECT(lab_sh("ip link set vwt0 up"));
        EXPECT(port_event(&b));
        EXPECT(port_info(&b).link_up);
        EXPECT_EQ(tx(&b, 0, NULL, frame, 100), 0);
        bed_done(&b);
}

/* hostile J02 */
TEST(tap, reports_that_it_was_deleted_and_drops_as_port_down)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 2);
        uint8_t frame[100];

        make_frame(frame, IPPROTO_UDP, 58, 1);
        vw_port_event_ack(b.port);
        EXPECT_EQ(tx(&b, 0, NULL, frame, 100), 0);
        EXPECT(lab_sh("ip link del vwt0"));
        EXPECT(port_event(&b));
        EXPECT(!port_info(&b).link_up);
        EXPECT_STR(port_info(&b).name, "vwt0");
        EXPECT_EQ(tx(&b, 0, NULL, frame, 100), -ENETDOWN);
        EXPECT_EQ(tx(&b, 0, NULL, frame, 100), -ENETDOWN);
        EXPECT_EQ(vw_port_fd(b.port, 0), -1);
        EXPECT_EQ(rx(&b, 0, NULL), -ENODEV);
        EXPECT_EQ(rx(&b, 1, NULL), -ENODEV);
        EXPECT_EQ(vw_port_fd(b.port, 1), -1);
        EXPECT_EQ(vw_port_deadline(b.port, 1), UINT64_MAX);
        EXPECT_EQ(vw_port_set_rx_offloads(b.port, VW_OFFLOAD_ALL), -ENODEV);
        EXPECT_EQ(vw_port_set_active(b.port, 1), -ENODEV);
        EXPECT_EQ(vw_port_set_identity(b.port, NULL, 1400), -ENODEV);
        EXPECT(vw_port_set_carrier(b.port, false) < 0);
        bed_done(&b);
}

/* hostile J07 */
TEST(tap, follows_its_mtu_and_has_room_for_what_waits)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        static uint8_t frame[9014];
        struct vw_pkt pkt;

        make_frame(frame, IPPROTO_UDP, sizeof(frame) - 42, 1);
        vw_port_event_ack(b.port);
        EXPECT(lab_sh("ip link set vwt0 mtu 9000"));
        EXPECT(port_event(&b));
        EXPECT_EQ(port_info(&b).mtu, 9000);
        EXPECT_EQ(sock_send(&b, NULL, frame, sizeof(frame)), 10 + sizeof(frame));
        EXPECT(lab_sh("ip link set vwt0 mtu 1400"));
        EXPECT(port_event(&b));
        EXPECT_EQ(port_info(&b).mtu, 1400);
        EXPECT_EQ(rx(&b, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, sizeof(frame));
        EXPECT_MEM(memory, frame, sizeof(frame));
        bed_done(&b);
}

TEST(tap, hands_over_no_frame_that_was_cut_short)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        static uint8_t frame[9014];
        struct vw_pkt pkt;

        make_frame(frame, IPPROTO_UDP, sizeof(frame) - 42, 1);
        EXPECT(lab_sh("ip link set vwt0 mtu 9000")); /* and nobody told the port */
        EXPECT_EQ(sock_send(&b, NULL, frame, sizeof(frame)), 10 + sizeof(frame));
        EXPECT_EQ(sock_send(&b, NULL, frame, 1514), 10 + 1514);
        EXPECT_EQ(rx(&b, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, 1514);
        EXPECT_EQ(port_info(&b).dropped, 1);
        bed_done(&b);
}

TEST(tap, has_room_for_vlan_tags_over_its_mtu)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        uint8_t frame[1518] = "\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x81\0\0\x05\x08";
        struct vw_pkt pkt;

        EXPECT_EQ(sock_send(&b, NULL, frame, sizeof(frame)), 10 + sizeof(frame));
        EXPECT_EQ(rx(&b, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, sizeof(frame));
        EXPECT_MEM(memory, frame, sizeof(frame));
        bed_done(&b);
}

TEST(tap, takes_an_address_an_mtu_and_a_carrier)
{
        LAB();
        static const uint8_t mac[6] = { 2, 1, 2, 3, 4, 5 };
        struct bed b = bed_new("tap:vwt0", 1);

        EXPECT_EQ(vw_port_set_identity(b.port, mac, 1280), 0);
        EXPECT_EQ(port_info(&b).mtu, 1280);
        EXPECT_MEM(port_info(&b).mac, mac, 6);
        EXPECT_EQ(vw_port_set_identity(b.port, NULL, 0), 0);
        EXPECT_EQ(port_info(&b).mtu, 1280);
        EXPECT_EQ(vw_port_set_identity(b.port, NULL, 100000), -EINVAL);
        EXPECT_EQ(vw_port_set_carrier(b.port, false), 0);
        EXPECT(!port_info(&b).link_up);
        EXPECT_EQ(vw_port_set_carrier(b.port, true), 0);
        EXPECT(port_info(&b).link_up);
        bed_done(&b);
}

TEST(tap, is_the_same_under_another_name)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);

        EXPECT(lab_sh("ip link set vwt0 name vwt1"));
        EXPECT_STR(port_info(&b).name, "vwt1");
        EXPECT(port_info(&b).link_up);
        bed_done(&b);
}

TEST(tap, goes_on_when_it_is_moved_to_another_namespace)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 1);
        uint8_t frame[100];
        pid_t pid = lab_neighbour();

        EXPECT(lab_sh("ip link set vwt0 netns %d && nsenter -n -t %d ip link set vwt0 up", pid, pid));
        make_frame(frame, IPPROTO_UDP, 58, 1);
        EXPECT_EQ(tx(&b, 0, NULL, frame, 100), 0);
        EXPECT(port_info(&b).link_up);
        EXPECT(lab_sh("nsenter -n -t %d ip link del vwt0", pid));
        EXPECT_EQ(tx(&b, 0, NULL, frame, 100), -ENETDOWN);
        EXPECT(!port_info(&b).link_up);
        lab_neighbour_end(pid);
        bed_done(&b);
}

/* ---- several queues ---- */

static unsigned lane_frames(const struct bed *b, unsigned lane)
{
        unsigned n = 0;

        while (rx(b, lane, NULL) == 1)
                n++;
        return n;
}

TEST(tap, spreads_flows_over_the_active_lanes)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 4);
        uint8_t frame[100];

        for (unsigned active = 4; active; active = active == 1 ? 0 : active - 2 + active % 2) {
                unsigned used = 0, total = 0;

                EXPECT_EQ(vw_port_set_active(b.port, active), 0);
                for (uint16_t flow = 0; flow < 200; flow++) {
                        make_frame(frame, IPPROTO_UDP, 58, flow);
                        EXPECT_EQ(tx(&b, flow % active, NULL, frame, 100), 0);
                        EXPECT_EQ(sock_send(&b, NULL, frame, 100), 110);
                }
                for (unsigned lane = 0; lane < 4; lane++) {
                        unsigned n = lane_frames(&b, lane);

                        used += n > 0;
                        total += n;
                        EXPECT(lane < active || n == 0);
                }
                EXPECT_EQ(total, 200);
                EXPECT(active == 1 ? used == 1 : used > 1);
        }
        EXPECT_EQ(vw_port_set_active(b.port, 0), -EINVAL);
        EXPECT_EQ(vw_port_set_active(b.port, 5), -EINVAL);
        EXPECT_EQ(vw_port_set_active(b.port, 3), 0);
        EXPECT_EQ(tx(&b, 2, NULL, frame, 100), 0);
        bed_done(&b);
}

TEST(tap, sends_from_a_lane_that_is_not_active)
{
        LAB();
        struct bed b = bed_new("tap:vwt0", 2);
        uint8_t frame[100];

        make_frame(frame, IPPROTO_UDP, 58, 1);
        EXPECT_EQ(vw_port_set_active(b.port, 1), 0);
        EXPECT_EQ(tx(&b, 1, NULL, frame, 100), 0);
        EXPECT_EQ(rx(&b, 1, NULL), 0);
        bed_done(&b);
}
