/*
 * dump.c - DUMP and RESTORE: a key's value in RDB format (rdb_save.c, rdb_load.c).
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/rdb.h"
#include "backend/keyspace/keyspace.h"
#include "backend/session/notify.h"
#include "backend/session/push_message.h"
#include "shared/number.h"

void cmd_dump(struct call *call)
{
    struct entry entry;
    struct rdb_writer writer;
    if (!keyspace_open(call, call->argv[1], OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_null(&call->reply);
        return;
    }
    rdb_writer_init(&writer, call->arena);
    writer.limit = call->partition->snapshot->config.reply_limit_bytes;
    if (!rdb_save(call, &entry, &writer))
        return;
    struct bytes payload = rdb_finish(&writer);
    if (writer.is_over)
        call_error(call, ERR_REPLY_LIMIT);
    else
        reply_bulk(&call->reply, payload);
}

/* ---- RESTORE ---- */

struct restore_options {
    bool replace;
    bool absolute;
    int64_t ttl;
    int64_t idle_s;
    int64_t freq; /* checked and otherwise ignored, because keys are never evicted */
};

static bool number_option(struct call *call, uint32_t index, int64_t max, int64_t *value,
                          const char *error)
{
    if (!call_int64(call, index, value))
        return false;
    if (*value >= 0 && *value <= max)
        return true;
    call_error_text(call, error);
    return false;
}

static bool restore_options_parse(struct call *call, struct restore_options *options)
{
    bool idle = false;
    bool freq = false;
    *options = (struct restore_options){0};
    for (uint32_t i = 4; i < call->argc; i++) {
        bool has_value = i + 1 < call->argc;
        if (bytes_is(call->argv[i], "replace")) {
            options->replace = true;
        } else if (bytes_is(call->argv[i], "absttl")) {
            options->absolute = true;
        } else if (bytes_is(call->argv[i], "idletime") && has_value && !freq) {
            if (!number_option(call, ++i, INT64_MAX, &options->idle_s,
                               "ERR Invalid IDLETIME value, must be >= 0"))
                return false;
            idle = true;
        } else if (bytes_is(call->argv[i], "freq") && has_value && !idle) {
            if (!number_option(call, ++i, 255, &options->freq,
                               "ERR Invalid FREQ value, must be >= 0 and <= 255"))
                return false;
            freq = true;
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

void cmd_restore_asking(struct call *call)
{
    cmd_restore(call);
}

void cmd_restore(struct call *call)
{
    struct restore_options options;
    struct rdb_reader reader;
    struct entry entry;
    int64_t expire_ms;
    if (!restore_options_parse(call, &options) ||
        !keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    if (!options.replace && entry.exists) {
        call_error(call, ERR_BUSYKEY);
        return;
    }
    if (!call_int64(call, 2, &options.ttl))
        return;
    if (options.ttl < 0) {
        call_error_text(call, "ERR Invalid TTL value, must be >= 0");
        return;
    }
    if (!rdb_open(&reader, call->arena, call->argv[3])) {
        call_error_text(call, "ERR DUMP payload version or checksum are wrong");
        return;
    }
    int64_t base = options.ttl && !options.absolute ? (int64_t)call->now_ms : 0;
    if (__builtin_add_overflow(options.ttl, base, &expire_ms))
        expire_ms = INT64_MAX;
    bool replaced = entry.exists;
    uint32_t messages = call->partition->watchers.messages->count;
    /* reply-limit bounds decompressed values too */
    reader.limit = call->partition->snapshot->config.reply_limit_bytes;
    if (!rdb_load(call, &entry, &reader, (uint64_t)expire_ms)) {
        if (rdb_is_over(&reader))
            call_error(call, ERR_PAYLOAD_LIMIT);
        else if (!call->failed)
            call_error_text(call, "ERR Bad data format");
        return;
    }
    if (options.idle_s)
        entry_set_idle_s(call, &entry, (uint64_t)options.idle_s);
    bool is_over = expire_ms && (uint64_t)expire_ms <= call->now_ms;
    if (is_over) {
        entry_delete(call, &entry);
        if (replaced) /* keeps the invalidation of the old value, drops the events of the new one */
            messages_cut_frames(call->partition->watchers.messages, messages);
        else
            messages_cut(call->partition->watchers.messages, messages);
    } else if (replaced) {
        notify(call, NOTIFY_NEW, "new", call->argv[1]);
    }
    if (!is_over || replaced)
        notify(call, NOTIFY_GENERIC, is_over ? "del" : "restore", call->argv[1]);
    reply_ok(&call->reply);
}
