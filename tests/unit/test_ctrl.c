/* Control commands as bytes, both ways: golden ones, and what is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "net/ctrl.h"
#include "rng.h"
#include "scale.h"
#include "test.h"
#include "virtio/features.h"

#define CLASS(c)   VIRTIO_NET_CTRL_##c
#define COMMAND(c) .class_id = CLASS(c)
#define ALL        UINT64_MAX

static int decode(const void *bytes, uint32_t len, struct net_ctrl *cmd)
{
        return net_ctrl_decode(bytes, len, ALL, cmd);
}

/* The command has exactly these bytes, both ways. */
static void expect_bytes(const struct net_ctrl *cmd, const void *bytes, uint32_t len)
{
        struct net_ctrl back;
        uint8_t out[256];

        EXPECT_EQ(net_ctrl_encode(cmd, out, len), len);
        EXPECT_MEM(out, bytes, len);
        EXPECT_EQ(net_ctrl_encode(cmd, out, len - 1), -ENOSPC);
        EXPECT_EQ(decode(bytes, len, &back), 0);
        EXPECT_EQ(back.class_id, cmd->class_id);
        EXPECT_EQ(back.command, cmd->command);
        EXPECT_EQ(net_ctrl_encode(&back, out, sizeof(out)), len);
        EXPECT_MEM(out, bytes, len);
        for (uint32_t n = 0; n <= len + 4; n++) { /* any other length is refused */
                uint8_t exact[256] = { 0 };

                memcpy(exact, bytes, MIN(n, len));
                if (n != len)
                        EXPECT_EQ(decode(exact, n, &back), -EINVAL);
        }
}

/* T-RSS-04 */
TEST(ctrl, commands_have_their_golden_bytes)
{
        expect_bytes(&(struct net_ctrl){ COMMAND(RX), .command = VIRTIO_NET_CTRL_RX_PROMISC, .value = 1 },
                     "\0\0\1", 3);
        expect_bytes(&(struct net_ctrl){ COMMAND(RX), .command = VIRTIO_NET_CTRL_RX_ALLMULTI }, "\0\1\0", 3);
        expect_bytes(&(struct net_ctrl){ COMMAND(RX), .command = VIRTIO_NET_CTRL_RX_NOBCAST, .value = 1 },
                     "\0\5\1", 3);
        expect_bytes(
                &(struct net_ctrl){
                        COMMAND(MAC), .command = VIRTIO_NET_CTRL_MAC_ADDR_SET,
                        .mac = {0x52, 0x54, 0, 1, 2, 3}
        },
                "\1\1\x52\x54\0\1\2\3", 8);
        expect_bytes(&(struct net_ctrl){ COMMAND(VLAN), .command = VIRTIO_NET_CTRL_VLAN_ADD, .value = 0x123 },
                     "\2\0\x23\1", 4);
        expect_bytes(&(struct net_ctrl){ COMMAND(VLAN), .command = VIRTIO_NET_CTRL_VLAN_DEL, .value = 4095 },
                     "\2\1\xff\x0f", 4);
        expect_bytes(&(struct net_ctrl){ COMMAND(ANNOUNCE) }, "\3\0", 2);
        expect_bytes(&(struct net_ctrl){ COMMAND(MQ), .value = 0x102 }, "\4\0\2\1", 4);
        expect_bytes(&(struct net_ctrl){ COMMAND(GUEST_OFFLOADS),
                                         .value = F(guest_csum) | F(guest_tso4) | F(guest_uso6) },
                     "\5\0\x82\0\0\0\0\0\x80\0", 10);
        expect_bytes(
                &(struct net_ctrl){
                        COMMAND(NOTF_COAL), .command = VIRTIO_NET_CTRL_NOTF_COAL_TX_SET,
                        .coal = {.max_packets = 0x01020304, .max_usecs = 0x0a0b0c0d}
        },
                "\6\0\4\3\2\1\x0d\x0c\x0b\x0a", 10);
        expect_bytes(
                &(struct net_ctrl){
                        COMMAND(NOTF_COAL), .command = VIRTIO_NET_CTRL_NOTF_COAL_RX_SET,
                        .coal = {.max_packets = 7, .max_usecs = 33}
        },
                "\6\1\7\0\0\0\x21\0\0\0", 10);
        expect_bytes(
                &(struct net_ctrl){
                        COMMAND(NOTF_COAL), .command = VIRTIO_NET_CTRL_NOTF_COAL_VQ_SET,
                        .coal = {.queue = 0x203, .max_packets = 7, .max_usecs = 33}
        },
                "\6\2\3\2\0\0\7\0\0\0\x21\0\0\0", 14);
        expect_bytes(&(struct net_ctrl){ COMMAND(NOTF_COAL), .command = VIRTIO_NET_CTRL_NOTF_COAL_VQ_GET,
                                         .coal = { .queue = 3 } },
                     "\6\3\3\0\0\0", 6);
}

