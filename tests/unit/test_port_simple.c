/* The ports without a fd (null, loop, gen), ports of one's own, and the two rules by which a worker knows when to look. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "port/recring.h"
#include "test.h"
#include "vwire/port.h"

static uint8_t memory[VW_FRAME_MAX + 1];

/* A packet of one piece, with the spare slot before it. */
struct one {
        struct iovec iov[2];
        struct vw_pkt pkt;
};

static struct vw_pkt *one_pkt(struct one *o, void *frame, uint32_t len)
{
        o->iov[1] = (struct iovec){ .iov_base = frame, .iov_len = len };
        o->pkt = (struct vw_pkt){ .iov = &o->iov[1], .n_iov = 1, .len = len };
        return &o->pkt;
}

static struct vw_port *open_port(const char *spec, unsigned pairs)
{
        struct vw_port_config config = {
                .pairs = pairs, .mac = {2, 0, 0, 0, 0, 9}
        };
        struct vw_port *port = NULL;
        const char *why = NULL;

        if (vw_port_open(spec, &config, &port, &why) < 0)
                fail_msg("%s", why);
        return port;
}

static int rx(struct vw_port *port, unsigned lane, struct one *o)
{
        return vw_port_rx(port, lane, one_pkt(o, memory, sizeof(memory)));
}

TEST(port, refuses_a_number_of_pairs_that_cannot_be)
{
        static const unsigned bad[] = { 0, VW_QUEUE_PAIRS_MAX + 1 };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct vw_port_config config = { .pairs = bad[i] };
                struct vw_port *port = NULL;
                const char *why = NULL;

                EXPECT_EQ(vw_port_open("null", &config, &port, &why), -EINVAL);
                EXPECT(strstr(why, "1..64"));
                EXPECT(!port);
        }
        vw_port_close(NULL);
}

TEST(null, swallows_everything_and_produces_nothing)
{
        struct vw_port *port = open_port("null", 2);
        struct vw_port_info info;
        struct one o[2];
        struct vw_pkt pkts[2] = { *one_pkt(&o[0], memory, 60), *one_pkt(&o[1], memory, VW_FRAME_MAX) };
        int result[2] = { 1, 1 };

        EXPECT_EQ(vw_port_tx(port, 1, pkts, 2, result), 2);
        EXPECT_EQ(result[0], 0);
        EXPECT_EQ(result[1], 0);
        EXPECT_EQ(rx(port, 1, o), 0);
        EXPECT_EQ(vw_port_fd(port, 0), -1);
        EXPECT_EQ(vw_port_deadline(port, 0), NEVER);
        vw_port_info(port, &info);
        EXPECT_STR(info.kind, "null");
        EXPECT(info.link_up);
        EXPECT_EQ(info.tx_offloads, VW_OFFLOAD_ALL);
        EXPECT_EQ(info.rx_offloads, 0);
        EXPECT_EQ(vw_port_set_rx_offloads(port, VW_OFFLOAD_ALL), 0);
        EXPECT_EQ(vw_port_set_identity(port, NULL, 0), -EOPNOTSUPP);
        EXPECT_EQ(vw_port_set_carrier(port, true), -EOPNOTSUPP);
        EXPECT_EQ(vw_port_set_active(port, 1), 0);
        EXPECT_EQ(vw_port_event_fd(port), -1);
        vw_port_event_ack(port);
        vw_port_close(port);
}

TEST(loop, returns_a_frame_with_addresses_swapped_and_its_header)
{
        struct vw_port *port = open_port("loop", 1);
        uint8_t frame[64] = { 1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 8, 0, 42 }, back[64];
        struct vw_net_hdr hdr = {
                .flags = VW_HDR_F_NEEDS_CSUM,
                .gso_type = VW_GSO_TCPV4,
                .gso_size = 1448,
                .csum_start = 34,
                .csum_offset = 16,
        };
        struct one o;
        int result;

        memcpy(back, frame, sizeof(back));
        memcpy(back, frame + 6, 6);
        memcpy(back + 6, frame, 6);
        one_pkt(&o, frame, sizeof(frame))->hdr = hdr;
        EXPECT_EQ(vw_port_deadline(port, 0), NEVER);
        EXPECT_EQ(vw_port_tx(port, 0, &o.pkt, 1, &result), 1);
        EXPECT_EQ(result, 0);
        EXPECT_EQ(vw_port_deadline(port, 0), 0);
        EXPECT_EQ(rx(port, 0, &o), 1);
        EXPECT_EQ(o.pkt.len, sizeof(frame));
        EXPECT_MEM(memory, back, sizeof(back));
        EXPECT_MEM(&o.pkt.hdr, &hdr, sizeof(hdr));
        EXPECT_EQ(vw_port_deadline(port, 0), NEVER);
        EXPECT_EQ(rx(port, 0, &o), 0);
        vw_port_close(port);
}

