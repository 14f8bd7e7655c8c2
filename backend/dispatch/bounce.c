#include "backend/dispatch/bounce.h"

#include "backend/context/partition.h"
#include "backend/dispatch/gates.h"
#include "backend/dispatch/line.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/bounced_slots.h"
#include "backend/session/pause.h"
#include "backend/session/session.h"
#include "backend/session/waits.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/named_keys.h"
#include "shared/arena.h"
#include "shared/bounce.h"
#include "shared/resp.h"

#include <stdio.h>
#include <string.h>

enum { HOLD_MS = 3000 };

/* ---- which requests bounce ---- */

bool bounce_follows(const struct call *call)
{
    return call->session && call->session->login.follows_bounces &&
           call->partition->shards.is_gated;
}

static void mark(struct call *call, uint16_t slot)
{
    call->session->request.is_misled = true;
    call->session->request.misled_slot = slot;
}

/* named_key_fn: is the key here? */
static bool is_key_here(struct call *call, uint16_t slot, struct bytes key, void *owner)
{
    (void)key;
    (void)owner;
    return slot_set_has(call->partition->shards.here, slot);
}

/* named_key_fn: marks the request if the key is not here for the connection */
static bool mark_foreign(struct call *call, uint16_t slot, struct bytes key, void *owner)
{
    (void)key;
    (void)owner;
    if (slot_set_has(call->partition->shards.here, slot) &&
        !bounced_slots_has(call->session->pending.bounces.slots, slot))
        return false;
    mark(call, slot);
    return true;
}

/* named_key_fn: marks the request if the key has bounced */
static bool mark_bounced(struct call *call, uint16_t slot, struct bytes key, void *owner)
{
    (void)key;
    (void)owner;
    if (!bounced_slots_has(call->session->pending.bounces.slots, slot))
        return false;
    mark(call, slot);
    return true;
}

/* named_key_fn: is the slot *owner? */
static bool is_slot(struct call *call, uint16_t slot, struct bytes key, void *owner)
{
    (void)call;
    (void)key;
    return slot == *(const uint16_t *)owner;
}

static bool is_watching(const struct session *session)
{
    return !list_empty(&session->watcher.watches) || session->watcher.dirty ||
           session->pending.watches;
}

bool bounce_gate(struct call *call)
{
    const struct session *session = call->session;
    bool is_exec = call->command->traits & TRAIT_RUNS_QUEUE;
    if (!bounce_follows(call) || session->transaction.is_aborted)
        return false;
    if (!session->request.is_across)
        return (is_exec || call->command->flags & CMD_SCRIPT) &&
               named_keys_find(call, mark_foreign, NULL);
    if (session->pending.across || is_watching(session))
        return false; /* it runs already, or it must run here */
    if (session->pending.bounces.slots && named_keys_find(call, mark_bounced, NULL))
        return true;
    /* The proxy has sent it here because of the first key that is written (route.c), and learns the owner of that one only. */
    return !named_keys_find(call, is_key_here, NULL) &&
           (named_keys_find_written(call, mark_foreign, NULL) ||
            named_keys_find(call, mark_foreign, NULL));
}

/* The command has opened a key of this slot, which is not here. False: it gets an error. */
static bool takes_bounce(struct call *call, uint16_t slot)
{
    if (!bounce_follows(call) || call->in_exec || call->in_script)
        return false;
    /* GEOADD runs ZADD with other arguments, which are fewer; its key is named. A cursor of SCAN names a slot. */
    bool is_named = call->command->flags & CMD_INTERNAL || call->session->request.scan_end ||
                    !command_arity_ok(call->command, call->argc) ||
                    named_keys_find(call, is_slot, &slot);
    if (!is_named)
        return false;
    mark(call, slot);
    return true;
}

/* partition_shards.slot_refusal */
static const char *refusal_or_bounce(struct call *call, uint16_t slot, struct bytes key)
{
    return takes_bounce(call, slot) ? NULL : call->partition->shards.plain_refusal(call, slot, key);
}

void bounce_init(struct partition *partition)
{
    partition->shards.plain_refusal = partition->shards.slot_refusal;
    partition->shards.slot_refusal = refusal_or_bounce;
    partition->clients.line = line_new(partition);
}

void bounce_free(struct partition *partition)
{
    line_free(partition->clients.line);
}

/* ---- replying ---- */

