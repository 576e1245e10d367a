/* How often a case runs: the everyday count, or the case's full count under `./run test-full`. */
#pragma once
#include <stdint.h>

uint64_t test_scale(uint64_t everyday, uint64_t full);
