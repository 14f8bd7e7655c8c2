/*
 * config_print.c - prints a config as a commented ini file, and the options of both programs as a page of docs/.
 */
#include "config/schema.h"

/* Prints `text` as comment lines of at most 100 columns. */
static void print_comment(FILE *to, const char *text)
{
    enum { COLUMNS = 98 };
    struct bytes rest = bytes_of(text);
    struct bytes word;
    size_t column = 0;
    while (word_next(&rest, &word)) {
        if (column == 0 || column + 1 + word.len > COLUMNS) {
            (void)fputs(column ? "\n#" : "#", to);
            column = 1;
        }
        (void)fprintf(to, " %.*s", (int)word.len, word.data);
        column += 1 + word.len;
    }
    (void)fputc('\n', to);
}

/* Prints the default, the bounds, and whether a reload applies the option. */
static void print_bounds(const struct option *option, FILE *to)
{
    char line[OPTION_REASON_MAX * 2];
    char expected[OPTION_REASON_MAX];
    option_expected(option, expected, sizeof expected);
    (void)snprintf(line, sizeof line, "Default: %s. %c%s. Changed by a %s.",
                   *option->initial ? option->initial : "empty", expected[0] - 'a' + 'A',
                   expected + 1, option->reload == OPTION_RELOAD ? "reload" : "restart");
    print_comment(to, line);
}

static void print_option(const struct option *option, const void *owner, FILE *to)
{
    char buffer[OPTION_TEXT_MAX];
    struct bytes text = option_text(option, owner, buffer);
    print_comment(to, option->sentence);
    print_bounds(option, to);
    (void)fprintf(to, "%s =%s%.*s\n\n", option->name, text.len ? " " : "", (int)text.len,
                  text.data);
}

static void print_item(const struct group *group, const struct group_item *item, FILE *to)
{
    char buffer[OPTION_TEXT_MAX];
    (void)fprintf(to, "[%s %s]\n", group->word, item->name);
    for (size_t i = 0; i < group->option_count; i++) {
        struct bytes text = option_text(&group->options[i], item, buffer);
        (void)fprintf(to, "%s =%s%.*s\n", group->options[i].name, text.len ? " " : "",
                      (int)text.len, text.data);
    }
    (void)fputc('\n', to);
}

/* Prints the options of a repeated section as comments, then every section of that kind. */
static void print_option_group(const struct config *config, const struct group *group, FILE *to)
{
    (void)fprintf(to, "# [%s NAME]  any number of these\n#\n", group->word);
    for (size_t i = 0; i < group->option_count; i++) {
        const struct option *option = &group->options[i];
        (void)fprintf(to, "# %s = %s\n", option->name, *option->initial ? option->initial : "...");
        print_comment(to, option->sentence);
        (void)fputs("#\n", to);
    }
    (void)fputc('\n', to);
    for (size_t i = 0; i < *group_count(config, group); i++)
        print_item(group, group_item(config, group, i), to);
}

void config_print(const struct config *config, FILE *to)
{
    const struct config_schema *schema = config->schema;
    (void)fprintf(
        to,
        "# Configuration of scree-%s: the values in force, every option.\n"
        "# Sizes: kb mb gb tb. Times: ms s m h d. A comment starts with '#' or ';' and, after a\n"
        "# value, with ' ;'. A list goes on in the next line when that is indented.\n\n",
        schema->program);
    const char *section = "";
    for (size_t i = 0; i < schema->option_count; i++) {
        const struct option *option = &schema->options[i];
        if (strcmp(section, option->section) != 0)
            (void)fprintf(to, "[%s]\n", option->section);
        section = option->section;
        print_option(option, config, to);
    }
    for (size_t g = 0; g < schema->group_count; g++)
        print_option_group(config, &schema->groups[g], to);
}

/* ---- docs/configuration.md ------------------------------------------------------------------- */

/* Prints a cell of a table; a '|' in the text would end the cell, so it is escaped. */
static void print_cell(FILE *to, const char *text)
{
    (void)fputs(" ", to);
    for (; *text; text++)
        (void)fprintf(to, *text == '|' ? "\\%c" : "%c", *text);
    (void)fputs(" |", to);
}

static void print_option_row(const struct option *option, FILE *to)
{
    char expected[OPTION_REASON_MAX];
    char name[128];
    char initial[256];
    option_expected(option, expected, sizeof expected);
    (void)snprintf(name, sizeof name, "`%s`", option->name);
    (void)snprintf(initial, sizeof initial, *option->initial ? "`%s`" : "empty%s", option->initial);
    (void)fputs("|", to);
    print_cell(to, name);
    print_cell(to, initial);
    print_cell(to, expected);
    print_cell(to, option->reload == OPTION_RELOAD ? "reload" : "restart");
    print_cell(to, option->sentence);
    (void)fputs("\n", to);
}

