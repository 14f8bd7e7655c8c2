/*
 * scree.c - SCREE subcommands, which proxies and tools send on connections that authenticated with the cluster secret.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/script/script.h"
#include "backend/session/session.h"
#include "backend/session/waits.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/participant.h"
#include "shared/command/command_reply.h"
#include "shared/log.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

static const int64_t KEEP_MS_MAX = 366LL * 24 * 3600 * 1000; /* longer than any ephemeral-after */

void cmd_scree_auth(struct call *call)
{
    const struct backend_config *config = &call->partition->snapshot->config;
    const char *secret = config->secret;
    bool is_previous =
        *config->secret_previous && secret_equal(call->argv[2], bytes_of(config->secret_previous));
    bool is_secret = secret_equal(call->argv[2], bytes_of(secret));
    if (!*secret) {
        call_error_text(call, "ERR no cluster secret is configured here: set the option secret");
    } else if (!is_secret && !is_previous) {
        call_error_text(
            call,
            "WRONGPASS wrong cluster secret: it must equal the option secret of this backend");
    } else {
        call->session->login.is_internal = true;
        call->session->login.is_authenticated = true;
        reply_ok(&call->reply);
    }
}

/* SCREE AS name rules command…: dispatch() handles it. This handler gets only a SCREE AS inside another one. */
void cmd_scree_as(struct call *call)
{
    call_error_text(call, "ERR SCREE AS cannot be used inside SCREE AS");
}

/* True when the key has something for commands of the group; false also when the call has failed. */
static bool has_something(struct call *call, struct bytes key, enum command_group group)
{
    struct entry entry;
    return keyspace_open(call, key, OPEN_QUIET, &entry) && entry.exists &&
           type_rows[entry.meta.type].blocks == group;
}

/* Does the key end the search for the first key that has something? A key of another type does: the command replies WRONGTYPE. */
static bool ends_search(struct call *call, struct bytes key)
{
    struct entry entry;
    return keyspace_open(call, key, OPEN_QUIET, &entry) && entry.exists;
}

/* SCREE AWAIT command timeout-ms key [key …]: replies the first key that exists, or later one with something for the command. */
void cmd_scree_await(struct call *call)
{
    enum { NAME_AT = 2, TIMEOUT_AT, KEYS_AT };
    const struct command *command = command_find_argv(&call->argv[NAME_AT], 1);
    const struct bytes *keys = &call->argv[KEYS_AT];
    uint32_t count = call->argc - KEYS_AT;
    int64_t timeout_ms;
    if (!call_int64(call, TIMEOUT_AT, &timeout_ms))
        return;
    if (!command || !(command->traits & TRAIT_FIRST_OF_KEYS) || timeout_ms < 0) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (call->ready_key && has_something(call, *call->ready_key, command->group)) {
        reply_bulk(&call->reply, *call->ready_key);
        return;
    }
    for (uint32_t i = 0; i < count && !call->failed; i++) {
        if (ends_search(call, keys[i])) {
            reply_bulk(&call->reply, keys[i]);
            return;
        }
    }
    if (call->failed)
        return;
    if (!blocking_await(call, command->group, keys, count, (uint64_t)timeout_ms))
        reply_null_array(&call->reply);
}

/* Replies to a request without the cluster secret, of a subcommand that dispatch() handles when the secret was given. */
static void reply_internal(struct call *call, const char *subcommand)
{
    call_errorf(
        call, "ERR SCREE %s is internal: authenticate with SCREE AUTH and the cluster secret first",
        subcommand);
}

void cmd_scree_show(struct call *call)
{
    reply_internal(call, "SHOW");
}

void cmd_scree_try(struct call *call)
{
    reply_internal(call, "TRY");
}

void cmd_scree_across(struct call *call)
{
    reply_internal(call, "ACROSS");
}

void cmd_scree_part(struct call *call)
{
    reply_internal(call, "PART");
}

void cmd_scree_owned(struct call *call)
{
    reply_internal(call, "OWNED");
}

/* SCREE UNTIL slot SCAN cursor…: dispatch() handles it. This handler gets only invalid requests. */
void cmd_scree_until(struct call *call)
{
    call_error_text(call, "ERR SCREE UNTIL takes a slot, 0 to 16383, and SCAN");
}

/* SCREE WAIT number protocol namespace db rule command…: dispatch() handles it. This handler gets only invalid requests. */
void cmd_scree_wait(struct call *call)
{
    call_error_text(call,
                    "ERR SCREE WAIT takes an unused number, the protocol (2 or 3), a namespace, "
                    "a database, a slot rule, and a blocking command");
}

