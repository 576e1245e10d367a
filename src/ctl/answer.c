#include "ctl/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "ctl/proto.h"
#include "ctl/stats_json.h"

static const char *const class_names[] = {
        [CTL_INVALID_VALUE] = "invalid-value",     [CTL_UNKNOWN_KEY] = "unknown-key",
        [CTL_UNKNOWN_COMMAND] = "unknown-command", [CTL_WRONG_STATE] = "wrong-state",
        [CTL_UNSUPPORTED] = "unsupported",         [CTL_IO_ERROR] = "io-error",
};

static_assert(ARRAY_SIZE(class_names) == CTL_ERROR_COUNT, "a name for each class");

/* One command being answered. */
struct call {
        const struct ctl_ops *ops;
        void *ctx;
        json_t *args; /* an object or NULL */
        int *fd;
        struct text value;      /* what goes under "return" */
        const char *class_name; /* set by fail() */
        char message[320];
};

__attribute__((format(printf, 3, 4))) static int fail(struct call *call, enum ctl_error class,
                                                      const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(call->message, sizeof(call->message), fmt, ap);
        va_end(ap);
        call->class_name = class_names[class];
        return -1;
}

static enum ctl_error class_of(int error)
{
        switch (-error) {
        case EINVAL:
        case ERANGE:
                return CTL_INVALID_VALUE;
        case ENOENT:
                return CTL_UNKNOWN_KEY;
        case EOPNOTSUPP:
                return CTL_UNSUPPORTED;
        case ENOTCONN:
        case ENETDOWN:
        case EBUSY:
        case EALREADY:
                return CTL_WRONG_STATE;
        default:
                return CTL_IO_ERROR;
        }
}

/* ---- arguments ---- */

/* True if there are no others than `name` (NULL: none at all). */
static bool only(struct call *call, const char *name)
{
        const char *key;
        json_t *value;

        json_object_foreach (call->args, key, value)
                if (!name || strcmp(key, name) != 0) {
                        fail(call, CTL_UNKNOWN_KEY, "there is no argument %.100s here", key);
                        return false;
                }
        return true;
}

static int take_bool(struct call *call, const char *name, bool *ret_value)
{
        json_t *value = json_object_get(call->args, name);

        if (!only(call, name))
                return -1;
        if (!json_is_boolean(value))
                return fail(call, CTL_INVALID_VALUE, "%s is needed, true or false", name);
        *ret_value = json_is_true(value);
        return 0;
}

/* ---- commands ---- */

static int on_stats(struct call *call)
{
        struct vw_stats *stats;

        if (!only(call, NULL))
                return -1;
        stats = calloc(1, sizeof(*stats));
        if (!stats)
                return fail(call, CTL_IO_ERROR, "out of memory");
        call->ops->stats(call->ctx, stats);
        stats_json(&call->value, stats);
        free(stats);
        return 0;
}

/* A number as a number, a word as a string. */
static void add_setting(json_t *object, const char *name, enum vw_key key, int64_t value)
{
        char word[32];

        vw_setting_format(key, value, word, sizeof(word));
        json_object_set_new(object, name,
                            *word >= '0' && *word <= '9' ? json_integer(value) : json_string(word));
}

static void get_all(struct call *call, json_t *object)
{
        int64_t value;

        for (enum vw_key key = 0; key < VW_KEY_COUNT; key++)
                if (vw_key_known(key, call->ops->driver) && !call->ops->get(call->ctx, -1, key, &value))
                        add_setting(object, vw_key_name(key), key, value);
}

static int get_one(struct call *call, json_t *object, const char *name)
{
        struct vw_setting s;
        const char *why;
        int64_t value;
        int r;

        if (!name)
                return fail(call, CTL_INVALID_VALUE, "a key is a string");
        r = vw_key_parse(name, &s, &why);
        if (r < 0)
                return fail(call, class_of(r), "%s", why);
        if (!vw_key_known(s.key, call->ops->driver))
                return fail(call, CTL_UNKNOWN_KEY, "this end has no setting %s", vw_key_name(s.key));
        r = call->ops->get(call->ctx, s.queue, s.key, &value);
        if (r < 0)
                return fail(call, class_of(r), "%.100s: this queue has no such setting", name);
        add_setting(object, name, s.key, value);
        return 0;
}

