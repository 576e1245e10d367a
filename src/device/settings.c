/* Settings: what the operator and the guest want of each queue.
 *
 * Each queue has two words: what is wanted now, and what the operator wanted last, to which resets return.  The guest's commands for all
 * queues of a kind come in between: they outlive the disabling of a queue, and a reset forgets them (5.1.6.5.9).  The last who
 * sets something wins.  All under the guest's lock; workers adopt a changed word between turns. */
#include <errno.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/settings.h"
#include "device/queue.h"

/* ---- the guest ---- */

void dev_settings_coalesce(struct dev_queue *q, uint32_t usecs, uint32_t frames)
{
        struct vw_queue_settings s = settings_unpack(q->wanted);

        s.usecs = usecs;
        s.frames = frames;
        s.adaptive = false; /* who knows better is asked no more */
        store_relaxed(&q->wanted, settings_pack(&s));
}

void dev_settings_coalesce_all(struct vw_device *dev, enum vw_queue_kind kind, uint32_t usecs,
                               uint32_t frames)
{
        dev->guest.coalesce[kind].set = true;
        dev->guest.coalesce[kind].usecs = usecs;
        dev->guest.coalesce[kind].frames = frames;
        for (unsigned i = kind; i < 2 * dev->pairs; i += 2)
                dev_settings_coalesce(&dev->queues[i], usecs, frames);
}

void dev_settings_reset(struct dev_queue *q)
{
        const struct dev_guest *guest = &q->dev->guest;
        unsigned kind = q->index % 2;

        store_relaxed(&q->wanted, q->standing);
        if (guest->coalesce[kind].set && q->index < 2 * q->dev->pairs)
                dev_settings_coalesce(q, guest->coalesce[kind].usecs, guest->coalesce[kind].frames);
}

/* ---- the operator ---- */

static bool adaptive_for(int64_t value, enum vw_queue_kind kind)
{
        return value == VW_ADAPTIVE_BOTH || value == (kind == VW_RX ? VW_ADAPTIVE_RX : VW_ADAPTIVE_TX);
}

static uint64_t changed(uint64_t word, const struct vw_setting *setting, enum vw_queue_kind kind)
{
        struct vw_queue_settings s = settings_unpack(word);
        uint32_t value = (uint32_t)setting->value;

        switch (setting->key) {
        case VW_KEY_POLL_US:
                s.poll_us = value;
                break;
        case VW_KEY_TX_USECS:
        case VW_KEY_RX_USECS:
                s.usecs = value;
                break;
        case VW_KEY_TX_FRAMES:
        case VW_KEY_RX_FRAMES:
                s.frames = value;
                break;
        case VW_KEY_ADAPTIVE:
                s.adaptive = adaptive_for(setting->value, kind);
                break;
        default:
                unreachable();
        }
        return settings_pack(&s);
}

static enum vw_queue_kind kind_of(const struct vw_device *dev, unsigned index)
{
        enum vw_queue_kind kind;

        if (dev_queue_kind(dev, dev->features ? dev->features : dev->offered, index, &kind))
                return kind;
        return index % 2 ? VW_TX : VW_RX; /* of a pair that is not in use */
}

static bool concerns(const struct vw_device *dev, const struct vw_setting *setting, unsigned index)
{
        if (setting->queue >= 0 && (unsigned)setting->queue != index)
                return false;
        return vw_key_fits(setting->key, false, kind_of(dev, index));
}

static int check_one(const struct vw_device *dev, const struct vw_setting *setting, const char **ret_why)
{
        int r = setting_check(setting, false, ret_why);

        if (r < 0)
                return r;
        if (setting->queue < 0)
                return 0;
        if (setting->queue >= (int)dev->n_vrings)
                return setting_refuse(-EINVAL, ret_why, "q%d: there are %u queues", setting->queue,
                                      dev->n_vrings);
        if (!concerns(dev, setting, (unsigned)setting->queue))
                return setting_refuse(-EINVAL, ret_why, "%s is not a setting of queue %d",
                                      vw_key_name(setting->key), setting->queue);
        if (setting->key == VW_KEY_ADAPTIVE && setting->value &&
            !adaptive_for(setting->value, kind_of(dev, (unsigned)setting->queue)))
                return setting_refuse(-EINVAL, ret_why, "queue %d is of the other direction", setting->queue);
        return 0;
}

