/* The generator port: UDP frames with right checksums and a sequence number, as fast as they are taken or at a rate, each lane
 * a flow of its own; what arrives is swallowed.  A frame is built once; each that goes out costs a copy, a number and
 * a checksum's update.  A clone costs a comparison in place of the copy, if the buffer holds a frame of the lane from the time before: lines that the
 * receiver's CPU has read, too, are cheap to read and dear to write.  The clock is read only at a rate, and only after the
 * last reading has been used up. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/iov.h"
#include "port/kinds.h"

struct gen_frame {
        struct ether_header eth;
        struct iphdr ip;
        struct udphdr udp;
        uint64_t sequence; /* big-endian, from 0 */
        uint8_t rest[];
} __attribute__((packed));

#define GEN_SIZE_DEFAULT 64
#define GEN_PORT         9 /* discard */
#define GEN_PORT_FIRST   49152
#define GEN_BACKLOG      (10 * NSEC_PER_MSEC) /* a lane that was not asked for longer does not make up for it */

struct gen_lane {
        /* worker thread only */
        uint64_t sequence, next; /* `next`: when the next frame is due, at a rate */
        uint64_t fraction;       /* of a nanosecond, in 1/rate */
        uint64_t now;            /* the clock when it was last read */
        uint32_t sum;            /* of the next frame with a checksum of zero, folded to 16 bits */
        struct gen_frame *frame; /* the template; it begins a cache line, as most buffers do */
} __attribute__((aligned(CACHE_LINE)));

struct gen {
        uint64_t rate, count;
        uint32_t size;
        bool clone;
        unsigned n_lanes;
        struct gen_lane lanes[];
};

static void gen_close(void *self)
{
        struct gen *gen = self;

        for (unsigned i = 0; i < gen->n_lanes; i++)
                free(gen->lanes[i].frame);
        free(gen);
}

static void gen_info(void *self, struct vw_port_info *ret_info)
{
        (void)self;
        *ret_info = (struct vw_port_info){
                .kind = "gen",
                .link_up = true,
                .tx_offloads = VW_OFFLOAD_ALL,
        };
}

/* True if the lane owes a frame; at a rate, moves its due time on. */
static bool gen_due(const struct gen *gen, struct gen_lane *l)
{
        if (gen->count && l->sequence == gen->count)
                return false;
        if (!gen->rate)
                return true;
        if (l->next > l->now) {
                l->now = clock_now();
                if (l->next > l->now)
                        return false;
        }
        if (!l->next || l->now - l->next > GEN_BACKLOG)
                l->next = l->now = clock_now();
        l->next += NSEC_PER_SEC / gen->rate;
        l->fraction += NSEC_PER_SEC % gen->rate;
        if (l->fraction >= gen->rate) {
                l->fraction -= gen->rate;
                l->next++;
        }
        return true;
}

/* The checksum of the next frame.  A number and the ones' complement sum of its words are the same modulo 65535, so the sum of the
 * frame after it, whose sequence number is one more, is one more. */
static uint16_t gen_checksum(struct gen_lane *l)
{
        uint32_t sum = l->sum;

        l->sum = sum == 0xffff ? 1 : sum + 1;
        return sum == 0xffff ? 0xffff : (uint16_t)~sum; /* UDP: 0 would mean that there is none */
}

/* True if `out` holds the frame but for checksum and number. */
static bool lies_there(const uint8_t *out, const struct gen_frame *frame, uint32_t size)
{
        size_t sum = offsetof(struct gen_frame, udp.uh_sum), rest = offsetof(struct gen_frame, rest);

        return memcmp(out, frame, sum) == 0 && memcmp(out + rest, frame->rest, size - rest) == 0;
}

static int gen_rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        struct gen *gen = self;
        struct gen_lane *l = &gen->lanes[lane];
        uint16_t check;
        uint64_t sequence;

        if (!gen_due(gen, l))
                return 0;
        check = htons(gen_checksum(l));
        sequence = htobe64(l->sequence);
        l->sequence++;
        if (likely(pkt->iov[0].iov_len >= gen->size)) {
                uint8_t *out = pkt->iov[0].iov_base;

                if (!gen->clone || !lies_there(out, l->frame, gen->size))
                        memcpy(out, l->frame, gen->size);
                memcpy(out + offsetof(struct gen_frame, udp.uh_sum), &check, sizeof(check));
                memcpy(out + offsetof(struct gen_frame, sequence), &sequence, sizeof(sequence));
        } else {
                l->frame->udp.uh_sum = check;
                l->frame->sequence = sequence;
                iov_from_buf(pkt->iov, pkt->n_iov, 0, l->frame, gen->size);
        }
        pkt->hdr = (struct vw_net_hdr){ 0 };
        pkt->len = gen->size;
        return 1;
}

static uint64_t gen_deadline(const void *self, unsigned lane)
{
        const struct gen *gen = self;
        const struct gen_lane *l = &gen->lanes[lane];

        if (gen->count && l->sequence == gen->count)
                return NEVER;
        return gen->rate ? l->next : 0;
}

static uint32_t gen_rx_max(const void *self, unsigned lane)
{
        (void)lane;
        return ((const struct gen *)self)->size;
}

static const struct vw_port_ops gen_ops = {
        .close = gen_close,
        .info = gen_info,
        .rx = gen_rx,
        .deadline = gen_deadline,
        .rx_max = gen_rx_max,
};

/* Sums big-endian 16-bit words, folded. */
static uint32_t sum_words(const void *data, size_t len, uint32_t sum)
{
        const uint8_t *p = data;

        for (size_t i = 0; i + 1 < len; i += 2)
                sum += (uint32_t)(p[i] << 8 | p[i + 1]);
        if (len % 2)
                sum += (uint32_t)(p[len - 1] << 8);
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return sum;
}

static void build_frame(struct gen_lane *l, uint32_t size, unsigned lane, const uint8_t to[6])
{
        static const uint8_t zero[6], from[6] = { 0x02, 'v', 'w', 'g', 'e', 'n' };
        struct gen_frame *f = l->frame;
        uint16_t udp_len = (uint16_t)(size - offsetof(struct gen_frame, udp));

        if (memcmp(to, zero, sizeof(zero)) == 0)
                memset(f->eth.ether_dhost, 0xff, sizeof(f->eth.ether_dhost));
        else
                memcpy(f->eth.ether_dhost, to, sizeof(f->eth.ether_dhost));
        memcpy(f->eth.ether_shost, from, sizeof(from));
        f->eth.ether_type = htons(ETHERTYPE_IP);
        f->ip = (struct iphdr){
                .version = 4,
                .ihl = sizeof(f->ip) / 4,
                .tot_len = htons((uint16_t)(size - sizeof(f->eth))),
                .frag_off = htons(IP_DF),
                .ttl = 64,
                .protocol = IPPROTO_UDP,
                .saddr = htonl(0xc6120001), /* 198.18.0.0/15 is for benchmarks (RFC 2544) */
                .daddr = htonl(0xc6130001),
        };
        f->ip.check = htons((uint16_t)~sum_words(&f->ip, sizeof(f->ip), 0));
        f->udp = (struct udphdr){
                .uh_sport = htons((uint16_t)(GEN_PORT_FIRST + lane)),
                .uh_dport = htons(GEN_PORT),
                .uh_ulen = htons(udp_len),
        };
        f->sequence = 0;
        for (uint32_t i = sizeof(*f); i < size; i++)
                f->rest[i - sizeof(*f)] = (uint8_t)i;
        l->sum = sum_words(&f->udp, udp_len, IPPROTO_UDP + udp_len);
        l->sum = sum_words(&f->ip.saddr, 2 * sizeof(f->ip.saddr), l->sum);
}

int gen_open(const struct port_args *args, const struct vw_port_config *config,
             const struct vw_port_ops **ret_ops, void **ret_self, const char **ret_why)
{
        struct gen *gen = aligned_alloc(CACHE_LINE, sizeof(*gen) + config->pairs * sizeof(gen->lanes[0]));

        if (!gen)
                return port_refuse(ret_why, ENOMEM, args->spec, "no memory");
        memset(gen, 0, sizeof(*gen) + config->pairs * sizeof(gen->lanes[0]));
        gen->n_lanes = config->pairs;
        gen->size = args->size ? (uint32_t)args->size : GEN_SIZE_DEFAULT;
        gen->rate = args->rate;
        gen->count = args->count;
        gen->clone = args->clone;
        for (unsigned i = 0; i < gen->n_lanes; i++) {
                gen->lanes[i].frame = aligned_alloc(CACHE_LINE, ALIGN_UP((size_t)gen->size, CACHE_LINE));
                if (!gen->lanes[i].frame) {
                        gen_close(gen);
                        return port_refuse(ret_why, ENOMEM, args->spec, "no memory");
                }
                build_frame(&gen->lanes[i], gen->size, i, config->mac);
        }
        *ret_ops = &gen_ops;
        *ret_self = gen;
        return 0;
}
