/* A session from its socket to its end: read a message, hold it against its row, let the handler do it, answer.
 *
 * The rows are all that decides whether a message may be looked at: its size, its file descriptors, its vring index, what must
 * have come before.  No handler checks any of that again, and no path but the last lines of serve() answers or
 * gives up. */
#include "vhost/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "vhost/session.h"
#include "virtio/features.h"

#define REPLY_TIMEOUT_MS 200 /* for a front end to read its replies; a stop must not take a second */
/* messages a call, so that a flood of them does not starve the control thread's other work */
#define DISPATCH_MAX 64

int vu_refuse(struct vu_backend *be, int error, const char *rule)
{
        be->rule = rule;
        return error;
}

static int reply_u64(struct vu_msg *msg, uint64_t value)
{
        msg->u64 = value;
        msg->size = sizeof(msg->u64);
        return 0;
}

/* ---- features and identity ---- */

static int on_get_features(struct vu_backend *be, struct vu_msg *msg)
{
        return reply_u64(msg, be->ops->features(be->ctx));
}

static int on_set_features(struct vu_backend *be, struct vu_msg *msg)
{
        const char *why = "the device does not take these features";
        int r;

        if (msg->u64 & ~be->ops->features(be->ctx))
                return vu_refuse(be, -EINVAL, "features that were not offered");
        if (vu_rings_running(be)) /* each queue pair of a front end may say it again */
                return msg->u64 == be->features ? 0 : vu_refuse(be, -EBUSY, "rings are running");
        r = be->ops->set_features(be->ctx, msg->u64, &why);
        if (r < 0)
                return vu_refuse(be, r, why);
        be->features = msg->u64;
        be->has_features = true;
        if (!(be->features & F(protocol_features))) /* such a front end knows no enabling */
                for (unsigned i = 0; i < be->config.vrings_max; i++)
                        be->ops->vring_enable(be->ctx, i, true);
        vu_rings_start_ready(be);
        return 0;
}

static bool offers_protocol_features(struct vu_backend *be)
{
        return be->ops->features(be->ctx) & F(protocol_features);
}

static int on_get_protocol_features(struct vu_backend *be, struct vu_msg *msg)
{
        if (!offers_protocol_features(be))
                return vu_refuse(be, -EOPNOTSUPP, "protocol features are not offered");
        return reply_u64(msg, be->config.protocol_features);
}

static int on_set_protocol_features(struct vu_backend *be, struct vu_msg *msg)
{
        if (!offers_protocol_features(be) || msg->u64 & ~be->config.protocol_features)
                return vu_refuse(be, -EINVAL, "protocol features that were not offered");
        be->protocol_features = msg->u64;
        return 0;
}

static int on_set_owner(struct vu_backend *be, struct vu_msg *msg)
{
        be->owned = true;
        return 0;
}

static int on_reset_owner(struct vu_backend *be, struct vu_msg *msg)
{
        vu_rings_stop(be);
        for (unsigned i = 0; i < be->config.vrings_max; i++)
                be->ops->vring_enable(be->ctx, i, false);
        return 0;
}

static int on_get_queue_num(struct vu_backend *be, struct vu_msg *msg)
{
        return reply_u64(msg, be->config.queue_num);
}

/* ---- the device ---- */

static void reset_device(struct vu_backend *be)
{
        vu_rings_reset(be);
        be->features = 0;
        be->has_features = false;
        be->ops->reset(be->ctx);
}

static int on_reset_device(struct vu_backend *be, struct vu_msg *msg)
{
        reset_device(be);
        return 0;
}

static int on_set_status(struct vu_backend *be, struct vu_msg *msg)
{
        if (msg->u64 > UINT8_MAX)
                return vu_refuse(be, -EINVAL, "status over 255");
        if (!msg->u64)
                reset_device(be);
        be->ops->set_status(be->ctx, (uint8_t)msg->u64);
        return 0;
}

static int on_get_status(struct vu_backend *be, struct vu_msg *msg)
{
        return reply_u64(msg, be->ops->get_status(be->ctx));
}

