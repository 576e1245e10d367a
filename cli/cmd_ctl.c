/* `vwire ctl PATH COMMAND`: a look at a running device or driver, and its settings. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"
#include "ctl/client.h"
#include "ctl/render.h"
#include "ctl/sock.h"
#include "opts.h"
#include "vwire/device.h"

static struct ctl_options {
        bool json, prometheus;
        unsigned watch_ms; /* 0: once */
        const char *replay;
} options;

#define WATCH_MS_LEAST 100 /* the counters are read on the control thread, which has other work */
#define WATCH_MS_MOST  3600000

static const struct opt rows[] = {
        ROW_FLAG(struct ctl_options, json, "json", "the answer as JSON"),
        ROW_FLAG(struct ctl_options, prometheus, "prometheus", "stats in Prometheus' text format"),
        ROW(struct ctl_options, watch_ms, OPT_UNSIGNED, "watch", "MS", NULL,
            "stats as rates (with --json as they are), every MS milliseconds (bare: 1000) until SIGINT",
            .optional = "1000", .least = WATCH_MS_LEAST, .greatest = WATCH_MS_MOST),
        ROW_TEXT(
                struct ctl_options, replay, "replay", "FILE", NULL,
                "no PATH, no COMMAND: make the decisions of a trace again, and tell whether they are the same"),
};

static const struct opt_group group = { .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &options };

static const struct opt_group *const groups[] = { &group };

static const struct opt_page page = {
        .command = "vwire ctl",
        .usage = "PATH COMMAND [options] | --replay=FILE",
        .about =
                "Looks at a running device or driver through the socket that its --ctl=PATH made, and sets it under load.",
        .topics =
                "commands:\n"
                "  stats                 what every queue has done\n"
                "  get [KEY...]          settings, as `set` takes them\n"
                "  set KEY=VALUE...      all of them at once, or none; q3.tx-usecs=64 for one queue\n"
                "  why [QUEUE]           what each queue is doing and what it waits for\n"
                "  pcap FILE|off         capture what crosses the port, or stop that\n"
                "  trace FILE|off        a device: record what polling and coalescing decide; off writes it\n"
                "  link up|down          the link state that the other end sees\n"
                "  features              what was negotiated\n"
                "  stop                  orderly stop; returns when it is done\n",
        .examples =
                "  vwire ctl /run/vm1.ctl stats --watch\n"
                "  vwire ctl /run/vm1.ctl set tx-usecs=64 tx-frames=64\n"
                "  vwire ctl /run/vm1.ctl pcap /dev/stdout | tcpdump -r -\n"
                "  vwire ctl /run/vm1.ctl trace /tmp/vm1.trace; sleep 1; vwire ctl /run/vm1.ctl trace off\n"
                "  vwire ctl --replay=/tmp/vm1.trace\n",
        .groups = groups,
        .n_groups = ARRAY_LEN(groups),
        .args_max = 1026,
};

/* ---- one command, one answer ---- */

static int usage(const char *why)
{
        return opts_refuse("vwire ctl", "%s: see vwire ctl --help", why);
}

static int failed(const char *why)
{
        opts_refuse("vwire ctl", "%s", why);
        return STATUS_FAILED;
}

static const char *path;
static int fd = -1; /* connected when the words are known to be right */

static int reach(void)
{
        const char *why;

        if (fd < 0)
                fd = sock_connect(path, &why);
        return fd < 0 ? failed(why) : STATUS_OK;
}

/* A status for exit; STATUS_OK comes with a reply. */
static int call(const char *command, json_t *arguments, int file, struct ctl_reply *ret_reply)
{
        const char *why;

        if (reach() != STATUS_OK) {
                json_decref(arguments);
                return STATUS_FAILED;
        }
        if (ctl_call(fd, command, arguments, file, ret_reply, &why) < 0)
                return failed(why);
        if (ret_reply->value)
                return STATUS_OK;
        opts_refuse("vwire ctl", "%s: %s", ret_reply->class_name, ret_reply->message);
        return STATUS_FAILED;
}

