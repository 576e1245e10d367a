#include "net/ctrl.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "virtio/features.h"

enum shape {
        SHAPE_NONE,    /* no data */
        SHAPE_U8,      /* value */
        SHAPE_U16,     /* value */
        SHAPE_U64,     /* value */
        SHAPE_MAC,     /* mac */
        SHAPE_TABLE,   /* two lists */
        SHAPE_COAL,    /* packets and usecs */
        SHAPE_VQ_COAL, /* queue, packets and usecs */
        SHAPE_VQ,      /* queue */
};

static const uint32_t fixed_len[] = {
        [SHAPE_U8] = 1,
        [SHAPE_U16] = 2,
        [SHAPE_U64] = 8,
        [SHAPE_MAC] = NET_MAC_LEN,
        [SHAPE_COAL] = sizeof(struct virtio_net_ctrl_coal),
        [SHAPE_VQ_COAL] = sizeof(struct virtio_net_ctrl_coal_vq),
        [SHAPE_VQ] = 4,
};

#define OFFLOADS                                                                                             \
        (F(guest_csum) | F(guest_tso4) | F(guest_tso6) | F(guest_ecn) | F(guest_ufo) | F(guest_uso4) |       \
         F(guest_uso6))
#define PAIRS_MAX              0x8000 /* 5.1.6.5.5 */

#define ROW(class_id, command) VIRTIO_NET_CTRL_##class_id, VIRTIO_NET_CTRL_##class_id##_##command

static const struct row {
        uint8_t class_id, command;
        uint64_t feature;
        enum shape shape;
        uint64_t least, most; /* of value; under SHAPE_U64 `most` is a mask */
} rows[] = {
        {ROW(RX,              PROMISC),      F(ctrl_rx),             SHAPE_U8,      0, 1              },
        { ROW(RX,             ALLMULTI),     F(ctrl_rx),             SHAPE_U8,      0, 1              },
        { ROW(RX,             ALLUNI),       F(ctrl_rx_extra),       SHAPE_U8,      0, 1              },
        { ROW(RX,             NOMULTI),      F(ctrl_rx_extra),       SHAPE_U8,      0, 1              },
        { ROW(RX,             NOUNI),        F(ctrl_rx_extra),       SHAPE_U8,      0, 1              },
        { ROW(RX,             NOBCAST),      F(ctrl_rx_extra),       SHAPE_U8,      0, 1              },
        { ROW(MAC,            TABLE_SET),    F(ctrl_rx),             SHAPE_TABLE,   0, 0              },
        { ROW(MAC,            ADDR_SET),     F(ctrl_mac_addr),       SHAPE_MAC,     0, 0              },
        { ROW(VLAN,           ADD),          F(ctrl_vlan),           SHAPE_U16,     0, NET_VLAN_ID_MAX},
        { ROW(VLAN,           DEL),          F(ctrl_vlan),           SHAPE_U16,     0, NET_VLAN_ID_MAX},
        { ROW(ANNOUNCE,       ACK),          F(guest_announce),      SHAPE_NONE,    0, 0              },
        { ROW(MQ,             VQ_PAIRS_SET), F(mq),                  SHAPE_U16,     1, PAIRS_MAX      },
        { ROW(GUEST_OFFLOADS, SET),          F(ctrl_guest_offloads), SHAPE_U64,     0, OFFLOADS       },
        { ROW(NOTF_COAL,      TX_SET),       F(notf_coal),           SHAPE_COAL,    0, 0              },
        { ROW(NOTF_COAL,      RX_SET),       F(notf_coal),           SHAPE_COAL,    0, 0              },
        { ROW(NOTF_COAL,      VQ_SET),       F(vq_notf_coal),        SHAPE_VQ_COAL, 0, 0              },
        { ROW(NOTF_COAL,      VQ_GET),       F(vq_notf_coal),        SHAPE_VQ,      0, 0              },
};

static const struct row *find_row(uint8_t class_id, uint8_t command)
{
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].class_id == class_id && rows[i].command == command)
                        return &rows[i];
        return NULL;
}

uint64_t net_ctrl_feature(uint8_t class_id, uint8_t command)
{
        const struct row *row = find_row(class_id, command);

        return row ? row->feature : 0;
}

/* Little-endian numbers of `size` bytes, at any address. */
static uint64_t get_le(const uint8_t *bytes, unsigned size)
{
        uint64_t value = 0;

        for (unsigned i = 0; i < size; i++)
                value |= (uint64_t)bytes[i] << 8 * i;
        return value;
}

static void put_le(uint8_t *bytes, unsigned size, uint64_t value)
{
        for (unsigned i = 0; i < size; i++)
                bytes[i] = (uint8_t)(value >> 8 * i);
}

void net_ctrl_get_coal(const uint8_t bytes[8], uint32_t *ret_max_packets, uint32_t *ret_max_usecs)
{
        *ret_max_packets = (uint32_t)get_le(bytes, 4);
        *ret_max_usecs = (uint32_t)get_le(bytes + 4, 4);
}

void net_ctrl_put_coal(uint32_t max_packets, uint32_t max_usecs, uint8_t bytes[8])
{
        put_le(bytes, 4, max_packets);
        put_le(bytes + 4, 4, max_usecs);
}

static bool in_range(const struct row *row, uint64_t value, uint64_t features)
{
        if (row->shape == SHAPE_U64)
                return !(value & ~(row->most & features));
        return value >= row->least && value <= row->most;
}

