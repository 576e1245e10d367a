/* Command line options under a table: a row gives name, argument, kind, limits, default and help, and everything else
 * follows from it: the checks, the one-line error that names option, value and limit, and the text of --help.
 * popt splits the words; what they mean is decided here. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum opt_kind {
        OPT_FLAG,     /* bool; takes no value */
        OPT_TEXT,     /* const char *; not empty */
        OPT_UNSIGNED, /* unsigned, least..greatest */
        OPT_SIGNED,   /* int, least..greatest */
        OPT_WORD,     /* int: the place in `words` */
        OPT_OTHER,    /* what `parse` makes of it */
};

struct opt {
        const char *name; /* without the dashes */
        const char *arg;  /* PATH, N, ... as --help shows it */
        enum opt_kind kind;
        const char *optional; /* the value of a bare --name, where that is allowed */
        size_t at;            /* offset in the group's struct */
        long least, greatest;
        const char *const *words; /* ends in NULL */
        /* 0, or -1 with what is to stand after "--name=value " in `why` */
        int (*parse)(const char *value, void *into, char *why, size_t len);
        const char *def;  /* the default as a reader should see it, or NULL */
        const char *help; /* with units */
};

/* A row for each kind; `type` is the group's struct. */
#define ROW(type, field, kind_, name_, arg_, def_, help_, ...)                                               \
        {                                                                                                    \
                .name = (name_), .arg = (arg_), .kind = (kind_), .at = offsetof(type, field), .def = (def_), \
                .help = (help_), __VA_ARGS__                                                                 \
        }
#define ROW_FLAG(type, field, name, help) ROW(type, field, OPT_FLAG, name, NULL, NULL, help, .least = 0)
#define ROW_TEXT(type, field, name, arg, def, help)                                                          \
        ROW(type, field, OPT_TEXT, name, arg, def, help, .least = 0)
#define ROW_NUMBER(type, field, name, least_, greatest_, def, help)                                          \
        ROW(type, field, OPT_UNSIGNED, name, "N", def, help, .least = (least_), .greatest = (greatest_))
#define ROW_SIGNED(type, field, name, least_, greatest_, def, help)                                          \
        ROW(type, field, OPT_SIGNED, name, "N", def, help, .least = (least_), .greatest = (greatest_))
#define ROW_WORD(type, field, name, words_, def, help)                                                       \
        ROW(type, field, OPT_WORD, name, NULL, def, help, .words = (words_))
#define ROW_OTHER(type, field, name, arg, parse_, def, help)                                                 \
        ROW(type, field, OPT_OTHER, name, arg, def, help, .parse = (parse_))

/* Rows that fill one struct, whose values before parsing are the defaults. */
struct opt_group {
        const char *title; /* over the rows in --help, or NULL */
        const struct opt *rows;
        unsigned n_rows;
        void *into;
};

struct opt_page {
        const char *command; /* "vwire device" */
        const char *usage;   /* what stands after it */
        const char *about;
        const char *topics;   /* after it, as it stands; or NULL */
        const char *examples; /* last in --help */
        const struct opt_group *const *groups;
        unsigned n_groups;
        unsigned args_max; /* words that are no option */
};

#define OPT_WHY_LEN 400 /* bytes of a usage error: values are cut to 100 */

enum opt_verdict { OPTS_RUN, OPTS_HELP, OPTS_WRONG };

struct opts; /* owns the words that the options point to */

/* Fills the groups' structs.  OPTS_WRONG: `why` is the whole line, without a newline.  opts_free(*ret_opts) in every case. */
enum opt_verdict opts_parse(const struct opt_page *page, int argc, char **argv, struct opts **ret_opts,
                            char why[OPT_WHY_LEN]);
void opts_free(struct opts *opts);

/* All of a subcommand: prints --help or the error, or runs it with the words that are no option (ending in NULL).  The status to exit with. */
int opts_run(const struct opt_page *page, int argc, char **argv, int (*run)(const char *const *words));

/* The words that are no option, ending in NULL. */
const char *const *opts_args(const struct opts *opts);

/* A command of a command, as in `vwire ctl PATH stats`. */
struct opt_command {
        const char *name;
        unsigned least, most; /* words after it */
        int (*run)(const char *const *words);
};

/* The one that words[0] names, with as many words after it as it takes.  NULL: the error has been printed. */
const struct opt_command *opts_command(const char *command, const struct opt_command *commands, unsigned n,
                                       const char *const *words);

void opts_help(const struct opt_page *page, FILE *out);

/* One line without control characters on stderr; returns the exit status 2. */
int opts_refuse(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The one of `names` that is nearest to a mistyped one. */
const char *opts_nearest(const char *typed, const char *const *names, unsigned n);

/* Decimal digits, perhaps after a minus, and nothing else; saturates instead of wrapping. */
bool opts_number(const char *text, long *ret_value);
