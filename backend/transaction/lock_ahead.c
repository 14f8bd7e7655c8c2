#include "backend/transaction/lock_ahead.h"

#include "backend/context/partition.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/storage/retry.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/guessed_keys.h"
#include "backend/transaction/named_members.h"
#include "shared/command/keys.h"

/* A key that a command names. */
struct named {
    struct entry entry;       /* key, slot, space and row_key */
    const struct bytes *argv; /* of its command */
    uint32_t argc;
    struct borrow_use use; /* is_bare: of the key only `members` are needed */
    struct named_members members;
};

enum { SLICES_MAX = 16 }; /* because all named keys are looked at for each */

/* What the first look at all named keys finds. */
struct look {
    uint32_t keys; /* that it has passed */
    bool has_foreign;
    bool is_moving; /* the slot of an own key is in transition */
    /* a slice: */
    uint32_t from, to; /* its keys */
    bool is_cut;       /* more keys follow */
};

/* Named keys may be hundreds of thousands: a function is called for each, and none is kept. False ends the search. */
typedef bool named_fn(struct call *call, struct named *named, struct look *look);

static bool each_named_key(struct call *call, const struct command *command,
                           const struct bytes *argv, uint32_t argc, named_fn *on_key,
                           struct look *look)
{
    struct key_list keys;
    struct named named = {.argv = argv, .argc = argc};
    bool goes_on = true;
    bool writes = command->flags & (CMD_WRITE | CMD_MAY_REPLICATE) ||
                  coordinator_script_writes(call->partition, command, argv);
    named.use.is_bare = named_members_find(command, argv, argc, &named.members);
    keys_list_init(&keys);
    (void)keys_find(command, argv, argc, &keys);
    for (uint32_t i = 0; i < keys.count && goes_on; i++) {
        struct bytes key = argv[keys.refs[i].index];
        bool is_written = key_is_written(&keys.refs[i]);
        named.use.writes = writes && (is_written || !command->made.has_sources);
        named.use.may_write = is_written && command->flags & CMD_SCRIPT;
        named.entry = (struct entry){
            .key = key, .slot = slot_rule_slot(call->slot_rule, key), .space = call->space};
        named.entry.is_borrowed = !slot_set_has(call->slots, named.entry.slot);
        goes_on = on_key(call, &named, look);
    }
    keys_list_fini(&keys);
    return goes_on;
}

/* Of the command, and for EXEC of its queue. */
static void each_named(struct call *call, named_fn *on_key, struct look *look)
{
    bool has_queue = call->command->traits & TRAIT_RUNS_QUEUE;
    const struct queued *queued = has_queue ? call->session->transaction.first : NULL;
    bool goes_on = each_named_key(call, call->command, call->argv, call->argc, on_key, look);
    for (; goes_on && queued && !(queued->command->traits & TRAIT_CHANGES_DATABASE);
         queued = queued->next)
        goes_on = each_named_key(call, queued->command, queued->argv, queued->argc, on_key, look);
}

/* named_fn */
static bool note_owner(struct call *call, struct named *named, struct look *look)
{
    look->keys++;
    look->has_foreign |= named->entry.is_borrowed;
    look->is_moving |= slot_is_moving(call->partition, named->entry.slot);
    return !look->is_moving;
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

/* Locks an own key and prefetches its row. */
static void lock_own(struct call *call, const struct named *named)
{
    struct partition *partition = call->partition;
    struct bytes row_key = named->entry.row_key;
    if (!lock_take(partition->shards.locks, call->borrow->owner, row_key,
                   named->use.writes ? LOCK_WRITE : LOCK_READ))
        borrow_wait(call);
    if (partition->reader)
        (void)overlay_prefetch(partition->overlay, CF_METADATA, row_key,
                               &call->session->pending.retry);
}

/* Locks an own key, or requests a key of another shard. */
static void lock_one(struct call *call, struct named *named)
{
    struct entry *entry = &named->entry;
    struct arena_mark mark = arena_mark(call->arena);
    entry->row_key = encode_metadata_key(call->arena, entry->space->name, entry->slot, entry->key);
    if (entry->is_borrowed)
        need_named(call, named);
    else
        lock_own(call, named);
    arena_release(call->arena, &mark);
}

/* named_fn: locks the keys of a slice, unless the transaction needs too much memory. */
static bool lock_named(struct call *call, struct named *named, struct look *look)
{
    uint32_t place = look->keys++;
    look->is_cut = place == look->to;
    if (place >= look->from && !look->is_cut)
        lock_one(call, named);
    return !look->is_cut && !call->borrow->tally.is_over;
}

static void lock_slice(struct call *call)
{
    struct slice_ahead *ahead = &call->borrow->ahead;
    struct look look = {.from = ahead->next, .to = ahead->next + ahead->keys};
    overlay_nonblocking_begin(call->partition->overlay, &call->session->pending.retry);
    if (!look.from)
        (void)coordinator_ask_watches(call);
    each_named(call, lock_named, &look);
    if (!look.from)
        guessed_keys_need(call);
    borrow_wait(call); /* also if it waits for nothing but the next turn */
    overlay_nonblocking_begin(call->partition->overlay, NULL);
    *ahead = look.is_cut ? (struct slice_ahead){.next = look.to, .keys = ahead->keys}
                         : (struct slice_ahead){0};
}

/* Begins with the first slice. False: the command names no key of another shard, or it is not known yet where its keys are. */
static bool begin_slices(struct call *call)
{
    struct look look = {.has_foreign = false};
    each_named(call, note_owner, &look);
    look.has_foreign |= !look.is_moving && guessed_keys_any(call);
    call->borrow = look.has_foreign && !look.is_moving ? coordinator_borrow(call) : NULL;
    if (!call->borrow)
        return false;
    uint32_t keys = call->partition->shards.steps.apply_effects;
    if (keys < look.keys / SLICES_MAX)
        keys = look.keys / SLICES_MAX + 1;
    call->borrow->ahead = (struct slice_ahead){.keys = keys};
    return true;
}

/* May the next slice be locked? Not if the slot of a named key has begun to leave since the last one. A lock that is taken now would not
 * keep the slot here, but slot_pass would let the transaction use the key because of that lock, while the key changes at its new owner. So the
 * transaction releases all locks, and requests each key when it opens it. */
static bool may_go_on(struct call *call)
{
    struct look look = {.has_foreign = false};
    if (!call->partition->shards.moving)
        return true;
    each_named(call, note_owner, &look);
    if (look.is_moving) {
        coordinator_forget_locks(call);
        call->borrow = NULL;
    }
    return !look.is_moving;
}

bool lock_ahead(struct call *call)
{
    struct session *session = call->session;
    call->space = session_space(session);
    call->slot_rule = session->scope.slot_rule;
    call->slots = session_slots(session);
    if (!call->slots || !wants_keys(call) || coordinator_has_attempted(session))
        return false;
    call->borrow = session->pending.across ? coordinator_borrow(call) : NULL;
    bool goes_on = call->borrow && call->borrow->ahead.keys;
    if (goes_on ? !may_go_on(call) : !begin_slices(call))
        return false;
    lock_slice(call);
    return true;
}
