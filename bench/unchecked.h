/* What the checks cost: a build of the rings in which no condition that only a lie or a rare case makes true is looked at. For honest
 * traffic in one region, and for nothing else. */
#pragma once
#include "base/check.h"

#undef unlikely
#define unlikely(x) ((void)(x), 0) /* some do their work in it; what only compares, the compiler drops */
