#include "backend/transaction/guessed_keys.h"

#include "backend/context/partition.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/transaction/coordinator_inner.h"

enum { GUESSES_MAX = 4096 }; /* for a command */

struct guessing {
    struct call *call;
    uint32_t found; /* keys of other shards */
    bool needs;     /* they are needed */
};

/* script_keys_fn */
static void on_guess(void *owner, struct bytes key, bool writes, uint32_t pattern)
{
    struct guessing *guessing = owner;
    struct call *call = guessing->call;
    struct entry entry = {.key = key, .space = call->space};
    entry.slot = slot_rule_slot(call->slot_rule, key);
    if (slot_set_has(call->slots, entry.slot) || guessing->found == GUESSES_MAX)
        return;
    guessing->found++;
    if (!guessing->needs || call->borrow->tally.is_over)
        return;
    struct arena_mark mark = arena_mark(call->arena);
    entry.is_borrowed = true;
    entry.row_key = encode_metadata_key(call->arena, entry.space->name, entry.slot, key);
    borrow_guess(call, &entry, writes, pattern);
    arena_release(call->arena, &mark);
}

static void guess_of(struct guessing *guessing, const struct command *command,
                     const struct bytes *argv, uint32_t argc)
{
    if (!(command->flags & CMD_SCRIPT) || argc < 3)
        return;
    struct script_words words = borrow_script_words(guessing->call->space, argv, argc);
    script_keys_guess(guessing->call->partition->shards.coordinator->script_keys, &words,
                      guessing->needs, on_guess, guessing);
}

/* Of the command, and for EXEC of its queue. */
static uint32_t guess_all(struct call *call, bool needs)
{
    struct guessing guessing = {.call = call, .needs = needs};
    bool has_queue = call->command->traits & TRAIT_RUNS_QUEUE;
    const struct queued *queued = has_queue ? call->session->transaction.first : NULL;
    if (call->borrow && call->borrow->is_without_guesses)
        return 0;
    guess_of(&guessing, call->command, call->argv, call->argc);
    uint32_t enough = needs ? GUESSES_MAX : 1;
    for (; queued && guessing.found < enough && !(queued->command->traits & TRAIT_CHANGES_DATABASE);
         queued = queued->next)
        guess_of(&guessing, queued->command, queued->argv, queued->argc);
    return guessing.found;
}

bool guessed_keys_any(struct call *call)
{
    return guess_all(call, false);
}

void guessed_keys_need(struct call *call)
{
    (void)guess_all(call, true);
}