static int on_set_mtu(struct vu_backend *be, struct vu_msg *msg)
{
        int r;

        if (msg->u64 < VIRTIO_NET_MTU_MIN || msg->u64 > VIRTIO_NET_MTU_MAX)
                return vu_refuse(be, -EINVAL, "MTU outside 68..65535");
        r = be->ops->set_mtu(be->ctx, msg->u64);
        return r < 0 ? vu_refuse(be, r, "the device does not take this MTU") : 0;
}

#define CONFIG_HEADER offsetof(struct vhost_user_config, region)

/* The protocol's way to say no here is a reply without payload. */
static int on_get_config(struct vu_backend *be, struct vu_msg *msg)
{
        struct vhost_user_config *c = &msg->config;
        bool framed = c->size && c->size <= sizeof(c->region) && c->size == msg->size - CONFIG_HEADER;

        if (!framed || be->ops->get_config(be->ctx, c->region, c->offset, c->size) != c->size)
                msg->size = 0;
        return 0;
}

static int on_set_config(struct vu_backend *be, struct vu_msg *msg)
{
        const struct vhost_user_config *c = &msg->config;
        int r;

        if (!c->size || c->size != msg->size - CONFIG_HEADER)
                return vu_refuse(be, -EINVAL, "size of the configuration field");
        r = be->ops->set_config ? be->ops->set_config(be->ctx, c->region, c->offset, c->size, c->flags)
                                : -EOPNOTSUPP;
        return r < 0 ? vu_refuse(be, r, "the device has no such field to write") : 0;
}

static int on_backend_req_fd(struct vu_backend *be, struct vu_msg *msg)
{
        struct stat st;

        if (fstat(msg->fds[0], &st) < 0 || !S_ISSOCK(st.st_mode))
                return vu_refuse(be, -EBADF, "not a socket");
        if (be->backend_req >= 0)
                close(be->backend_req);
        be->backend_req = vu_take_fd(msg, 0);
        return 0;
}

/* ---- memory ---- */

/* Hands the new table to the device and takes it over, or puts it away. */
static int adopt_map(struct vu_backend *be, struct mem_map *map)
{
        int r;

        if (!map->n) {
                mem_map_put(map);
                map = NULL;
        }
        r = be->ops->set_map(be->ctx, map);
        if (r < 0) {
                mem_map_put(map);
                return vu_refuse(be, r, "the device does not take this memory");
        }
        mem_map_put(be->map);
        be->map = map;
        vu_rings_start_ready(be);
        return 0;
}

static struct mem_region_spec region_spec(const struct vhost_user_region *r, int fd)
{
        return (struct mem_region_spec){
                .gpa = r->guest_addr, .size = r->size, .uva = r->user_addr, .offset = r->mmap_offset, .fd = fd
        };
}

static int on_set_mem_table(struct vu_backend *be, struct vu_msg *msg)
{
        struct mem_region_spec spec[ARRAY_SIZE(msg->mem.regions)];
        uint32_t n = msg->mem.nregions;
        struct mem_map *map;
        int r;

        if (!n)
                return vu_refuse(be, -EINVAL, "a table without regions");
        if (msg->size < offsetof(struct vu_msg, mem.regions[n]) - offsetof(struct vu_msg, mem))
                return vu_refuse(be, -EINVAL, "more regions than the payload has room for");
        if (msg->n_fds != n)
                return vu_refuse(be, -EINVAL, "not one file descriptor a region");
        for (uint32_t i = 0; i < n; i++)
                spec[i] = region_spec(&msg->mem.regions[i], msg->fds[i]);
        r = mem_map_new(spec, n, &map, &be->rule);
        return r < 0 ? r : adopt_map(be, map);
}

static int on_get_max_mem_slots(struct vu_backend *be, struct vu_msg *msg)
{
        return reply_u64(msg, VHOST_USER_REGIONS_MAX);
}

static int on_add_mem_reg(struct vu_backend *be, struct vu_msg *msg)
{
        struct mem_region_spec spec = region_spec(&msg->mem_reg.region, msg->fds[0]);
        struct mem_map *map;
        int r = mem_map_with(be->map, &spec, &map, &be->rule);

        return r < 0 ? r : adopt_map(be, map);
}

