#include "opts.h"

#include <limits.h>
#include <popt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define SHOWN        100 /* bytes of a word that an error repeats */
#define COMMANDS_MAX 16  /* that a command has */

struct opts {
        poptContext popt;
        struct poptOption *table; /* popt keeps pointing to it */
        const struct opt **rows;  /* row of each popt value, from 1 */
        void **into;
        char **kept; /* values, which popt leaves to us */
        unsigned n, n_kept;
};

void opts_free(struct opts *opts)
{
        if (!opts)
                return;
        if (opts->popt)
                poptFreeContext(opts->popt);
        for (unsigned i = 0; i < opts->n_kept; i++)
                free(opts->kept[i]);
        free(opts->table);
        free(opts->rows);
        free(opts->into);
        free(opts->kept);
        free(opts);
}

const char *const *opts_args(const struct opts *opts)
{
        static const char *const none[] = { NULL };
        const char **args = poptGetArgs(opts->popt);

        return args ? args : none;
}

/* ---- what went wrong, in one line ---- */

static void keep_one_line(char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        *text = '?';
}

int opts_refuse(const char *command, const char *fmt, ...)
{
        char why[OPT_WHY_LEN];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(why, sizeof(why), fmt, ap);
        va_end(ap);
        keep_one_line(why);
        fprintf(stderr, "%s: %s\n", command, why);
        return STATUS_USAGE;
}

__attribute__((format(printf, 3, 4))) static enum opt_verdict wrong(const struct opt_page *page, char *why,
                                                                    const char *fmt, ...)
{
        int n = snprintf(why, OPT_WHY_LEN, "%s: ", page->command);
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(why + n, OPT_WHY_LEN - (size_t)n, fmt, ap);
        va_end(ap);
        keep_one_line(why);
        return OPTS_WRONG;
}

/* Edit distance, kept to one row of the table: names are short and this runs once, before exit. */
static unsigned distance(const char *a, const char *b)
{
        unsigned row[64];
        size_t len = strlen(b) < ARRAY_LEN(row) - 1 ? strlen(b) : ARRAY_LEN(row) - 1;

        for (unsigned j = 0; j <= len; j++)
                row[j] = j;
        for (unsigned i = 1; *a; a++, i++) {
                unsigned diagonal = row[0];

                row[0] = i;
                for (unsigned j = 1; j <= len; j++) {
                        unsigned change = diagonal + (*a != b[j - 1]);

                        diagonal = row[j];
                        if (row[j - 1] < row[j])
                                row[j] = row[j - 1];
                        row[j]++;
                        if (change < row[j])
                                row[j] = change;
                }
        }
        return row[len];
}

const char *opts_nearest(const char *typed, const char *const *names, unsigned n)
{
        const char *best = NULL;
        unsigned least = UINT_MAX;

        for (unsigned i = 0; i < n; i++) {
                /* what was cut short is meant more often than what is spelled alike */
                unsigned d = strncmp(names[i], typed, strlen(typed)) ? 2 * distance(typed, names[i]) : 1;

                if (d < least) {
                        least = d;
                        best = names[i];
                }
        }
        return best;
}

static enum opt_verdict unknown(const struct opt_page *page, const struct opts *opts, const char *word,
                                char *why)
{
        const char *names[64] = { "help" }, *name = word + strspn(word, "-");
        unsigned n = 1;
        char typed[SHOWN];

        for (unsigned i = 0; i < opts->n && n < ARRAY_LEN(names); i++)
                names[n++] = opts->rows[i]->name;
        snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(name, "="), name);
        return wrong(page, why, "unknown option %.*s%s: did you mean --%s?", (int)(name - word), word, typed,
                     opts_nearest(typed, names, n));
}

/* ---- values ---- */

bool opts_number(const char *text, long *ret_value)
{
        bool negative = *text == '-';
        long value = 0;

        text += negative;
        if (!*text)
                return false;
        for (; *text; text++) {
                if (*text < '0' || *text > '9')
                        return false;
                value = value > LONG_MAX / 100 ? LONG_MAX / 100 : value * 10 + (*text - '0');
        }
        *ret_value = negative ? -value : value;
        return true;
}

static int set_number(const struct opt *row, const char *value, void *into, char *why, size_t len)
{
        long v;

        if (!opts_number(value, &v))
                snprintf(why, len, "is not a number of %ld..%ld", row->least, row->greatest);
        else if (v < row->least)
                snprintf(why, len, "is under the limit %ld", row->least);
        else if (v > row->greatest)
                snprintf(why, len, "is over the limit %ld", row->greatest);
        else {
                if (row->kind == OPT_UNSIGNED)
                        *(unsigned *)into = (unsigned)v;
                else
                        *(int *)into = (int)v;
                return 0;
        }
        return -1;
}

