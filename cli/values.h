/* Option values that are more than a number or a word; each is the `parse` of an OPT_OTHER row. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CPUS_MAX 1024 /* pins in a --cpus list */

struct feature_mask {
        uint64_t mask;  /* bits that may be negotiated */
        uint64_t asked; /* those that +NAME named last */
};

struct cpu_list {
        unsigned n;
        int cpu[CPUS_MAX];
};

int value_mac(const char *value, void *into, char *why, size_t len); /* uint8_t[6], one that a NIC may have */
/* struct feature_mask, changed by +NAME,-NAME */
int value_features(const char *value, void *into, char *why, size_t len);
int value_mode(const char *value, void *into, char *why, size_t len);      /* unsigned: octal permissions */
int value_cpus(const char *value, void *into, char *why, size_t len);      /* struct cpu_list: 0,2-3 */
int value_ring_size(const char *value, void *into, char *why, size_t len); /* unsigned */
int value_group(const char *value, void *into, char *why, size_t len);     /* gid_t: a name or a number */
int value_sandbox(const char *value, void *into, char *why, size_t len); /* uint32_t: layers that are left */
/* const char *: fits a Unix address */
int value_socket(const char *value, void *into, char *why, size_t len);
