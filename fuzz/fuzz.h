/* What every target has: one input, no state that outlives it.  A broken promise aborts, by check(). */
#pragma once
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
