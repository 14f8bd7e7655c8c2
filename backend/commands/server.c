/*
 * server.c - small server commands: flush, swap, time, persistence, modules, the command table, the slow log.
 */
#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/space.h"
#include "backend/replica/replica_figures.h"
#include "backend/script/script.h"
#include "backend/session/session.h"
#include "backend/session/tracking.h"
#include "backend/storage/compaction.h"
#include "backend/storage/maintenance.h"
#include "shared/command/command_reply.h"
#include "shared/number.h"
#include "shared/version.h"

#include <limits.h>

/* ---- databases ---- */

void cmd_dbsize(struct call *call)
{
    if (!keyspace_is_free(call, call->space))
        return;
    keyspace_observe_size(call, call->space);
    reply_int(&call->reply, (int64_t)keyspace_size(call->space));
}

/* Parses [ASYNC|SYNC]; both are done asynchronously. */
static bool parse_flush(struct call *call)
{
    if (call->argc == 1 ||
        (call->argc == 2 && (bytes_is(call->argv[1], "ASYNC") || bytes_is(call->argv[1], "SYNC"))))
        return true;
    call_error(call, ERR_SYNTAX);
    return false;
}

static void flush_space(struct call *call, struct space *space)
{
    if (keyspace_size(space))
        keyspace_flush(call, space);
}

/* Sends an invalidation of all keys to clients with CLIENT TRACKING. */
static void forget_copies(struct call *call)
{
    const struct change change = {.kind = CHANGE_FORGOTTEN, .space = call->space};
    call->partition->watchers.changes->add(call, &change);
}

void cmd_flushdb(struct call *call)
{
    if (!parse_flush(call) || !keyspace_is_free(call, call->space))
        return;
    flush_space(call, call->space);
    forget_copies(call);
    reply_ok(&call->reply);
}

/* Flushes all databases of the session's namespace, not those of other namespaces. */
void cmd_flushall(struct call *call)
{
    if (!parse_flush(call))
        return;
    struct bytes name = session_namespace(call->session);
    bool is_free = true;
    for (int db = 0; db < DATABASES_MAX; db++) /* a wait is for the locks of all databases */
        is_free &= keyspace_is_free(call, space_open(call->partition->spaces, name, (uint8_t)db));
    if (!is_free)
        return;
    for (int db = 0; db < DATABASES_MAX; db++)
        flush_space(call, space_open(call->partition->spaces, name, (uint8_t)db));
    forget_copies(call);
    reply_ok(&call->reply);
}

static bool parse_database(struct call *call, uint32_t index, const char *error, int64_t *db)
{
    if (number_parse_int64(call->argv[index], db) && *db >= INT_MIN && *db <= INT_MAX)
        return true;
    call_error_text(call, error);
    return false;
}

void cmd_swapdb(struct call *call)
{
    int64_t a;
    int64_t b;
    int databases = session_databases(call->session);
    if (cluster_client(call->session)) { /* the other shards would keep their databases */
        call_error_text(call, "ERR SWAPDB is not allowed in cluster mode");
        return;
    }
    if (!parse_database(call, 1, "ERR invalid first DB index", &a) ||
        !parse_database(call, 2, "ERR invalid second DB index", &b))
        return;
    if (a < 0 || b < 0 || a >= databases || b >= databases) {
        call_error(call, ERR_DB_INDEX);
        return;
    }
    struct space_set *spaces = call->partition->spaces;
    struct bytes name = session_namespace(call->session);
    if (!keyspace_is_free(call, space_open(spaces, name, (uint8_t)a)) ||
        !keyspace_is_free(call, space_open(spaces, name, (uint8_t)b)))
        return;
    keyspace_swap(call, name, (uint8_t)a, (uint8_t)b);
    call_changes(call, 1);
    reply_ok(&call->reply);
}

/* ---- persistence ---- */

/* Makes everything acknowledged durable; only needed when `durability` is not `always`. */
static bool sync_store(struct call *call)
{
    char reason[256];
    struct storage *storage = call->partition->storage;
    if (storage_sync_upto(storage, storage_logged(storage), reason, sizeof reason) != OK) {
        call_errorf(call, "ERR %s", reason);
        return false;
    }
    call->partition->saves.last_s = call->now_ms / 1000;
    call->partition->saves.changes = space_changes(call->partition->spaces);
    return true;
}

