#include "net/offload.h"

#include <string.h>

#include "base/check.h"
#include "net/csum.h"
#include "virtio/features.h"

static const struct {
        uint32_t offload;
        uint64_t tx, rx; /* all of these */
} rows[] = {
        {VW_OFFLOAD_CSUM,  F(csum),      F(guest_csum)                },
        { VW_OFFLOAD_TSO4, F(host_tso4), F(guest_tso4)                },
        { VW_OFFLOAD_TSO6, F(host_tso6), F(guest_tso6)                },
        { VW_OFFLOAD_ECN,  F(host_ecn),  F(guest_ecn)                 },
        { VW_OFFLOAD_USO,  F(host_uso),  F(guest_uso4) | F(guest_uso6)},
};

uint32_t net_offloads_tx(uint64_t features)
{
        uint32_t offloads = 0;

        features = features_closed(features);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if ((features & rows[i].tx) == rows[i].tx)
                        offloads |= rows[i].offload;
        return offloads;
}

uint32_t net_offloads_rx(uint64_t features)
{
        uint32_t offloads = 0;

        features = features_closed(features);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if ((features & rows[i].rx) == rows[i].rx)
                        offloads |= rows[i].offload;
        return offloads;
}

uint64_t net_offloads_rx_features(uint32_t offloads)
{
        uint64_t features = 0;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (offloads & rows[i].offload)
                        features |= rows[i].rx;
        return features;
}

uint32_t net_offloads_asked(const struct vw_net_hdr *hdr)
{
        static const uint32_t of_type[] = {
                [VW_GSO_TCPV4] = VW_OFFLOAD_TSO4,
                [VW_GSO_TCPV6] = VW_OFFLOAD_TSO6,
                [VW_GSO_UDP_L4] = VW_OFFLOAD_USO,
        };
        unsigned type = hdr->gso_type & ~VW_GSO_ECN;

        return (hdr->flags & VW_HDR_F_NEEDS_CSUM ? VW_OFFLOAD_CSUM : 0) |
               (hdr->gso_type & VW_GSO_ECN ? VW_OFFLOAD_ECN : 0) |
               (type < ARRAY_SIZE(of_type) ? of_type[type] : 0);
}

/* What is summed ends where IP says that the packet ends; what pads a short frame does not count. */
static uint32_t packet_end(const uint8_t *frame, uint32_t len)
{
        struct net_layout at;

        net_parse(frame, len, len, &at);
        return at.ip_end ? at.ip_end : len;
}

int net_offload_begin(struct net_offload *o, const struct vw_net_hdr *hdr, uint8_t *frame, uint32_t len)
{
        int r = 0;

        *o = (struct net_offload){ .frame = frame, .len = len, .cut = hdr->gso_type != VW_GSO_NONE };
        if (o->cut)
                r = net_gso_begin(&o->gso, hdr, frame, len);
        else if (hdr->flags & VW_HDR_F_NEEDS_CSUM)
                r = net_csum_complete(frame, packet_end(frame, len), hdr->csum_start, hdr->csum_offset);
        return r;
}

uint32_t net_offload_next(struct net_offload *o, uint8_t *out, uint32_t room)
{
        if (o->cut)
                return net_gso_next(&o->gso, out, room);
        if (o->done)
                return 0;
        check(o->len <= room);
        memcpy(out, o->frame, o->len);
        o->done = true;
        return o->len;
}