/* No fd is needed here; some front ends send the region's own. */
static int on_rem_mem_reg(struct vu_backend *be, struct vu_msg *msg)
{
        struct mem_region_spec spec = region_spec(&msg->mem_reg.region, msg->n_fds ? msg->fds[0] : -1);
        struct mem_map *map;
        int r = mem_map_without(be->map, &spec, &map, &be->rule);

        return r < 0 ? r : adopt_map(be, map);
}

/* ---- the table ---- */

enum {
        ANY_TIME = 1, /* before SET_OWNER, too */
        REPLIES = 2,  /* has a reply of its own */
        INDEX = 4,    /* begins with a vring index of 32 bits */
        INDEX_FD = 8, /* a vring index of 8 bits, and whether an fd comes along */
};

struct vu_rule {
        int (*handle)(struct vu_backend *be, struct vu_msg *msg);
        uint16_t size_min, size_max; /* payload bytes */
        uint8_t fds_min, fds_max;
        uint8_t traits;
        uint64_t needs; /* protocol features, negotiated */
};

#define SIZE(type)  sizeof(type), sizeof(type)
#define CONFIG_SIZE CONFIG_HEADER, sizeof(struct vhost_user_config)
#define CONFIG_ASKS CONFIG_HEADER, VU_PAYLOAD_MAX /* also for more than there can be: that has an answer */
#define FIELD(name) sizeof(((struct vu_msg *)NULL)->name)
#define MEM_TABLE   8, FIELD(mem) /* some front ends send room for regions that they do not have */
#define MEM_REGION  FIELD(mem_reg), FIELD(mem_reg)
#define NONE        0, 0
#define NEEDS(f)    BIT(VHOST_USER_PROTOCOL_F_##f)
#define STATE       SIZE(struct vhost_vring_state)
#define U64         SIZE(uint64_t)

/* clang-format off */
static const struct vu_rule rules[VHOST_USER_REQUEST_MAX] = {
        /*                                      handler                   payload      fds   traits              needs */
        [VHOST_USER_GET_FEATURES] =           { on_get_features,          NONE,        0, 0, ANY_TIME | REPLIES, 0 },
        [VHOST_USER_SET_FEATURES] =           { on_set_features,          U64,         0, 0, 0,                  0 },
        [VHOST_USER_SET_OWNER] =              { on_set_owner,             NONE,        0, 0, ANY_TIME,           0 },
        [VHOST_USER_RESET_OWNER] =            { on_reset_owner,           NONE,        0, 0, 0,                  0 },
        [VHOST_USER_SET_MEM_TABLE] =          { on_set_mem_table,         MEM_TABLE,   0, 8, 0,                  0 },
        [VHOST_USER_SET_VRING_NUM] =          { vu_on_vring_num,          STATE,       0, 0, INDEX,              0 },
        [VHOST_USER_SET_VRING_ADDR] =         { vu_on_vring_addr,
                                                SIZE(struct vhost_vring_addr),         0, 0, INDEX,              0 },
        [VHOST_USER_SET_VRING_BASE] =         { vu_on_vring_base,         STATE,       0, 0, INDEX,              0 },
        [VHOST_USER_GET_VRING_BASE] =         { vu_on_get_vring_base,     STATE,       0, 0, INDEX | REPLIES,    0 },
        [VHOST_USER_SET_VRING_KICK] =         { vu_on_vring_kick,         U64,         0, 1, INDEX_FD,           0 },
        [VHOST_USER_SET_VRING_CALL] =         { vu_on_vring_call,         U64,         0, 1, INDEX_FD,           0 },
        [VHOST_USER_SET_VRING_ERR] =          { vu_on_vring_err,          U64,         0, 1, INDEX_FD,           0 },
        [VHOST_USER_GET_PROTOCOL_FEATURES] =  { on_get_protocol_features, NONE,        0, 0, ANY_TIME | REPLIES, 0 },
        [VHOST_USER_SET_PROTOCOL_FEATURES] =  { on_set_protocol_features, U64,         0, 0, ANY_TIME,           0 },
        [VHOST_USER_GET_QUEUE_NUM] =          { on_get_queue_num,         NONE,        0, 0, ANY_TIME | REPLIES, NEEDS(MQ) },
        [VHOST_USER_SET_VRING_ENABLE] =       { vu_on_vring_enable,       STATE,       0, 0, INDEX,              0 },
        [VHOST_USER_NET_SET_MTU] =            { on_set_mtu,               U64,         0, 0, 0,                  NEEDS(MTU) },
        [VHOST_USER_SET_BACKEND_REQ_FD] =     { on_backend_req_fd,        NONE,        1, 1, ANY_TIME,           NEEDS(BACKEND_REQ) },
        [VHOST_USER_GET_CONFIG] =             { on_get_config,            CONFIG_ASKS, 0, 0, ANY_TIME | REPLIES, NEEDS(CONFIG) },
        [VHOST_USER_SET_CONFIG] =             { on_set_config,            CONFIG_SIZE, 0, 0, 0,                  NEEDS(CONFIG) },
        [VHOST_USER_RESET_DEVICE] =           { on_reset_device,          NONE,        0, 0, 0,                  NEEDS(RESET_DEVICE) },
        [VHOST_USER_GET_MAX_MEM_SLOTS] =      { on_get_max_mem_slots,     NONE,        0, 0, ANY_TIME | REPLIES, NEEDS(CONFIGURE_MEM_SLOTS) },
        [VHOST_USER_ADD_MEM_REG] =            { on_add_mem_reg,           MEM_REGION,  1, 1, 0,                  NEEDS(CONFIGURE_MEM_SLOTS) },
        [VHOST_USER_REM_MEM_REG] =            { on_rem_mem_reg,           MEM_REGION,  0, 1, 0,                  NEEDS(CONFIGURE_MEM_SLOTS) },
        [VHOST_USER_SET_STATUS] =             { on_set_status,            U64,         0, 0, 0,                  NEEDS(STATUS) },
        [VHOST_USER_GET_STATUS] =             { on_get_status,            NONE,        0, 0, REPLIES,            NEEDS(STATUS) },
};
/* clang-format on */