static int show(const char *command, json_t *arguments, void (*render)(FILE *out, const json_t *value))
{
        struct ctl_reply reply;
        int status = call(command, arguments, -1, &reply);

        if (status != STATUS_OK)
                return status;
        if (options.json)
                printf("%s\n", reply.raw);
        else
                render(stdout, reply.value);
        ctl_reply_done(&reply);
        return STATUS_OK;
}

static int tell(const char *command, json_t *arguments, int file)
{
        struct ctl_reply reply;
        int status = call(command, arguments, file, &reply);

        if (status == STATUS_OK) {
                if (options.json)
                        printf("%s\n", reply.raw);
                ctl_reply_done(&reply);
        }
        return status;
}

/* ---- stats ---- */

static unsigned terminal_width(void)
{
        struct winsize size;

        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 100;
}

static void render_table(FILE *out, const json_t *stats)
{
        render_stats(out, stats, terminal_width());
}

static void render_words(FILE *out, const json_t *why)
{
        render_why(out, why, isatty(STDOUT_FILENO) ? terminal_width() : 0);
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
        (void)number;
        interrupted = 1;
}

/* On a terminal over the last table, else one block after the other. */
static void paint_rates(const json_t *before, const json_t *after)
{
        char *text = NULL;
        size_t len;
        FILE *page_out = open_memstream(&text, &len);

        if (!page_out)
                return;
        render_rates(page_out, before, after);
        fclose(page_out);
        if (isatty(STDOUT_FILENO)) {
                fputs("\033[H", stdout);
                for (const char *c = text; *c; c++)
                        fputs(*c == '\n' ? "\033[K\n" : (char[]){ *c, '\0' }, stdout);
                fputs("\033[J", stdout);
        } else {
                printf("%s\n", text);
        }
        free(text);
}

static int watch(void)
{
        struct sigaction action = { .sa_handler = on_signal };
        struct ctl_reply before = { 0 }, after;
        int status;

        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        if (isatty(STDOUT_FILENO) && !options.json)
                fputs("\033[2J", stdout);
        while ((status = call("stats", NULL, -1, &after)) == STATUS_OK) {
                if (options.json)
                        printf("%s\n", after.raw);
                else
                        paint_rates(before.value, after.value);
                fflush(stdout);
                ctl_reply_done(&before);
                before = after;
                if (!interrupted)
                        poll(NULL, 0, (int)options.watch_ms);
                if (interrupted || ferror(stdout))
                        break;
        }
        ctl_reply_done(&before);
        return status;
}

/* ---- the commands ---- */

static int run_stats(const char *const *words)
{
        (void)words;
        if (options.watch_ms)
                return watch();
        return show("stats", NULL, options.prometheus ? render_prometheus : render_table);
}

static int run_features(const char *const *words)
{
        (void)words;
        return show("stats", NULL, render_features);
}

static int run_get(const char *const *words)
{
        json_t *keys;

        if (!*words)
                return show("get", NULL, render_settings);
        keys = json_array();
        for (unsigned i = 0; words[i]; i++)
                json_array_append_new(keys, json_string(words[i]));
        return show("get", json_pack("{s:o}", "keys", keys), render_settings);
}

static int run_set(const char *const *words)
{
        json_t *arguments = json_object();

        for (unsigned i = 0; words[i]; i++) {
                struct vw_setting setting;
                const char *why, *value = strchr(words[i], '=');
                char key[64];

                if (vw_setting_parse(words[i], &setting, &why) < 0) {
                        json_decref(arguments);
                        return opts_refuse("vwire ctl", "%s", why);
                }
                snprintf(key, sizeof(key), "%.*s", (int)(value - words[i]), words[i]);
                json_object_set_new(arguments, key, json_string(value + 1));
        }
        return tell("set", arguments, -1);
}