/* T-CVQ-06: either list may be empty */
TEST(ctrl, address_table_has_its_golden_bytes)
{
        static const uint8_t macs[] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 },
                             group[] = { 1, 0, 0x5e, 0, 0, 1 };
        struct net_ctrl cmd = { COMMAND(MAC), .command = VIRTIO_NET_CTRL_MAC_TABLE_SET };

        expect_bytes(&cmd, "\1\0\0\0\0\0\0\0\0\0", 10);
        cmd.table.unicast = (struct net_mac_list){ macs, 2 };
        expect_bytes(&cmd, "\1\0\2\0\0\0\2\0\0\0\0\1\2\0\0\0\0\2\0\0\0\0", 22);
        cmd.table.multicast = (struct net_mac_list){ group, 1 };
        expect_bytes(&cmd, "\1\0\2\0\0\0\2\0\0\0\0\1\2\0\0\0\0\2\1\0\0\0\1\0\x5e\0\0\1", 28);
        cmd.table.unicast.n = 0;
        expect_bytes(&cmd, "\1\0\0\0\0\0\1\0\0\0\1\0\x5e\0\0\1", 16);
}

/* hostile G07 */
TEST(ctrl, address_counts_must_be_borne_out)
{
        static const uint32_t lies[] = { 2, 3, 0x2aaaaaab, 0x80000000, 0xffffffff };
        uint8_t bytes[] = { 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0 };
        struct net_ctrl cmd;

        EXPECT_EQ(decode(bytes, sizeof(bytes), &cmd), 0);
        for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
                uint32_t le = cpu_to_le32(lies[i]);

                memcpy(bytes + 2, &le, 4);
                EXPECT_EQ(decode(bytes, sizeof(bytes), &cmd), -EINVAL);
                bytes[2] = 1;
                bytes[3] = bytes[4] = bytes[5] = 0;
                memcpy(bytes + 12, &le, 4);
                EXPECT_EQ(decode(bytes, sizeof(bytes), &cmd), -EINVAL);
                memset(bytes + 12, 0, 4);
        }
}

/* hostile G08: a table beyond what is filtered exactly is still whole */
TEST(ctrl, large_address_tables_decode)
{
        enum { N = 5000 };
        uint32_t len = 2 + 4 + 4 + N * 6, n = cpu_to_le32(N);
        uint8_t *bytes = calloc(1, len);
        struct net_ctrl cmd;

        bytes[0] = VIRTIO_NET_CTRL_MAC;
        memcpy(bytes + 6, &n, 4);
        EXPECT_EQ(decode(bytes, len, &cmd), 0);
        EXPECT_EQ(cmd.table.unicast.n, 0);
        EXPECT_EQ(cmd.table.multicast.n, N);
        EXPECT(cmd.table.multicast.macs == bytes + 10);
        free(bytes);
}

/* hostile G01 */
TEST(ctrl, less_than_a_class_and_a_command_is_refused)
{
        struct net_ctrl cmd;

        EXPECT_EQ(decode("", 0, &cmd), -EINVAL);
        EXPECT_EQ(decode("\0", 1, &cmd), -EINVAL);
}

/* hostile G04, G13: RSS is not offered */
TEST(ctrl, unknown_commands_are_refused)
{
        struct net_ctrl cmd;

        for (unsigned class_id = 0; class_id < 256; class_id++) {
                for (unsigned command = 0; command < 256; command++) {
                        uint8_t bytes[64] = { (uint8_t)class_id, (uint8_t)command };
                        bool known = (class_id == 0 && command < 6) || (class_id == 1 && command < 2) ||
                                     (class_id == 2 && command < 2) || (class_id == 3 && command < 1) ||
                                     (class_id == 4 && command < 1) || (class_id == 5 && command < 1) ||
                                     (class_id == 6 && command < 4);

                        EXPECT_EQ(net_ctrl_feature((uint8_t)class_id, (uint8_t)command) != 0, known);
                        if (!known)
                                EXPECT_EQ(decode(bytes, sizeof(bytes), &cmd), -EOPNOTSUPP);
                }
        }
}