TEST(loop, gathers_and_scatters_pieces)
{
        struct vw_port *port = open_port("loop", 1);
        uint8_t frame[100], out[100];
        struct iovec in[4] = {
                {0  },
                {  frame,  5 },
                { frame + 5,  8 },
                { frame + 13, 87 }
        };
        struct iovec to[4] = {
                {0  },
                {  out, 13 },
                { out + 13,  1 },
                { out + 14, 86 }
        };
        struct vw_pkt pkt = { .iov = in + 1, .n_iov = 3, .len = 100 };
        int result;

        for (unsigned i = 0; i < sizeof(frame); i++)
                frame[i] = (uint8_t)i;
        EXPECT_EQ(vw_port_tx(port, 0, &pkt, 1, &result), 1);
        pkt = (struct vw_pkt){ .iov = to + 1, .n_iov = 3 };
        EXPECT_EQ(vw_port_rx(port, 0, &pkt), 1);
        EXPECT_EQ(pkt.len, 100);
        EXPECT_MEM(out, frame + 6, 6);
        EXPECT_MEM(out + 6, frame, 6);
        EXPECT_MEM(out + 12, frame + 12, 88);
        vw_port_close(port);
}

/* T-VH-05: a full port keeps order and loses nothing; each frame that is taken out makes room */
TEST(loop, is_full_at_some_time_and_has_room_after_each_rx)
{
        static const uint32_t sizes[] = { 60, 1514, VW_FRAME_MAX };
        struct vw_port *port = open_port("loop", 1);

        for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
                uint64_t sent = 0, seen = 0;
                struct one o;
                int result;

                for (unsigned turn = 0; turn < 3000; turn++) {
                        do {
                                one_pkt(&o, memory, sizes[s]);
                                memcpy(memory + 14, &sent, sizeof(sent));
                        } while (vw_port_tx(port, 0, &o.pkt, 1, &result) == 1 && ++sent);
                        EXPECT_EQ(vw_port_deadline(port, 0), 0);
                        EXPECT_EQ(rx(port, 0, &o), 1);
                        EXPECT_EQ(o.pkt.len, sizes[s]);
                        EXPECT_MEM(memory + 14, &seen, sizeof(seen));
                        seen++;
                        EXPECT(sent - seen >= 14); /* a burst of the longest frames finds some room */
                }
                for (; rx(port, 0, &o) == 1; seen++)
                        EXPECT_MEM(memory + 14, &seen, sizeof(seen));
                EXPECT_EQ(seen, sent);
        }
        vw_port_close(port);
}

TEST(loop, keeps_lanes_apart)
{
        struct vw_port *port = open_port("loop", VW_QUEUE_PAIRS_MAX);
        struct one o;
        int result;

        EXPECT_EQ(vw_port_tx(port, 63, one_pkt(&o, memory, 60), 1, &result), 1);
        for (unsigned i = 0; i < 63; i++)
                EXPECT_EQ(rx(port, i, &o), 0);
        EXPECT_EQ(rx(port, 63, &o), 1);
        vw_port_close(port);
}

TEST(loop, returns_frames_too_short_for_addresses_as_they_are)
{
        struct vw_port *port = open_port("loop", 1);
        struct one o;
        int result;

        memset(memory, 7, 11);
        EXPECT_EQ(vw_port_tx(port, 0, one_pkt(&o, memory, 11), 1, &result), 1);
        EXPECT_EQ(vw_port_tx(port, 0, one_pkt(&o, memory, 0), 1, &result), 1);
        EXPECT_EQ(rx(port, 0, &o), 1);
        EXPECT_EQ(o.pkt.len, 11);
        EXPECT_EQ(rx(port, 0, &o), 1);
        EXPECT_EQ(o.pkt.len, 0);
        vw_port_close(port);
}

TEST(loop, refuses_a_frame_over_the_limit_alone)
{
        struct vw_port *port = open_port("loop", 1);
        struct one o[3];
        struct vw_pkt pkts[3] = {
                *one_pkt(&o[0], memory, 60),
                *one_pkt(&o[1], memory, VW_FRAME_MAX + 1),
                *one_pkt(&o[2], memory, 60),
        };
        int result[3];

        EXPECT_EQ(vw_port_tx(port, 0, pkts, 3, result), 3);
        EXPECT_EQ(result[0], 0);
        EXPECT_EQ(result[1], -EMSGSIZE);
        EXPECT_EQ(result[2], 0);
        vw_port_close(port);
}

