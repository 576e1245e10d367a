/* vw_driver_send(): packets from any thread, without a lock.
 *
 * A sender draws a free cell, copies the packet into the cell's buffer in shared memory and hands the cell's number to the
 * owner, who offers it like any other packet; the completion frees the cell.  Both lists are bounded queues of numbers, so a
 * sender that is too fast finds none free and is told so. */
#include <errno.h>

#include "base/iov.h"
#include "driver/driver.h"
#include "net/hdr.h"

static uint8_t *cell_frame(const struct drv_txq *q, uint32_t cell)
{
        return q->buf_base + ((size_t)q->n_bufs + cell) * TX_BUF_STRIDE + TX_HEADROOM;
}

/* A free cell, or the promise of a wake-up when there is one. */
static bool draw_cell(struct drv_txq *q, uint32_t *ret_cell)
{
        if (likely(mpmc_pop(&q->cells_free, ret_cell)))
                return true;
        store_relaxed(&q->cells_wanted, 1);
        fence_full(); /* pairs with drv_send_wake(): it frees, fences, and looks whether we want */
        return mpmc_pop(&q->cells_free, ret_cell);
}

VW_API int vw_driver_send(struct vw_driver *drv, unsigned pair, const struct vw_net_hdr *hdr,
                          const struct iovec *iov, unsigned n_iov, struct vw_flow *flow)
{
        struct drv_pair *p = &drv->pairs[pair];
        struct drv_txq *q = &p->tx;
        size_t len = iov_length(iov, n_iov);
        uint32_t cell;

        if (len < NET_ETH_LEN || len > VW_FRAME_MAX)
                return -EMSGSIZE;
        if (!load_acquire(&p->up))
                return -ENETDOWN;
        if (!draw_cell(q, &cell))
                return -EAGAIN;
        if (flow && !flow_charge(&flow->account, (uint32_t)len)) {
                mpmc_put(&q->cells_free, cell);
                return -EAGAIN;
        }
        iov_to_buf(iov, n_iov, 0, cell_frame(q, cell), len);
        q->cells[cell] = (struct tx_cell){ *hdr, (uint32_t)len, flow };
        check(mpmc_push(&q->cells_full, cell));
        fence_full(); /* pairs with drv_napi_arm(): it says that it sleeps, fences, and looks for cells */
        if (load_relaxed(&p->napi.asleep) && __atomic_exchange_n(&p->napi.asleep, 0, __ATOMIC_RELAXED))
                drv_ring_bell(p->napi.bell);
        return 0;
}

/* Offers what the senders have left, as far as the ring takes it. */
void drv_send_drain(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;
        uint32_t cell;
        bool any = false;

        while (drv_tx_ready(p) && mpmc_pop(&q->cells_full, &cell)) {
                drv_tx_offer_cell(p, cell);
                any = true;
        }
        if (any)
                drv_tx_commit(p);
}

/* Cells that were freed are told to those who found none. */
void drv_send_wake(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;

        if (!q->cell_freed)
                return;
        q->cell_freed = false;
        fence_full(); /* pairs with draw_cell() */
        if (load_relaxed(&q->cells_wanted) && __atomic_exchange_n(&q->cells_wanted, 0, __ATOMIC_RELAXED) &&
            p->drv->ops.tx_wake)
                p->drv->ops.tx_wake(p->drv->config.ctx, p->index);
}

/* Nothing can be sent any more. */
void drv_send_discard(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;
        uint32_t cell;

        while (mpmc_pop(&q->cells_full, &cell))
                drv_tx_drop_cell(p, cell, VW_DROP_DISABLED);
}
