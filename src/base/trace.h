/* USDT trace points where <sys/sdt.h> exists, nothing elsewhere.  tools/trace has scripts for them. */
#pragma once

#ifdef VW_USDT
#include <sys/sdt.h>
#define VW_TRACE(event, a, b, c) DTRACE_PROBE3(vwire, event, a, b, c)
#else
#define VW_TRACE(event, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif
