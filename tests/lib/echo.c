#include "echo.h"

#include <string.h>

#define NUMBER 14 /* where it stands in a frame: behind the Ethernet header */

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        struct echo *e = ctx;

        (void)pair;
        for (unsigned i = 0; i < n; i++) {
                uint32_t number;

                memcpy(&number, (uint8_t *)pkts[i].iov[0].iov_base + NUMBER, sizeof(number));
                e->bad += number != e->next;
                e->next = number + 1;
        }
        e->received += n;
        return n;
}

static void on_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        struct echo *e = ctx;

        for (unsigned i = 0; i < n; i++)
                vw_driver_buf_put(e->drv, pair, cookies[i]);
        e->done += n;
}

const struct vw_driver_ops echo_ops = { .rx = on_rx, .tx_done = on_done };

bool echo_send(struct echo *e, uint32_t len)
{
        struct iovec iov = { .iov_len = len };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };
        uint32_t number = (uint32_t)e->sent;

        if (!vw_driver_tx_ready(e->drv, 0))
                return false;
        iov.iov_base = pkt.cookie = vw_driver_buf_get(e->drv, 0);
        if (!iov.iov_base)
                return false;
        memset(iov.iov_base, 0, NUMBER);
        memcpy((uint8_t *)iov.iov_base + NUMBER, &number, sizeof(number));
        if (vw_driver_xmit(e->drv, 0, &pkt, 1, true) != 1) {
                vw_driver_buf_put(e->drv, 0, iov.iov_base);
                return false;
        }
        e->sent++;
        return true;
}