/* Takes one counted list off the front of `data`. */
static bool decode_list(const uint8_t **data, uint32_t *len, struct net_mac_list *ret_list)
{
        uint32_t n;

        if (*len < 4)
                return false;
        n = (uint32_t)get_le(*data, 4);
        if (n > (*len - 4) / NET_MAC_LEN)
                return false;
        *ret_list = (struct net_mac_list){ .macs = *data + 4, .n = n };
        *data += 4 + n * NET_MAC_LEN;
        *len -= 4 + n * NET_MAC_LEN;
        return true;
}

static bool decode_data(const struct row *row, const uint8_t *data, uint32_t len, uint64_t features,
                        struct net_ctrl *cmd)
{
        if (row->shape == SHAPE_TABLE)
                return decode_list(&data, &len, &cmd->table.unicast) &&
                       decode_list(&data, &len, &cmd->table.multicast) && len == 0;
        if (len != fixed_len[row->shape])
                return false;
        switch (row->shape) {
        case SHAPE_U8:
        case SHAPE_U16:
        case SHAPE_U64:
                cmd->value = get_le(data, len);
                return in_range(row, cmd->value, features);
        case SHAPE_MAC:
                memcpy(cmd->mac, data, NET_MAC_LEN);
                return net_mac_is_station(data);
        case SHAPE_COAL:
                net_ctrl_get_coal(data, &cmd->coal.max_packets, &cmd->coal.max_usecs);
                return true;
        case SHAPE_VQ_COAL:
                net_ctrl_get_coal(data + 4, &cmd->coal.max_packets, &cmd->coal.max_usecs);
                cmd->coal.queue = (uint16_t)get_le(data, 2);
                return true;
        case SHAPE_VQ:
                cmd->coal.queue = (uint16_t)get_le(data, 2);
                return true;
        case SHAPE_NONE:
        case SHAPE_TABLE:
                return true;
        }
        unreachable();
}

int net_ctrl_decode(const uint8_t *bytes, uint32_t len, uint64_t features, struct net_ctrl *ret_cmd)
{
        struct net_ctrl cmd = { 0 };
        const struct row *row;

        if (len < sizeof(struct virtio_net_ctrl_hdr))
                return -EINVAL;
        cmd.class_id = bytes[0];
        cmd.command = bytes[1];
        row = find_row(cmd.class_id, cmd.command);
        if (!row || !(row->feature & features))
                return -EOPNOTSUPP;
        if (!decode_data(row, bytes + 2, len - 2, features, &cmd))
                return -EINVAL;
        *ret_cmd = cmd;
        return 0;
}

static bool list_is_sound(const struct net_mac_list *list)
{
        for (uint32_t i = 0; i < list->n; i++)
                if (net_mac_is_zero(list->macs + i * NET_MAC_LEN))
                        return false;
        return true;
}

static uint8_t *encode_list(uint8_t *out, const struct net_mac_list *list)
{
        put_le(out, 4, list->n);
        if (list->n)
                memcpy(out + 4, list->macs, list->n * NET_MAC_LEN);
        return out + 4 + list->n * NET_MAC_LEN;
}

static uint64_t data_len(const struct row *row, const struct net_ctrl *cmd)
{
        if (row->shape != SHAPE_TABLE)
                return fixed_len[row->shape];
        return 8 + ((uint64_t)cmd->table.unicast.n + cmd->table.multicast.n) * NET_MAC_LEN;
}

static bool is_sound(const struct row *row, const struct net_ctrl *cmd)
{
        switch (row->shape) {
        case SHAPE_U8:
        case SHAPE_U16:
        case SHAPE_U64:
                return in_range(row, cmd->value, UINT64_MAX);
        case SHAPE_MAC:
                return net_mac_is_station(cmd->mac);
        case SHAPE_TABLE:
                return list_is_sound(&cmd->table.unicast) && list_is_sound(&cmd->table.multicast);
        default:
                return true;
        }
}

static void encode_data(const struct row *row, const struct net_ctrl *cmd, uint8_t *out)
{
        switch (row->shape) {
        case SHAPE_NONE:
                return;
        case SHAPE_U8:
        case SHAPE_U16:
        case SHAPE_U64:
                put_le(out, fixed_len[row->shape], cmd->value);
                return;
        case SHAPE_MAC:
                memcpy(out, cmd->mac, NET_MAC_LEN);
                return;
        case SHAPE_TABLE:
                encode_list(encode_list(out, &cmd->table.unicast), &cmd->table.multicast);
                return;
        case SHAPE_COAL:
                net_ctrl_put_coal(cmd->coal.max_packets, cmd->coal.max_usecs, out);
                return;
        case SHAPE_VQ_COAL:
                net_ctrl_put_coal(cmd->coal.max_packets, cmd->coal.max_usecs, out + 4);
                put_le(out, 4, cmd->coal.queue);
                return;
        case SHAPE_VQ:
                put_le(out, 4, cmd->coal.queue);
                return;
        }
}

int net_ctrl_encode(const struct net_ctrl *cmd, uint8_t *out, uint32_t room)
{
        const struct row *row = find_row(cmd->class_id, cmd->command);
        uint64_t len;

        check(row);
        if (!is_sound(row, cmd))
                return -EINVAL;
        len = sizeof(struct virtio_net_ctrl_hdr) + data_len(row, cmd);
        if (len > room)
                return -ENOSPC;
        out[0] = cmd->class_id;
        out[1] = cmd->command;
        encode_data(row, cmd, out + 2);
        return (int)len;
}
