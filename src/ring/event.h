/* "Should I notify?"  One comparison for both layouts (2.7.10, 2.8.10): indices are 16-bit positions that wrap;
 * the packed layout turns its offset and wrap bit into a position first. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* The peer wants waking when the position `event` is passed; we moved from `old` to `new_`.  True if it lies in (old, new]
 * when counted as "the entry with this index was filled". */
static inline bool event_wants(uint16_t event, uint16_t new_, uint16_t old)
{
        return (uint16_t)(new_ - event - 1) < (uint16_t)(new_ - old);
}
