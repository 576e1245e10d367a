/* What the control socket says, for people and for Prometheus. */
#pragma once
#include <jansson.h>
#include <stdio.h>

void render_stats(FILE *out, const json_t *stats, unsigned width); /* a table, `width` columns wide at most */
/* What each queue did between two answers; without `before`, since it began. */
void render_rates(FILE *out, const json_t *before, const json_t *after);
void render_prometheus(FILE *out, const json_t *stats);
void render_features(FILE *out, const json_t *stats);
void render_settings(FILE *out, const json_t *settings); /* as `set` takes them */
/* A line a queue, wrapped at `width` columns; 0: not wrapped. */
void render_why(FILE *out, const json_t *why, unsigned width);
