/* The sender's TCP against a receiver that is written out here: bytes on the wire, and what acknowledgements do. */
#include <string.h>

#include "test.h"

#include "base/check.h"
#include "base/clock.h"
#include "bench/tinytcp.h"

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

static const struct tinytcp_path path = {
        .own_mac = {2,  0, 0, 0, 0, 1},
        .peer_mac = { 2, 0, 0, 0, 0, 2},
        .own_ip = 0xc0000201,
        .peer_ip = 0xc0000202,
        .resolved = true
};

static uint32_t word(const uint8_t *at, unsigned bytes)
{
        uint32_t value = 0;

        for (unsigned i = 0; i < bytes; i++)
                value = value << 8 | at[i];
        return value;
}

static void put_word(uint8_t *at, unsigned bytes, uint32_t value)
{
        for (unsigned i = 0; i < bytes; i++)
                at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static uint32_t sum(const uint8_t *at, unsigned len)
{
        uint32_t total = 0;

        for (unsigned i = 0; i < len; i += 2)
                total += (uint32_t)at[i] << 8 | (i + 1 < len ? at[i + 1] : 0);
        while (total >> 16)
                total = (total & 0xffff) + (total >> 16);
        return total;
}

/* What a device does with a frame that asks for its checksum. */
static void complete(uint8_t *frame, uint32_t len, const struct vw_net_hdr *hdr)
{
        uint8_t *field = frame + hdr->csum_start + hdr->csum_offset;

        EXPECT_EQ(hdr->flags, VW_HDR_F_NEEDS_CSUM);
        put_word(field, 2, ~sum(frame + hdr->csum_start, len - hdr->csum_start) & 0xffff);
}

/* The checksum of a whole segment with its pseudo header comes out as all ones. */
static void check_sums(const uint8_t *frame, uint32_t len)
{
        uint8_t pseudo[12];
        uint32_t total;

        EXPECT_EQ(sum(frame + 14, 20), 0xffff);
        memcpy(pseudo, frame + 26, 8);
        put_word(pseudo + 8, 2, 6);
        put_word(pseudo + 10, 2, len - 34);
        total = sum(pseudo, 12) + sum(frame + 34, len - 34);
        EXPECT_EQ((total & 0xffff) + (total >> 16), 0xffff);
}

struct reply {
        uint32_t seq, ack, window;
        uint8_t flags;
        const char *options;
        unsigned options_len, payload;
};

/* A frame from the receiver. */
static void answer(struct tinytcp *t, struct reply r, uint64_t now)
{
        uint8_t frame[128] = { 0 };
        unsigned head = 20 + r.options_len;

        memcpy(frame, path.own_mac, 6);
        memcpy(frame + 6, path.peer_mac, 6);
        put_word(frame + 12, 2, 0x0800);
        frame[14] = 0x45;
        put_word(frame + 16, 2, 20 + head + r.payload);
        frame[23] = 6;
        put_word(frame + 26, 4, path.peer_ip);
        put_word(frame + 30, 4, path.own_ip);
        put_word(frame + 34, 2, t->peer_port);
        put_word(frame + 36, 2, t->own_port);
        put_word(frame + 38, 4, r.seq);
        put_word(frame + 42, 4, r.ack);
        frame[46] = (uint8_t)(head / 4 << 4);
        frame[47] = r.flags;
        put_word(frame + 48, 2, r.window);
        if (r.options)
                memcpy(frame + 54, r.options, r.options_len);
        tinytcp_input(t, frame, 14 + 20 + head + r.payload, now);
}

/* A connection that is open, with a window of 64 KiB. */
static struct tinytcp opened(uint32_t first)
{
        struct tinytcp t;

        tinytcp_open(&t, 20000, 5210, first, 0);
        answer(&t,
               (struct reply){ .seq = 77,
                               .ack = first + 1,
                               .window = 8192,
                               .flags = SYN | ACK,
                               .options = "\x02\x04\x05\xb4\x01\x03\x03\x03",
                               .options_len = 8 },
               0);
        EXPECT(t.established);
        EXPECT_EQ(tinytcp_room(&t), 8192); /* the window of a SYN is not scaled */
        answer(&t, (struct reply){ .seq = 78, .ack = first + 1, .window = 8192, .flags = ACK }, 0);
        EXPECT_EQ(tinytcp_room(&t), 8 * 8192);
        return t;
}

TEST(tinytcp, a_syn_is_whole_and_says_mss_and_scale)
{
        uint8_t frame[TINYTCP_SYN];
        struct vw_net_hdr hdr;
        struct tinytcp t;

        tinytcp_open(&t, 20000, 5210, 1000, 0);
        tinytcp_syn(&t, &path, frame, &hdr);
        EXPECT_MEM(frame, path.peer_mac, 6);
        EXPECT_MEM(frame + 6, path.own_mac, 6);
        EXPECT_EQ(word(frame + 34, 2), 20000);
        EXPECT_EQ(word(frame + 36, 2), 5210);
        EXPECT_EQ(word(frame + 38, 4), 1000);
        EXPECT_EQ(frame[47], SYN);
        EXPECT_EQ(word(frame + 54, 4), 0x02040000u + TINYTCP_MSS);
        EXPECT_EQ(hdr.gso_type, VW_GSO_NONE);
        complete(frame, sizeof(frame), &hdr);
        check_sums(frame, sizeof(frame));
}

TEST(tinytcp, a_segment_has_headers_for_its_payload)
{
        static uint8_t frame[TINYTCP_HEADERS + TINYTCP_MAX];
        static const uint32_t lengths[] = { 1, 2, TINYTCP_MSS, TINYTCP_MSS + 1, TINYTCP_MAX };

        for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
                struct tinytcp t = opened(1000);
                struct vw_net_hdr hdr;
                uint32_t len = TINYTCP_HEADERS + lengths[i];

                memset(frame + TINYTCP_HEADERS, 0x5a + (int)i, lengths[i]);
                tinytcp_headers(&t, &path, lengths[i], TINYTCP_PSH, frame, &hdr);
                EXPECT_EQ(word(frame + 16, 2), len - 14);
                EXPECT_EQ(word(frame + 38, 4), 1001);
                EXPECT_EQ(word(frame + 42, 4), 78);
                EXPECT_EQ(frame[47], PSH | ACK);
                EXPECT_EQ(hdr.gso_type, lengths[i] > TINYTCP_MSS ? VW_GSO_TCPV4 : VW_GSO_NONE);
                EXPECT_EQ(hdr.gso_size, lengths[i] > TINYTCP_MSS ? TINYTCP_MSS : 0);
                complete(frame, len, &hdr);
                check_sums(frame, len);
        }
}

