/* Control commands: 8 bytes of features, then the command.  What decodes, encodes to the same bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz.h"
#include "net/ctrl.h"

static void expect_lists(const struct net_ctrl *cmd, uint32_t len)
{
        const struct net_mac_list *a = &cmd->table.unicast, *b = &cmd->table.multicast;

        check(2 + 4 + (uint64_t)a->n * NET_MAC_LEN + 4 + (uint64_t)b->n * NET_MAC_LEN == len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint32_t len = size < 8 ? 0 : (uint32_t)size - 8;
        uint64_t features = 0;
        struct net_ctrl cmd;
        uint8_t *out;
        int r;

        if (size < 8 || len > 1 << 20)
                return 0;
        memcpy(&features, data, 8);
        r = net_ctrl_decode(data + 8, len, le64_to_cpu(features), &cmd);
        if (r < 0)
                return 0;
        check(net_ctrl_feature(cmd.class_id, cmd.command) & le64_to_cpu(features));
        if (cmd.class_id == VIRTIO_NET_CTRL_MAC && cmd.command == VIRTIO_NET_CTRL_MAC_TABLE_SET)
                expect_lists(&cmd, len);
        out = malloc(len);
        r = net_ctrl_encode(&cmd, out, len);
        check(r == (int)len || r == -EINVAL); /* a table may hold a zero address, but no driver sends one */
        if (r > 0 && cmd.class_id != VIRTIO_NET_CTRL_NOTF_COAL) /* which has a reserved field */
                check(!memcmp(out, data + 8, len));
        free(out);
        return 0;
}
