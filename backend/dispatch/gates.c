#include "backend/dispatch/gates.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/dispatch/acl_gate.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/fresh_reads.h"
#include "backend/dispatch/handlers.h"
#include "backend/dispatch/leader_gate.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/session/channel_relay.h"
#include "backend/session/limits.h"
#include "backend/session/monitor.h"
#include "backend/session/session_reply.h"
#include "backend/transaction/coordinator.h"
#include "shared/acl/audit.h"
#include "shared/command/keys.h"
#include "shared/command/script_flags.h"
#include "shared/error_code.h"

void reject_command(struct call *call, const char *text)
{
    struct transaction *transaction = &call->session->transaction;
    if (call->command)
        call->partition->metrics.stats->commands[call->command->id].rejected++;
    if (call->command && call->command->traits & TRAIT_RUNS_QUEUE) {
        transaction_end(transaction);
        session_unwatch(call->session);
        text += error_has_code(bytes_of(text), "ERR") ? strlen("ERR ") : 0;
        call_errorf(call, "EXECABORT Transaction discarded because of: %s", text);
        return;
    }
    transaction->is_aborted |= transaction->is_open;
    call_error_text(call, text);
}

/* Counts a refusal whose error a command_error_* function has replied. */
static bool count_rejected(struct call *call)
{
    struct transaction *transaction = &call->session->transaction;
    transaction->is_aborted |= transaction->is_open;
    if (call->command)
        call->partition->metrics.stats->commands[call->command->id].rejected++;
    stats_error(call->partition->metrics.stats, "ERR");
    call->failed = true;
    return false;
}

static bool gate_known(struct call *call)
{
    const struct command *command = call->command;
    if (command && handlers[command->id])
        return true;
    if (command && command_has_subs(command) && command->handlers & HANDLER_BACKEND)
        return true; /* a container without subcommand: gate_arity refuses it */
    call->command = NULL;
    if (command && command->parent != COMMAND_NONE &&
        command_of(command->parent)->handlers & HANDLER_BACKEND)
        command_error_unknown_sub(&call->reply, command_of(command->parent), call->argv[1]);
    else if (command)
        command_error_unknown(&call->reply, call->argv, call->argc);
    else
        command_error_not_found(&call->reply, call->argv, call->argc);
    return count_rejected(call);
}

static bool gate_arity(struct call *call)
{
    if (command_arity_ok(call->command, call->argc) && handlers[call->command->id])
        return true;
    if (call->command->traits & TRAIT_RUNS_QUEUE) {
        reject_command(call, "ERR wrong number of arguments for 'exec' command");
        return false;
    }
    command_error_arity(&call->reply, call->command);
    return count_rejected(call);
}

static bool gate_auth(struct call *call)
{
    struct session *session = call->session;
    if (session_is_protected(session) && !(call->command->flags & CMD_NO_AUTH)) {
        reject_command(call,
                       "DENIED Protected mode: no password is set, so only connections from this "
                       "host, with the cluster secret or with a client certificate are accepted. "
                       "Set requirepass, or protected-mode no");
        return false;
    }
    if (session->login.is_authenticated ||
        !config_snapshot_needs_password(call->partition->snapshot) ||
        call->command->flags & CMD_NO_AUTH)
        return true;
    reject_command(call, error_text(ERR_NOAUTH));
    return false;
}

static bool gate_internal(struct call *call)
{
    /* SCREE AUTH needs no login before, so it has CMD_NO_AUTH. */
    bool needs_secret =
        call->command->flags & CMD_INTERNAL && !(call->command->flags & CMD_NO_AUTH);
    if (!needs_secret || call->session->login.is_internal)
        return true;
    reject_command(call,
                   "NOPERM this command is internal: authenticate with SCREE AUTH and the cluster "
                   "secret first");
    return false;
}

static bool gate_namespace(struct call *call)
{
    if (!command_is_walled(call->command, session_namespace(call->session)))
        return true;
    reject_command(call, error_text(ERR_OPERATOR_ONLY));
    return false;
}

static bool gate_acl(struct call *call)
{
    char text[ACL_ERROR_MAX];
    if (acl_gate(call, text))
        return true;
    if (session_user(call->session))
        reject_command(call, text);
    else
        session_abort(call->session); /* the user was removed */
    return false;
}

static bool gate_no_multi(struct call *call)
{
    if (!(call->command->flags & CMD_NO_MULTI) || !call->session->transaction.is_open)
        return true;
    reject_command(call, "ERR Command not allowed inside a transaction");
    return false;
}

/* Flags of the script or function that the command runs; 0: it declares none, or is unknown. */
static uint32_t declared_by(const struct call *call, const struct command *command,
                            struct bytes script)
{
    const struct script_hooks *hooks = call->partition->running.script_hooks;
    if (command->traits & TRAIT_SCRIPT_TEXT)
        return script_text_flags(script);
    if (call->partition->running.busy_error)
        return 0; /* a script is running: the command will be refused */
    if (command->flags & CMD_SCRIPT_CACHE)
        return hooks->script_flags(call->session, script);
    return hooks->function_flags(call->session, script);
}

/* Flags of one command, which are those of its script or function if it runs one. */
static uint32_t flags_of_command(const struct call *call, const struct command *command,
                                 const struct bytes *argv)
{
    if (!(command->flags & CMD_SCRIPT))
        return command->flags;
    return script_command_flags(command->flags, declared_by(call, command, argv[1]));
}

