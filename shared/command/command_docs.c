#include "shared/command/command_docs.h"

#include "shared/command/command.h"

static const char intro[] =
    "# Commands\n"
    "\n"
    "Printed by `scree-proxy --print-docs commands` and `scree-backend --print-docs commands`\n"
    "from `shared/command/commands.def`; do not edit.\n"
    "\n"
    "- **Arity** counts the command's name (and subcommand); a negative one means \"at least\".\n"
    "- **Answered by**: `backend`: a proxy sends it to backends, by its route; `both`: the proxy\n"
    "  answers its clients, a backend its direct clients; `proxy`: only the proxy; `-`: not\n"
    "  implemented: arity and keys are known, and the reply is an error.\n"
    "- **Route**: what a proxy does with it. `local`: answers it; `by-key`: sends it to the shard\n"
    "  of its keys; `split`: splits it by key;\n"
    "  `all-shards`: sends it to every shard; `any`: sends it to one shard; `cursor`: sends it to\n"
    "  one shard after the other; `channel`: sends it to the channel's shard; `pinned`: uses a\n"
    "  dedicated connection to the shard; `transaction`: handles it as part of a transaction;\n"
    "  `denied`: refuses it. After a slash: how the replies of several shards become one. `long`\n"
    "  commands use a second connection, so that short ones do not wait for them.\n"
    "- **Several shards**: how it runs when its keys are on several shards, for commands that can\n"
    "  have several keys (with `cross-slot = any`). `borrow`: the shard of the first key that it\n"
    "  writes, else of its first key, locks and fetches the other keys, runs it, and all shards\n"
    "  commit together; `any keys`: the same, also for keys that are not arguments; `all keys`: "
    "inside\n"
    "  MULTI and scripts the same for the keys of all shards, which are locked; else each shard\n"
    "  answers by itself; `parts`: each\n"
    "  shard runs a part by itself, or `borrow` with `atomic-split = yes` and inside MULTI; "
    "`wait`:\n"
    "  the proxy waits at all shards, and the one with an element runs it; `wait, borrow`: when a\n"
    "  key is ready, as `borrow`; `watch`: each shard watches its keys for the shard that runs "
    "EXEC.\n"
    "- **Since**: the version that introduced it: of Redis, of RedisJSON for `JSON.*`, of\n"
    "  RedisBloom for `BF.*`, `CMS.*`, `TDIGEST.*` and `TOPK.*`, of Scree for `SI*` and `SCREE`, "
    "or\n"
    "  of the product that is named.\n"
    "- Limits of filters, sketches, digests and lists (`BF.*`, `CMS.*`, `TDIGEST.*`, `TOPK.*`), "
    "and what\n"
    "  differs from RedisBloom: "
    "[compatibility.md](compatibility.md#what-differs-through-the-proxy).\n"
    "  A command that would exceed the `max-keys` or `max-bytes` of its namespace gets an `OOM` "
    "error, at\n"
    "  all shards together: [operations.md](operations.md#namespaces).\n";

static const char *product_of(const struct command *command)
{
    return command->traits & TRAIT_VALKEY    ? "Valkey "
           : command->traits & TRAIT_KVROCKS ? "Kvrocks "
                                             : "";
}

static const char *answered_by(const struct command *command)
{
    switch (command->handlers) {
    case HANDLER_BACKEND:
        return "backend";
    case HANDLER_PROXY:
        return "proxy";
    case HANDLER_BACKEND | HANDLER_PROXY:
        return "both";
    default:
        return "-";
    }
}

/* True for a container that cannot be called without a subcommand. COMMAND is the only container that can. */
static bool is_word_only(const struct command *command)
{
    return command_has_subs(command) && command->id != COMMAND_command;
}

/* How the command runs with keys on several shards; empty: it has one key at most, or is not by keys. */
static const char *over_shards(const struct command *command)
{
    if (command_uses_all_keys(command))
        return "all keys";
    if (command->made.key_argc_max == UINT32_MAX || !(command->handlers & HANDLER_BACKEND))
        return "";
    if (command->group == GROUP_TRANSACTIONS)
        return "watch";
    if (command->traits & TRAIT_UNNAMED_KEYS)
        return "any keys";
    if (command->route == ROUTE_SPLIT)
        return "parts";
    if (command->route != ROUTE_PINNED)
        return "borrow";
    return command->traits & TRAIT_FIRST_OF_KEYS ? "wait" : "wait, borrow";
}

static void print_command_row(FILE *file, const struct command *command)
{
    char name[sizeof(command->full_name)];
    command_upper(command_full_name(command), name, sizeof(name));
    char *bar = strchr(name, '|');
    if (bar)
        *bar = ' ';
    (void)fprintf(file, "| `%s` | %d | %s | ", name, command->arity, answered_by(command));
    if (!is_word_only(command)) {
        (void)fputs(command_route_name(command->route), file);
        if (command->merge != MERGE_ONE)
            (void)fprintf(file, "/%s", command_merge_name(command->merge));
        if (command->flags & CMD_LONG)
            (void)fputs(", long", file);
    }
    (void)fprintf(file, " | %s | %s%s | %s | %s", over_shards(command), product_of(command),
                  command->since, command->complexity ? command->complexity : "", command->summary);
    if (command->deprecated.replaced_by)
        (void)fprintf(file, " Better: %s.", command->deprecated.replaced_by);
    (void)fputs(" |\n", file);
}

static void print_command_group(FILE *file, enum command_group group)
{
    (void)fprintf(file, "\n## %s\n\n", command_group_name(group));
    (void)fputs("| Command | Arity | Answered by | Route | Several shards | Since | Complexity | "
                "What it does |\n"
                "|---|---|---|---|---|---|---|---|\n",
                file);
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of((enum command_id)id);
        if (command->group == group)
            print_command_row(file, command);
    }
}

void command_print_docs(FILE *file)
{
    (void)fputs(intro, file);
    for (int group = 0; group < GROUP_COUNT; group++)
        print_command_group(file, (enum command_group)group);
}
