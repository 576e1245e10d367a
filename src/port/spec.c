/* A port's spec: one table says which kinds there are and which options each takes, one parser reads them all. */
#include "port/spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum option_type { OPTION_NUMBER, OPTION_TEXT, OPTION_WORD, OPTION_FDS };

struct port_option {
        const char *key;
        enum option_type type;
        size_t at; /* in struct port_args */
        uint64_t least, greatest;
};

#define AT(field) offsetof(struct port_args, field)

static const struct port_option tap_options[] = {
        {"fd",       OPTION_FDS,  AT(fds),     0, 0},
        { "netns",   OPTION_TEXT, AT(netns),   0, 0},
        { "bridge",  OPTION_TEXT, AT(bridge),  0, 0},
        { "persist", OPTION_WORD, AT(persist), 0, 0},
        { NULL,      0,           0,           0, 0},
};

/* The least: Ethernet, IPv4 and UDP headers and the sequence number, padded as on a wire.  The greatest: a full IPv4 packet. */
static const struct port_option gen_options[] = {
        {"size",   OPTION_NUMBER, AT(size),  60, 65549     },
        { "rate",  OPTION_NUMBER, AT(rate),  1,  1000000000},
        { "count", OPTION_NUMBER, AT(count), 1,  UINT64_MAX},
        { "clone", OPTION_WORD,   AT(clone), 0,  0         },
        { NULL,    0,             0,         0,  0         },
};

static const struct port_kind {
        const char *name;
        port_open_fn *open;  /* NULL: a name that is kept for later */
        const char *subject; /* what its NAME is called, or NULL if it takes none */
        const struct port_option *options;
} kinds[] = {
        {"tap",         tap_open,  "NAME",   tap_options},
        { "loop",       loop_open, NULL,     NULL       },
        { "null",       null_open, NULL,     NULL       },
        { "gen",        gen_open,  NULL,     gen_options},
        { "packet",     NULL,      "IFNAME", NULL       },
        { "xdp",        NULL,      "IFNAME", NULL       },
        { "pcap",       NULL,      "FILE",   NULL       },
        { "vhost-user", NULL,      "PATH",   NULL       },
};

int port_refuse(const char **ret_why, int err, const char *spec, const char *fmt, ...)
{
        static _Thread_local char why[256];
        int n = snprintf(why, sizeof(why), "%.80s: ", spec);
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(why + n, sizeof(why) - (size_t)n, fmt, ap);
        va_end(ap);
        if (ret_why)
                *ret_why = why;
        return -err;
}

/* The kinds that can be opened, "tap, loop, ...". */
static const char *kinds_there_are(void)
{
        static _Thread_local char list[128];
        size_t len = 0;

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (kinds[i].open)
                        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "",
                                                kinds[i].name);
        return list;
}

static int parse_number(const char *spec, const struct port_option *o, const char *value, uint64_t *ret,
                        const char **ret_why)
{
        char *end;
        unsigned long long v;

        errno = 0;
        v = strtoull(value, &end, 10);
        if (*value < '0' || *end) /* no blank and no sign before it, nothing behind it */
                return port_refuse(ret_why, EINVAL, spec, "%s=%s is not a number", o->key, value);
        if (errno == ERANGE || v > o->greatest)
                return port_refuse(ret_why, EINVAL, spec, "%s=%s is over the limit %llu", o->key, value,
                                   (unsigned long long)o->greatest);
        if (v < o->least)
                return port_refuse(ret_why, EINVAL, spec, "%s=%s is under the limit %llu", o->key, value,
                                   (unsigned long long)o->least);
        *ret = v;
        return 0;
}