static void print_rows(const struct option *options, size_t count, FILE *to)
{
    const char *section = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(section, options[i].section) != 0)
            (void)fprintf(to,
                          "\n### [%s]\n\n"
                          "| option | default | takes | changed by | meaning |\n"
                          "|---|---|---|---|---|\n",
                          options[i].section);
        section = options[i].section;
        print_option_row(&options[i], to);
    }
}

static void print_program(const struct config_schema *schema, FILE *to)
{
    (void)fprintf(to, "\n## %s.ini\n", schema->program);
    print_rows(schema->options, schema->option_count, to);
    for (size_t g = 0; g < schema->group_count; g++)
        print_rows(schema->groups[g].options, schema->groups[g].option_count, to);
}

static const char docs_head[] =
    "# Configuration\n"
    "\n"
    "Generated by `scree-proxy --print-docs configuration`; do not edit.\n"
    "\n"
    "Each program reads one ini file, given with `--config FILE`; every option has a default.\n"
    "`--print-config` prints the values in force as a commented file to start from, and `--check`\n"
    "reads the file, says what is wrong with it as `file:line: section.option: expected ...`, and "
    "ends.\n"
    "\n"
    "- Sizes take `kb`, `mb`, `gb`, `tb` (powers of 1024) or nothing; times take `ms`, `s`, `m`, "
    "`h`, `d`.\n"
    "- A comment starts with `#` or `;`, and after a value with a space and `;`.\n"
    "- An unknown section or option, a bad value, and anything given twice is refused.\n"
    "- Options changed by *reload* are taken over while running: on SIGHUP, and in the proxy also "
    "when\n"
    "  a file changes or Kubernetes swaps the symlink to it. With an error in any file everything "
    "stays\n"
    "  as it was, and the log says why. The others need a *restart*, and keep their value until "
    "then.\n"
    "- `CONFIG GET` and `CONFIG SET` name an option of the first section by its name\n"
    "  (`maxclients`) and the others with their section before it (`upstream-timeout`).\n"
    "  `CONFIG SET` changes what *reload* does, but paths, which only the file may choose. It "
    "lasts\n"
    "  until the file is read again or the program ends; at a backend `CONFIG REWRITE` puts it "
    "into\n"
    "  the file.\n";

static const char docs_shards[] =
    "\n## shards.ini\n"
    "\n"
    "Which shard owns which of the 16384 slots. Every slot is given exactly once, or the file is\n"
    "refused with the line that is wrong and the map in force stays.\n"
    "\n"
    "```ini\n"
    "[map]\n"
    "epoch = 1               ; raise it with every change; a lower one is refused\n"
    "\n"
    "[shard a]\n"
    "slots = 0-8191          ; ranges and single slots, separated by spaces\n"
    "address = 127.0.0.1:7401\n"
    "\n"
    "[shard b]\n"
    "slots = 8192-16383\n"
    "address = 127.0.0.1:7402\n"
    "```\n"
    "\n"
    "`slots` and `address` may be repeated, and continued on indented lines. The first address is "
    "the\n"
    "one requests go to. Host names are resolved again on every reconnect.\n";

static const char docs_namespaces[] =
    "\n## Namespaces\n"
    "\n"
    "```ini\n"
    "[namespace shop]\n"
    "token = s3cret          ; AUTH s3cret, AUTH shop s3cret, HELLO 3 AUTH shop s3cret\n"
    "\n"
    "[namespace test_*]\n"
    "token = tests           ; AUTH test_gw7 tests opens the namespace test_gw7\n"
    "ephemeral = yes\n"
    "\n"
    "[listener shop]\n"
    "address = 127.0.0.1:7390\n"
    "namespace = shop        ; for clients that cannot authenticate\n"
    "```\n"
    "\n"
    "A name that contains `*`, `?` or `[...]` is a pattern: every name that it matches is a "
    "namespace\n"
    "of its own, opened by the first `AUTH NAME TOKEN`. An exact name is never taken by a pattern. "
    "Each\n"
    "token belongs to one exact namespace, and none equals `requirepass`.\n";

void config_print_docs(FILE *to)
{
    (void)fputs(docs_head, to);
    print_program(&proxy_schema, to);
    (void)fputs(docs_namespaces, to);
    (void)fputs(docs_shards, to);
    print_program(&backend_schema, to);
}
