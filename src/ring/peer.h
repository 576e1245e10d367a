/* Words that the peer writes.  Each is loaded through one of these, once, into a local; what is checked afterwards is the
 * local.  The peer may change the word at any moment, so a second load would be a different word.
 *
 * A test build defines VW_READ_ONCE_SHIM: then every word changes right after it was loaded, and a second load is seen. */
#pragma once
#include <stddef.h>

#include "base/atomics.h"

#ifdef VW_READ_ONCE_SHIM
void peer_loaded(const void *word, size_t len);
#else
static inline void peer_loaded(const void *word, size_t len)
{
        (void)word;
        (void)len;
}
#endif

#define peer_load(p)                                                                                         \
        __extension__({                                                                                      \
                __typeof__(*(p)) word_ = load_relaxed(p);                                                    \
                peer_loaded((p), sizeof(*(p)));                                                              \
                word_;                                                                                       \
        })

/* For indices that tell how many entries may be read (pairs A and B). */
#define peer_load_acquire(p)                                                                                 \
        __extension__({                                                                                      \
                __typeof__(*(p)) word_ = load_acquire(p);                                                    \
                peer_loaded((p), sizeof(*(p)));                                                              \
                word_;                                                                                       \
        })
