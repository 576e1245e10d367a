/* Feature bits: names, what each end does, and the standard's rules of dependence (2.2, 5.1.3, 6). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

enum {
#define FEATURE(name, bit, dev, drv, all, any) F_BIT_##name = (bit),
#include "virtio/features.def"
#undef FEATURE
};

/* F_mrg_rxbuf, F_event_idx, ...: the masks. */
#define F(name) BIT(F_BIT_##name)

/* What our device offers, what our driver takes, before any option is looked at. */
uint64_t features_device(void);
uint64_t features_driver(void);

/* Bit number of a name or -ENOENT; name of a bit or NULL. */
int feature_bit(const char *name);
const char *feature_name(unsigned bit);

/* `features` without each bit whose prerequisite is missing, until nothing more falls: a set that is consistent stays as it is. */
uint64_t features_closed(uint64_t features);

/* Bits of features that the virtio-net header takes 12 bytes with, else 10 (5.1.6.1). */
static inline unsigned features_hdr_len(uint64_t features)
{
        return features & (F(version_1) | F(mrg_rxbuf)) ? 12 : 10;
}
