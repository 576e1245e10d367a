#include "ctl/text.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_done(struct text *t)
{
        free(t->data);
        *t = (struct text){ 0 };
}

static bool reserve(struct text *t, size_t more)
{
        size_t room = t->room ? t->room : 256;
        char *data;

        while (room < t->len + more + 1)
                room *= 2;
        if (room == t->room)
                return true;
        data = realloc(t->data, room);
        if (!data) {
                t->failed = true;
                return false;
        }
        t->data = data;
        t->room = room;
        return true;
}

void text_add(struct text *t, const char *fmt, ...)
{
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(NULL, 0, fmt, ap);
        va_end(ap);
        if (t->failed || n < 0 || !reserve(t, (size_t)n))
                return;
        va_start(ap, fmt);
        t->len += (size_t)vsnprintf(t->data + t->len, t->room - t->len, fmt, ap);
        va_end(ap);
}

void text_add_bytes(struct text *t, const char *bytes, size_t n)
{
        if (t->failed || !reserve(t, n))
                return;
        memcpy(t->data + t->len, bytes, n);
        t->len += n;
        t->data[t->len] = '\0';
}

/* As a JSON string, whatever the bytes are.  NULL: out of memory. */
static json_t *string_of_any(const char *value)
{
        json_t *string = json_string(value);
        char *plain;

        if (string)
                return string;
        plain = strdup(value);
        if (!plain)
                return NULL;
        for (char *c = plain; *c; c++)
                if (*c & 0x80)
                        *c = '?';
        string = json_string(plain);
        free(plain);
        return string;
}

void text_add_json(struct text *t, const char *value)
{
        json_t *string = value ? string_of_any(value) : json_null();
        char *encoded;

        encoded = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
        json_decref(string);
        if (encoded)
                text_add(t, "%s", encoded);
        else
                t->failed = true;
        free(encoded);
}

void text_next(struct text *t)
{
        if (t->len && !strchr("{[", t->data[t->len - 1]))
                text_add(t, ",");
}
