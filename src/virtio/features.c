#include "virtio/features.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "vwire/stats.h"

enum { NOT = 0, OFFERED = 1, TAKEN = 1 };

static const struct feature {
        const char *name;
        unsigned bit;
        bool offered, taken;
        uint64_t all, any;
} features[] = {
#define FEATURE(name, bit, dev, drv, all, any) { #name, bit, dev, drv, all, any },
#include "virtio/features.def"
#undef FEATURE
};

uint64_t features_device(void)
{
        uint64_t mask = 0;

        for (size_t i = 0; i < ARRAY_SIZE(features); i++)
                if (features[i].offered)
                        mask |= BIT(features[i].bit);
        return mask;
}

uint64_t features_driver(void)
{
        uint64_t mask = 0;

        for (size_t i = 0; i < ARRAY_SIZE(features); i++)
                if (features[i].taken)
                        mask |= BIT(features[i].bit);
        return mask;
}

int feature_bit(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(features); i++)
                if (!strcmp(features[i].name, name))
                        return (int)features[i].bit;
        return -ENOENT;
}

const char *feature_name(unsigned bit)
{
        for (size_t i = 0; i < ARRAY_SIZE(features); i++)
                if (features[i].bit == bit)
                        return features[i].name;
        return NULL;
}

uint64_t features_closed(uint64_t set)
{
        uint64_t before;

        do {
                before = set;
                for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
                        const struct feature *f = &features[i];

                        if ((f->all & ~set) || (f->any && !(f->any & set)))
                                set &= ~BIT(f->bit);
                }
        } while (set != before);
        return set;
}

int vw_feature_bit(const char *name)
{
        return feature_bit(name);
}

const char *vw_feature_name(unsigned bit)
{
        return feature_name(bit);
}

uint64_t vw_features_built(bool driver)
{
        return driver ? features_driver() : features_device();
}

const char *vw_protocol_feature_name(unsigned bit)
{
        static const char *const names[] = {
                "mq",
                "log_shmfd",
                "rarp",
                "reply_ack",
                "mtu",
                "backend_req",
                "cross_endian",
                "crypto_session",
                "pagefault",
                "config",
                "backend_send_fd",
                "host_notifier",
                "inflight_shmfd",
                "reset_device",
                "inband_notifications",
                "configure_mem_slots",
                "status",
                "xen_mmap",
                "shared_object",
                "device_state",
        };

        return bit < ARRAY_SIZE(names) ? names[bit] : NULL;
}