void cmd_save(struct call *call)
{
    if (sync_store(call))
        reply_ok(&call->reply);
}

static bool start_save(struct partition *partition)
{
    if (!maintenance_start(partition->saves.maintenance, MAINTENANCE_SAVE))
        return false;
    partition->saves.bgsave_changes = space_changes(partition->spaces);
    return true;
}

/* Makes a copy of the store in the background (hard links); not needed for durability. */
void cmd_bgsave(struct call *call)
{
    bool schedule = call->argc == 2 && bytes_is(call->argv[1], "SCHEDULE");
    if (call->argc > 2 || (call->argc == 2 && !schedule))
        call_error(call, ERR_SYNTAX);
    else if (call->partition->copies.is_closed)
        call_error_text(call,
                        "ERR this copy of the shard does not lead: a save would hold up its log");
    else if (start_save(call->partition))
        reply_status(&call->reply, "Background saving started");
    else if (schedule)
        /* the running save replaces the scheduled one */
        reply_status(&call->reply, "Background saving scheduled");
    else
        call_error_text(call, "ERR Background save already in progress");
}

/* Starts a compaction, which is our counterpart to rewriting the log. */
void cmd_bgrewriteaof(struct call *call)
{
    /* applies the write buffer first, so that its rows are compacted too */
    (void)commit_apply(call->partition->commit);
    if (compaction_start(maintenance_compaction(call->partition->saves.maintenance)))
        reply_status(&call->reply, "Background append only file rewriting started");
    else
        call_error_text(call, "ERR Background append only file rewriting already in progress");
}

void cmd_lastsave(struct call *call)
{
    reply_int(&call->reply, (int64_t)call->partition->saves.last_s);
}

/* Parses the options of SHUTDOWN that have an effect. */
static bool parse_shutdown(struct call *call, bool *is_abort, bool *no_save)
{
    bool save = false;
    *no_save = *is_abort = false;
    for (uint32_t i = 1; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        if (bytes_is(word, "SAVE"))
            save = true;
        else if (bytes_is(word, "NOSAVE"))
            *no_save = true;
        else if (bytes_is(word, "ABORT"))
            *is_abort = true;
        else if (!bytes_is(word, "NOW") && !bytes_is(word, "FORCE"))
            goto failed;
    }
    if (!(save && *no_save) && !(*is_abort && call->argc > 2))
        return true;
failed:
    call_error(call, ERR_SYNTAX);
    return false;
}

/* Stops the whole process cleanly, without a reply. Ends a slow script (script/run.c). */
void cmd_shutdown(struct call *call)
{
    bool is_abort;
    bool no_save;
    if (!parse_shutdown(call, &is_abort, &no_save))
        return;
    if (is_abort) {
        call_error_text(call, "ERR No shutdown in progress.");
        return;
    }
    if (!no_save && call->partition->running.busy_error) {
        call_error_text(call, call->partition->running.busy_error);
        return;
    }
    process_stop(call->partition->process);
    session_end(call->session);
}

/* ---- TIME, WAIT, modules ---- */

void cmd_time(struct call *call)
{
    reply_array(&call->reply, 2);
    reply_bulk_int(&call->reply, (int64_t)(call->now_us / 1000000));
    reply_bulk_int(&call->reply, (int64_t)(call->now_us % 1000000));
}

/* ---- WAIT, WAITAOF ---- */

/* What a command waits for. */
struct copies_wish {
    int64_t copies;
    uint64_t timeout_ms; /* 0: none */
};

static bool read_copies_wish(struct call *call, uint32_t index, struct copies_wish *wish)
{
    int64_t timeout_ms;
    if (!call_int64(call, index, &wish->copies))
        return false;
    if (!number_parse_int64(call->argv[index + 1], &timeout_ms))
        call_error_text(call, "ERR timeout is not an integer or out of range");
    else if (timeout_ms < 0)
        call_error_text(call, "ERR timeout is negative");
    else
        wish->timeout_ms = (uint64_t)timeout_ms;
    return !call->failed;
}