/* T-CVQ-04 */
TEST(ctrl, commands_need_their_feature)
{
        static const struct {
                const char *bytes;
                uint32_t len;
                uint64_t feature;
        } cases[] = {
                {"\0\0\1",                3,  F(ctrl_rx)            },
                { "\0\2\1",               3,  F(ctrl_rx_extra)      },
                { "\1\0\0\0\0\0\0\0\0\0", 10, F(ctrl_rx)            },
                { "\1\1\2\0\0\0\0\1",     8,  F(ctrl_mac_addr)      },
                { "\2\0\1\0",             4,  F(ctrl_vlan)          },
                { "\3\0",                 2,  F(guest_announce)     },
                { "\4\0\1\0",             4,  F(mq)                 },
                { "\5\0\0\0\0\0\0\0\0\0", 10, F(ctrl_guest_offloads)},
                { "\6\0\1\0\0\0\1\0\0\0", 10, F(notf_coal)          },
                { "\6\3\1\0\0\0",         6,  F(vq_notf_coal)       },
        };
        struct net_ctrl cmd;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const uint8_t *bytes = (const uint8_t *)cases[i].bytes;

                EXPECT_EQ(net_ctrl_feature(bytes[0], bytes[1]), cases[i].feature);
                EXPECT_EQ(net_ctrl_decode(bytes, cases[i].len, cases[i].feature, &cmd), 0);
                EXPECT_EQ(net_ctrl_decode(bytes, cases[i].len, ~cases[i].feature, &cmd), -EOPNOTSUPP);
        }
}

/* hostile G06: a switch is 0 or 1 and one byte long */
TEST(ctrl, receive_mode_is_zero_or_one)
{
        for (unsigned command = 0; command < 6; command++) {
                for (unsigned value = 0; value < 256; value++) {
                        uint8_t bytes[] = { 0, (uint8_t)command, (uint8_t)value, 0 };
                        struct net_ctrl cmd;

                        EXPECT_EQ(decode(bytes, 3, &cmd), value < 2 ? 0 : -EINVAL);
                        EXPECT_EQ(decode(bytes, 4, &cmd), -EINVAL);
                }
        }
}

/* hostile G10 */
TEST(ctrl, vlan_ids_end_at_4095)
{
        struct net_ctrl cmd;

        EXPECT_EQ(decode("\2\0\xff\x0f", 4, &cmd), 0);
        EXPECT_EQ(cmd.value, 4095);
        EXPECT_EQ(decode("\2\0\x00\x10", 4, &cmd), -EINVAL);
        EXPECT_EQ(decode("\2\1\xff\xff", 4, &cmd), -EINVAL);
}

/* hostile G11: up to the device's own number is the device's to check */
TEST(ctrl, pairs_are_one_to_0x8000)
{
        struct net_ctrl cmd;

        EXPECT_EQ(decode("\4\0\0\0", 4, &cmd), -EINVAL);
        EXPECT_EQ(decode("\4\0\1\0", 4, &cmd), 0);
        EXPECT_EQ(decode("\4\0\x00\x80", 4, &cmd), 0);
        EXPECT_EQ(decode("\4\0\x01\x80", 4, &cmd), -EINVAL);
        EXPECT_EQ(decode("\4\0\1", 3, &cmd), -EINVAL);
}

TEST(ctrl, own_address_is_nobody_elses)
{
        struct net_ctrl cmd;

        EXPECT_EQ(decode("\1\1\0\0\0\0\0\0", 8, &cmd), -EINVAL);
        EXPECT_EQ(decode("\1\1\1\0\x5e\0\0\1", 8, &cmd), -EINVAL);
        EXPECT_EQ(decode("\1\1\xff\xff\xff\xff\xff\xff", 8, &cmd), -EINVAL);
}

