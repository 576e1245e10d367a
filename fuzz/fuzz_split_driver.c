/* The driver half of the split ring against a device that writes anything into the shared memory.  The input is
 *      u8 size (its logarithm), u8 features, then operations, each a byte that says which and what it needs
 * Each cookie that went in must come out once, through reap or at last through drain, and no other. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz.h"
#include "ring/vq.h"
#include "virtio/features.h"

#define GPA  UINT64_C(0x10000)
#define SIZE 16 /* entries at most */

struct model {
        struct vq_driver vq;
        struct vq_config cfg;
        uint8_t *mem;
        size_t bytes;
        char cookie[SIZE]; /* its address is the cookie */
        bool out[SIZE];
        unsigned ndesc[SIZE], total;
};

struct input {
        const uint8_t *data;
        size_t size;
};

static unsigned take(struct input *in)
{
        if (!in->size)
                return 0;
        in->size--;
        return *in->data++;
}

static void add(struct model *m, unsigned arg)
{
        unsigned n_out = 1 + arg % 4, n_in = arg / 4 % 4, n = n_out + n_in, i;
        struct vq_piece pieces[8] = {
                {GPA, 64}
        };
        int r;

        for (i = 0; i < SIZE && m->out[i]; i++)
                ;
        if (i == SIZE)
                return;
        r = vq_driver_add(&m->vq, pieces, n_out, n_in, &m->cookie[i]);
        m->ndesc[i] = m->vq.indirect ? 1 : n;
        if (m->vq.broken)
                check(r == -EPROTO);
        else if (n > vq_driver_chain_max(&m->vq))
                check(r == -E2BIG);
        else
                check(r == (m->total + m->ndesc[i] > m->cfg.size ? -ENOSPC : 0));
        if (r)
                return;
        m->out[i] = true;
        m->total += m->ndesc[i];
}

static void came_back(struct model *m, const void *cookie)
{
        size_t i = (size_t)((const char *)cookie - m->cookie);

        check(i < SIZE && m->out[i]);
        m->out[i] = false;
        m->total -= m->ndesc[i];
}

static void reap(struct model *m, unsigned max)
{
        struct vq_used used[8];
        int n = vq_driver_reap(&m->vq, used, max);

        check(n >= 0 ? n <= (int)max && !m->vq.broken : m->vq.broken && n == -EPROTO);
        for (int i = 0; i < n; i++)
                came_back(m, used[i].cookie);
}

/* What an honest device does with the next chain. */
static void use(struct model *m, unsigned arg)
{
        struct vring_split *r = &m->vq.split.ring;
        uint16_t idx = le16_to_cpu(r->used->idx);
        uint16_t head = m->vq.split.slot[idx & r->mask].offered;

        r->used->ring[idx & r->mask] = (struct vring_used_elem){ cpu_to_le32(head), cpu_to_le32(arg) };
        r->used->idx = cpu_to_le16((uint16_t)(idx + 1));
}

static void poke(struct model *m, struct input *in)
{
        unsigned off = take(in);

        off |= take(in) << 8;
        m->mem[off % m->bytes] = (uint8_t)take(in);
}

static void step(struct model *m, struct input *in)
{
        unsigned op = take(in), arg = op / 16;

        switch (op % 16) {
        case 0:
        case 1:
                add(m, arg);
                break;
        case 2:
        case 3:
                use(m, arg);
                break;
        case 4:
                vq_driver_publish(&m->vq);
                break;
        case 5:
                reap(m, 1 + arg % 8);
                break;
        case 6:
                vq_driver_kick_needed(&m->vq);
                break;
        case 7:
                vq_driver_call_enable(&m->vq);
                break;
        case 8:
                vq_driver_call_enable_delayed(&m->vq);
                break;
        case 9:
                vq_driver_call_disable(&m->vq);
                break;
        case 10:
                vq_driver_used_pending(&m->vq);
                break;
        default:
                poke(m, in);
                break;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct input in = { data, size };
        struct model m = { .cfg = { .size = 1u << take(&in) % 5 } };
        unsigned features = take(&in);
        void *cookie;

        m.cfg.features = (features & 1 ? F(indirect_desc) : 0) | (features & 2 ? F(event_idx) : 0);
        m.bytes = ALIGN_UP(vq_driver_bytes(VQ_SPLIT, m.cfg.size, m.cfg.features), CACHE_LINE);
        m.mem = aligned_alloc(CACHE_LINE, m.bytes);
        check(m.mem);
        memset(m.mem, 0, m.bytes);
        check(vq_driver_init(&m.vq, VQ_SPLIT, &m.cfg, m.mem, GPA) == 0);
        while (in.size) {
                step(&m, &in);
                check(vq_driver_outstanding(&m.vq) == m.total);
        }
        while ((cookie = vq_driver_drain(&m.vq)))
                came_back(&m, cookie);
        check(m.total == 0 && vq_driver_free(&m.vq) == m.cfg.size);
        vq_driver_done(&m.vq);
        free(m.mem);
        return 0;
}