static int set_word(const struct opt *row, const char *value, int *into, char *why, size_t len)
{
        size_t n = (size_t)snprintf(why, len, "is not one of ");

        for (int i = 0; row->words[i]; i++) {
                if (!strcmp(row->words[i], value)) {
                        *into = i;
                        return 0;
                }
                n += (size_t)snprintf(why + n, len - n, "%s%s", i ? ", " : "", row->words[i]);
        }
        return -1;
}

static int set_value(const struct opt *row, const char *value, void *into, char *why, size_t len)
{
        switch (row->kind) {
        case OPT_FLAG:
                *(bool *)into = true;
                return 0;
        case OPT_TEXT:
                snprintf(why, len, "is empty: %s is needed", row->arg);
                if (!*value)
                        return -1;
                *(const char **)into = value;
                return 0;
        case OPT_UNSIGNED:
        case OPT_SIGNED:
                return set_number(row, value, into, why, len);
        case OPT_WORD:
                return set_word(row, value, into, why, len);
        case OPT_OTHER:
                break;
        }
        return row->parse(value, into, why, len);
}

/* ---- the words ---- */

static struct opts *opts_new(const struct opt_page *page, int argc, char **argv)
{
        struct opts *opts = calloc(1, sizeof(*opts));
        unsigned n = 0;

        if (!opts)
                return NULL;
        for (unsigned g = 0; g < page->n_groups; g++)
                n += page->groups[g]->n_rows;
        opts->table = calloc(n + 2, sizeof(*opts->table));
        opts->rows = calloc(n + 1, sizeof(*opts->rows));
        opts->into = calloc(n + 1, sizeof(*opts->into));
        opts->kept = calloc((size_t)argc + 1, sizeof(*opts->kept));
        if (!opts->table || !opts->rows || !opts->into || !opts->kept)
                goto fail;
        for (unsigned g = 0; g < page->n_groups; g++) {
                const struct opt_group *group = page->groups[g];

                for (unsigned i = 0; i < group->n_rows; i++) {
                        const struct opt *row = &group->rows[i];

                        opts->rows[opts->n] = row;
                        opts->into[opts->n] = (char *)group->into + row->at;
                        opts->table[opts->n] = (struct poptOption){
                                .longName = row->name,
                                .argInfo = row->kind == OPT_FLAG ? POPT_ARG_NONE : POPT_ARG_STRING,
                                .val = (int)opts->n + 1,
                        };
                        if (row->optional)
                                opts->table[opts->n].argInfo |= POPT_ARGFLAG_OPTIONAL;
                        opts->n++;
                }
        }
        opts->table[n] = (struct poptOption){ .longName = "help", .shortName = 'h', .val = (int)n + 1 };
        opts->popt = poptGetContext(NULL, argc, (const char **)argv, opts->table, POPT_CONTEXT_NO_EXEC);
        if (opts->popt)
                return opts;
fail:
        opts_free(opts);
        return NULL;
}

static enum opt_verdict popt_failed(const struct opt_page *page, const struct opts *opts, int error,
                                    char *why)
{
        const char *word = poptBadOption(opts->popt, POPT_BADOPTION_NOALIAS);
        int name = (int)strcspn(word, "=");

        switch (error) {
        case POPT_ERROR_BADOPT:
                return unknown(page, opts, word, why);
        case POPT_ERROR_NOARG:
                return wrong(page, why, "%.*s needs a value", SHOWN, word);
        case POPT_ERROR_UNWANTEDARG:
                return wrong(page, why, "%.*s: %.*s takes no value", SHOWN, word, name < SHOWN ? name : SHOWN,
                             word);
        default:
                return wrong(page, why, "%.*s: %s", SHOWN, word, poptStrerror(error));
        }
}

enum opt_verdict opts_parse(const struct opt_page *page, int argc, char **argv, struct opts **ret_opts,
                            char why[OPT_WHY_LEN])
{
        struct opts *opts = *ret_opts = opts_new(page, argc, argv);
        unsigned n_args = 0;
        int r;

        if (!opts)
                return wrong(page, why, "out of memory");
        while ((r = poptGetNextOpt(opts->popt)) > 0) {
                unsigned i = (unsigned)r - 1;
                char *given = poptGetOptArg(opts->popt), reason[OPT_WHY_LEN / 2];
                const char *value = given ? given : "";

                if (!given && i < opts->n && opts->rows[i]->optional)
                        value = opts->rows[i]->optional;
                if (given)
                        opts->kept[opts->n_kept++] = given;
                if (i == opts->n)
                        return OPTS_HELP;
                if (set_value(opts->rows[i], value, opts->into[i], reason, sizeof(reason)) < 0)
                        return wrong(page, why, "--%s=%.*s %s", opts->rows[i]->name, SHOWN, value, reason);
        }
        if (r < -1)
                return popt_failed(page, opts, r, why);
        for (const char *const *arg = opts_args(opts); *arg; arg++)
                if (++n_args > page->args_max)
                        return wrong(page, why, "%.*s is a word too many", SHOWN, *arg);
        return OPTS_RUN;
}

