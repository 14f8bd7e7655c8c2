#include "shared/version_docs.h"

#include "shared/command.h"
#include "shared/version.h"

#include <string.h>

enum product { PRODUCT_REDIS, PRODUCT_VALKEY };

struct addition {
    enum product product;
    const char *version;
    const char *command; /* full name; NULL: an option */
    bool is_here;        /* of an option */
    const char *text;    /* of an option */
};

static const struct addition ADDITIONS[] = {
#define NEW_COMMAND(product_, version_, name_)                                                     \
    {.product = PRODUCT_##product_, .version = (version_), .command = (name_)},
#define NEW_OPTION(product_, version_, is_here_, text_)                                            \
    {.product = PRODUCT_##product_, .version = (version_), .is_here = (is_here_), .text = (text_)},
#include "shared/versions.def"
#undef NEW_COMMAND
#undef NEW_OPTION
};
enum { ADDITIONS_COUNT = sizeof ADDITIONS / sizeof ADDITIONS[0] };

static const char INTRO[] = "# Versions of Redis and Valkey\n"
                            "\n"
                            "Printed by `scree-proxy --print-docs versions` and `scree-backend "
                            "--print-docs versions` from\n"
                            "`shared/versions.def` and the command table; do not edit.\n"
                            "\n"
                            "This page lists what versions after Redis 7.0 added: what Scree has, "
                            "and what is missing. Commands\n"
                            "of modules are left out. [commands.md](commands.md) lists all "
                            "commands of Scree. Clients see the\n"
                            "version of the option `reported-version`, by default ";

static bool is_here(const struct addition *addition)
{
    const struct command *command =
        addition->command ? command_find_full(bytes_of(addition->command)) : NULL;
    return addition->command ? command && command->handlers : addition->is_here;
}

static void print_addition(const struct addition *addition, const char *separator, FILE *file)
{
    char name[64];
    if (!addition->command) {
        (void)fprintf(file, "%s%s", separator, addition->text);
        return;
    }
    command_upper(addition->command, name, sizeof name);
    for (char *bar = name; (bar = strchr(bar, '|'));)
        *bar = ' ';
    (void)fprintf(file, "%s`%s`", separator, name);
}

/* Prints those of the version that are here, or those that are missing; "-": none. */
static void print_additions(const struct addition *first, bool here, FILE *file)
{
    bool has_some = false;
    for (const struct addition *addition = first; addition < ADDITIONS + ADDITIONS_COUNT;
         addition++) {
        if (addition->product != first->product || strcmp(addition->version, first->version) != 0)
            break;
        if (is_here(addition) != here)
            continue;
        print_addition(addition, has_some ? "; " : "", file);
        has_some = true;
    }
    (void)fputs(has_some ? "" : "-", file);
}

void version_print_docs(FILE *file)
{
    (void)fprintf(file, "%s%s.\n\n| Version | Here | Missing |\n|---|---|---|\n", INTRO,
                  VERSION_DEFAULT_WORD);
    for (int i = 0; i < ADDITIONS_COUNT; i++) {
        const struct addition *addition = &ADDITIONS[i];
        if (i > 0 && addition->product == addition[-1].product &&
            strcmp(addition->version, addition[-1].version) == 0)
            continue;
        (void)fprintf(file, "| %s %s | ", addition->product == PRODUCT_REDIS ? "Redis" : "Valkey",
                      addition->version);
        print_additions(addition, true, file);
        (void)fputs(" | ", file);
        print_additions(addition, false, file);
        (void)fputs(" |\n", file);
    }
}
