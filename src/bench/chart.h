/* Charts of an experiment, drawn by gnuplot as SVG to stand inside a page.  Their colours are names that the page's style sheet turns
 * into what suits its background: rgb(0,0,241) is the grid, (0,0,242) the axes and words, (0,0,1) to (0,0,5) the variants. */
#pragma once
#include <stdio.h>

#include "bench/record.h"

/* Draws the charts of an experiment one after the other, each in a <figure>; `n_charts` counts those of a page.  0, or -1 with a
 * sentence. */
int chart_draw(FILE *out, const struct record_experiment *re, unsigned *n_charts, char *why, size_t len);
