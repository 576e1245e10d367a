/* A record for people: tables on a terminal, one page with charts, and what differs between two of them. */
#pragma once
#include <stdio.h>

#include "bench/record.h"

void report_text(FILE *out, const struct record *r);
/* 0, or -1 with a sentence.  Needs gnuplot (REPORT_PLOTTER). */
#define REPORT_PLOTTER "gnuplot"
int report_html(FILE *out, const struct record *r, char *why, size_t len);
/* What changed from `a` to `b` beyond the noise. */
void report_compare(FILE *out, const struct record *a, const struct record *b);
