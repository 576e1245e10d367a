/* The net header: a byte that chooses the direction, 8 bytes of features, a header of 12, then the frame.  What a check passes has
 * fields that are true of the frame, and can be made plain in software. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz.h"
#include "net/offload.h"
#include "virtio/features.h"
#include "virtio/spec.h"

enum { PREFIX = 1 + 8 + 12 };

static void make_plain(const struct vw_net_hdr *hdr, const uint8_t *frame, uint32_t len)
{
        uint32_t most = hdr->gso_type ? (uint32_t)hdr->hdr_len + hdr->gso_size : len, n;
        uint8_t *copy = malloc(len), *out = malloc(most);
        struct net_offload o;

        memcpy(copy, frame, len);
        if (net_offload_begin(&o, hdr, copy, len) == 0)
                while ((n = net_offload_next(&o, out, most)))
                        check(n >= NET_ETH_LEN && n <= most);
        free(out);
        free(copy);
}

static void expect_honest(const struct vw_net_hdr *hdr, uint32_t len, uint64_t features, bool tx)
{
        uint32_t field = (uint32_t)hdr->csum_start + hdr->csum_offset;

        check(!(hdr->flags & ~(VW_HDR_F_NEEDS_CSUM | (tx ? 0 : VW_HDR_F_DATA_VALID))));
        check(hdr->hdr_len <= len);
        if (tx)
                check(hdr->num_buffers == 0);
        if (hdr->flags & VW_HDR_F_NEEDS_CSUM) {
                check(features & (tx ? F(csum) : F(guest_csum)));
                check(hdr->csum_start >= NET_ETH_LEN && field + 2 <= len);
        } else {
                check(!field);
        }
        if (hdr->gso_type)
                check(hdr->gso_size && hdr->flags & VW_HDR_F_NEEDS_CSUM && hdr->hdr_len > hdr->csum_start);
        else
                check(!hdr->gso_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint32_t len = size < PREFIX ? 0 : (uint32_t)(size - PREFIX), have = MIN(len, NET_HEADERS_MAX);
        const uint8_t *frame = data + PREFIX;
        struct vw_net_hdr hdr;
        uint64_t features;
        uint8_t *bytes;
        bool tx;

        if (size < PREFIX || len > VW_FRAME_MAX)
                return 0;
        tx = data[0] & 1;
        memcpy(&features, data + 1, 8);
        features = features_closed(le64_to_cpu(features));
        net_hdr_decode(data + 9, 12, &hdr);
        bytes = malloc(have ? have : 1); /* exactly what the check may read */
        memcpy(bytes, frame, have);
        if ((tx ? net_tx_check : net_rx_check)(&hdr, bytes, len, features) == VW_DROP_NONE) {
                expect_honest(&hdr, len, features, tx);
                net_over_mtu(&hdr, bytes, len, 1500);
                make_plain(&hdr, frame, len);
        }
        free(bytes);
        return 0;
}