/* ---- gen ---- */

static uint16_t sum(const uint8_t *p, size_t len, uint32_t start)
{
        for (size_t i = 0; i < len; i++)
                start += i % 2 ? p[i] : (uint32_t)p[i] << 8;
        while (start >> 16)
                start = (start & 0xffff) + (start >> 16);
        return (uint16_t)start;
}

/* Checks all of a generated frame that others would look at, and returns its sequence number. */
static uint64_t check_frame(const uint8_t *f, uint32_t size)
{
        uint16_t ip_len = (uint16_t)(f[16] << 8 | f[17]), udp_len = (uint16_t)(f[38] << 8 | f[39]);
        uint64_t sequence;

        EXPECT_EQ(f[12] << 8 | f[13], 0x0800);
        EXPECT_EQ(f[14], 0x45);
        EXPECT_EQ(ip_len, size - 14);
        EXPECT_EQ(udp_len, size - 34);
        EXPECT_EQ(f[23], 17);
        EXPECT_EQ(sum(f + 14, 20, 0), 0xffff);
        EXPECT(f[40] || f[41]);
        EXPECT_EQ(sum(f + 26, 8 + udp_len, 17u + udp_len), 0xffff);
        memcpy(&sequence, f + 42, sizeof(sequence));
        return be64toh(sequence);
}

TEST(gen, makes_valid_frames_in_sequence_for_the_far_end)
{
        static const struct {
                const char *spec;
                uint32_t size;
        } rows[] = {
                {"gen",             64   },
                { "gen:size=60",    60   },
                { "gen:size=1514",  1514 },
                { "gen:size=61",    61   },
                { "gen:size=65549", 65549},
        };
        static const uint8_t to[6] = { 2, 0, 0, 0, 0, 9 };

        for (size_t s = 0; s < ARRAY_SIZE(rows); s++) {
                struct vw_port *port = open_port(rows[s].spec, 1);
                struct one o;

                EXPECT_EQ(vw_port_rx_max(port, 0), rows[s].size);
                EXPECT_EQ(vw_port_deadline(port, 0), 0);
                for (uint64_t i = 0; i < 70000; i += i < 100 ? 1 : 1000) {
                        EXPECT_EQ(rx(port, 0, &o), 1);
                        EXPECT_EQ(o.pkt.len, rows[s].size);
                        EXPECT_MEM(memory, to, 6);
                        check_frame(memory, rows[s].size);
                }
                vw_port_close(port);
        }
}

TEST(gen, numbers_frames_and_sums_right_through_every_carry)
{
        struct vw_port *port = open_port("gen", 1);
        struct one o;

        for (uint64_t i = 0; i < 140000; i++) {
                EXPECT_EQ(rx(port, 0, &o), 1);
                EXPECT_EQ(check_frame(memory, 64), i);
        }
        vw_port_close(port);
}

/* The payload lies on a page that cannot be written. */
TEST(gen, a_clone_is_a_new_number_in_a_frame_that_lies_there)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct vw_port *port = open_port("gen:size=1500,clone", 1);
        struct iovec to[2] = {
                {0    },
                { pages + page - 50, 1500 }
        };
        struct vw_pkt pkt = { .iov = &to[1], .n_iov = 1 };

        EXPECT(pages != MAP_FAILED);
        for (uint64_t i = 0; i < 3; i++) {
                EXPECT_EQ(vw_port_rx(port, 0, &pkt), 1);
                EXPECT_EQ(check_frame(to[1].iov_base, 1500), i);
                EXPECT_EQ(mprotect(pages + page, page, PROT_READ), 0);
        }
        munmap(pages, 2 * page);
        vw_port_close(port);
}

TEST(gen, a_clone_is_written_whole_where_anything_else_lies)
{
        struct vw_port *port = open_port("gen:size=300,clone", 1);
        uint8_t macs[12];
        struct one o;

        for (uint64_t i = 0; i < 300; i++) {
                EXPECT_EQ(rx(port, 0, &o), 1);
                EXPECT_EQ(check_frame(memory, 300), i);
                if (i == 0)
                        memcpy(macs, memory, sizeof(macs));
                EXPECT_MEM(memory, macs, sizeof(macs));
                memory[i] ^= 1;
        }
        vw_port_close(port);
}

