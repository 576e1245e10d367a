/* Statistics as the JSON of the interface contract; the same shape for both ends. */
#pragma once
#include "ctl/text.h"
#include "vwire/stats.h"

void stats_json(struct text *t, const struct vw_stats *stats);