/* A word of the operator about all queues of a kind ends what the guest had set for them. */
static void overrule_guest(struct dev_guest *guest, const struct vw_setting *setting)
{
        if (setting->queue >= 0)
                return;
        if (setting->key == VW_KEY_RX_USECS || setting->key == VW_KEY_RX_FRAMES)
                guest->coalesce[VW_RX].set = false;
        if (setting->key == VW_KEY_TX_USECS || setting->key == VW_KEY_TX_FRAMES)
                guest->coalesce[VW_TX].set = false;
}

static void adopt_all(void *arg)
{
        struct dev_worker *w = arg;

        for (unsigned i = 0; i < w->n_queues; i++)
                dev_queue_adopt_settings(w->queues[i], clock_now());
}

int vw_device_set(struct vw_device *dev, const struct vw_setting *settings, unsigned n, const char **ret_why)
{
        for (unsigned i = 0; i < n; i++) {
                int r = check_one(dev, &settings[i], ret_why);

                if (r < 0)
                        return r;
        }
        pthread_mutex_lock(&dev->guest.lock);
        for (unsigned i = 0; i < n; i++)
                overrule_guest(&dev->guest, &settings[i]);
        for (unsigned k = 0; k < dev->n_vrings; k++) {
                struct dev_queue *q = &dev->queues[k];
                uint64_t wanted = q->wanted;

                for (unsigned i = 0; i < n; i++) {
                        if (!concerns(dev, &settings[i], k))
                                continue;
                        wanted = changed(wanted, &settings[i], kind_of(dev, k));
                        q->standing = changed(q->standing, &settings[i], kind_of(dev, k));
                }
                store_relaxed(&q->wanted, wanted); /* all of them at once */
        }
        pthread_mutex_unlock(&dev->guest.lock);
        for (unsigned i = 0; i < dev->n_workers; i++)
                dev_on_worker(&dev->workers[i], adopt_all, &dev->workers[i]);
        return 0;
}

static int64_t value_of(const struct dev_queue *q, enum vw_key key)
{
        struct vw_queue_settings s = settings_unpack(load_relaxed(&q->wanted));

        switch (key) {
        case VW_KEY_POLL_US:
                return s.poll_us;
        case VW_KEY_TX_USECS:
        case VW_KEY_RX_USECS:
                return s.usecs;
        case VW_KEY_TX_FRAMES:
        case VW_KEY_RX_FRAMES:
                return s.frames;
        default:
                return s.adaptive;
        }
}

/* Without a queue: that of the first pair. */
static enum vw_adaptive adaptive_of(const struct vw_device *dev, int queue)
{
        unsigned rx = queue < 0 ? 0 : (unsigned)queue, tx = queue < 0 ? 1 : (unsigned)queue;
        bool on_rx = kind_of(dev, rx) == VW_RX && value_of(&dev->queues[rx], VW_KEY_ADAPTIVE);
        bool on_tx = kind_of(dev, tx) == VW_TX && value_of(&dev->queues[tx], VW_KEY_ADAPTIVE);

        return on_rx && on_tx ? VW_ADAPTIVE_BOTH
               : on_rx        ? VW_ADAPTIVE_RX
               : on_tx        ? VW_ADAPTIVE_TX
                              : VW_ADAPTIVE_OFF;
}

int vw_device_get(struct vw_device *dev, int queue, enum vw_key key, int64_t *ret_value)
{
        if ((unsigned)key >= VW_KEY_COUNT || !vw_key_known(key, false))
                return -ENOENT;
        if (queue >= (int)dev->n_vrings ||
            (queue >= 0 && !vw_key_fits(key, false, kind_of(dev, (unsigned)queue))))
                return -EINVAL;
        if (key == VW_KEY_ADAPTIVE)
                *ret_value = adaptive_of(dev, queue);
        else if (queue >= 0)
                *ret_value = value_of(&dev->queues[queue], key);
        else
                *ret_value = value_of(&dev->queues[vw_key_fits(key, false, VW_RX) ? 0 : 1], key);
        return 0;
}

void dev_settings_init(struct vw_device *dev, const struct vw_device_config *config)
{
        for (unsigned i = 0; i < dev->n_vrings; i++) {
                bool rx = i % 2 == 0;
                struct vw_queue_settings s = {
                        .poll_us = config->poll_us,
                        .usecs = rx ? config->rx_usecs : config->tx_usecs,
                        .frames = rx ? config->rx_frames : config->tx_frames,
                        .adaptive = adaptive_for(config->adaptive, rx ? VW_RX : VW_TX),
                };

                /* a control queue: commands are rare and should be answered at once */
                if (i == 2 * dev->pairs)
                        s = (struct vw_queue_settings){ 0 };
                dev->queues[i].standing = dev->queues[i].wanted = settings_pack(&s);
        }
}
