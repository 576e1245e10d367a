/* Settings under traffic.  A set is checked as a whole; then what the device must agree to is asked of it, and put back if it does not
 * agree to all; then the owners adopt the rest between two polls. */
#include <errno.h>
#include <string.h>

#include "base/settings.h"
#include "driver/driver.h"

/* Whether queue `index` is one that the key says something about. */
static bool fits(enum vw_key key, int wanted, unsigned index)
{
        return (wanted < 0 || (unsigned)wanted == index) && vw_key_fits(key, true, index % 2 ? VW_TX : VW_RX);
}

static int check_one(const struct vw_driver *drv, const struct vw_setting *s, const char **ret_why)
{
        int r = setting_check(s, true, ret_why);

        if (r < 0)
                return r;
        if (s->queue >= 0 &&
            ((unsigned)s->queue >= 2 * drv->n_pairs || !fits(s->key, s->queue, (unsigned)s->queue)))
                return setting_refuse(-EINVAL, ret_why, "q%d has no %s", s->queue, vw_key_name(s->key));
        if (s->key == VW_KEY_ADAPTIVE && s->queue >= 0 &&
            s->value == (s->queue % 2 ? VW_ADAPTIVE_RX : VW_ADAPTIVE_TX))
                return setting_refuse(-EINVAL, ret_why, "q%d is of the other direction", s->queue);
        if (s->key == VW_KEY_QUEUES && !drv->connected)
                return setting_refuse(-ENETDOWN, ret_why, "queues can be changed only while connected");
        if (s->key == VW_KEY_QUEUES && (uint64_t)s->value > drv->net.pairs)
                return setting_refuse(-ERANGE, ret_why, "queues=%lld is over the limit %u",
                                      (long long)s->value, drv->net.pairs);
        return 0;
}

/* ---- what the device must agree to ---- */

/* The coalescing of a set, all of it collected before anything is sent: both numbers of a queue travel in one command. */
struct wishes {
        struct drv_coalesce want[2 * VW_QUEUE_PAIRS_MAX];
        struct drv_forced forced; /* queues that are told */
        struct drv_forced left;   /* queues that the device is to choose for */
};

static uint64_t *bits_of(struct drv_forced *set, unsigned queue)
{
        return queue % 2 ? &set->tx : &set->rx;
}

static void collect_one(struct wishes *w, unsigned q, const struct vw_setting *s, bool can_tell)
{
        struct drv_coalesce *want = &w->want[q];

        if (s->key == VW_KEY_ADAPTIVE && s->value & (q % 2 ? VW_ADAPTIVE_TX : VW_ADAPTIVE_RX)) {
                *want = (struct drv_coalesce){ .adaptive = true };
                *bits_of(&w->left, q) |= BIT(q / 2);
                return;
        }
        if (s->key == VW_KEY_ADAPTIVE && !(want->adaptive && can_tell)) {
                want->adaptive = false;
                return;
        }
        if (s->key == VW_KEY_TX_USECS || s->key == VW_KEY_RX_USECS)
                want->usecs = (uint32_t)s->value;
        if (s->key == VW_KEY_TX_FRAMES || s->key == VW_KEY_RX_FRAMES)
                want->frames = (uint32_t)s->value;
        want->adaptive = false;
        *bits_of(&w->forced, q) |= BIT(q / 2);
}

static bool about_coalescing(enum vw_key key)
{
        return key == VW_KEY_TX_USECS || key == VW_KEY_TX_FRAMES || key == VW_KEY_RX_USECS ||
               key == VW_KEY_RX_FRAMES || key == VW_KEY_ADAPTIVE;
}

/* False: there is nothing about coalescing in the set. */
static bool collect(const struct vw_driver *drv, const struct vw_setting *s, unsigned n, struct wishes *ret_w)
{
        bool can_tell = drv->net.features & (F(notf_coal) | F(vq_notf_coal)), any = false;

        memcpy(ret_w->want, drv->coalesce_wish, sizeof(ret_w->want));
        for (unsigned i = 0; i < n; i++) {
                if (!about_coalescing(s[i].key))
                        continue;
                any = true;
                for (unsigned q = 0; q < 2 * drv->n_pairs; q++)
                        if (fits(s[i].key, s[i].queue, q))
                                collect_one(ret_w, q, &s[i], can_tell);
        }
        return any;
}

/* What a set has changed, to be put back when the device does not agree to all of it. */
struct undo {
        uint64_t shared; /* pairs */
        bool coalesce;
        struct drv_coalesce agreed[2 * VW_QUEUE_PAIRS_MAX], wish[2 * VW_QUEUE_PAIRS_MAX];
};