TEST(tinytcp, sends_no_more_than_the_window_and_counts_what_is_acknowledged)
{
        struct tinytcp t = opened(UINT32_MAX - 5000); /* across the wrap of sequence numbers */
        uint32_t base = t.una, sent = 0;

        while (tinytcp_room(&t) >= 10000) {
                tinytcp_sent(&t, 10000, 0);
                sent += 10000;
        }
        EXPECT_EQ(sent, 60000);
        EXPECT_EQ(tinytcp_room(&t), 65536 - 60000);
        answer(&t, (struct reply){ .ack = base + 25000, .window = 1000, .flags = ACK }, 0);
        EXPECT_EQ(t.acked, 25000);
        EXPECT_EQ(tinytcp_room(&t), 0); /* 35000 out, 8000 wanted */
        answer(&t, (struct reply){ .ack = base + 60000, .window = 2000, .flags = ACK }, 0);
        EXPECT_EQ(t.acked, 60000);
        EXPECT_EQ(tinytcp_room(&t), 16000);
}

TEST(tinytcp, old_and_impossible_acknowledgements_are_nothing)
{
        struct tinytcp t = opened(5000);

        tinytcp_sent(&t, 3000, 0);
        answer(&t, (struct reply){ .ack = 5001 + 2000, .window = 8192, .flags = ACK }, 0);
        answer(&t, (struct reply){ .ack = 5001 + 1000, .window = 1, .flags = ACK }, 0);
        answer(&t, (struct reply){ .ack = 5001 + 3001, .window = 1, .flags = ACK }, 0);
        EXPECT_EQ(t.acked, 2000);
        EXPECT_EQ(tinytcp_room(&t), 65536 - 1000);
}

