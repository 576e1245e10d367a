/* Our own mistakes stop the program; the peer's never come here.  check() stays on in release builds. */
#pragma once
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define check(cond)                                                                                          \
        do {                                                                                                 \
                if (unlikely(!(cond)))                                                                       \
                        check_failed(#cond, __FILE__, __LINE__);                                             \
        } while (0)

#define unreachable()                   check_failed("unreachable", __FILE__, __LINE__)

#define ARRAY_SIZE(a)                   (sizeof(a) / sizeof((a)[0]))
#define BIT(n)                          (UINT64_C(1) << (n))
#define MIN(a, b)                       ((a) < (b) ? (a) : (b))
#define MAX(a, b)                       ((a) > (b) ? (a) : (b))
#define ALIGN_UP(x, a)                  (((x) + (a)-1) / (a) * (a))
#define CACHE_LINE                      64 /* bytes; fields of two threads never share one */

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

_Noreturn static inline void check_failed(const char *cond, const char *file, int line)
{
        fprintf(stderr, "vwire: bug: %s:%d: %s\n", file, line, cond);
        abort();
}
