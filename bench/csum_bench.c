/* What net/ costs a frame: summing, completing, checking, cutting.  One line a case, key=value; ns_per_kib is of frame bytes.
 *
 * usage: csum_bench [MILLISECONDS]      of each case; 100 unless told */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "frames.h"
#include "net/csum.h"
#include "net/offload.h"
#include "virtio/features.h"

struct bench {
        uint8_t frame[VW_FRAME_MAX + 8], out[VW_FRAME_MAX];
        struct vw_net_hdr hdr;
        uint32_t len, shift;
        uint64_t features;
        uint64_t sink; /* so that no result is dropped */
};

static void sum(struct bench *b)
{
        b->sink += net_csum_add(0, b->frame + b->shift, b->len);
}

/* As RFC 1071 has it, two bytes at a time. */
static void sum_naive(struct bench *b)
{
        b->sink += frame_sum(b->frame, b->len, 0);
}

static void copy(struct bench *b)
{
        memcpy(b->out, b->frame, b->len);
        b->sink += b->out[b->sink % b->len];
}

static void check_tx(struct bench *b)
{
        struct vw_net_hdr hdr = b->hdr;

        b->sink += net_tx_check(&hdr, b->frame, b->len, b->features);
}

static void make_plain(struct bench *b)
{
        struct net_offload o;
        uint32_t n;

        if (net_offload_begin(&o, &b->hdr, b->frame, b->len) < 0)
                return;
        while ((n = net_offload_next(&o, b->out, sizeof(b->out))))
                b->sink += n;
}

static void measure(struct bench *b, const char *what, void (*run)(struct bench *b), uint64_t budget)
{
        uint64_t start = clock_now(), end, rounds = 0;

        do {
                for (unsigned i = 0; i < 64; i++)
                        run(b);
                rounds += 64;
                end = clock_now();
        } while (end - start < budget);
        double ns = (double)(end - start) / (double)rounds;

        printf("bench=%s bytes=%u shift=%u ns=%.1f ns_per_kib=%.1f\n", what, b->len, b->shift, ns,
               ns * 1024 / b->len);
}

static void build(struct bench *b, uint32_t payload, bool partial, uint16_t gso_size)
{
        struct frame_spec spec = {
                .proto = IPPROTO_TCP, .tcp_words = 3, .payload = payload, .partial = partial
        };

        b->len = frame_build(&spec, b->frame, &b->hdr);
        b->shift = 0;
        if (gso_size) {
                b->hdr.gso_type = VW_GSO_TCPV4;
                b->hdr.gso_size = gso_size;
        }
}

int main(int argc, char **argv)
{
        uint64_t budget = (argc > 1 ? strtoull(argv[1], NULL, 10) : 100) * NSEC_PER_MSEC;
        static const uint32_t payloads[] = { 0, 1448, 65000 };
        struct bench *b = calloc(1, sizeof(*b));

        b->features = features_device();
        for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) {
                build(b, payloads[i], true, 0);
                measure(b, "copy", copy, budget);
                measure(b, "sum", sum, budget);
                b->shift = 1;
                measure(b, "sum", sum, budget);
                b->shift = 0;
                measure(b, "sum_naive", sum_naive, budget);
                measure(b, "complete", make_plain, budget);
                measure(b, "check_csum", check_tx, budget);
                build(b, payloads[i], false, 0);
                measure(b, "check_plain", check_tx, budget);
        }
        build(b, 65000, true, 1448);
        measure(b, "check_gso", check_tx, budget);
        measure(b, "segment", make_plain, budget);
        fprintf(stderr, "sink=%llu\n", (unsigned long long)b->sink);
        free(b);
        return 0;
}
