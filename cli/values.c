#include "values.h"

#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "cli.h"
#include "opts.h"
#include "vwire/stats.h"

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int value_mac(const char *value, void *into, char *why, size_t len)
{
        uint8_t mac[6] = { 0 }, any = 0;

        snprintf(why, len, "is not a MAC address, six pairs of hexadecimal digits with colons");
        if (strlen(value) != 17)
                return -1;
        for (unsigned i = 0; i < 6; i++, value += 3) {
                int high = hex_digit(value[0]), low = hex_digit(value[1]);

                if (high < 0 || low < 0 || value[2] != (i < 5 ? ':' : '\0'))
                        return -1;
                mac[i] = (uint8_t)(high << 4 | low);
                any |= mac[i];
        }
        if (mac[0] & 1 || !any) {
                snprintf(why, len, "is %s address: an interface cannot have it",
                         any ? "a multicast" : "the zero");
                return -1;
        }
        memcpy(into, mac, sizeof(mac));
        return 0;
}

static int unknown_feature(const char *name, char *why, size_t len)
{
        const char *names[64];
        unsigned n = 0;

        for (unsigned bit = 0; bit < 64; bit++)
                if (vw_feature_name(bit))
                        names[n++] = vw_feature_name(bit);
        snprintf(why, len, "has no feature %.40s: did you mean %s?", name, opts_nearest(name, names, n));
        return -1;
}

int value_features(const char *value, void *into, char *why, size_t len)
{
        struct feature_mask features = *(struct feature_mask *)into;

        for (;;) {
                size_t n = strcspn(value, ",");
                char name[64];
                int bit;
                uint64_t this;

                if ((*value != '+' && *value != '-') || n < 2) {
                        snprintf(why, len, "is not a list of +NAME and -NAME, as in -mrg_rxbuf,-event_idx");
                        return -1;
                }
                snprintf(name, sizeof(name), "%.*s", (int)n - 1, value + 1);
                bit = vw_feature_bit(name);
                if (bit < 0)
                        return unknown_feature(name, why, len);
                this = UINT64_C(1) << bit;
                features.mask = *value == '+' ? features.mask | this : features.mask & ~this;
                features.asked = *value == '+' ? features.asked | this : features.asked & ~this;
                if (!value[n])
                        break;
                value += n + 1;
        }
        *(struct feature_mask *)into = features;
        return 0;
}

static int find_layer(const char *name, size_t n)
{
        for (enum vw_sandbox_layer l = 0; l < VW_SANDBOX_COUNT; l++)
                if (strlen(vw_sandbox_layer_name(l)) == n && !strncmp(vw_sandbox_layer_name(l), name, n))
                        return (int)l;
        return -1;
}

static int refuse_layers(char *why, size_t len)
{
        size_t n = (size_t)snprintf(why, len, "is neither off nor a list of -LAYER, of");

        for (enum vw_sandbox_layer l = 0; l < VW_SANDBOX_COUNT && n < len; l++)
                n += (size_t)snprintf(why + n, len - n, "%s %s", l ? "," : "", vw_sandbox_layer_name(l));
        return -1;
}

int value_sandbox(const char *value, void *into, char *why, size_t len)
{
        const uint32_t need_nnp = 1u << VW_SANDBOX_LANDLOCK | 1u << VW_SANDBOX_SECCOMP;
        uint32_t layers = VW_SANDBOX_ALL;
        bool more = strcmp(value, "off") != 0;

        if (!more)
                layers = 0;
        while (more) {
                size_t n = strcspn(value, ",");
                int layer = *value == '-' ? find_layer(value + 1, n - 1) : -1;

                if (layer < 0)
                        return refuse_layers(why, len);
                layers &= ~(1u << layer);
                more = value[n];
                value += n + more;
        }
        if (layers & need_nnp && !(layers & 1u << VW_SANDBOX_NO_NEW_PRIVS)) {
                snprintf(why, len, "leaves landlock or seccomp on, which need no_new_privs");
                return -1;
        }
        *(uint32_t *)into = layers;
        return 0;
}

int value_mode(const char *value, void *into, char *why, size_t len)
{
        unsigned mode = 0;
        const char *c = value;

        for (; *c >= '0' && *c <= '7' && c - value < 5; c++)
                mode = mode * 8 + (unsigned)(*c - '0');
        if (*c || c == value || mode > 0777) {
                snprintf(why, len, "is not a mode of 0..0777, in octal");
                return -1;
        }
        *(unsigned *)into = mode;
        return 0;
}

/* "3" or "2-5" up to `end`. */
static bool parse_range(const char *text, size_t n, long *ret_first, long *ret_last)
{
        char part[32], *dash;

        if (!n || n >= sizeof(part))
                return false;
        memcpy(part, text, n);
        part[n] = '\0';
        dash = strchr(part, '-');
        if (dash)
                *dash++ = '\0';
        return opts_number(part, ret_first) && opts_number(dash ? dash : part, ret_last) && *ret_first >= 0 &&
               *ret_first <= *ret_last;
}

int value_cpus(const char *value, void *into, char *why, size_t len)
{
        struct cpu_list *list = into;

        list->n = 0;
        for (;;) {
                size_t n = strcspn(value, ",");
                long first, last;

                if (!parse_range(value, n, &first, &last)) {
                        snprintf(why, len, "is not a list of CPUs, as in 0,2-3");
                        return -1;
                }
                if (last >= CPU_SETSIZE) {
                        snprintf(why, len, "has a CPU over the limit %d", CPU_SETSIZE - 1);
                        return -1;
                }
                for (; first <= last; first++) {
                        if (list->n == CPUS_MAX) {
                                snprintf(why, len, "has CPUs over the limit of %d in a list", CPUS_MAX);
                                return -1;
                        }
                        list->cpu[list->n++] = (int)first;
                }
                if (!value[n])
                        return 0;
                value += n + 1;
        }
}

int value_ring_size(const char *value, void *into, char *why, size_t len)
{
        long v;

        if (!opts_number(value, &v) || v < 2 || v > VW_QUEUE_SIZE_MAX || (v & (v - 1))) {
                snprintf(why, len, "is not a power of two of 2..%d", VW_QUEUE_SIZE_MAX);
                return -1;
        }
        *(unsigned *)into = (unsigned)v;
        return 0;
}

int value_group(const char *value, void *into, char *why, size_t len)
{
        /* cppcheck-suppress getgrnamCalled; before threads are made */
        const struct group *group = getgrnam(value);
        long v;

        if (!group && (!opts_number(value, &v) || v < 0 || v > (long)UINT32_MAX - 1)) {
                snprintf(why, len, "is neither a group's name nor its number");
                return -1;
        }
        *(gid_t *)into = group ? group->gr_gid : (gid_t)v;
        return 0;
}

int value_socket(const char *value, void *into, char *why, size_t len)
{
        size_t limit = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

        if (!*value) {
                snprintf(why, len, "is empty: a PATH is needed");
                return -1;
        }
        if (strlen(value) > limit) {
                snprintf(why, len, "is over the limit of %zu bytes for a socket's path", limit);
                return -1;
        }
        *(const char **)into = value;
        return 0;
}
