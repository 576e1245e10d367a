/* vwire: one program, a file for each subcommand. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "opts.h"
#include "vwire/types.h"

static const struct command {
        const char *name, *does;
        int (*run)(int argc, char **argv);
} commands[] = {
        {"device",  "serve a virtio-net device: give a VM a NIC",           cmd_device},
        { "driver", "drive a vhost-user device: give a namespace a NIC",    cmd_driver},
        { "ctl",    "look at a running device or driver, and set it",       cmd_ctl   },
        { "demo",   "show both ends at work: TCP between two namespaces",   cmd_demo  },
        { "bench",  "the published experiments, measured and shown beside", cmd_bench },
};

static void print_help(FILE *out)
{
        fputs("usage: vwire COMMAND [options]\n\n"
              "virtio-net in user space: both ends of a vhost-user link.\n\ncommands:\n",
              out);
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].does);
        fputs("\n`vwire COMMAND --help` explains a command; `vwire --version` says which this is.\n", out);
}

static int unknown_command(const char *word)
{
        const char *names[ARRAY_LEN(commands)];

        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                names[i] = commands[i].name;
        return opts_refuse("vwire", "unknown command %.100s: did you mean %s?", word,
                           opts_nearest(word, names, ARRAY_LEN(commands)));
}

/* What is closed of stdin, stdout and stderr becomes /dev/null: the next socket or capture would take its number, and with it the log. */
static bool hold_standard_fds(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
                        return false;
        return true;
}

static int run(int argc, char **argv)
{
        const char *word = argc > 1 ? argv[1] : NULL;

        if (!word)
                return opts_refuse("vwire", "a command is missing: see vwire --help");
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                if (!strcmp(word, commands[i].name))
                        return commands[i].run(argc - 1, argv + 1);
        if (!strcmp(word, "--version")) {
                printf("vwire %s\n", vw_version());
                return STATUS_OK;
        }
        if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
                print_help(stdout);
                return STATUS_OK;
        }
        return *word == '-' ? opts_refuse("vwire", "unknown option %.100s: see vwire --help", word)
                            : unknown_command(word);
}

int main(int argc, char **argv)
{
        int status;

        if (!hold_standard_fds())
                return STATUS_FAILED;
        status = run(argc, argv);
        if ((fflush(stdout) == EOF || ferror(stdout)) && status == STATUS_OK) {
                opts_refuse("vwire", "standard output could not be written");
                return STATUS_FAILED;
        }
        return status;
}
