/*
 * memory.c - MEMORY: memory use of keys and of the process.
 */
#include "backend/session/memory.h"
#include "backend/keyspace/space.h"

#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/text.h"
#include "backend/script/script.h"
#include "shared/command/command_reply.h"
#include "shared/memory_stats.h"

#include <inttypes.h>

/* ---- USAGE ---- */

enum { KEY_OVERHEAD = 48, ROW_OVERHEAD = 16, SAMPLES_DEFAULT = 5 };

/* Estimates the bytes of a collection from its first rows, at most `samples` (0: all). */
static bool collection_bytes(struct call *call, struct entry *entry, int64_t samples,
                             uint64_t *bytes)
{
    struct sub_iter it;
    uint64_t rows = 0;
    uint64_t sum = 0;
    sub_iter_init(call, entry, type_elements(entry->meta.type), BYTES(""), &it);
    while ((samples == 0 || rows < (uint64_t)samples) && sub_iter_next(&it)) {
        sum += it.sub.len + it.value.len + ROW_OVERHEAD;
        rows++;
    }
    *bytes = rows ? (entry->meta.size > rows ? sum * entry->meta.size / rows : sum) : 0;
    return sub_iter_fini(&it);
}

static bool parse_samples(struct call *call, int64_t *samples)
{
    *samples = SAMPLES_DEFAULT;
    for (uint32_t i = 3; i < call->argc; i += 2) {
        if (i + 1 == call->argc || !bytes_is(call->argv[i], "SAMPLES")) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        if (!call_int64(call, i + 1, samples))
            return false;
        if (*samples < 0) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* `samples`: number of elements whose sizes are read, 0: all. */
static void reply_usage(struct call *call, int64_t samples)
{
    struct entry entry;
    uint64_t bytes;
    if (!keyspace_open(call, call->argv[2], OPEN_QUIET, &entry))
        return;
    if (!entry.exists) {
        reply_null(&call->reply);
        return;
    }
    if (type_is_inline(entry.meta.type) || text_is(&entry))
        bytes = text_len(&entry);
    else if (!collection_bytes(call, &entry, samples, &bytes))
        return;
    reply_int(&call->reply, (int64_t)(bytes + entry.row_key.len + KEY_OVERHEAD));
}

void cmd_memory_usage(struct call *call)
{
    int64_t samples;
    if (parse_samples(call, &samples))
        reply_usage(call, samples);
}

/* DISK USAGE of Kvrocks, which also has the name MEMORY USAGE. */
void cmd_disk_usage(struct call *call)
{
    reply_usage(call, SAMPLES_DEFAULT);
}

void cmd_disk_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

/* ---- STATS ---- */

void cmd_memory_stats(struct call *call)
{
    struct memory memory;
    memory_read(call->partition, &memory);
    const struct memory_stats stats = {
        .peak_allocated = memory.peak_rss,
        .total_allocated = memory.allocated,
        .startup_allocated = memory.startup,
        .clients = memory.clients,
        .batches = memory.batches,
        .scripts = script_set_memory(call->partition->scripts, SCRIPT_EVAL),
        .functions = script_set_memory(call->partition->scripts, SCRIPT_FUNCTION),
        .block_cache = memory.block_cache,
        .memtables = memory.memtables,
        .table_readers = memory.table_readers,
        .keys = space_keys_total(call->partition->spaces),
        .allocator_active = memory.active,
        .allocator_resident = memory.resident,
        .rss = memory.rss,
    };
    memory_stats_reply(&stats, &call->reply);
}

/* ---- the allocator ---- */

static void reply_report(struct call *call, struct out *out)
{
    char *text = arena_alloc(call->arena, out->bytes + 1);
    out_copy(out, text);
    reply_verbatim(&call->reply, "txt", (struct bytes){text, out->bytes});
    out_clear(out);
}

void cmd_memory_malloc_stats(struct call *call)
{
    struct out out;
    out_init(&out);
    if (memory_report(&out))
        reply_report(call, &out);
    else
        reply_bulk_text(&call->reply, "Stats not supported for the current allocator");
}

void cmd_memory_purge(struct call *call)
{
    if (memory_purge())
        reply_ok(&call->reply);
    else
        call_error_text(call, "ERR Error purging dirty pages");
}

void cmd_memory_doctor(struct call *call)
{
    struct memory memory;
    struct out out;
    memory_read(call->partition, &memory);
    out_init(&out);
    if (memory.rss > 2 * memory.allocated)
        out_printf(
            &out,
            "The process occupies more than twice the memory that it uses, because of an "
            "earlier peak or of fragmentation. MEMORY PURGE may return memory to the system.\n");
    if (memory.clients > memory.allocated / 2)
        out_printf(&out, "Most memory is used for clients: unread replies or open transactions. "
                         "CLIENT LIST shows how much each client uses.\n");
    if (memory.memtables > memory.block_cache && memory.memtables > memory.allocated / 2)
        out_printf(
            &out, "Most memory is used by RocksDB's memtables; the option memtable limits them.\n");
    if (out.bytes == 0)
        out_printf(&out, "No problem was found.\n");
    reply_report(call, &out);
}

void cmd_memory_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
