/* Flows, as the program sees them: the account is flow.h's, charged in tx.c and send.c, discharged in tx.c. */
#include <stdlib.h>

#include "driver/driver.h"

VW_API struct vw_flow *vw_flow_open(struct vw_driver *drv, unsigned pair, uint32_t limit, void *ctx)
{
        struct vw_flow *f = calloc(1, sizeof(*f));

        if (!f)
                return NULL;
        flow_init(&f->account, limit);
        f->ctx = ctx;
        (void)drv; /* an account knows no queue: the packets that it is charged for do */
        (void)pair;
        return f;
}

VW_API void vw_flow_close(struct vw_flow *flow)
{
        if (flow && flow_close(&flow->account))
                free(flow);
}

VW_API void *vw_flow_ctx(const struct vw_flow *flow)
{
        return flow->ctx;
}

VW_API uint64_t vw_flow_inflight(const struct vw_flow *flow)
{
        return flow_inflight(&flow->account);
}
