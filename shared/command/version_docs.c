#include "shared/command/version_docs.h"

#include "shared/command/command.h"
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
                            "version of the option `reported-version`. Since 8.0 Redis comes with "
                            "modules (search, vector sets, time\n"
                            "series) that Scree does not have, so the default is ";

static const char DIFFERENCES[] =
    "\n"
    "## What differs on purpose\n"
    "\n"
    "Commands of Redis 7.0 reply as Redis 7.0.15, also where later versions reply differently:\n"
    "\n"
    "- The digits of scores and of numbers in scripts are those of 17 places "
    "(`0.10000000000000001`; `0.1` since 7.2).\n"
    "- XREADGROUP and XAUTOCLAIM create a consumer only when they deliver entries (since 7.2 "
    "always). A client that XREADGROUP blocks\n"
    "  gets the errors of 7.0 when its key is deleted, and XINFO GROUPS counts the lag as 7.0.\n"
    "- Blocking commands are refused in scripts (since 7.2 they run without waiting). BITCOUNT and "
    "BITPOS of a missing key do not check\n"
    "  their further arguments. Cursors and bounds of scores are parsed as in 7.0.\n"
    "- `OBJECT ENCODING` replies `listpack` for a set only after CONFIG SET of "
    "`set-max-listpack-entries`, which is 0 (since 7.2: 128).\n"
    "\n"
    "Newer commands reply as Redis where Redis has them, also if those of Valkey differ: "
    "hash-field times to live, MSETEX, and IDs in the\n"
    "filters of clients. What differs from both:\n"
    "\n"
    "- Hash fields that have expired are gone at once: HLEN does not count them, and a hash "
    "without other fields does not exist.\n"
    "- COMMANDLOG has a transaction as one entry, EXEC; logs are cut at once when their length is "
    "set.\n"
    "- DELIFEQ and SET with IFEQ, IFNE, IFDEQ or IFDNE need the right to read the key, because "
    "their reply says what it holds.\n"
    "- A script that runs too long makes its shard reply BUSY; PING and keys of other shards are "
    "served, and commands are still queued by MULTI.\n"
    "- `maxmemory` is compared with an estimate that is renewed from time to time, so a changed "
    "limit takes effect later. Keys are never evicted.\n";

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

/* Prints the additions of the version of `first`: those that Scree has (`here`), or those that it lacks; "-" if there are none. */
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
    (void)fputs(DIFFERENCES, file);
}