static int disagreed(const struct vw_driver *drv, int r, const char *what, const char **ret_why)
{
        if (r == -ENOTSUP)
                return setting_refuse(r, ret_why, "the device has not negotiated %snotf_coal",
                                      drv->net.features & F(notf_coal) ? "vq_" : "");
        if (r == -ETIMEDOUT)
                return setting_refuse(r, ret_why, "the device does not answer");
        if (r == -EIO)
                return setting_refuse(r, ret_why, "the device refused the %s", what);
        return setting_refuse(r, ret_why, "the connection to the device has ended");
}

static int set_coalesce(struct vw_driver *drv, const struct vw_setting *s, unsigned n, struct undo *u,
                        const char **ret_why)
{
        struct wishes w = { 0 };
        int r = 0;

        if (!collect(drv, s, n, &w))
                return 0;
        for (unsigned q = 0; q < 2 * drv->n_pairs; q++) {
                if (!(*bits_of(&w.left, q) & BIT(q / 2)))
                        continue;
                if (*bits_of(&w.forced, q) & BIT(q / 2))
                        return setting_refuse(-EINVAL, ret_why,
                                              "adaptive leaves usecs and frames of q%u to the device", q);
                if (drv->connected && drv->coalesce[q].told)
                        return setting_refuse(
                                -EBUSY, ret_why,
                                "q%u: the device was told numbers; it chooses again after the next connection",
                                q);
        }
        memcpy(u->agreed, drv->coalesce, sizeof(u->agreed));
        memcpy(u->wish, drv->coalesce_wish, sizeof(u->wish));
        u->coalesce = true;
        if (drv->connected)
                r = drv_coalesce_apply(drv, w.want, &w.forced);
        if (r)
                return disagreed(drv, r, "coalescing", ret_why);
        memcpy(drv->coalesce_wish, w.want, sizeof(w.want));
        return 0;
}

/* One interrupt for both queues of a pair, or one each: the device is told which fd to signal. */
static int set_shared(struct vw_driver *drv, const struct vw_setting *s, unsigned n, struct undo *u,
                      const char **ret_why)
{
        int r = 0;

        for (unsigned i = 0; i < n; i++)
                for (unsigned k = 0; !r && s[i].key == VW_KEY_SHARED_INTERRUPT && k < drv->n_pairs; k++) {
                        struct drv_pair *p = &drv->pairs[k];

                        if ((s[i].queue >= 0 && (unsigned)s[i].queue / 2 != k) ||
                            p->napi.shared_call == s[i].value)
                                continue;
                        r = drv_share_call(p, s[i].value);
                        u->shared ^= r ? 0 : BIT(k);
                }
        return r ? setting_refuse(r, ret_why, "the device did not take another fd to signal") : 0;
}

static int set_queues(struct vw_driver *drv, const struct vw_setting *s, unsigned n, const char **ret_why)
{
        for (unsigned i = 0; i < n; i++) {
                int r = s[i].key == VW_KEY_QUEUES ? vw_driver_set_pairs(drv, (unsigned)s[i].value) : 0;

                if (r == -ETIMEDOUT)
                        return setting_refuse(r, ret_why,
                                              "the device does not answer; queues=%lld holds all the same",
                                              (long long)s[i].value);
                if (r)
                        return disagreed(drv, r, "number of queues", ret_why);
        }
        return 0;
}

static void put_back(struct vw_driver *drv, const struct undo *u)
{
        if (u->coalesce) {
                if (drv->connected)
                        drv_coalesce_apply(drv, u->agreed, NULL);
                memcpy(drv->coalesce_wish, u->wish, sizeof(u->wish));
        }
        for (unsigned k = 0; k < drv->n_pairs; k++)
                if (u->shared & BIT(k))
                        drv_share_call(&drv->pairs[k], !drv->pairs[k].napi.shared_call);
}

/* ---- what the owners adopt ---- */

struct change {
        struct drv_pair *p;
        const struct vw_setting *s;
        unsigned n;
};

static void adopt_one(struct drv_pair *p, enum vw_key key, int64_t value)
{
        struct drv_txq *tx = &p->tx;

        switch (key) {
        case VW_KEY_POLL_US:
                p->napi.poll_us = (uint32_t)value;
                break;
        case VW_KEY_TX_MODE:
                drv_tx_set_mode(p, (enum vw_tx_mode)value, tx->bql_wanted);
                break;
        case VW_KEY_BQL:
                drv_tx_set_mode(p, tx->mode, value);
                break;
        case VW_KEY_CLEAN_TX_FROM_RX:
                tx->clean_wanted = (int)value;
                drv_tx_set_mode(p, tx->mode, tx->bql_wanted);
                break;
        case VW_KEY_TX_INTERRUPTS:
                tx->eager = value;
                break;
        case VW_KEY_KICK:
                tx->kick_mode = (enum vw_kick)value;
                break;
        case VW_KEY_RX_BUFFERS:
                p->rx.mode = (enum vw_rx_buffers)value;
                if (p->up && p->rx.mergeable)
                        rxbuf_set_mode(&p->rx.buf, p->rx.mode);
                break;
        default:
                break;
        }
}

