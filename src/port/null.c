/* The null port: swallows every frame, produces none.  Measures what a link costs without its ends.  All of it
 * is what vw_port_new() does for calls that are missing. */
#include "port/kinds.h"

static void null_info(void *self, struct vw_port_info *ret_info)
{
        (void)self;
        *ret_info = (struct vw_port_info){
                .kind = "null",
                .link_up = true,
                .tx_offloads = VW_OFFLOAD_ALL,
        };
}

static const struct vw_port_ops null_ops = { .info = null_info };

int null_open(const struct port_args *args, const struct vw_port_config *config,
              const struct vw_port_ops **ret_ops, void **ret_self, const char **ret_why)
{
        (void)args, (void)config, (void)ret_why;
        *ret_ops = &null_ops;
        *ret_self = NULL;
        return 0;
}
