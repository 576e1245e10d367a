/* The yardstick for a link through vwire: two TAPs in two namespaces and nothing between them but a loop that reads a frame from
 * one and writes it to the other, headers and offloads included.  No user-space device that has a TAP at each end can do less for a
 * frame. */
#pragma once
#include <stdint.h>

struct splice;

struct splice_counts {
        uint64_t frames[2], lost[2]; /* from either TAP */
};

/* Makes a TAP called `name` in each of two network namespaces (fds) and joins them on a thread of that priority (where it is allowed).
 * 0 or -errno with a sentence. */
int splice_new(const int netns[2], const char *const name[2], int nice, struct splice **ret_splice,
               const char **ret_why);
void splice_counts(const struct splice *s, struct splice_counts *ret_counts);
uint64_t splice_cpu_ns(const struct splice *s);
void splice_free(struct splice *s); /* NULL is fine */