/* On the owner. */
static void adopt(void *arg)
{
        struct change *c = arg;

        for (unsigned i = 0; i < c->n; i++)
                if (fits(c->s[i].key, c->s[i].queue, 2 * c->p->index) ||
                    fits(c->s[i].key, c->s[i].queue, 2 * c->p->index + 1))
                        adopt_one(c->p, c->s[i].key, c->s[i].value);
}

VW_API int vw_driver_set(struct vw_driver *drv, const struct vw_setting *settings, unsigned n,
                         const char **ret_why)
{
        struct undo u = { 0 };
        int r = 0;

        for (unsigned i = 0; !r && i < n; i++)
                r = check_one(drv, &settings[i], ret_why);
        if (!r)
                r = set_shared(drv, settings, n, &u, ret_why);
        if (!r)
                r = set_coalesce(drv, settings, n, &u, ret_why);
        if (!r)
                r = set_queues(drv, settings, n, ret_why);
        if (r) {
                put_back(drv, &u);
                return r;
        }
        for (unsigned i = 0; i < drv->n_pairs; i++) {
                struct change c = { &drv->pairs[i], settings, n };

                drv_run_on_owner(c.p, adopt, &c);
        }
        return 0;
}

/* ---- reading ---- */

struct reading {
        struct drv_pair *p;
        enum vw_key key;
        int64_t value;
};

/* On the owner. */
static void read_one(void *arg)
{
        struct reading *r = arg;
        const struct drv_txq *tx = &r->p->tx;

        switch (r->key) {
        case VW_KEY_POLL_US:
                r->value = r->p->napi.poll_us;
                break;
        case VW_KEY_TX_MODE:
                r->value = tx->mode;
                break;
        case VW_KEY_CLEAN_TX_FROM_RX:
                r->value = tx->clean_from_rx;
                break;
        case VW_KEY_SHARED_INTERRUPT:
                r->value = r->p->napi.shared_call;
                break;
        case VW_KEY_TX_INTERRUPTS:
                r->value = tx->eager;
                break;
        case VW_KEY_KICK:
                r->value = tx->kick_mode;
                break;
        case VW_KEY_BQL:
                r->value = tx->bql_wanted;
                break;
        case VW_KEY_RX_BUFFERS:
                r->value = r->p->rx.mode;
                break;
        default:
                r->value = 0;
                break;
        }
}

/* Coalescing is the control thread's: what the device has agreed to or, without one, what will be asked. */
static bool read_coalesce(const struct vw_driver *drv, int queue, enum vw_key key, int64_t *ret_value)
{
        const struct drv_coalesce *c = drv->connected ? drv->coalesce : drv->coalesce_wish;
        unsigned pair = queue < 0 ? 0 : (unsigned)queue / 2;

        switch (key) {
        case VW_KEY_TX_USECS:
                *ret_value = c[2 * pair + 1].usecs;
                return true;
        case VW_KEY_TX_FRAMES:
                *ret_value = c[2 * pair + 1].frames;
                return true;
        case VW_KEY_RX_USECS:
                *ret_value = c[2 * pair].usecs;
                return true;
        case VW_KEY_RX_FRAMES:
                *ret_value = c[2 * pair].frames;
                return true;
        case VW_KEY_ADAPTIVE:
                *ret_value = 0;
                for (unsigned q = 2 * pair; q < 2 * pair + 2; q++)
                        if ((queue < 0 || q == (unsigned)queue) && drv->coalesce_wish[q].adaptive)
                                *ret_value |= q % 2 ? VW_ADAPTIVE_TX : VW_ADAPTIVE_RX;
                return true;
        case VW_KEY_QUEUES:
                *ret_value = drv->connected ? drv->net.active : drv->pairs_wish;
                return true;
        default:
                return false;
        }
}

VW_API int vw_driver_get(struct vw_driver *drv, int queue, enum vw_key key, int64_t *ret_value)
{
        struct reading r = { .key = key };

        if ((unsigned)key >= VW_KEY_COUNT)
                return -ENOENT;
        if (queue >= 0 && ((unsigned)queue >= 2 * drv->n_pairs || !fits(key, queue, (unsigned)queue)))
                return -EINVAL;
        if (read_coalesce(drv, queue, key, ret_value))
                return 0;
        r.p = &drv->pairs[queue < 0 ? 0 : queue / 2];
        drv_run_on_owner(r.p, read_one, &r);
        *ret_value = r.value;
        return 0;
}