/* False: it has replied Redis' error. */
static bool may_count_acknowledged(struct call *call)
{
    bool is_waitaof = call->command->merge == MERGE_LEAST;
    if (!call->partition->copies.replica || !call->partition->copies.is_closed)
        return true;
    call_errorf(call, "ERR %s cannot be used with replica instances. Please also note that %s",
                is_waitaof ? "WAITAOF" : "WAIT",
                is_waitaof ? "writes to replicas are just local and are not propagated."
                           : "since Redis 4.0 if a replica is configured to be writable (which is "
                             "not the default) writes to replicas are just local and are not "
                             "propagated.");
    return false;
}

/* The record that has all writes up to now, of whatever client; the open batch becomes the next one. */
static uint64_t newest_write(const struct partition *partition)
{
    return partition->batch.index + overlay_dirty(partition->overlay);
}

/* What a transaction over shards has written is in no record yet. */
static unsigned count_acknowledged(const struct call *call, uint64_t index)
{
    const struct partition_copies *copies = &call->partition->copies;
    return call->borrow ? 0 : replica_acknowledged(copies->replica, copies->term, index);
}

/* The shard has copies. If they are too few, they are counted again after they are awaited: else one between both would not be heard. */
static void wait_for_copies(struct call *call, const struct copies_wish *wish)
{
    uint64_t index = newest_write(call->partition);
    unsigned copies = count_acknowledged(call, index);
    if (copies < wish->copies) {
        replica_await_acknowledged(call->partition->copies.replica);
        copies = count_acknowledged(call, index);
    }
    if (copies >= wish->copies ||
        !blocking_wait_copies(call, index, wish->copies, wish->timeout_ms))
        blocking_reply_copies(&call->reply, call->command, copies);
}

/* A shard without copies replies 0 at once: none can come while the client waits. */
void cmd_wait(struct call *call)
{
    struct copies_wish wish;
    if (!may_count_acknowledged(call) || !read_copies_wish(call, 1, &wish))
        return;
    if (call->partition->copies.replica)
        wait_for_copies(call, &wish);
    else
        reply_int(&call->reply, 0);
}

/* With durability `always`, writes are on disk before they are acknowledged. Otherwise we sync here, unless writes of this connection are
 * not committed yet: then the reply promises nothing. */
static void sync_and_reply(struct call *call)
{
    bool durable = call->partition->snapshot->config.durability == DURABILITY_ALWAYS;
    if (!durable && !call->session->replies.held_count[0] &&
        !call->session->replies.held_count[1]) {
        if (!sync_store(call))
            return;
        durable = true;
    }
    reply_array(&call->reply, 2);
    reply_int(&call->reply, durable);
    reply_int(&call->reply, 0);
}

/* WAITAOF of Redis 7.2. A copy acknowledges what is on its disk. */
void cmd_waitaof(struct call *call)
{
    int64_t local;
    struct copies_wish wish;
    if (!call_int64(call, 1, &local) || !read_copies_wish(call, 2, &wish) ||
        !may_count_acknowledged(call))
        return;
    if (local < 0 || local > 1)
        call_error_text(call, "ERR value is out of range, value must between 0 and 1");
    else if (wish.copies < 0)
        call_error_text(call, "ERR value is out of range, must be positive");
    else if (call->partition->copies.replica)
        wait_for_copies(call, &wish);
    else
        sync_and_reply(call);
}

void cmd_module_list(struct call *call)
{
    reply_array(&call->reply, 0);
}

/* There are no modules; the error is that of a redis-server with its default configuration. */
static void refuse_modules(struct call *call)
{
    call_error_text(call,
                    "ERR MODULE command not allowed. If the enable-module-command option is set to "
                    "\"local\", you can run it from a local connection, otherwise you need to set "
                    "this option in the configuration file, and then restart the server.");
}

void cmd_module_load(struct call *call)
{
    refuse_modules(call);
}

void cmd_module_loadex(struct call *call)
{
    refuse_modules(call);
}

void cmd_module_unload(struct call *call)
{
    refuse_modules(call);
}