TEST(gen, scatters_a_frame_into_pieces)
{
        struct vw_port *port = open_port("gen", 1);
        uint8_t out[64];
        struct iovec to[4] = {
                {0  },
                {  out, 41 },
                { out + 41,  3 },
                { out + 44, 20 }
        };
        struct vw_pkt pkt = { .iov = to + 1, .n_iov = 3 };

        EXPECT_EQ(vw_port_rx(port, 0, &pkt), 1);
        EXPECT_EQ(vw_port_rx(port, 0, &pkt), 1);
        EXPECT_EQ(check_frame(out, 64), 1);
        vw_port_close(port);
}

TEST(gen, gives_each_lane_a_flow_and_a_count_of_its_own)
{
        struct vw_port *port = open_port("gen:count=2", 2);
        struct one o;
        uint8_t source[2];

        EXPECT_EQ(rx(port, 0, &o), 1);
        memcpy(source, memory + 34, 2);
        EXPECT_EQ(rx(port, 1, &o), 1);
        EXPECT_NE(memcmp(source, memory + 34, 2), 0);
        EXPECT_EQ(rx(port, 1, &o), 1);
        EXPECT_EQ(rx(port, 1, &o), 0);
        EXPECT_EQ(vw_port_deadline(port, 1), NEVER);
        EXPECT_EQ(vw_port_deadline(port, 0), 0);
        vw_port_close(port);
}

TEST(gen, swallows_what_arrives)
{
        struct vw_port *port = open_port("gen:count=1", 1);
        struct one o;
        int result = 1;

        EXPECT_EQ(vw_port_tx(port, 0, one_pkt(&o, memory, 60), 1, &result), 1);
        EXPECT_EQ(result, 0);
        vw_port_close(port);
}

TEST(gen, broadcasts_when_it_does_not_know_the_far_end)
{
        struct vw_port_config config = { .pairs = 1 };
        struct vw_port *port;
        const char *why;
        struct one o;

        EXPECT_EQ(vw_port_open("gen", &config, &port, &why), 0);
        EXPECT_EQ(rx(port, 0, &o), 1);
        for (unsigned i = 0; i < 6; i++)
                EXPECT_EQ(memory[i], 0xff);
        vw_port_close(port);
}

TEST(gen, announces_the_next_frame_by_its_deadline_at_a_rate)
{
        struct vw_port *port = open_port("gen:rate=3", 1);
        uint64_t before, first, now;
        struct one o;

        EXPECT_EQ(vw_port_deadline(port, 0), 0);
        before = clock_now();
        EXPECT_EQ(rx(port, 0, &o), 1);
        now = clock_now();
        first = vw_port_deadline(port, 0);
        EXPECT(first >= before + NSEC_PER_SEC / 3);
        EXPECT(first <= now + NSEC_PER_SEC / 3);
        EXPECT_EQ(rx(port, 0, &o), 0);
        EXPECT_EQ(vw_port_deadline(port, 0), first);
        vw_port_close(port);
}

TEST(gen, keeps_its_rate_exactly_while_it_is_asked)
{
        struct vw_port *port = open_port("gen:rate=700000", 1);
        uint64_t first, n = 1;
        struct one o;

        EXPECT_EQ(rx(port, 0, &o), 1);
        first = vw_port_deadline(port, 0) - NSEC_PER_SEC / 700000;
        while (n < 7000)
                n += (uint64_t)rx(port, 0, &o);
        /* 7000 frames at 700 kpps; a pause of the test itself is not made up for, so it may be later */
        EXPECT(vw_port_deadline(port, 0) >= first + 10 * NSEC_PER_MSEC);
        EXPECT(clock_now() >= first + 9 * NSEC_PER_MSEC);
        vw_port_close(port);
}

/* ---- a port of one's own ---- */

static int my_rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        (void)pkt;
        *(unsigned *)self += lane;
        return -EIO;
}

TEST(port, of_ones_own_has_defaults_for_what_it_leaves_out)
{
        static const struct vw_port_ops ops = { .rx = my_rx };
        unsigned calls = 0;
        struct vw_port *port = vw_port_new(&ops, &calls);
        struct vw_port_info info;
        struct one o;
        int result = 1;

        EXPECT_EQ(rx(port, 5, &o), -EIO);
        EXPECT_EQ(calls, 5);
        EXPECT_EQ(vw_port_tx(port, 0, one_pkt(&o, memory, 60), 1, &result), 1);
        EXPECT_EQ(result, 0);
        EXPECT_EQ(vw_port_rx_max(port, 0), VW_FRAME_MAX);
        vw_port_info(port, &info);
        EXPECT(info.link_up);
        EXPECT_EQ(info.tx_offloads, 0);
        vw_port_close(port);
}
