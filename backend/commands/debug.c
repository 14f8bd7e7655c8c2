/*
 * debug.c - harmless DEBUG subcommands, for test suites.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "backend/peer/peer_set.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { SLEEP_S_MAX = 3600 };

/* Parses like atof(), but from bytes without terminator. */
static double parse_sleep_seconds(struct bytes text)
{
    char copy[64];
    size_t len = text.len < sizeof copy - 1 ? text.len : sizeof copy - 1;
    memcpy(copy, text.data, len);
    copy[len] = 0;
    double seconds = strtod(copy, NULL);
    if (!(seconds > 0))
        return 0;
    return seconds < SLEEP_S_MAX ? seconds : SLEEP_S_MAX;
}

/* Blocks the partition's thread, as Redis blocks its own. */
static void debug_sleep(struct call *call)
{
    double seconds = parse_sleep_seconds(call->argv[2]);
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0)
        ;
    reply_ok(&call->reply);
}

static void debug_set_active_expire(struct call *call)
{
    call->partition->expiry.is_active = !bytes_equal(call->argv[2], BYTES("0"));
    reply_ok(&call->reply);
}

static void debug_object(struct call *call)
{
    struct entry entry;
    if (!keyspace_open(call, call->argv[2], OPEN_QUIET, &entry))
        return;
    if (!entry.exists) {
        call_error(call, ERR_NO_SUCH_KEY);
        return;
    }
    size_t bytes = entry.row_key.len + entry.meta.payload.len;
    char text[160];
    (void)snprintf(
        text, sizeof text,
        "Value at:0x0 refcount:1 encoding:%s serializedlength:%zu lru:0 lru_seconds_idle:%" PRIu64
        " slot:%u",
        type_name(entry.meta.type), bytes, entry_idle_s(call, &entry), entry.slot);
    reply_status(&call->reply, text);
}

/* All committed rows are in the WAL: DEBUG RELOAD syncs it. */
static void debug_reload(struct call *call)
{
    char reason[256];
    struct storage *storage = call->partition->storage;
    if (storage_sync_upto(storage, storage_logged(storage), reason, sizeof reason) == OK)
        reply_ok(&call->reply);
    else
        call_errorf(call, "ERR %s", reason);
}

/* Drops caches, so that committed rows are on the disk only; with NOFLUSH, rows in memtables stay there. For tests. */
static void debug_evict(struct call *call)
{
    struct store *store = storage_store(call->partition->storage);
    char reason[256];
    bool flushes = call->argc == 2 || !bytes_is(call->argv[2], "NOFLUSH");
    if (flushes && !commit_apply(call->partition->commit)) {
        call_error_text(call, "ERR writes are being committed: try again");
        return;
    }
    if (flushes && storage_flush(call->partition->storage, reason, sizeof reason) != OK) {
        call_errorf(call, "ERR %s", reason);
        return;
    }
    if (flushes)
        store_compact_ranges(store);
    overlay_store_changed(call->partition->overlay); /* drops cached and prefetched rows */
    store_forget_blocks(store);
    reply_ok(&call->reply);
}

/* DEBUG PEER-ECHO shard delay-ms text: sends the text to another partition; DEBUG PEER-ECHOES lists the replies. */
static void debug_peer_echo(struct call *call)
{
    int64_t delay_ms;
    if (!call_int64(call, 3, &delay_ms))
        return;
    const char *error =
        peer_set_echo(call->partition->shards.peers, call->argv[2], delay_ms, call->argv[4]);
    if (error)
        call_error_text(call, error);
    else
        reply_ok(&call->reply);
}

/* Replies the results of the last PEER-ECHOs, oldest first. */
static void debug_peer_echoes(struct call *call)
{
    const char *ends[PEER_ECHOES_KEPT];
    int count = peer_set_echoes(call->partition->shards.peers, ends);
    reply_array(&call->reply, count);
    for (int i = 0; i < count; i++)
        reply_bulk_text(&call->reply, ends[i]);
}

/* Accepts switches that have no effect here. */
static void debug_nothing(struct call *call)
{
    reply_ok(&call->reply);
}

static void debug_help(struct call *call)
{
    static const char *const lines[] = {
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "EVICT [NOFLUSH]",
        "    Flush memtables to files, and drop all caches; with NOFLUSH only drop the caches.",
        "OBJECT <key>",
        "    Show low level info about the key.",
        "PEER-ECHO <shard> <milliseconds> <text>",
        "    Send the text to the backend of a shard, which sends it back after this time.",
        "PEER-ECHOES",
        "    List the results of the last PEER-ECHOs, oldest first.",
        "RELOAD",
        "    Sync the log to disk.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Setting it to 0 disables expiring keys in background.",
        "SLEEP <seconds>",
        "    Stop this partition for <seconds>; decimals are allowed.",
        "HELP",
        "    Print this help.",
    };
    enum { LINES = sizeof lines / sizeof lines[0] };
    reply_array(&call->reply, LINES);
    for (int i = 0; i < LINES; i++)
        reply_status(&call->reply, lines[i]);
}

void cmd_debug(struct call *call)
{
    static const struct {
        const char *name;
        uint32_t argc_min;
        uint32_t argc_max;
        handler_fn *run;
    } words[] = {
        {"SLEEP", 3, 3, debug_sleep},
        {"SET-ACTIVE-EXPIRE", 3, 3, debug_set_active_expire},
        {"OBJECT", 3, 4, debug_object},
        {"EVICT", 2, 3, debug_evict},
        {"PEER-ECHO", 5, 5, debug_peer_echo},
        {"PEER-ECHOES", 2, 2, debug_peer_echoes},
        {"RELOAD", 2, 5, debug_reload},
        {"LOADAOF", 2, 2, debug_reload},
        {"CHANGE-REPL-ID", 2, 2, debug_nothing},
        {"QUICKLIST-PACKED-THRESHOLD", 3, 3, debug_nothing},
        {"SET-DISABLE-DENY-SCRIPTS", 3, 3, debug_nothing},
        {"REPLYBUFFER", 4, 4, debug_nothing},
        {"HELP", 2, 2, debug_help},
    };
    struct bytes word = call->argv[1];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (bytes_is(word, words[i].name) && call->argc >= words[i].argc_min &&
            call->argc <= words[i].argc_max) {
            words[i].run(call);
            return;
        }
    }
    call_errorf(call,
                "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try DEBUG HELP.",
                (int)(word.len < 128 ? word.len : 128), word.data);
}