static int run_why(const char *const *words)
{
        long index;

        if (!*words)
                return show("why", NULL, render_words);
        if (!opts_number(*words + (**words == 'q'), &index) || index < 0 || index > 2 * VW_QUEUE_PAIRS_MAX)
                return opts_refuse("vwire ctl", "why %.100s: a queue is a number of 0..%d", *words,
                                   2 * VW_QUEUE_PAIRS_MAX);
        return show("why", json_pack("{s:I}", "queue", (json_int_t)index), render_words);
}

/* The file is opened here, with the rights of whoever asks, and handed over. */
static int switch_file(const char *command, const char *name)
{
        int file, status;

        if (!strcmp(name, "off"))
                return tell(command, json_pack("{s:b}", "on", 0), -1);
        if (reach() != STATUS_OK) /* before the file is cut */
                return STATUS_FAILED;
        file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0) {
                opts_refuse("vwire ctl", "%.200s: %s", name, strerror(errno));
                return STATUS_FAILED;
        }
        status = tell(command, json_pack("{s:b}", "on", 1), file);
        close(file);
        return status;
}

static int run_pcap(const char *const *words)
{
        return switch_file("pcap", *words);
}

static int run_trace(const char *const *words)
{
        return switch_file("trace", *words);
}

static int replay(void)
{
        const char *why;
        int file = open(options.replay, O_RDONLY | O_CLOEXEC);
        int64_t n;

        if (file < 0) {
                opts_refuse("vwire ctl", "%.200s: %s", options.replay, strerror(errno));
                return STATUS_FAILED;
        }
        n = vw_trace_replay(file, &why);
        if (n < 0)
                return failed(why);
        printf("all decisions are the same calls=%lld\n", (long long)n);
        return STATUS_OK;
}

static int run_link(const char *const *words)
{
        bool up = !strcmp(*words, "up");

        if (!up && strcmp(*words, "down") != 0)
                return opts_refuse("vwire ctl", "link %.100s is not one of up, down", *words);
        return tell("link", json_pack("{s:b}", "up", up), -1);
}

#define STOP_MS 2000 /* it has one second for an orderly stop */

static int run_stop(const char *const *words)
{
        int status = tell("stop", NULL, -1);
        struct pollfd closed = { .fd = fd, .events = POLLIN };

        (void)words;
        if (status == STATUS_OK && poll(&closed, 1, STOP_MS) == 0)
                return failed("it was told to stop and still runs after 2 s");
        return status;
}

static const struct opt_command commands[] = {
        {"stats",     0, 0,    run_stats   },
        { "get",      0, 1024, run_get     },
        { "set",      1, 1024, run_set     },
        { "why",      0, 1,    run_why     },
        { "pcap",     1, 1,    run_pcap    },
        { "trace",    1, 1,    run_trace   },
        { "link",     1, 1,    run_link    },
        { "features", 0, 0,    run_features},
        { "stop",     0, 0,    run_stop    },
};

static int run(const char *const *words)
{
        const struct opt_command *command;
        int status;

        if (options.replay)
                return words[0] ? usage("--replay goes without PATH and COMMAND") : replay();
        if (!words[0] || !words[1])
                return usage(words[0] ? "a COMMAND is missing" : "the PATH of a control socket is missing");
        command = opts_command("vwire ctl", commands, ARRAY_LEN(commands), words + 1);
        if (!command)
                return STATUS_USAGE;
        if ((options.watch_ms || options.prometheus) && command->run != run_stats)
                return opts_refuse("vwire ctl", "--%s goes with stats only",
                                   options.prometheus ? "prometheus" : "watch");
        if (options.prometheus && (options.json || options.watch_ms))
                return opts_refuse("vwire ctl", "--prometheus and --%s do not go together",
                                   options.json ? "json" : "watch");
        path = words[0];
        status = command->run(words + 2);
        if (fd >= 0)
                close(fd);
        return status;
}

int cmd_ctl(int argc, char **argv)
{
        return opts_run(&page, argc, argv, run);
}