static int on_get(struct call *call)
{
        json_t *keys = json_object_get(call->args, "keys"), *object;
        char *words;
        int r = 0;

        if (!only(call, "keys"))
                return -1;
        if (keys && !json_is_array(keys))
                return fail(call, CTL_INVALID_VALUE, "keys is a list of strings");
        object = json_object();
        if (!keys)
                get_all(call, object);
        for (size_t i = 0; i < json_array_size(keys) && r == 0; i++)
                r = get_one(call, object, json_string_value(json_array_get(keys, i)));
        words = json_dumps(object, JSON_COMPACT);
        json_decref(object);
        text_add(&call->value, "%s", words ? words : "{}");
        free(words);
        return r;
}

/* A member of `arguments` as the text that the setting's own parser reads. */
static int parse_setting(const char *key, const json_t *value, struct vw_setting *ret_setting,
                         const char **ret_why)
{
        char text[256], *number = NULL;
        const char *word = json_string_value(value);

        if (json_is_boolean(value))
                word = json_is_true(value) ? "on" : "off";
        else if (!word)
                word = number = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        snprintf(text, sizeof(text), "%s=%s", key, word ? word : "");
        free(number);
        return vw_setting_parse(text, ret_setting, ret_why);
}

#define SETTINGS_MAX 1024 /* of one command: every key of every queue of a large device */

static int on_set(struct call *call)
{
        struct vw_setting *settings;
        const char *key, *why = "";
        unsigned n = 0;
        json_t *value;
        int r = 0;

        if (json_object_size(call->args) == 0)
                return fail(call, CTL_INVALID_VALUE, "nothing to set: give KEY and value");
        if (json_object_size(call->args) > SETTINGS_MAX)
                return fail(call, CTL_INVALID_VALUE, "settings over the limit of %d at once", SETTINGS_MAX);
        settings = calloc(json_object_size(call->args), sizeof(*settings));
        if (!settings)
                return fail(call, CTL_IO_ERROR, "out of memory");
        json_object_foreach (call->args, key, value) {
                r = parse_setting(key, value, &settings[n], &why);
                if (r < 0) {
                        fail(call, class_of(r), "%s", why);
                        goto out;
                }
                if (!vw_key_known(settings[n++].key, call->ops->driver)) {
                        r = fail(call, CTL_UNKNOWN_KEY, "this end has no setting %s", key);
                        goto out;
                }
        }
        r = call->ops->set(call->ctx, settings, n, &why);
        if (r < 0)
                fail(call, class_of(r), "%s", *why ? why : strerror(-r));
        else
                text_add(&call->value, "{}");
out:
        free(settings);
        return r;
}

static void why_one(struct call *call, const struct vw_queue_stats *q)
{
        char words[1024] = "";

        call->ops->why(call->ctx, q->index, words, sizeof(words));
        text_next(&call->value);
        text_add(&call->value, "{\"index\":%u,\"kind\":\"%s\",\"text\":", q->index, stats_kind_name(q->kind));
        text_add_json(&call->value, words);
        text_add(&call->value, "}");
}

static int on_why(struct call *call)
{
        json_t *queue = json_object_get(call->args, "queue");
        bool found = !queue;
        struct vw_stats *stats;

        if (!only(call, "queue"))
                return -1;
        stats = calloc(1, sizeof(*stats));
        if (!stats)
                return fail(call, CTL_IO_ERROR, "out of memory");
        call->ops->stats(call->ctx, stats);
        text_add(&call->value, "{\"queues\":[");
        for (unsigned i = 0; i < stats->n_queues; i++) {
                const struct vw_queue_stats *q = &stats->queues[i];

                if (queue && !(json_is_integer(queue) && json_integer_value(queue) == q->index))
                        continue;
                found = true;
                why_one(call, q);
        }
        text_add(&call->value, "]}");
        if (!found)
                fail(call, CTL_INVALID_VALUE, "queue is a number under %u", stats->n_queues);
        free(stats);
        return found ? 0 : -1;
}