/* SCREE UNBLOCK number TIMEOUT|ERROR|GONE. Has no reply of its own: the unblocked SCREE WAIT gets one. */
void cmd_scree_unblock(struct call *call)
{
    int64_t id;
    struct bytes how = call->argv[3];
    if (!call_int64(call, 2, &id))
        return;
    bool is_gone = bytes_is(how, "gone");
    bool is_error = bytes_is(how, "error");
    if (!is_gone && !is_error && !bytes_is(how, "timeout")) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    struct waiter *waiter = waits_find(call->session, (uint64_t)id);
    if (waiter && is_gone)
        blocking_cancel(waiter);
    else if (waiter)
        blocking_unblock_later(waiter, is_error);
}

/* SCREE SCRIPT KILL: for operators, when SCRIPT KILL replies UNKILLABLE. */
void cmd_scree_script(struct call *call)
{
    struct script_run *run = scripts_running(call->partition->scripts);
    if (!bytes_is(call->argv[2], "kill")) {
        call_error_text(call, "ERR unknown subcommand of SCREE SCRIPT: expected KILL");
    } else if (!run) {
        call_error_text(call, "NOTBUSY No scripts in execution right now.");
    } else {
        run->end = SCRIPT_FORCED;
        reply_ok(&call->reply);
    }
}

/* SCREE USE namespace db [slot-rule]. */
/* The limits of one command in the namespace, which may be missing. */
static bool use_limits(const struct call *call, uint64_t *memory, uint64_t *time_ms)
{
    *memory = *time_ms = 0;
    return call->argc <= 5 || (call->argc == 7 && number_parse_uint64(call->argv[5], memory) &&
                               number_parse_uint64(call->argv[6], time_ms));
}

/* SCREE USE name db [rule [command-memory command-time-limit]]: bytes and milliseconds; 0: as for all. */
void cmd_scree_use(struct call *call)
{
    struct slot_rule rule;
    uint64_t memory;
    uint64_t time_ms;
    bool has_rule = call->argc > 4;
    struct bytes name = call->argv[2];
    int64_t db;
    if (name.len && !namespace_name_valid(name)) {
        call_error_text(
            call, "ERR invalid namespace: expected a name of 1 to 200 bytes, or an empty text");
    } else if (!number_parse_int64(call->argv[3], &db) || db < 0 ||
               db >= session_databases(call->session)) {
        call_error(call, ERR_DB_INDEX);
    } else if (has_rule && !slot_rule_parse(call->argv[4], &rule)) {
        call_error_text(call, "ERR invalid slot rule: expected tag, prefix:SEP:N or fixed:SLOT");
    } else if (!use_limits(call, &memory, &time_ms)) {
        call_error_text(call, "ERR expected bytes and milliseconds of one command");
    } else {
        session_use(call->session, name, (uint8_t)db,
                    has_rule && rule.kind != SLOT_RULE_TAG ? &rule : NULL);
        call->session->scope.command_memory = memory;
        call->session->scope.command_time_ms = time_ms;
        reply_ok(&call->reply);
    }
}

/* SCREE SLOTS ranges. */
void cmd_scree_slots(struct call *call)
{
    struct slot_set *slots;
    if (!slot_set_get(&call->partition->clients.slot_sets, call->argv[2], &slots)) {
        call_error_text(call, "ERR invalid slots: expected ranges such as 0-8191,9000");
        return;
    }
    session_set_slots(call->session, slots);
    if (!call->session->login.counts_bounces) /* a proxy that does not send SCREE BOUNCES SEEN */
        session_end_bounces(call->session);
    reply_ok(&call->reply);
}

/* The proxy knows of the bounces among so many replies on this connection, and says so from now on. False: it is no number. */
static bool see_bounces(struct session *session, struct bytes number)
{
    uint64_t seen;
    if (!number_parse_uint64(number, &seen))
        return false;
    session->login.counts_bounces = true;
    if (seen >= session->pending.bounces.unseen)
        session_end_bounces(session);
    return true;
}

/* SCREE BOUNCES: the proxy sends a request that this shard gives back to the shard that owns its keys (bounce.h).
 * WAITING: this shard may also give back requests that must wait (line.h). SEEN: the proxy has received so many replies on this connection. */
void cmd_scree_bounces(struct call *call)
{
    struct session *session = call->session;
    bool is_waiting = call->argc == 3 && bytes_is(call->argv[2], "waiting");
    bool is_seen =
        call->argc == 4 && bytes_is(call->argv[2], "seen") && see_bounces(session, call->argv[3]);
    if (call->argc > 2 && !is_waiting && !is_seen) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    session->login.follows_bounces = true;
    session->login.shares_line |= is_waiting;
    reply_ok(&call->reply);
}

/* SCREE STOPS: before the partition stops, it sends STOPPING_FRAME on this connection and finishes requests in flight (stopping.h). */
void cmd_scree_stops(struct call *call)
{
    call->session->login.hears_stop = true;
    reply_ok(&call->reply);
}

/* When the database was last used. Uses before the start of this process are not recorded, so its start counts as a
 * use. */
static uint64_t used_ms(const struct call *call, const struct space *space)
{
    uint64_t up_ms =
        loop_mono_ms(call->partition->loop) - call->partition->process->started_mono_ms;
    return space->used_ms ? space->used_ms : call->now_ms - up_ms;
}

