/* A connection: from a socket to running rings, and back.
 *
 *      hello -> features -> configuration -> SET_FEATURES -> memory -> rings -> DRIVER_OK -> owners start -> commands
 *
 * The queues are built while their pairs are down, so nobody else looks at them; then each pair's owner adopts them.  Going back is
 * the mirror: owners stop, the device gives each ring up (or is gone), owners take back what was out. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "driver/driver.h"
#include "net/hdr.h"
#include "net/offload.h"

#define CALL_TIMEOUT_MS  800  /* of one request: a hung device must not keep a program that was told to end */
#define HELLO_TIMEOUT_MS 3000 /* of all of them together: nor may one that is always just in time */
#define STOP_TIMEOUT_MS  300  /* of all that ends a connection */

#define PROTOCOL_FEATURES                                                                                    \
        (BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |                              \
         BIT(VHOST_USER_PROTOCOL_F_BACKEND_REQ) | BIT(VHOST_USER_PROTOCOL_F_CONFIG) |                        \
         BIT(VHOST_USER_PROTOCOL_F_STATUS))

/* ---- features ---- */

/* Whether a packet of `longest` bytes finds room in an empty receive ring. */
static bool rx_fits(uint64_t features, unsigned size, uint32_t longest)
{
        unsigned pages = (longest + RXBUF_PAGE - 1) / RXBUF_PAGE;

        if (features & F(mrg_rxbuf))
                return rxbuf_minimum(size, longest) <= RXBUF_PAGE;
        return pages <= MIN(size, features & F(indirect_desc) ? (unsigned)VQ_INDIRECT_MAX : size);
}

/* What of the offer we take: known, wanted, consistent, and possible in rings of this size. */
static uint64_t pick_features(const struct vw_driver *drv)
{
        const struct vw_driver_config *c = &drv->config;
        uint64_t f = drv->net.offered & features_driver() & c->features;

        f &= ~DRV_GUEST_OFFLOADS | net_offloads_rx_features(c->offloads);
        if (c->pairs == 1)
                f &= ~F(mq);
        if (!rx_fits(f, c->queue_size, VW_FRAME_MAX + features_hdr_len(f)))
                f &= ~DRV_GUEST_GSO;
        return features_closed(f);
}

/* ---- rings ---- */

int drv_ring_make(struct vw_driver *drv, struct vq_driver *vq, unsigned place, unsigned size,
                  struct vq_config *ret_config)
{
        void *mem = drv->ring_mem + place * drv->ring_bytes;

        memset(mem, 0, drv->ring_bytes);
        *ret_config = (struct vq_config){ .size = size, .features = drv->net.features };
        return vq_driver_init(vq, VQ_SPLIT, ret_config, mem, arena_gpa(&drv->arena, mem));
}

int drv_ring_tell(struct vw_driver *drv, unsigned index, const struct vq_config *c, int kick, int call)
{
        int r = vu_frontend_vring(&drv->fe, index, c->size, c->desc, c->avail, c->used, c->base);

        return r ? r : vu_frontend_vring_fds(&drv->fe, index, kick, call, -1);
}

/* Both rings of a pair, made and told to the device; empty until the owner starts. */
static int pair_make(struct vw_driver *drv, struct drv_pair *p)
{
        unsigned size = drv->config.queue_size;
        struct vq_config rx, tx;
        int r = drv_ring_make(drv, &p->rx.vq, p->rx.index, size, &rx);

        if (!r)
                r = drv_ring_make(drv, &p->tx.vq, p->tx.index, size, &tx);
        if (!r)
                r = drv_doorbell(&p->rx_kick);
        if (!r)
                r = drv_doorbell(&p->tx_kick);
        if (!r)
                r = drv_doorbell(&p->rx_call);
        if (!r)
                r = drv_doorbell(&p->tx_call);
        p->features = drv->net.features;
        p->hdr_len = features_hdr_len(drv->net.features);
        p->mtu = drv->net.mtu;
        if (!r)
                r = drv_rx_start(p);
        if (!r)
                r = drv_ring_tell(drv, p->rx.index, &rx, p->rx_kick, p->rx_call);
        if (!r)
                r = drv_ring_tell(drv, p->tx.index, &tx, p->tx_kick,
                                  p->napi.shared_call ? p->rx_call : p->tx_call);
        return r;
}

struct start {
        struct drv_pair *p;
        int error;
};

/* On the owner: from here on the pair is its own. */
static void pair_start(void *arg)
{
        struct start *s = arg;
        struct drv_pair *p = s->p;

        p->napi.now = clock_now();
        s->error = drv_napi_start(p);
        if (s->error)
                return;
        drv_tx_start(p);
        store_release(&p->up, true);
        drv_rx_refill(p, 0);
}

/* On the owner: nothing new is sent or received; what is out stays with the device for now. */
static void pair_quiesce(void *arg)
{
        struct drv_pair *p = arg;

        check(!p->napi.in_poll && !p->tx.in_done); /* a callback must not close what called it */
        if (!p->up)
                return;
        drv_tx_flush(p);
        store_release(&p->up, false);
        drv_napi_stop(p);
}