static const struct vu_rule *rule_of(uint32_t request)
{
        static const struct vu_rule unserved;

        return request < ARRAY_SIZE(rules) ? &rules[request] : &unserved;
}

static int check_index(struct vu_backend *be, const struct vu_rule *rule, const struct vu_msg *msg)
{
        uint64_t index = 0;

        if (rule->traits & INDEX)
                index = msg->state.index; /* vhost_vring_addr begins with it as well */
        if (rule->traits & INDEX_FD) {
                bool no_fd = msg->u64 & VU_VRING_NOFD;

                index = msg->u64 & ~(uint64_t)VU_VRING_NOFD;
                if (no_fd == (msg->n_fds == 1))
                        return vu_refuse(be, -EINVAL,
                                         "a file descriptor and the mark that there is none, or neither");
        }
        return index < be->config.vrings_max ? 0 : vu_refuse(be, -EINVAL, "vring index out of range");
}

static int check_rule(struct vu_backend *be, const struct vu_rule *rule, const struct vu_msg *msg)
{
        if (!rule->handle)
                return vu_refuse(be, -EOPNOTSUPP, "not served here");
        if (msg->flags & VU_FLAG_REPLY)
                return vu_refuse(be, -EPROTO, "a reply where a request is due");
        if (msg->size < rule->size_min || msg->size > rule->size_max)
                return vu_refuse(be, -EINVAL, "payload of the wrong size");
        if (msg->n_fds < rule->fds_min || msg->n_fds > rule->fds_max)
                return vu_refuse(be, -EINVAL, "wrong number of file descriptors");
        if (!be->owned && !(rule->traits & ANY_TIME))
                return vu_refuse(be, -EPERM, "before SET_OWNER");
        if ((be->protocol_features & rule->needs) != rule->needs)
                return vu_refuse(be, -EOPNOTSUPP, "its protocol feature was not negotiated");
        return check_index(be, rule, msg);
}

/* ---- the loop ---- */

static int reply(struct vu_backend *be, struct vu_msg *msg)
{
        int r;

        msg->flags = VU_FLAG_VERSION | VU_FLAG_REPLY;
        r = vu_write(be->sock, msg, NULL, 0, REPLY_TIMEOUT_MS);
        if (r == -ETIMEDOUT)
                be->rule = "the peer does not read its replies";
        else if (r < 0)
                be->rule = "the reply cannot be sent";
        return r;
}

