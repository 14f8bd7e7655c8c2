#include "backend/transaction/lock_ahead.h"

#include "backend/context/partition.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/storage/reader.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/named_members.h"
#include "shared/command/keys.h"

/* A key that a command names; in the call's arena. */
struct named {
    struct named *next;
    struct entry entry;       /* key, slot, space and row_key */
    const struct bytes *argv; /* of its command */
    uint32_t argc;
    struct borrow_use use; /* is_bare: of the key only `members` are needed */
    struct named_members members;
};

struct named_list {
    struct named *first;
    struct named **end;
    bool has_foreign;
    bool is_moving; /* the slot of an own key is in transition */
};

static void add_named_key(struct call *call, struct named_list *list, const struct named *like,
                          struct bytes key)
{
    struct named *named = arena_alloc(call->arena, sizeof *named);
    uint16_t slot = slot_rule_slot(call->slot_rule, key);
    *named = *like;
    named->entry =
        (struct entry){.key = key,
                       .slot = slot,
                       .space = call->space,
                       .row_key = encode_metadata_key(call->arena, call->space->name, slot, key),
                       .is_borrowed = !slot_set_has(call->slots, slot)};
    list->has_foreign |= named->entry.is_borrowed;
    list->is_moving |= slot_is_moving(call->partition, slot);
    *list->end = named;
    list->end = &named->next;
}

static void add_named_keys(struct call *call, struct named_list *list,
                           const struct command *command, const struct bytes *argv, uint32_t argc)
{
    struct key_list keys;
    struct named like = {.argv = argv, .argc = argc};
    bool writes = command->flags & (CMD_WRITE | CMD_MAY_REPLICATE) ||
                  coordinator_script_writes(call->partition, command, argv);
    like.use.is_bare = named_members_find(command, argv, argc, &like.members);
    keys_list_init(&keys);
    if (keys_find(command, argv, argc, &keys) == 0)
        for (uint32_t i = 0; i < keys.count; i++) {
            bool is_written = key_is_written(&keys.refs[i]);
            like.use.writes = writes && (is_written || !command->made.has_sources);
            like.use.may_write = is_written && command->flags & CMD_SCRIPT;
            add_named_key(call, list, &like, argv[keys.refs[i].index]);
        }
    keys_list_fini(&keys);
}

static void add_queue(struct call *call, struct named_list *list)
{
    const struct queued *queued = call->session->transaction.first;
    for (; queued && !(queued->command->traits & TRAIT_CHANGES_DATABASE); queued = queued->next)
        add_named_keys(call, list, queued->command, queued->argv, queued->argc);
}

/* Will the command open the keys that it names? Not if it is WATCH, nor if it is an EXEC that cannot run. */
static bool wants_keys(const struct call *call)
{
    const struct session *session = call->session;
    if (call->command->traits & TRAIT_RUNS_QUEUE)
        return session->transaction.is_open && !session->transaction.is_aborted &&
               !session->watcher.dirty;
    return !(call->command->traits & TRAIT_WATCHES);
}

static void need_named(struct call *call, const struct named *named)
{
    borrow_ahead(call, &named->entry, &named->use);
    for (uint32_t i = named->members.first; named->use.is_bare && i < named->argc;
         i += named->members.step)
        borrow_member(call, &named->entry, named->argv[i]);
}

/* Locks an own key and prefetches its row, or requests a key of another shard. */
static void lock_named(struct call *call, const struct named *named)
{
    struct partition *partition = call->partition;
    const struct entry *entry = &named->entry;
    if (entry->is_borrowed) {
        need_named(call, named);
        return;
    }
    if (!lock_take(partition->shards.locks, call->borrow->owner, entry->row_key,
                   named->use.writes ? LOCK_WRITE : LOCK_READ))
        borrow_wait(call);
    if (partition->reader)
        (void)overlay_prefetch(partition->overlay, CF_METADATA, entry->row_key,
                               &call->session->pending.row_wait);
}

bool lock_ahead(struct call *call)
{
    struct session *session = call->session;
    struct named_list list = {.first = NULL};
    list.end = &list.first;
    call->space = session_space(session);
    call->slot_rule = session->scope.slot_rule;
    call->slots = session_slots(session);
    if (!call->slots || !wants_keys(call) || coordinator_has_attempted(session))
        return false;
    add_named_keys(call, &list, call->command, call->argv, call->argc);
    if (call->command->traits & TRAIT_RUNS_QUEUE)
        add_queue(call, &list);
    call->borrow = list.has_foreign && !list.is_moving ? coordinator_borrow(call) : NULL;
    if (!call->borrow || borrow_is_used(call->borrow))
        return false;
    overlay_nonblocking_begin(call->partition->overlay, &session->pending.row_wait);
    (void)coordinator_ask_watches(call);
    for (const struct named *named = list.first; named; named = named->next)
        lock_named(call, named);
    overlay_nonblocking_begin(call->partition->overlay, NULL);
    return true;
}