/* On the owner: the device has stopped. */
static void pair_drain(void *arg)
{
        struct drv_pair *p = arg;

        p->napi.now = clock_now();
        drv_tx_reap(p, VW_C_reaped_by_poll);
        drv_tx_drain(p);
        drv_send_discard(p);
        drv_send_wake(p);
        drv_rx_stop(p);
}

static void pair_unmake(struct drv_pair *p)
{
        vq_driver_done(&p->rx.vq);
        vq_driver_done(&p->tx.vq);
        drv_doorbell_close(&p->rx_kick);
        drv_doorbell_close(&p->tx_kick);
        drv_doorbell_close(&p->rx_call);
        drv_doorbell_close(&p->tx_call);
}

/* ---- the session ---- */

/* The time that is left of a whole, for the next request. */
static void allow(struct vw_driver *drv, uint64_t until)
{
        uint64_t left = clock_until(until, clock_now()) / NSEC_PER_MSEC;

        drv->fe.timeout_ms = (int)MIN(left, (uint64_t)CALL_TIMEOUT_MS);
}

static int set_status(struct vw_driver *drv, uint8_t status)
{
        if (!(drv->fe.protocol_features & BIT(VHOST_USER_PROTOCOL_F_STATUS)))
                return 0;
        return vu_frontend_set_status(&drv->fe, status);
}

/* Features as 3.1.1 wants them: offered, chosen, and the device's word that it can live with the choice. */
static int negotiate(struct vw_driver *drv)
{
        const uint8_t driver = VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER;
        uint8_t status = VIRTIO_STATUS_FEATURES_OK;
        int r = vu_frontend_hello(&drv->fe, PROTOCOL_FEATURES);

        if (!r)
                r = set_status(drv, driver);
        if (r)
                return r;
        drv->net.offered = drv->fe.features;
        drv->net.features = pick_features(drv);
        r = drv_config_read(drv, &drv->net.features);
        if (!rx_fits(drv->net.features, drv->config.queue_size,
                     drv->net.mtu + NET_ETH_LEN + NET_VLAN_LEN + sizeof(struct virtio_net_hdr))) {
                log_warn("driver", "a packet of the device's MTU does not fit the ring: not used mtu=%u",
                         drv->net.mtu);
                drv->net.features &= ~F(mtu);
                drv->net.mtu = 0;
        }
        drv->net.features = features_closed(drv->net.features);
        if (!r)
                r = vu_frontend_set_features(&drv->fe, drv->net.features);
        if (!r)
                r = set_status(drv, driver | VIRTIO_STATUS_FEATURES_OK);
        if (!r && drv->fe.protocol_features & BIT(VHOST_USER_PROTOCOL_F_STATUS))
                r = vu_frontend_get_status(&drv->fe, &status);
        if (!r && !(status & VIRTIO_STATUS_FEATURES_OK)) {
                drv->fe.why = "the device refused the features";
                return -EOPNOTSUPP;
        }
        return r;
}

static int share_memory(struct vw_driver *drv)
{
        const struct arena *a = &drv->arena;
        /* one address space is enough, and it says nothing about ours */
        struct vhost_user_region region = { .guest_addr = a->gpa, .size = a->size, .user_addr = a->gpa };

        return vu_frontend_set_mem(&drv->fe, &region, &a->fd, 1);
}

static int start_rings(struct vw_driver *drv)
{
        int r = 0;

        for (unsigned i = 0; !r && i < drv->net.pairs; i++)
                r = pair_make(drv, &drv->pairs[i]);
        for (unsigned i = 0; !r && i < 2 * drv->net.pairs; i++)
                r = vu_frontend_vring_enable(&drv->fe, i, true);
        if (!r)
                r = drv_ctrl_start(drv);
        if (!r)
                r = set_status(drv, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER |
                                            VIRTIO_STATUS_FEATURES_OK | VIRTIO_STATUS_DRIVER_OK);
        return r;
}

static void socket_ready(struct ev_watch *w, uint32_t events)
{
        struct vw_driver *drv = container_of(w, struct vw_driver, sock_watch);
        int r = vu_frontend_alive(&drv->fe);

        (void)events;
        if (r)
                drv_lose(drv, r, drv->fe.why);
}

static void channel_ready(struct ev_watch *w, uint32_t events)
{
        struct vw_driver *drv = container_of(w, struct vw_driver, channel_watch);
        int r = vu_frontend_dispatch(&drv->fe);

        (void)events;
        if (r > 0)
                drv_config_changed(drv);
        else if (r < 0)
                evloop_remove(drv->loop, w);
}