/* N[+N...] */
static int parse_fds(const char *spec, char *value, struct port_args *args, const char **ret_why)
{
        static const struct port_option one = { "fd", OPTION_NUMBER, 0, 0, INT32_MAX };
        char *next;

        for (char *word = value; word; word = next) {
                uint64_t fd = 0;
                int r;

                next = strchr(word, '+');
                if (next)
                        *next++ = '\0';
                r = parse_number(spec, &one, word, &fd, ret_why);
                if (r < 0)
                        return r;
                if (args->n_fds == ARRAY_SIZE(args->fds))
                        return port_refuse(ret_why, EINVAL, spec, "fd= is over the limit of %zu numbers",
                                           ARRAY_SIZE(args->fds));
                args->fds[args->n_fds++] = (int)fd;
        }
        return 0;
}

static int parse_text(const char *spec, const char *what, const char *value, char *to, size_t size,
                      const char **ret_why)
{
        size_t len = strlen(value);

        if (!len)
                return port_refuse(ret_why, EINVAL, spec, "%s is empty", what);
        if (len >= size)
                return port_refuse(ret_why, EINVAL, spec, "%s is over the limit of %zu characters", what,
                                   size - 1);
        memcpy(to, value, len + 1);
        return 0;
}

static int parse_option(const char *spec, const struct port_kind *kind, char *word, struct port_args *args,
                        const char **ret_why)
{
        char *value = strchr(word, '=');
        const struct port_option *o = kind->options;

        if (value)
                *value++ = '\0';
        while (o && o->key && strcmp(o->key, word) != 0)
                o++;
        if (!o || !o->key)
                return port_refuse(ret_why, EINVAL, spec, "'%s' is not an option of this port", word);
        if (!value != (o->type == OPTION_WORD))
                return port_refuse(ret_why, EINVAL, spec, value ? "%s takes no value" : "%s needs a value",
                                   o->key);
        switch (o->type) {
        case OPTION_NUMBER:
                return parse_number(spec, o, value, (uint64_t *)((char *)args + o->at), ret_why);
        case OPTION_TEXT:
                return parse_text(spec, o->key, value, (char *)args + o->at, sizeof(args->netns), ret_why);
        case OPTION_WORD:
                *(bool *)((char *)args + o->at) = true;
                return 0;
        case OPTION_FDS:
                return parse_fds(spec, value, args, ret_why);
        }
        unreachable();
}

static const struct port_kind *find_kind(const char *spec, size_t len)
{
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, spec, len) == 0)
                        return &kinds[i];
        return NULL;
}

int port_spec_parse(const char *spec, port_open_fn **ret_open, struct port_args *ret_args,
                    const char **ret_why)
{
        size_t len = strcspn(spec, ":");
        const struct port_kind *kind = find_kind(spec, len);
        struct port_args args = { .spec = spec };
        char body[256], *next = NULL;

        if (!kind)
                return port_refuse(ret_why, EINVAL, spec, "no such kind of port; there are: %s",
                                   kinds_there_are());
        if (!kind->open)
                return port_refuse(ret_why, EINVAL, spec, "'%s' ports are not built yet; there are: %s",
                                   kind->name, kinds_there_are());
        if (strlen(spec) - len >= sizeof(body))
                return port_refuse(ret_why, EINVAL, spec, "over the limit of %zu characters", sizeof(body));
        if (spec[len]) {
                snprintf(body, sizeof(body), "%s", spec + len + 1);
                next = body;
        }
        for (bool first = true; next; first = false) {
                char *word = next;
                int r;

                next = strchr(word, ',');
                if (next)
                        *next++ = '\0';
                if (first && kind->subject && !strchr(word, '='))
                        r = parse_text(spec, kind->subject, word, args.name, sizeof(args.name), ret_why);
                else
                        r = parse_option(spec, kind, word, &args, ret_why);
                if (r < 0)
                        return r;
        }
        if (kind->subject && !args.name[0] && !args.n_fds)
                return port_refuse(ret_why, EINVAL, spec, "%s is missing, as in %s:%s", kind->subject,
                                   kind->name, kind->subject);
        *ret_open = kind->open;
        *ret_args = args;
        return 0;
}
