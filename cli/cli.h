/* What the subcommands share: how they are called, and how the program ends. */
#pragma once

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum {
        STATUS_OK = 0,
        STATUS_FAILED = 1,
        STATUS_USAGE = 2,
};

/* One file each.  argv[0] is the subcommand's own name; returns the exit status. */
int cmd_device(int argc, char **argv);
int cmd_driver(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_demo(int argc, char **argv);