static bool acknowledges(const struct vu_backend *be, const struct vu_msg *msg)
{
        return msg->flags & VU_FLAG_NEED_REPLY &&
               be->protocol_features & BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK);
}

/* Checks, carries out and answers one message.  Negative: the session is over. */
static int serve(struct vu_backend *be, struct vu_msg *msg)
{
        const struct vu_rule *rule = rule_of(msg->request);
        bool replies = rule->traits & REPLIES, ack = acknowledges(be, msg);
        int r = check_rule(be, rule, msg);

        if (!r)
                r = rule->handle(be, msg);
        ack = !replies && (ack || acknowledges(be, msg)); /* the one that negotiates it counts, too */
        if (ack) {
                if (r < 0)
                        log_limited(&be->refusals, clock_now(), VW_LOG_WARN, "vhost",
                                    "message refused request=%s number=%u why=\"%s\"",
                                    vu_request_name(msg->request), msg->request, be->rule);
                reply_u64(msg, r < 0);
                r = 0;
        }
        return !r && (ack || replies) ? reply(be, msg) : r;
}

int vu_backend_dispatch(struct vu_backend *be, const char **ret_why)
{
        for (unsigned n = 0; n < DISPATCH_MAX; n++) {
                uint32_t request;
                int r = vu_read(&be->reader, be->sock, &be->rule);

                if (!r)
                        return 0;
                if (r < 0) {
                        *ret_why = be->rule;
                        return r;
                }
                request = be->reader.msg.request;
                r = serve(be, &be->reader.msg);
                vu_msg_done(&be->reader);
                if (r < 0) {
                        snprintf(be->why, sizeof(be->why), "%s (%u): %s", vu_request_name(request), request,
                                 be->rule);
                        *ret_why = be->why;
                        return r;
                }
        }
        return 0;
}

/* ---- life ---- */

int vu_backend_new(const struct vu_backend_config *config, const struct vu_backend_ops *ops, void *ctx,
                   int sock, struct vu_backend **ret_be)
{
        int flags = fcntl(sock, F_GETFL);
        struct vu_backend *be;

        check(config->vrings_max <= VU_VRING_INDEX_MASK + 1 &&
              !(config->protocol_features & ~VU_BACKEND_PROTOCOL_FEATURES));
        if (flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0)
                return -errno;
        be = calloc(1, sizeof(*be) + config->vrings_max * sizeof(be->vring[0]));
        if (!be)
                return -ENOMEM;
        be->ops = ops;
        be->ctx = ctx;
        be->config = *config;
        be->sock = sock;
        be->backend_req = -1;
        for (unsigned i = 0; i < config->vrings_max; i++)
                be->vring[i].kick = -1;
        *ret_be = be;
        return 0;
}

void vu_backend_free(struct vu_backend *be)
{
        if (!be)
                return;
        vu_rings_reset(be);
        for (unsigned i = 0; i < be->config.vrings_max; i++) {
                if (be->vring[i].has_call)
                        be->ops->vring_call(be->ctx, i, -1);
                if (be->vring[i].has_err)
                        be->ops->vring_err(be->ctx, i, -1);
        }
        if (be->map)
                be->ops->set_map(be->ctx, NULL);
        mem_map_put(be->map);
        be->ops->reset(be->ctx);
        log_settle(&be->refusals, NEVER);
        log_settle(&be->unready, NEVER);
        vu_msg_done(&be->reader);
        if (be->backend_req >= 0)
                close(be->backend_req);
        close(be->sock);
        free(be);
}

int vu_backend_fd(const struct vu_backend *be)
{
        return be->sock;
}

int vu_backend_config_changed(struct vu_backend *be)
{
        const struct vu_msg msg = { .request = VHOST_USER_BACKEND_CONFIG_CHANGE_MSG,
                                    .flags = VU_FLAG_VERSION };

        if (be->backend_req < 0 || !(be->protocol_features & BIT(VHOST_USER_PROTOCOL_F_CONFIG)))
                return -EOPNOTSUPP;
        return vu_write(be->backend_req, &msg, NULL, 0, 0);
}

uint64_t vu_backend_protocol_features(const struct vu_backend *be)
{
        return be->protocol_features;
}