TEST(tinytcp, three_repeats_or_a_silence_go_back)
{
        const struct reply same = { .ack = 1001, .window = 8192, .flags = ACK };
        struct tinytcp t = opened(1000);

        tinytcp_sent(&t, 30000, 0);
        answer(&t, same, 1);
        answer(&t, same, 2);
        EXPECT_EQ(t.nxt, 31001);
        answer(&t, same, 3);
        EXPECT_EQ(t.nxt, 1001);
        /* the peer had more than it said: on from there */
        answer(&t, (struct reply){ .ack = 21001, .window = 8192, .flags = ACK }, 4);
        EXPECT_EQ(t.nxt, 21001);
        EXPECT_EQ(t.acked, 20000);

        tinytcp_sent(&t, 5000, 5);
        EXPECT(!tinytcp_timeout(&t, 6));
        EXPECT(tinytcp_timeout(&t, 5 + 300 * NSEC_PER_MSEC));
        EXPECT_EQ(t.nxt, 21001);
        EXPECT(!tinytcp_timeout(&t, 6 + 300 * NSEC_PER_MSEC));
}

TEST(tinytcp, data_that_comes_repeats_no_acknowledgement)
{
        struct tinytcp t = opened(1000);

        tinytcp_sent(&t, 30000, 0);
        for (unsigned i = 0; i < 5; i++)
                answer(&t, (struct reply){ .ack = 1001, .window = 8192, .flags = ACK, .payload = 4 }, 1);
        EXPECT_EQ(t.nxt, 31001);
}

TEST(tinytcp, a_syn_is_repeated_until_it_is_answered)
{
        struct tinytcp t;

        tinytcp_open(&t, 20000, 5210, 1000, 0);
        EXPECT(!tinytcp_timeout(&t, 1));
        EXPECT(tinytcp_timeout(&t, 300 * NSEC_PER_MSEC));
        answer(&t, (struct reply){ .ack = 900, .window = 100, .flags = SYN | ACK }, 0);
        EXPECT(!t.established);
        EXPECT_EQ(tinytcp_room(&t), 0);
        answer(&t, (struct reply){ .ack = 1001, .window = 100, .flags = SYN | ACK }, 0);
        EXPECT(t.established);
        answer(&t, (struct reply){ .flags = RST }, 0);
        EXPECT(t.reset);
        EXPECT(!tinytcp_timeout(&t, NSEC_PER_SEC));
}

TEST(tinytcp, only_whole_frames_between_the_two_are_theirs)
{
        uint8_t frame[TINYTCP_HEADERS] = { 0 };
        struct tinytcp_path peers = path;
        struct vw_net_hdr hdr;
        struct tinytcp t = opened(1000);
        uint16_t own, peer;

        tinytcp_headers(&t, &path, 0, 0, frame, &hdr);
        peers.own_ip = path.peer_ip;
        peers.peer_ip = path.own_ip;
        EXPECT(tinytcp_ports(&peers, frame, sizeof(frame), &own, &peer));
        EXPECT_EQ(own, 5210);
        EXPECT_EQ(peer, 20000);
        EXPECT(!tinytcp_ports(&path, frame, sizeof(frame), &own, &peer));
        for (size_t len = 0; len < sizeof(frame); len++)
                EXPECT(!tinytcp_ports(&peers, frame, len, &own, &peer));
}

TEST(tinytcp, asks_for_the_peers_address_and_answers_for_its_own)
{
        struct tinytcp_path us = {
                .own_mac = {2, 0, 0, 0, 0, 1},
                  .own_ip = 1, .peer_ip = 2
        };
        struct tinytcp_path they = {
                .own_mac = {2, 0, 0, 0, 0, 2},
                  .own_ip = 2, .peer_ip = 1
        };
        uint8_t request[TINYTCP_ARP], reply[TINYTCP_ARP];

        tinytcp_arp(&us, NULL, request);
        EXPECT_EQ(word(request, 4), 0xffffffff);
        EXPECT(tinytcp_arp_input(&they, request, sizeof(request)));
        EXPECT(they.resolved);
        EXPECT_MEM(they.peer_mac, us.own_mac, 6);
        tinytcp_arp(&they, request, reply);
        EXPECT_MEM(reply, us.own_mac, 6);
        EXPECT(!tinytcp_arp_input(&us, reply, sizeof(reply)));
        EXPECT(us.resolved);
        EXPECT_MEM(us.peer_mac, they.own_mac, 6);
}