/* ---- --help ---- */

#define HELP_COLUMN 30  /* where the explanations begin */
#define HELP_WIDTH  100 /* columns of a line */

/* `text` from the column that the line has reached, wrapped. */
static void print_wrapped(FILE *out, const char *text, unsigned column, unsigned indent)
{
        unsigned at = column;

        while (*text) {
                size_t len = strcspn(text, " ");

                if (at > indent && at + 1 + len > HELP_WIDTH) {
                        fprintf(out, "\n%*s", (int)indent, "");
                        at = indent;
                } else if (at > indent) {
                        fputc(' ', out);
                        at++;
                }
                at += (unsigned)fprintf(out, "%.*s", (int)len, text);
                text += len + (text[len] == ' ');
        }
        fputc('\n', out);
}

static void print_row(FILE *out, const struct opt *row)
{
        char left[128], text[600];
        size_t n = (size_t)snprintf(left, sizeof(left), "  --%s%s", row->name,
                                    row->optional           ? "[="
                                    : row->kind == OPT_FLAG ? ""
                                                            : "=");

        if (row->kind == OPT_WORD)
                for (int i = 0; row->words[i]; i++)
                        n += (size_t)snprintf(left + n, sizeof(left) - n, "%s%s", i ? "|" : "",
                                              row->words[i]);
        else if (row->arg)
                n += (size_t)snprintf(left + n, sizeof(left) - n, "%s%s", row->arg, row->optional ? "]" : "");

        size_t t = (size_t)snprintf(text, sizeof(text), "%s", row->help);

        if (row->kind == OPT_UNSIGNED || row->kind == OPT_SIGNED)
                t += (size_t)snprintf(text + t, sizeof(text) - t, ", %ld..%ld", row->least, row->greatest);
        if (row->def)
                snprintf(text + t, sizeof(text) - t, " [%s]", row->def);

        fputs(left, out);
        if (n >= HELP_COLUMN)
                fprintf(out, "\n%*s", HELP_COLUMN, "");
        else
                fprintf(out, "%*s", (int)(HELP_COLUMN - n), "");
        print_wrapped(out, text, HELP_COLUMN, HELP_COLUMN);
}

void opts_help(const struct opt_page *page, FILE *out)
{
        fprintf(out, "usage: %s %s\n\n", page->command, page->usage);
        print_wrapped(out, page->about, 0, 0);
        if (page->topics)
                fprintf(out, "\n%s", page->topics);
        for (unsigned g = 0; g < page->n_groups; g++) {
                const struct opt_group *group = page->groups[g];

                fprintf(out, "\n%s:\n", group->title ? group->title : "options");
                for (unsigned i = 0; i < group->n_rows; i++)
                        print_row(out, &group->rows[i]);
        }
        if (page->examples)
                fprintf(out, "\nexamples:\n%s", page->examples);
}

/* ---- a subcommand ---- */

int opts_run(const struct opt_page *page, int argc, char **argv, int (*run)(const char *const *words))
{
        char why[OPT_WHY_LEN];
        struct opts *opts;
        int status = STATUS_OK;

        switch (opts_parse(page, argc, argv, &opts, why)) {
        case OPTS_RUN:
                status = run(opts_args(opts));
                break;
        case OPTS_HELP:
                opts_help(page, stdout);
                break;
        case OPTS_WRONG:
                fprintf(stderr, "%s\n", why);
                status = opts ? STATUS_USAGE : STATUS_FAILED; /* without any it is the memory that is wrong */
                break;
        }
        opts_free(opts);
        return status;
}

const struct opt_command *opts_command(const char *command, const struct opt_command *commands, unsigned n,
                                       const char *const *words)
{
        const char *names[COMMANDS_MAX];
        unsigned given = 0;

        while (words[1 + given])
                given++;
        for (unsigned i = 0; i < n; i++) {
                const struct opt_command *c = &commands[i];

                names[i] = c->name;
                if (strcmp(words[0], c->name) != 0)
                        continue;
                if (given >= c->least && given <= c->most)
                        return c;
                if (c->least == c->most)
                        opts_refuse(command, "%s takes %u word%s, not %u: see %s --help", c->name, c->most,
                                    c->most == 1 ? "" : "s", given, command);
                else
                        opts_refuse(command, "%s takes %u to %u words, not %u: see %s --help", c->name,
                                    c->least, c->most, given, command);
                return NULL;
        }
        opts_refuse(command, "unknown command %.100s: did you mean %s?", words[0],
                    opts_nearest(words[0], names, n));
        return NULL;
}
