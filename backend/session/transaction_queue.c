#include "backend/session/transaction_queue.h"

#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/command/keys.h"

#include <stdlib.h>

void transaction_init(struct transaction *transaction)
{
    *transaction = (struct transaction){0};
    transaction->end = &transaction->first;
}

void transaction_begin(struct transaction *transaction)
{
    CHECK(!transaction->is_open);
    CHECK(!transaction->first);
    transaction->is_open = transaction->is_plain = true;
}

/* Can the command be rolled back in EXEC? suspend.c restores the database of SELECT; UNWATCH has no effect in EXEC; WAIT, WAITAOF and
 * commands that any shard may run, such as FUNCTION LIST, only reply. All commands that a proxy sends in an EXEC can. */
static bool is_plain_command(const struct command *command)
{
    if (command->channels == CHANNELS_FIRST || command->traits & TRAIT_SHARD_ANSWERS ||
        command_uses_all_keys(command) || command->route == ROUTE_TRANSACTION ||
        command->route == ROUTE_ANY || command->traits & TRAIT_ONLY_REPLIES)
        return true;
    return (command->flags & (CMD_WRITE | CMD_READONLY) || command->group == GROUP_SCRIPTING) &&
           !(command->flags & CMD_ADMIN) && keys_possible(command);
}

size_t transaction_cost(const struct bytes *argv, uint32_t argc)
{
    size_t size = sizeof(struct queued) + argc * sizeof *argv;
    for (uint32_t i = 0; i < argc; i++)
        size += argv[i].len;
    return size;
}

void transaction_queue(struct transaction *transaction, const struct command *command,
                       const struct bytes *argv, uint32_t argc)
{
    CHECK(transaction->is_open);
    struct queued *queued;
    size_t size = transaction_cost(argv, argc);
    size_t text_at = sizeof *queued + argc * sizeof *argv;
    queued = malloc(size);
    CHECK(queued);
    *queued = (struct queued){.command = command, .argc = argc};
    char *text = (char *)queued + text_at;
    for (uint32_t i = 0; i < argc; i++) {
        queued->argv[i] = (struct bytes){text, argv[i].len};
        if (argv[i].len)
            memcpy(text, argv[i].data, argv[i].len);
        text += argv[i].len;
    }
    *transaction->end = queued;
    transaction->end = &queued->next;
    transaction->is_plain &= is_plain_command(command);
    transaction->flags |= command->flags;
    transaction->has_all_keys |= command_uses_all_keys(command);
    transaction->count++;
    transaction->bytes += size;
}

void transaction_end(struct transaction *transaction)
{
    while (transaction->first) {
        struct queued *next = transaction->first->next;
        free(transaction->first);
        transaction->first = next;
    }
    transaction_init(transaction);
}