void cmd_module_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

void cmd_lolwut(struct call *call)
{
    struct out out;
    out_init(&out);
    out_printf(&out, "Redis ver. %s\n", version_text());
    reply_verbatim_out(&call->reply, "txt", &out);
}

/* ---- SLOWLOG ---- */

/* Selects the entries that the call may see: those of its namespace. The operator's connection, which has no
 * namespace, sees all; a script on it does not, because it may be run for clients of the proxy. */
static slowlog_space slow_space(const struct call *call, struct bytes *name)
{
    *name = session_namespace(call->session);
    return name->len || call->in_script ? name : NULL;
}

void cmd_slowlog_get(struct call *call)
{
    struct bytes name;
    char error[SLOWLOG_ERROR_MAX];
    int64_t count;
    if (slowlog_parse_get(call->argv, call->argc, &count, error))
        slowlog_reply(&call->partition->metrics.stats->slowlogs[SLOWLOG_SLOW],
                      slow_space(call, &name), count, &call->reply);
    else
        call_error_text(call, error);
}

void cmd_slowlog_len(struct call *call)
{
    struct bytes name;
    const struct slowlog *log = &call->partition->metrics.stats->slowlogs[SLOWLOG_SLOW];
    reply_int(&call->reply, (int64_t)slowlog_count(log, slow_space(call, &name)));
}

void cmd_slowlog_reset(struct call *call)
{
    struct bytes name;
    slowlog_reset(&call->partition->metrics.stats->slowlogs[SLOWLOG_SLOW], slow_space(call, &name));
    reply_ok(&call->reply);
}

void cmd_slowlog_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

/* ---- COMMANDLOG ---- */

/* The log of the kind that argument `at` names; NULL: an error was replied. */
static struct slowlog *commandlog_of(struct call *call, uint32_t at, int64_t *count)
{
    enum slowlog_kind kind;
    char error[SLOWLOG_ERROR_MAX];
    if (commandlog_parse(call->argv, at, &kind, count, error))
        return &call->partition->metrics.stats->slowlogs[kind];
    call_error_text(call, error);
    return NULL;
}

void cmd_commandlog_get(struct call *call)
{
    struct bytes name;
    int64_t count;
    const struct slowlog *log = commandlog_of(call, 3, &count);
    if (log)
        slowlog_reply(log, slow_space(call, &name), count, &call->reply);
}

void cmd_commandlog_len(struct call *call)
{
    struct bytes name;
    int64_t count;
    const struct slowlog *log = commandlog_of(call, 2, &count);
    if (log)
        reply_int(&call->reply, (int64_t)slowlog_count(log, slow_space(call, &name)));
}

void cmd_commandlog_reset(struct call *call)
{
    struct bytes name;
    int64_t count;
    struct slowlog *log = commandlog_of(call, 2, &count);
    if (!log)
        return;
    slowlog_reset(log, slow_space(call, &name));
    reply_ok(&call->reply);
}

void cmd_commandlog_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

/* ---- NAMESPACE ---- */

void cmd_namespace_current(struct call *call)
{
    struct bytes name = session_namespace(call->session);
    reply_bulk(&call->reply, name.len ? name : BYTES(NAMESPACE_DEFAULT_NAME));
}

void cmd_namespace_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

/* ---- COMMAND ---- */

void cmd_command(struct call *call)
{
    command_reply_all(&call->reply);
}

void cmd_command_count(struct call *call)
{
    command_reply_count(&call->reply);
}

void cmd_command_info(struct call *call)
{
    command_reply_info(&call->reply, call->argv, call->argc);
}

void cmd_command_docs(struct call *call)
{
    command_reply_docs(&call->reply, call->argv, call->argc);
}

void cmd_command_list(struct call *call)
{
    command_reply_list(&call->reply, call->argv, call->argc);
}

void cmd_command_getkeys(struct call *call)
{
    command_reply_getkeys(&call->reply, call->argv, call->argc);
}

void cmd_command_getkeysandflags(struct call *call)
{
    command_reply_getkeysandflags(&call->reply, call->argv, call->argc);
}

void cmd_command_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