/* Switches what writes into the client's file.  0: the file is taken, or there was none to take. */
static int switch_file(struct call *call, int (*to)(void *ctx, int fd), int *ret_error)
{
        bool on = false;
        int r;

        if (take_bool(call, "on", &on) < 0)
                return -1;
        if (on && *call->fd < 0)
                return fail(call, CTL_INVALID_VALUE, "no file came along with the command");
        if (on && (fcntl(*call->fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
                return fail(call, CTL_INVALID_VALUE, "the file is not open for writing");
        r = to(call->ctx, on ? *call->fd : -1);
        if (r == 0 && on)
                *call->fd = -1;
        if (r == 0)
                text_add(&call->value, "{}");
        *ret_error = r;
        return 0;
}

static int on_pcap(struct call *call)
{
        int error = 0, r = switch_file(call, call->ops->pcap, &error);

        return r == 0 && error < 0 ? fail(call, class_of(error), "the capture failed: %s", strerror(-error))
                                   : r;
}

static int on_trace(struct call *call)
{
        int error = 0, r = switch_file(call, call->ops->trace, &error);

        if (r < 0 || error == 0)
                return r;
        return fail(call, class_of(error), "%s",
                    error == -EBUSY      ? "a recording is under way: end it first, with trace off"
                    : error == -EALREADY ? "there is no recording to end"
                    : error == -EINVAL   ? "a recording goes into a regular file"
                                         : strerror(-error));
}

static int on_link(struct call *call)
{
        bool up = false;
        int r;

        if (take_bool(call, "up", &up) < 0)
                return -1;
        r = call->ops->link(call->ctx, up);
        if (r < 0)
                return fail(call, class_of(r), "the link did not change: %s", strerror(-r));
        text_add(&call->value, "{}");
        return 0;
}

static int on_stop(struct call *call)
{
        if (!only(call, NULL))
                return -1;
        call->ops->stop(call->ctx);
        text_add(&call->value, "{}");
        return 0;
}

/* ---- a line ---- */

static int run_command(struct call *call, const char *name)
{
        const struct ctl_ops *ops = call->ops;
        const struct {
                const char *name;
                int (*run)(struct call *call);
                bool here; /* this end can do it */
        } commands[] = {
                {"stats",  on_stats, ops->stats},
                { "get",   on_get,   ops->get  },
                { "set",   on_set,   ops->set  },
                { "why",   on_why,   ops->why  },
                { "pcap",  on_pcap,  ops->pcap },
                { "trace", on_trace, ops->trace},
                { "link",  on_link,  ops->link },
                { "stop",  on_stop,  ops->stop },
        };

        for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
                if (!strcmp(name, commands[i].name))
                        return commands[i].here ? commands[i].run(call)
                                                : fail(call, CTL_UNSUPPORTED, "this end cannot %s", name);
        return fail(call, CTL_UNKNOWN_COMMAND, "there is no command %.100s", name);
}

static int run_request(struct call *call, json_t *request, const json_error_t *error)
{
        json_t *id = json_object_get(request, "id"), *name = json_object_get(request, "command");

        if (!request)
                return fail(call, CTL_INVALID_VALUE, "this is no JSON: %.150s", error->text);
        if (!json_is_object(request))
                return fail(call, CTL_INVALID_VALUE,
                            "a command is an object: {\"id\":1,\"command\":\"stats\"}");
        if (id && !json_is_integer(id) && !json_is_string(id) && !json_is_null(id))
                return fail(call, CTL_INVALID_VALUE, "id is a number or a string");
        if (!json_is_string(name))
                return fail(call, CTL_INVALID_VALUE, "command is needed, a string");
        call->args = json_object_get(request, "arguments");
        if (call->args && !json_is_object(call->args))
                return fail(call, CTL_INVALID_VALUE, "arguments is an object");
        return run_command(call, json_string_value(name));
}

static void add_id(struct text *out, const json_t *id)
{
        if (json_is_integer(id))
                text_add(out, "{\"id\":%" JSON_INTEGER_FORMAT, json_integer_value(id));
        else {
                text_add(out, "{\"id\":");
                text_add_json(out, json_string_value(id));
        }
}

void ctl_answer(const struct ctl_ops *ops, void *ctx, const char *line, size_t len, int *fd, struct text *out)
{
        struct call call = { .ops = ops, .ctx = ctx, .fd = fd };
        json_error_t error;
        json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
        int r = run_request(&call, request, &error);

        add_id(out, json_object_get(request, "id"));
        if (r < 0) {
                text_add(out, ",\"error\":{\"class\":\"%s\",\"message\":", call.class_name);
                text_add_json(out, call.message);
                text_add(out, "}}\n");
        } else {
                text_add(out, ",\"return\":%s}\n", call.value.data);
        }
        out->failed |= call.value.failed;
        text_done(&call.value);
        json_decref(request);
}