uint32_t effective_flags(const struct call *call)
{
    uint32_t flags = flags_of_command(call, call->command, call->argv);
    bool runs_queue = call->command->traits & TRAIT_RUNS_QUEUE;
    return runs_queue ? flags | call->session->transaction.flags : flags;
}

static bool gate_leader(struct call *call)
{
    const struct partition_copies *copies = &call->partition->copies;
    return !(copies->is_closed || copies->is_powerless) || leader_gate(call);
}

/* Is there room for what the command may write: on the disk, and within the limits? */
static bool gate_room(struct call *call)
{
    uint32_t flags = effective_flags(call);
    int err = commit_gate(call->partition->commit, flags);
    if (err != OK && leader_waits(call))
        err = OK;
    err = err == OK ? limits_gate(call, flags) : err;
    if (err == OK)
        return true;
    reject_command(call, error_text((enum error)err));
    return false;
}

/* A RESP2 client with subscriptions may run few commands, because RESP2 does not distinguish replies from messages. */
static bool gate_subscriber(struct call *call)
{
    if (!session_is_subscriber(call->session) || call->command->traits & TRAIT_SUBSCRIBER)
        return true;
    char text[256];
    (void)snprintf(text, sizeof text, SUBSCRIBER_ERROR, command_full_name(call->command));
    reject_command(call, text);
    return false;
}

/* While a slow command or script runs, only some commands are served. */
static bool gate_busy(struct call *call)
{
    if (!call->partition->running.busy_error || call->command->flags & CMD_ALLOW_BUSY ||
        call->command->traits & TRAIT_RUNS_WHILE_BUSY)
        return true;
    reject_command(call, call->partition->running.busy_error);
    return false;
}

/* MONITOR clients may not run keyspace commands: Redis treats them as replicas. */
static bool gate_monitor(struct call *call)
{
    if (!monitor_is(call->session) ||
        !(effective_flags(call) & (CMD_WRITE | CMD_READONLY | CMD_MAY_REPLICATE)))
        return true;
    reject_command(call, "ERR Replica can't interact with the keyspace");
    return false;
}

/* Logs changes that an administrator makes at this port. Those of a proxy's clients are in the log of the proxy. */
static bool audit(struct call *call)
{
    const struct command *command = call->command;
    if (command->traits & (TRAIT_AUDITED | TRAIT_AUDITED_ACTIONS) &&
        !call->session->login.is_internal && audit_wants(command, call->argv, call->argc))
        audit_command(session_user_name(call->session), stream_peer(call->session->stream), command,
                      call->argv, call->argc);
    return true;
}

bool gates_pass(struct call *call)
{
    return gate_known(call) && gate_arity(call) && gate_auth(call) && gate_internal(call) &&
           gate_namespace(call) && gate_acl(call) && gate_no_multi(call) && cluster_gate(call) &&
           gate_leader(call) && gate_room(call) && gate_subscriber(call) && gate_busy(call) &&
           gate_monitor(call) && audit(call);
}

const char *gates_refuse_nested(struct call *call, bool may_exceed, int32_t *slot)
{
    int err = commit_gate(call->partition->commit, call->command->flags);
    err = err == OK ? limits_gate_nested(call, call->command->flags, may_exceed) : err;
    return err == OK ? cluster_refuse_nested(call, slot) : error_text((enum error)err);
}

/* ---- waiting ---- */

bool call_may_write(const struct call *call)
{
    uint32_t flags = effective_flags(call);
    bool is_script = flags & CMD_SCRIPT && !(call->command->flags & CMD_READONLY);
    return is_script || flags & (CMD_WRITE | CMD_MAY_REPLICATE);
}

static bool pause_holds_command(const struct call *call, const struct command *command,
                                const struct bytes *argv)
{
    return flags_of_command(call, command, argv) & (CMD_WRITE | CMD_MAY_REPLICATE);
}

bool call_is_paused_write(const struct call *call)
{
    if (!(call->command->traits & TRAIT_RUNS_QUEUE))
        return pause_holds_command(call, call->command, call->argv);
    for (const struct queued *queued = call->session->transaction.first; queued;
         queued = queued->next)
        if (pause_holds_command(call, queued->command, queued->argv))
            return true;
    return false;
}

/* Must the request wait until the partition has claimed its slots? */
static bool waits_for_slots(const struct call *call)
{
    const struct command *command = call->command;
    return call->partition->shards.is_held &&
           (command->flags & (CMD_WRITE | CMD_READONLY | CMD_SCRIPT) ||
            command->traits & TRAIT_RUNS_QUEUE || keys_possible(command));
}

/* Must the request wait until no slot is frozen? EXEC and scripts cannot always be rolled back when one of their commands has to
 * wait for its slot; a transaction over shards can, and may hold locks for which the slots' release waits. */
static bool waits_for_thaw(const struct call *call)
{
    const struct command *command = call->command;
    bool runs_others = command->traits & TRAIT_RUNS_QUEUE || command->flags & CMD_SCRIPT;
    return slots_are_frozen(call->partition) && runs_others && call_may_write(call) &&
           !call->session->request.is_across;
}

/* Must the request wait until another session's slow call has begun again (slow_call.h)? */
static bool waits_for_slow_call(const struct call *call)
{
    const struct session *next = call->partition->running.next;
    return next && next != call->session && call_may_write(call);
}

bool gates_wait(const struct call *call)
{
    return leader_waits(call) || fresh_reads_wait(call) || waits_for_slots(call) ||
           waits_for_thaw(call) || channel_relay_waits(call) || waits_for_slow_call(call);
}
