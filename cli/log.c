#include "log.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static const char *const level_words[] = { "error", "warn", "info", "debug", NULL };
static const char *const format_words[] = { "text", "json", NULL };

static struct log_config {
        int level, format;
} log_config = { .level = VW_LOG_INFO };

static const struct opt rows[] = {
        ROW_WORD(struct log_config, level, "log-level", level_words, "info",
                 "least severe kind of line that is written"),
        ROW_WORD(struct log_config, format, "log-format", format_words, "text", "json: one object a line"),
};

const struct opt_group log_options = {
        .title = "log, on stderr", .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &log_config
};

/* One write a line, so that lines of several threads do not mix. */
static void write_line(const char *line, size_t len)
{
        if (write(STDERR_FILENO, line, len) < 0) {
                /* nobody listens; there is no better place to say so */
        }
}

static void write_text(enum vw_log_level level, const char *component, const char *text)
{
        char line[1024];
        int n = snprintf(line, sizeof(line) - 1, "%s %s: %s", level_words[level], component, text);
        size_t len = n < (int)sizeof(line) - 1 ? (size_t)n : sizeof(line) - 2;

        for (size_t i = 0; i < len; i++)
                if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
                        line[i] = '?';
        line[len++] = '\n';
        write_line(line, len);
}

/* What stands between two quotes, as vw_log_value() was given it. */
static void unquote(char *text)
{
        char *to = text;

        for (; *text; text++) {
                text += text[0] == '\\' && text[1];
                *to++ = *text;
        }
        *to = '\0';
}

static bool is_key(const char *word, const char *end)
{
        size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_");

        return len && word + len == end;
}

/* The '=' of the pair that the text ends in, or NULL.  Within quotes a quote has a backslash before it: the last ="  opens them. */
static char *last_equals(char *text, bool quoted)
{
        char *space = strrchr(text, ' '), *equals = NULL;

        if (!quoted)
                return space ? strchr(space, '=') : NULL;
        for (char *at = text; (at = strstr(at, "=\"")) && at[2]; at++)
                equals = at;
        return equals;
}

/* Cuts the last key=value or key="some words" off the text.  False if it does not end in one. */
static bool cut_pair(char *text, const char **ret_key, char **ret_value)
{
        size_t len = strlen(text);
        bool quoted = len && text[len - 1] == '"';
        char *equals = last_equals(text, quoted), *space;

        if (!equals)
                return false;
        for (space = equals; space > text && *space != ' ';)
                space--;
        if (space == text || !is_key(space + 1, equals))
                return false;
        *space = *equals = '\0';
        *ret_key = space + 1;
        *ret_value = equals + 1 + quoted;
        if (quoted) {
                text[len - 1] = '\0';
                unquote(*ret_value);
        }
        return true;
}

/* {"text":"listening","path":"/run/a.sock"}: the pairs at the end become members, but none that is there already. */
static void split_pairs(char *text, json_t *object)
{
        json_t *pairs = json_object();
        const char *key;
        char *value;

        while (cut_pair(text, &key, &value))
                json_object_set_new(pairs, key, json_string(value));
        json_object_set_new(object, "text", json_string(text));
        json_object_update_missing(object, pairs);
        json_decref(pairs);
}

/* JSON is UTF-8, and a path need not be. */
static void make_utf8(char *text)
{
        json_t *string = json_string(text);

        for (char *c = text; !string && *c; c++)
                if ((unsigned char)*c > '~')
                        *c = '?';
        json_decref(string);
}

static void write_json(enum vw_log_level level, const char *component, const char *text)
{
        json_t *object = json_object();
        char copy[1024], *line;
        struct timespec now;
        size_t len;

        snprintf(copy, sizeof(copy), "%s", text);
        make_utf8(copy);
        clock_gettime(CLOCK_REALTIME, &now);
        json_object_set_new(object, "time_ms", json_integer(now.tv_sec * 1000LL + now.tv_nsec / 1000000));
        json_object_set_new(object, "level", json_string(level_words[level]));
        json_object_set_new(object, "component", json_string(component));
        split_pairs(copy, object);
        line = json_dumps(object, JSON_COMPACT);
        json_decref(object);
        if (!line)
                return;
        len = strlen(line);
        line[len] = '\n'; /* in the place of the final zero */
        write_line(line, len + 1);
        free(line);
}

void log_event(void *ctx, enum vw_log_level level, const char *component, const char *text)
{
        (void)ctx;
        if ((int)level <= log_config.level)
                (log_config.format ? write_json : write_text)(level, component, text);
}

void log_start(void)
{
        json_object_seed(0); /* from /dev/urandom, which a sandbox does not have */
        vw_set_log((enum vw_log_level)log_config.level, log_event, NULL);
}

#define LINES_PER_SECOND 10 /* of one reason; the library keeps to the same */

/* The number of lines held back before this one, or -1 to hold it back too.  The format is the reason. */
static long count_line(const char *fmt)
{
        static struct reason {
                const char *fmt;
                time_t second;
                unsigned lines;
                long suppressed;
        } reasons[64], *r = reasons;
        struct timespec now;
        long suppressed;

        while (r < reasons + ARRAY_LEN(reasons) - 1 && r->fmt && r->fmt != fmt)
                r++;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (r->fmt != fmt || r->second != now.tv_sec) {
                r->fmt = fmt;
                r->second = now.tv_sec;
                r->lines = 0;
        }
        if (r->lines++ >= LINES_PER_SECOND) {
                r->suppressed++;
                return -1;
        }
        suppressed = r->suppressed;
        r->suppressed = 0;
        return suppressed;
}

void log_say(enum vw_log_level level, const char *component, const char *fmt, ...)
{
        long suppressed;
        char text[768];
        va_list ap;
        int n;

        if ((int)level > log_config.level)
                return;
        suppressed = count_line(fmt);
        if (suppressed < 0)
                return;
        va_start(ap, fmt);
        n = vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        if (suppressed && n < (int)sizeof(text))
                snprintf(text + n, sizeof(text) - (size_t)n, " suppressed=%ld", suppressed);
        log_event(NULL, level, component, text);
}
