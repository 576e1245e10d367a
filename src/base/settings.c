/* Settings as text, "q3.tx-usecs=64": one grammar for the command line, the control socket and every message about them. */
#include "base/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/check.h"

enum { DR = 1, DT = 2, R = 4, T = 8, W = 16 };

static const struct key {
        const char *name;
        int64_t least, greatest;
        const char *words; /* "zero|one|two", or NULL: a number */
        unsigned where;
} keys[VW_KEY_COUNT] = {
#define SETTING(name, key, least, greatest, words, where)                                                    \
        [VW_KEY_##name] = { key, least, greatest, words, where },
        VW_SETTINGS(SETTING)
#undef SETTING
};

#define QUEUE_MAX (2 * VW_QUEUE_PAIRS_MAX) /* the control queue of the largest device */

int setting_refuse(int error, const char **ret_why, const char *fmt, ...)
{
        static _Thread_local char why[256];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(why, sizeof(why), fmt, ap);
        va_end(ap);
        for (char *c = why; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?';
        *ret_why = why;
        return error;
}

int setting_check(const struct vw_setting *setting, bool driver, const char **ret_why)
{
        const struct key *key;

        if ((unsigned)setting->key >= VW_KEY_COUNT || !vw_key_known(setting->key, driver))
                return setting_refuse(-ENOENT, ret_why, "a %s has no such setting",
                                      driver ? "driver" : "device");
        key = &keys[setting->key];
        if (setting->value < key->least)
                return setting_refuse(-ERANGE, ret_why, "%s=%jd is under the limit %jd", key->name,
                                      (intmax_t)setting->value, (intmax_t)key->least);
        if (setting->value > key->greatest)
                return setting_refuse(-ERANGE, ret_why, "%s=%jd is over the limit %jd", key->name,
                                      (intmax_t)setting->value, (intmax_t)key->greatest);
        return 0;
}

/* Decimal digits up to `end`; false if there is anything else.  Saturates instead of wrapping. */
static bool parse_number(const char *text, const char *end, int64_t *ret_value)
{
        bool negative = text < end && *text == '-';
        int64_t value = 0;

        text += negative;
        if (text == end)
                return false;
        for (; text < end; text++) {
                if (*text < '0' || *text > '9')
                        return false;
                value = MIN(value * 10 + (*text - '0'), INT64_MAX / 100);
        }
        *ret_value = negative ? -value : value;
        return true;
}

/* The word's place in the list, or -1. */
static int find_word(const char *words, const char *word)
{
        size_t len = strlen(word);

        for (int i = 0;; i++) {
                size_t n = strcspn(words, "|");

                if (n == len && !memcmp(words, word, n))
                        return i;
                if (!words[n])
                        return -1;
                words += n + 1;
        }
}

static const struct key *find_key(const char *name, size_t len)
{
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (strlen(keys[i].name) == len && !memcmp(keys[i].name, name, len))
                        return &keys[i];
        return NULL;
}

/* "q3." before the key: its length, with the number; 0 if there is none. */
static size_t parse_queue(const char *text, int64_t *ret_queue)
{
        const char *dot = text + strcspn(text, ".=");

        if (*text != 'q' || *dot != '.' || !parse_number(text + 1, dot, ret_queue))
                return 0;
        return (size_t)(dot + 1 - text);
}

/* The key with the queue before it, up to a '=' or the end, which *ret_end is set to. */
static int parse_key(const char *text, struct vw_setting *ret_setting, const char **ret_end,
                     const char **ret_why)
{
        int64_t queue = -1;
        size_t prefix = parse_queue(text, &queue);
        const char *name = text + prefix, *end = name + strcspn(name, "=");
        const struct key *key = find_key(name, (size_t)(end - name));

        if (prefix && (queue < 0 || queue > QUEUE_MAX))
                return setting_refuse(-ERANGE, ret_why, "%.100s: the queue is not within q0..q%d", text,
                                      QUEUE_MAX);
        if (!key)
                return setting_refuse(-ENOENT, ret_why, "there is no setting %.*s", (int)MIN(end - name, 100),
                                      name);
        *ret_setting = (struct vw_setting){ .queue = (int)queue, .key = (enum vw_key)(key - keys) };
        *ret_end = end;
        return 0;
}

int vw_key_parse(const char *text, struct vw_setting *ret_setting, const char **ret_why)
{
        struct vw_setting setting = { 0 };
        const char *end = text;
        int r = parse_key(text, &setting, &end, ret_why);

        if (r < 0)
                return r;
        if (*end)
                return setting_refuse(-EINVAL, ret_why, "%.100s is more than a key", text);
        *ret_setting = setting;
        return 0;
}

int vw_setting_parse(const char *text, struct vw_setting *ret_setting, const char **ret_why)
{
        struct vw_setting setting = { 0 };
        const struct key *key;
        const char *equals = text, *word;
        int64_t value;
        int r = parse_key(text, &setting, &equals, ret_why);

        if (r < 0)
                return r;
        key = &keys[setting.key];
        word = equals + 1;
        if (!*equals)
                return setting_refuse(-EINVAL, ret_why, "%s needs a value, as in %s=%s", key->name, key->name,
                                      key->words ? key->words : "64");
        if (key->words) {
                value = find_word(key->words, word);
                if (value < 0)
                        return setting_refuse(-EINVAL, ret_why, "%s=%.100s is not one of %s", key->name, word,
                                              key->words);
        } else if (!parse_number(word, word + strlen(word), &value)) {
                return setting_refuse(-EINVAL, ret_why, "%s=%.100s is not a number of %jd..%jd", key->name,
                                      word, (intmax_t)key->least, (intmax_t)key->greatest);
        }
        if (value < key->least)
                return setting_refuse(-ERANGE, ret_why, "%s=%.100s is under the limit %jd", key->name, word,
                                      (intmax_t)key->least);
        if (value > key->greatest)
                return setting_refuse(-ERANGE, ret_why, "%s=%.100s is over the limit %jd", key->name, word,
                                      (intmax_t)key->greatest);
        setting.value = value;
        *ret_setting = setting;
        return 0;
}

void vw_setting_format(enum vw_key key, int64_t value, char *buf, size_t len)
{
        const char *words = keys[key].words;

        if (!words) {
                snprintf(buf, len, "%jd", (intmax_t)value);
                return;
        }
        for (; value > 0 && strchr(words, '|'); value--)
                words = strchr(words, '|') + 1;
        snprintf(buf, len, "%.*s", (int)strcspn(words, "|"), words);
}

const char *vw_key_name(enum vw_key key)
{
        return keys[key].name;
}

bool vw_key_known(enum vw_key key, bool driver)
{
        return keys[key].where & (driver ? R | T | W : DR | DT);
}

bool vw_key_fits(enum vw_key key, bool driver, enum vw_queue_kind kind)
{
        switch (kind) {
        case VW_RX:
                return keys[key].where & (driver ? R : DR);
        case VW_TX:
                return keys[key].where & (driver ? T : DT);
        case VW_CTRL:
                return false;
        }
        unreachable();
}