/* hostile G15 */
TEST(ctrl, offloads_must_have_been_negotiated)
{
        uint64_t features = F(ctrl_guest_offloads) | F(guest_csum) | F(guest_tso4);

        for (unsigned bit = 0; bit < 64; bit++) {
                uint64_t mask = cpu_to_le64(BIT(bit));
                struct net_ctrl cmd;
                uint8_t bytes[10] = { 5, 0 };

                memcpy(bytes + 2, &mask, 8);
                EXPECT_EQ(net_ctrl_decode(bytes, 10, features, &cmd), bit == 1 || bit == 7 ? 0 : -EINVAL);
                if (bit == 1 || bit == 7)
                        EXPECT_EQ(cmd.value, BIT(bit));
        }
}

/* T-CVQ-06 */
TEST(ctrl, encoder_refuses_what_must_not_be_sent)
{
        static const uint8_t macs[] = { 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0 };
        struct net_ctrl cmd = {
                COMMAND(MAC), .command = VIRTIO_NET_CTRL_MAC_TABLE_SET, .table.unicast = {macs, 2}
        };
        uint8_t out[64];

        EXPECT_EQ(net_ctrl_encode(&cmd, out, sizeof(out)), -EINVAL);
        cmd.table.unicast.n = 1;
        EXPECT_EQ(net_ctrl_encode(&cmd, out, sizeof(out)), 16);
        cmd = (struct net_ctrl){ COMMAND(MAC), .command = VIRTIO_NET_CTRL_MAC_ADDR_SET };
        EXPECT_EQ(net_ctrl_encode(&cmd, out, sizeof(out)), -EINVAL);
        cmd = (struct net_ctrl){ COMMAND(VLAN), .value = 4096 };
        EXPECT_EQ(net_ctrl_encode(&cmd, out, sizeof(out)), -EINVAL);
        cmd = (struct net_ctrl){ COMMAND(MQ), .value = 0 };
        EXPECT_EQ(net_ctrl_encode(&cmd, out, sizeof(out)), -EINVAL);
        cmd = (struct net_ctrl){ COMMAND(GUEST_OFFLOADS), .value = F(csum) };
        EXPECT_EQ(net_ctrl_encode(&cmd, out, sizeof(out)), -EINVAL);
}

TEST(ctrl, answer_of_a_query_is_packets_then_usecs)
{
        uint32_t packets, usecs;
        uint8_t bytes[8];

        net_ctrl_put_coal(0x01020304, 5, bytes);
        EXPECT_MEM(bytes, "\4\3\2\1\5\0\0\0", 8);
        net_ctrl_get_coal(bytes, &packets, &usecs);
        EXPECT_EQ(packets, 0x01020304);
        EXPECT_EQ(usecs, 5);
}

TEST(ctrl, failure_leaves_the_output_alone)
{
        struct net_ctrl cmd, before;

        memset(&cmd, 0x5a, sizeof(cmd));
        before = cmd;
        EXPECT_EQ(decode("\0\0\2", 3, &cmd), -EINVAL);
        EXPECT_EQ(decode("\x09\0\2", 3, &cmd), -EOPNOTSUPP);
        EXPECT_MEM(&cmd, &before, sizeof(cmd));
}

/* What decodes, encodes to the same bytes; nothing is read past the end. */
TEST(ctrl, noise_is_refused_or_understood)
{
        uint64_t rng = 3;

        for (uint64_t i = 0; i < test_scale(200000, 20000000); i++) {
                uint32_t len = rng_below(&rng, 40);
                uint8_t tail[40], *bytes = tail + sizeof(tail) - len, out[64];
                struct net_ctrl cmd;

                for (uint32_t n = 0; n < len; n++)
                        bytes[n] = (uint8_t)(rng_below(&rng, 2) ? 0 : rng_below(&rng, n < 2 ? 7 : 256));
                if (decode(bytes, len, &cmd) == 0) {
                        int r = net_ctrl_encode(&cmd, out, sizeof(out));

                        /* a zero address in a table: a device takes it, a driver never sends it */
                        if (r == -EINVAL)
                                continue;
                        EXPECT_EQ(r, len);
                        if (cmd.class_id != VIRTIO_NET_CTRL_NOTF_COAL) /* its reserved field is ignored */
                                EXPECT_MEM(out, bytes, len);
                }
        }
}
