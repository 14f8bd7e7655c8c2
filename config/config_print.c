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
    (void)fprintf(to, "# [%s NAME]  any number of such sections\n#\n", group->word);
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
        "# Configuration of scree-%s: all options with their values.\n"
        "# Sizes: kb mb gb tb. Times: ms s m h d. A comment starts with '#' or ';' and, after a\n"
        "# value, with ' ;'. A list may continue on the next line if that is indented.\n\n",
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
    "`--print-config` prints the values as a commented file, a template for your own. `--check` "
    "reads\n"
    "the file and reports the first error as `file:line: section.option: expected ...`.\n"
    "\n"
    "- Sizes take `kb`, `mb`, `gb`, `tb` (powers of 1024) or nothing; times take `ms`, `s`, `m`, "
    "`h`, `d`.\n"
    "- A comment starts with `#` or `;`, and after a value with a space and `;`.\n"
    "- An unknown section or option, an invalid value, and an option that is given twice are "
    "errors.\n"
    "- Options changed by *reload* can change while the program runs: on SIGHUP, and in the proxy "
    "also\n"
    "  when a file changes or Kubernetes swaps the symlink to it. After an error in any file "
    "nothing\n"
    "  changes, and the log has the reason. Other options keep their values until a *restart*.\n"
    "- In `CONFIG GET` and `CONFIG SET` options of the first section have their own name\n"
    "  (`maxclients`), other options the section and the name (`upstream-timeout`). `CONFIG SET` "
    "can\n"
    "  change the options that *reload* can change, except paths. Through a proxy it sets those of "
    "the\n"
    "  shards for good, at all shards; other changes are in force until the file is read again or "
    "the\n"
    "  program ends, and at a backend `CONFIG REWRITE` keeps them (operations.md: what is kept).\n";

static const char docs_shards[] =
    "\n## shards.ini\n"
    "\n"
    "The shard map: which shard owns which of the 16384 slots. Every slot must be assigned "
    "exactly\n"
    "once. After an error, which names the line, the map in force stays.\n"
    "\n"
    "```ini\n"
    "[map]\n"
    "epoch = 1               ; increase it with every change; a lower epoch is refused\n"
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
    "`slots` and `address` may occur several times in a section, and may continue on indented "
    "lines.\n"
    "Requests go to the first address. Host names are resolved again at every connection "
    "attempt.\n";

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
    "A name that contains `*`, `?` or `[...]` is a pattern: every name that matches is a separate\n"
    "namespace, which begins with the first `AUTH NAME TOKEN`. A namespace with exactly this name "
    "has\n"
    "precedence over patterns. Exact namespaces must have different tokens, and no token may "
    "equal\n"
    "`requirepass`.\n";

void config_print_docs(FILE *to)
{
    (void)fputs(docs_head, to);
    print_program(&proxy_schema, to);
    (void)fputs(docs_namespaces, to);
    (void)fputs(docs_shards, to);
    print_program(&backend_schema, to);
}
