/* The control socket's lines: whatever comes, one line of JSON goes out, with the id and either a return or an error. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "ctl/answer.h"
#include "fuzz.h"

static void on_stats(void *ctx, struct vw_stats *ret_stats)
{
        (void)ctx;
        memset(ret_stats, 0, sizeof(*ret_stats));
        ret_stats->n_queues = 1;
        ret_stats->queues[0].ring = "split";
}

/* Values that the key allows are all that may come here. */
static int on_get(void *ctx, int queue, enum vw_key key, int64_t *ret_value)
{
        (void)ctx;
        check(key < VW_KEY_COUNT);
        *ret_value = 1;
        return queue > 1 ? -EINVAL : 0;
}

static int on_set(void *ctx, const struct vw_setting *settings, unsigned n, const char **ret_why)
{
        (void)ctx;
        for (unsigned i = 0; i < n; i++) {
                char word[32];

                check(settings[i].key < VW_KEY_COUNT && vw_key_known(settings[i].key, true));
                check(settings[i].queue >= -1 && settings[i].queue <= 2 * VW_QUEUE_PAIRS_MAX);
                check(settings[i].value >= 0 && settings[i].value <= VW_POLL_US_MAX);
                vw_setting_format(settings[i].key, settings[i].value, word, sizeof(word));
        }
        *ret_why = "busy";
        return n > 2 ? -EBUSY : 0;
}

static int on_why(void *ctx, unsigned index, char *buf, size_t len)
{
        (void)ctx;
        check(index == 0);
        return snprintf(buf, len, "q%u", index);
}

static int on_link(void *ctx, bool up)
{
        (void)ctx;
        return up ? 0 : -EOPNOTSUPP;
}

static void on_stop(void *ctx)
{
        (void)ctx;
}

static const struct ctl_ops ops = {
        .driver = true,
        .stats = on_stats,
        .get = on_get,
        .set = on_set,
        .why = on_why,
        .link = on_link,
        .stop = on_stop,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct text out = { 0 };
        json_t *answer;
        int fd = -1;

        ctl_answer(&ops, NULL, (const char *)data, size, &fd, &out);
        check(!out.failed && out.len && out.data[out.len - 1] == '\n');
        check(strchr(out.data, '\n') == out.data + out.len - 1);
        answer = json_loads(out.data, JSON_REJECT_DUPLICATES, NULL);
        check(json_object_size(answer) == 2 && json_object_get(answer, "id"));
        check(!json_object_get(answer, "return") != !json_object_get(answer, "error"));
        json_decref(answer);
        text_done(&out);
        return 0;
}
