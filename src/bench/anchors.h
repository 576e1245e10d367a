/* Which published number stands beside which measured one. */
#pragma once
#include "bench/experiment.h"

bool anchor_busypoll(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                     double *ret_high);
bool anchor_contention(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                       double *ret_high);
bool anchor_txnapi(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                   double *ret_high);
bool anchor_txintr(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                   double *ret_high);
bool anchor_autotune(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                     double *ret_high);

/* Variants that these know by number. */
enum { TXNAPI_ORPHAN, TXNAPI_NAPI, TXNAPI_COALESCE, TXNAPI_AT_RX, TXNAPI_BOTH, TXNAPI_LAZY, TXNAPI_COUNT };
enum { TXINTR_ORPHAN, TXINTR_EACH, TXINTR_COALESCE, TXINTR_LAZY, TXINTR_COUNT };
enum { AUTOTUNE_PAGE, AUTOTUNE_MTU, AUTOTUNE_AUTO, AUTOTUNE_COUNT };
#define TXINTR_SMALL 256 /* bytes of a message up to which it counts as small */