/* SCREE KEEP ms: a proxy has clients in the namespace, so the namespace must not be dropped during this time. */
/* Reads argument 2 as a time in milliseconds. False: an error was replied. */
static bool keep_time(struct call *call, int64_t *keep_ms)
{
    if (!call_int64(call, 2, keep_ms))
        return false;
    if (*keep_ms >= 0 && *keep_ms <= KEEP_MS_MAX)
        return true;
    call_error_text(call, "ERR invalid time: expected milliseconds, at most 366 days");
    return false;
}

void cmd_scree_keep_expired(struct call *call)
{
    uint64_t *kept_until_ms = &call->partition->expiry.kept_until_ms;
    int64_t keep_ms;
    if (!keep_time(call, &keep_ms))
        return;
    uint64_t until_ms = keep_ms ? call->now_ms + (uint64_t)keep_ms : 0;
    if (until_ms == 0 || until_ms > *kept_until_ms)
        *kept_until_ms = until_ms;
    reply_ok(&call->reply);
}

void cmd_scree_keep(struct call *call)
{
    int64_t keep_ms;
    if (!keep_time(call, &keep_ms))
        return;
    uint64_t until_ms = call->now_ms + (uint64_t)keep_ms;
    call->space->used_ms = call->now_ms;
    if (call->space->kept_until_ms < until_ms)
        call->space->kept_until_ms = until_ms;
    reply_ok(&call->reply);
}

static bool is_unused(const struct call *call, const struct space *space, uint64_t idle_ms)
{
    return used_ms(call, space) + idle_ms <= call->now_ms && space->kept_until_ms <= call->now_ms;
}

/* SCREE DROP idle-ms: replies 1 when the namespace was dropped, 0 when it was used within this time, or a proxy
 * keeps it. */
void cmd_scree_drop(struct call *call)
{
    struct space_set *spaces = call->partition->spaces;
    struct bytes name = session_namespace(call->session);
    int64_t idle_ms;
    if (!call_int64(call, 2, &idle_ms))
        return;
    bool is_idle = idle_ms >= 0 && name.len > 0;
    for (uint8_t db = 0; is_idle && db < DATABASES_MAX; db++)
        is_idle = is_unused(call, space_open(spaces, name, db), (uint64_t)idle_ms);
    for (uint8_t db = 0; is_idle && db < DATABASES_MAX; db++)
        keyspace_flush(call, space_open(spaces, name, db));
    if (is_idle) {
        functions_delete_rows(call->partition, name);
        scripts_drop(call->partition->scripts, name);
    }
    reply_int(&call->reply, is_idle);
}

void cmd_scree_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

static void print_transaction(void *owner, const char *line)
{
    reply_bulk(owner, bytes_of(line));
}

/* SCREE TRANSACTIONS COMMIT | ABORT id MAY-DIFFER, FORGET id: a line if this partition has done it. */
static void force_transaction(struct call *call)
{
    char line[512];
    const char *why = NULL;
    struct participant *participant = call->partition->shards.participant;
    bool forgets = call->argc == 4 && bytes_is(call->argv[2], "forget");
    bool is_commit = bytes_is(call->argv[2], "commit");
    bool forces = call->argc == 5 && (is_commit || bytes_is(call->argv[2], "abort")) &&
                  bytes_is(call->argv[4], "may-differ");
    if (!forgets && !forces) {
        call_error_text(call, "ERR expected SCREE TRANSACTIONS; COMMIT id MAY-DIFFER or ABORT id "
                              "MAY-DIFFER: ends a transaction whose deciding shard is lost for "
                              "good, which may have decided otherwise; or FORGET id");
        return;
    }
    bool is_done = forgets ? participant_forget(participant, call->argv[3])
                           : participant_force(participant, call->argv[3], is_commit, &why);
    if (why) {
        call_error_text(call, why);
        return;
    }
    (void)snprintf(line, sizeof line, "id=%.*s partition=%u %s", (int)call->argv[3].len,
                   call->argv[3].data, call->partition->index,
                   forgets     ? "forgotten=yes"
                   : is_commit ? "forced=commit"
                               : "forced=abort");
    reply_array(&call->reply, is_done);
    if (is_done)
        reply_bulk_text(&call->reply, line);
}

/* SCREE TRANSACTIONS: a line for each transaction in which this partition is the coordinator or a participant. */
void cmd_scree_transactions(struct call *call)
{
    const struct partition_shards *shards = &call->partition->shards;
    if (call->argc > 2) {
        force_transaction(call);
        return;
    }
    struct participant_figures figures = participant_figures(shards->participant);
    reply_array(&call->reply,
                coordinator_figures(shards->coordinator).count + figures.count + figures.forced);
    coordinator_list(shards->coordinator, print_transaction, &call->reply);
    participant_list(shards->participant, print_transaction, &call->reply);
}