static int start_watching(struct vw_driver *drv)
{
        int r;

        drv->sock_watch = (struct ev_watch){ .ready = socket_ready };
        drv->channel_watch = (struct ev_watch){ .ready = channel_ready };
        r = evloop_add(drv->loop, &drv->sock_watch, drv->fe.sock, EPOLLIN | EPOLLRDHUP);
        if (!r && drv->fe.backend_req >= 0)
                r = evloop_add(drv->loop, &drv->channel_watch, drv->fe.backend_req, EPOLLIN);
        return r ? r : drv_guard_start(drv);
}

static int set_up(struct vw_driver *drv)
{
        uint64_t until = clock_now() + HELLO_TIMEOUT_MS * NSEC_PER_MSEC;
        const uint64_t channel = BIT(VHOST_USER_PROTOCOL_F_BACKEND_REQ) | BIT(VHOST_USER_PROTOCOL_F_CONFIG);
        int r;

        allow(drv, until);
        r = negotiate(drv);
        allow(drv, until);
        if (!r && (drv->fe.protocol_features & channel) == channel)
                r = vu_frontend_backend_channel(&drv->fe);
        allow(drv, until);
        if (!r)
                r = share_memory(drv);
        allow(drv, until);
        if (!r)
                r = start_rings(drv);
        if (!r)
                r = start_watching(drv);
        return r;
}

static int start_owners(struct vw_driver *drv)
{
        struct start s = { 0 };

        drv->net.active = drv->net.pairs;
        for (unsigned i = 0; !s.error && i < drv->net.pairs; i++) {
                s.p = &drv->pairs[i];
                s.p->enabled = true;
                drv_run_on_owner(s.p, pair_start, &s);
        }
        return s.error;
}

VW_API int vw_driver_connect(struct vw_driver *drv, int fd, const char **ret_why)
{
        int flags = fcntl(fd, F_GETFL), r;

        if (drv->connected) {
                *ret_why = "it is connected already";
                return -EISCONN;
        }
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
                *ret_why = "no usable socket";
                return -errno;
        }
        vu_frontend_init(&drv->fe, fd, CALL_TIMEOUT_MS);
        drv->connected = true;
        drv->lost = false;
        memset(drv->coalesce, 0, sizeof(drv->coalesce)); /* a reset device coalesces nothing */
        r = set_up(drv);
        if (!r)
                r = start_owners(drv);
        if (r) {
                *ret_why = drv->fe.why && *drv->fe.why ? drv->fe.why : strerror(-r);
                drv_lose(drv, r, *ret_why);
                drv->fe.sock = -1; /* still the caller's */
                drv_stop_device(drv);
                return r;
        }
        drv_ctrl_setup(drv);
        log_debug("driver", "rings are up pairs=%u features=0x%llx", drv->net.pairs,
                  (unsigned long long)drv->net.features);
        if (drv->ops.changed)
                drv->ops.changed(drv->config.ctx);
        return 0;
}

static void set_shared(void *arg)
{
        ((struct drv_pair *)arg)->napi.shared_call = true;
}

static void set_separate(void *arg)
{
        ((struct drv_pair *)arg)->napi.shared_call = false;
}

/* Which eventfd the device signals for tx: its own, or that of rx.  The owner may learn of it late: before it sleeps it looks at the tx
 * ring, whatever woke it. */
int drv_share_call(struct drv_pair *p, bool on)
{
        struct vw_driver *drv = p->drv;
        int r = 0;

        if (drv->connected && p->index < drv->net.pairs) {
                drv->fe.timeout_ms = CALL_TIMEOUT_MS;
                r = vu_frontend_vring_call(&drv->fe, p->tx.index, on ? p->rx_call : p->tx_call);
        }
        if (!r)
                drv_run_on_owner(p, on ? set_shared : set_separate, p);
        return r;
}

/* Ends the connection, whatever state it is in. */
void drv_stop_device(struct vw_driver *drv)
{
        uint64_t until = clock_now() + STOP_TIMEOUT_MS * NSEC_PER_MSEC;
        bool alive = !drv->lost_why;
        uint32_t base;

        evloop_remove(drv->loop, &drv->sock_watch);
        evloop_remove(drv->loop, &drv->channel_watch);
        drv_guard_stop(drv);
        for (unsigned i = 0; i < drv->n_pairs; i++)
                drv_run_on_owner(&drv->pairs[i], pair_quiesce, &drv->pairs[i]);
        for (unsigned i = 0; alive && i < 2 * drv->net.pairs; i++) {
                allow(drv, until);
                alive = !vu_frontend_vring_stop(&drv->fe, i, &base);
        }
        allow(drv, until);
        if (alive && drv->ctrl.vq.size)
                alive = !vu_frontend_vring_stop(&drv->fe, drv->ctrl.index, &base);
        for (unsigned i = 0; i < drv->n_pairs; i++) {
                drv_run_on_owner(&drv->pairs[i], pair_drain, &drv->pairs[i]);
                pair_unmake(&drv->pairs[i]);
        }
        drv_ctrl_stop(drv);
        allow(drv, until);
        if (alive)
                set_status(drv, 0);
        vu_frontend_done(&drv->fe);
        drv->connected = false;
}
