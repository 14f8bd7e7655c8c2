/*
 * memory.c - MEMORY: what keys and the process need.
 */
#include "backend/memory.h"

#include "backend/handlers.h"
#include "backend/partition.h"
#include "backend/text.h"
#include "shared/command_reply.h"

#include <inttypes.h>

/* ---- USAGE ---- */

enum { KEY_OVERHEAD = 48, ROW_OVERHEAD = 16, SAMPLES_DEFAULT = 5 };

/* Bytes of the first rows, `samples` at most (0: all), projected on the whole collection. */
static bool collection_bytes(struct call *call, struct entry *entry, int64_t samples,
                             uint64_t *bytes)
{
    struct sub_iter it;
    uint64_t rows = 0;
    uint64_t sum = 0;
    sub_iter_init(call, entry, entry->meta.type == TYPE_STREAM ? CF_STREAM : CF_DATA, BYTES(""),
                  &it);
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

void cmd_memory_usage(struct call *call)
{
    struct entry entry;
    int64_t samples;
    uint64_t bytes;
    if (!parse_samples(call, &samples) || !keyspace_open(call, call->argv[2], OPEN_QUIET, &entry))
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

/* ---- STATS ---- */

static void stat_int(struct call *call, const char *name, uint64_t value)
{
    reply_bulk_text(&call->reply, name);
    reply_int(&call->reply, (int64_t)value);
}

static void stat_ratio(struct call *call, const char *name, uint64_t value, uint64_t base)
{
    reply_bulk_text(&call->reply, name);
    reply_double(&call->reply, base ? (double)value / (double)base : 0);
}

void cmd_memory_stats(struct call *call)
{
    struct memory memory;
    memory_read(call->partition, &memory);
    uint64_t keys = space_keys_total(call->partition->spaces);
    uint64_t overhead = memory.startup + memory.clients + memory.batches;
    uint64_t dataset = memory.allocated > overhead ? memory.allocated - overhead : 0;
    reply_map(&call->reply, 28);
    stat_int(call, "peak.allocated", memory.peak_rss);
    stat_int(call, "total.allocated", memory.allocated);
    stat_int(call, "startup.allocated", memory.startup);
    stat_int(call, "replication.backlog", 0);
    stat_int(call, "clients.slaves", 0);
    stat_int(call, "clients.normal", memory.clients);
    stat_int(call, "cluster.links", 0);
    stat_int(call, "aof.buffer", memory.batches);
    stat_int(call, "block.cache", memory.block_cache);
    stat_int(call, "memtables", memory.memtables);
    stat_int(call, "table.readers", memory.table_readers);
    stat_int(call, "overhead.total", overhead);
    stat_int(call, "keys.count", keys);
    stat_int(call, "keys.bytes-per-key", keys ? dataset / keys : 0);
    stat_int(call, "dataset.bytes", dataset);
    stat_ratio(call, "dataset.percentage", dataset * 100, memory.allocated);
    stat_ratio(call, "peak.percentage", memory.rss * 100, memory.peak_rss);
    stat_int(call, "allocator.allocated", memory.allocated);
    stat_int(call, "allocator.active", memory.active);
    stat_int(call, "allocator.resident", memory.resident);
    stat_ratio(call, "allocator-fragmentation.ratio", memory.active, memory.allocated);
    stat_int(call, "allocator-fragmentation.bytes", memory.active - memory.allocated);
    stat_ratio(call, "allocator-rss.ratio", memory.resident, memory.active);
    stat_int(call, "allocator-rss.bytes", memory.resident - memory.active);
    stat_ratio(call, "rss-overhead.ratio", memory.rss, memory.resident);
    stat_int(call, "rss-overhead.bytes", memory.rss - memory.resident);
    stat_ratio(call, "fragmentation", memory.rss, memory.allocated);
    stat_int(call, "fragmentation.bytes", memory.rss - memory.allocated);
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
        out_printf(&out,
                   "The process holds twice the memory it uses: it was bigger once, or fragmented. "
                   "MEMORY PURGE may help.\n");
    if (memory.clients > memory.allocated / 2)
        out_printf(&out, "Most memory is held for clients: replies they do not read, or "
                         "transactions they do not end. See CLIENT LIST.\n");
    if (memory.memtables > memory.block_cache && memory.memtables > memory.allocated / 2)
        out_printf(&out, "Most memory holds fresh writes: see the option memtable.\n");
    if (out.bytes == 0)
        out_printf(&out, "Nothing is odd about the use of memory.\n");
    reply_report(call, &out);
}

void cmd_memory_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(COMMAND_memory), HANDLER_BACKEND);
}