/* named_key_fn: from now on keys of this slot bounce on the connection */
static bool add_bounced(struct call *call, uint16_t slot, struct bytes key, void *owner)
{
    (void)key;
    (void)owner;
    bounced_slots_add(&call->session->pending.bounces.slots, slot);
    return false;
}

/* Before EVALSHA: SCRIPT LOAD, as the owner may not have the script. Returns the number of requests. */
static uint32_t write_script(const struct call *call, const struct command *command,
                             const struct bytes *argv, uint32_t argc, struct out *out)
{
    const struct partition *partition = call->partition;
    struct out source;
    bool is_cached = false;
    out_init(&source);
    if (command->flags & CMD_SCRIPT_CACHE && !command->parent && argc > 1)
        is_cached = partition->running.script_hooks->source(call->session, argv[1], &source);
    if (is_cached) {
        out_printf(out, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", source.bytes);
        out_move(out, &source);
        out_write(out, "\r\n", 2);
    }
    out_clear(&source);
    return is_cached;
}

/* Writes the requests that the proxy has to send to the owner. Returns their number. */
static uint32_t write_requests(const struct call *call, struct out *out)
{
    static const struct bytes multi[] = {{"MULTI", 5}};
    const struct session *session = call->session;
    uint32_t count = 1;
    uint32_t prefixes = session->request.prefixes - (waits_current(session) ? WAIT_ARGS : 0);
    if (call->ready_key) /* it has waited, and its arguments are a copy without prefixes */
        prefixes = 0;
    if (!call->ready_key && session->tracker.is_caching) {
        const struct bytes words[] = {BYTES("CLIENT"), BYTES("CACHING"),
                                      session->tracker.is_optin ? BYTES("YES") : BYTES("NO")};
        resp_write_words(out, words, 3);
        count++;
    }
    count += write_script(call, call->command, call->argv, call->argc, out);
    if (call->command->traits & TRAIT_RUNS_QUEUE) {
        for (const struct queued *at = session->transaction.first; at; at = at->next)
            count += write_script(call, at->command, at->argv, at->argc, out);
        resp_write_words(out, multi, 1);
        count++;
        for (const struct queued *at = session->transaction.first; at; at = at->next, count++)
            resp_write_words(out, at->argv, at->argc);
    }
    resp_write_words(out, call->argv - prefixes, call->argc + prefixes);
    return count;
}

/* Requests behind this one bounce, too, until the proxy says that it has received this reply. The reply is a bounce or, if the batch that
 * holds it is not committed, an error: so replies are counted. What bounces behind this one needs no number: the proxy sent it
 * before SEEN, so it has bounced when SEEN arrives. */
static void number_bounce(struct session *session, enum bounce_why why)
{
    if (!session->pending.bounces.unseen && why != BOUNCE_BEHIND)
        session->pending.bounces.unseen = session->replies.count + 1;
}

static void write_bounce(struct call *call, const struct slot_owner_found *owner, uint16_t slot,
                         enum bounce_why why)
{
    struct session *session = call->session;
    number_bounce(session, why);
    struct out requests;
    out_init(&requests);
    out_truncate(call->reply.out, call->begun - session->request.owned_bytes);
    struct bounce bounce = {.slot = slot,
                            .why = (uint8_t)why,
                            .first = owner->first,
                            .last = owner->last,
                            .db = session->scope.db,
                            .epoch = owner->epoch,
                            .shard = bytes_of(owner->shard),
                            .address = bytes_of(owner->address ? owner->address : ""),
                            .space = session_namespace(session),
                            .count = write_requests(call, &requests)};
    bounce_write(call->reply.out, &bounce, &requests);
}

static void end_transaction(struct call *call)
{
    transaction_end(&call->session->transaction);
    session_unwatch(call->session);
}

/* The owner of the slot is not known, or this shard is about to own it. False: the request waits. */
static bool refuse_without_owner(struct call *call)
{
    struct partition_shards *shards = &call->partition->shards;
    uint64_t now_ms = loop_mono_ms(call->partition->loop);
    if (!shards->unknown_until_ms)
        shards->unknown_until_ms = now_ms + HOLD_MS;
    if (!call->ready_key && now_ms < shards->unknown_until_ms)
        return false;
    char text[256];
    (void)snprintf(text, sizeof text,
                   "TRYAGAIN shard '%s' does not own slot %u, and does not know which shard does: "
                   "its owner is not reachable, or the slot is being moved",
                   peer_set_shard(shards->peers), call->session->request.misled_slot);
    reject_command(call, text);
    return true;
}

bool bounce_reply(struct call *call)
{
    struct session *session = call->session;
    bool is_exec = call->command->traits & TRAIT_RUNS_QUEUE;
    struct slot_owner_found owner;
    session->request.is_misled = false;
    call->failed = false;
    out_truncate(call->reply.out, call->begun);
    if (is_exec && is_watching(session)) {
        reply_null_array(&call->reply);
        end_transaction(call);
        return true;
    }
    if (!call->partition->shards.find_owner(call->partition, session->request.misled_slot, &owner))
        return refuse_without_owner(call);
    write_bounce(call, &owner, session->request.misled_slot, BOUNCE_OWNER);
    metric_add(call->partition->metrics.process, METRIC_BACKEND_BOUNCES, 1);
    bounced_slots_add(&session->pending.bounces.slots, session->request.misled_slot);
    (void)named_keys_find(call, add_bounced, NULL);
    if (is_exec)
        end_transaction(call);
    else if (bytes_is(call->argv[0], "watch"))
        session->watcher.dirty = true;
    return true;
}

/* ---- a request that leaves its line, and those behind it ---- */

static bool is_for_data(const struct command *command)
{
    unsigned flags = CMD_WRITE | CMD_READONLY | CMD_SCRIPT | CMD_MAY_REPLICATE;
    return command->traits & TRAIT_RUNS_QUEUE ||
           (command->flags & flags && !(command->flags & CMD_INTERNAL));
}

/* named_key_fn: would the request wait for a lock of the key? */
static bool stops_call(struct call *call, uint16_t slot, struct bytes key, void *locks)
{
    bool writes = !(call->command->flags & CMD_READONLY);
    struct arena_mark mark = arena_mark(call->arena);
    struct bytes row_key =
        encode_metadata_key(call->arena, session_space(call->session)->name, slot, key);
    bool is_stopped = lock_stops(locks, row_key, writes, NULL) != NULL;
    arena_release(call->arena, &mark);
    return is_stopped;
}

/* Of those behind one that has left, others that would wait for locks leave with it, so that not all come back for each of them. */
static bool would_wait(struct call *call)
{
    struct lock_set *locks = call->partition->shards.locks;
    return lock_set_count(locks) && named_keys_find(call, stops_call, locks);
}

/* Why the request must leave; BOUNCE_OWNER: it need not. */
static enum bounce_why why_it_leaves(struct call *call)
{
    const struct session *session = call->session;
    if (session->pending.line.leaves)
        return BOUNCE_WAITS;
    bool is_behind = session->pending.line.is_left && !session->pending.across &&
                     !session->transaction.is_aborted && is_for_data(call->command);
    if (!is_behind)
        return BOUNCE_OWNER;
    return would_wait(call) ? BOUNCE_WAITS : BOUNCE_BEHIND;
}

static void bounce_to_self(struct call *call, enum bounce_why why, uint16_t slot)
{
    const char *own = peer_set_shard(call->partition->shards.peers);
    const struct slot_owner_found self = {.shard = own, .first = slot, .last = slot, .epoch = 1};
    write_bounce(call, &self, slot, why);
    metric_add(call->partition->metrics.process, METRIC_BACKEND_LEFT_LINE, 1);
    if (call->command->traits & TRAIT_RUNS_QUEUE)
        end_transaction(call);
}

bool bounce_line(struct call *call)
{
    struct session_line *line = &call->session->pending.line;
    unsigned from = 0;
    uint16_t slot = 0;
    uint16_t last;
    enum bounce_why why = why_it_leaves(call);
    if (why == BOUNCE_OWNER || !bounce_follows(call))
        return false;
    /* The shard may have lost its last slot since another request has left: those behind must not run before that one. */
    if (!slot_set_next_run(call->partition->shards.here, &from, &slot, &last) && !line->is_left)
        return false;
    line->is_left = true;
    bounce_to_self(call, why, slot);
    return true;
}

/* ---- waiting ---- */

void bounce_tick(struct partition *partition)
{
    const struct partition_shards *shards = &partition->shards;
    if (shards->unknown_until_ms && loop_mono_ms(partition->loop) >= shards->unknown_until_ms)
        partition_resume(partition);
}
