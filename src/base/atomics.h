/* The orderings that rings need, by name.  Shared memory is read and written through these and nothing else,
 * so that the compiler can neither tear nor repeat an access and ThreadSanitizer sees every edge. */
#pragma once

#define load_relaxed(p)     __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)     __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* Store then load: the only reordering that x86 makes and that a ring cannot bear (pairs C and D). */
#define fence_full() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* A counter with one writer and any readers: no bus lock, no torn read. */
#define counter_add(p, n) store_relaxed((p), load_relaxed(p) + (n))

/* The line at `p` will be written, and another CPU has it.  Compilers make a fetch for reading of this, after which the first store waits for
 * the line again, unless told that the CPU has the instruction; those without it take it for a nop. */
static inline void fetch_for_write(const void *p)
{
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
        __builtin_prefetch(p, 1);
#endif
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
}
