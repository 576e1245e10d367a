/* Statistics as the JSON of the interface contract; the same shape for both ends. */
#pragma once
#include "ctl/text.h"
#include "vwire/stats.h"

/* Reads what takes a file, which a program that has shut itself in cannot read later. */
void stats_prepare(void);
const char *stats_kind_name(enum vw_queue_kind kind); /* "rx", "tx", "ctrl" */
void stats_json(struct text *t, const struct vw_stats *stats);
