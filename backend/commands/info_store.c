/*
 * info_store.c - INFO persistence and rocksdb: the state of data on disk, flushes, backups and compactions.
 */
#include "backend/archive/archive.h"
#include "backend/backup/backup.h"
#include "backend/commands/info.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/space.h"
#include "backend/rank/rank_rebuild.h"
#include "backend/storage/compaction.h"
#include "backend/storage/maintenance.h"
#include "backend/storage/range_cache.h"
#include "backend/storage/row_cache.h"
#include "backend/store/pace.h"

#include <inttypes.h>

static void print_compaction(const struct compaction *compaction, struct out *out)
{
    const struct compaction_view view = compaction_look(compaction);
    out_printf(out,
               "compaction_state:%s\r\ncompaction_family:%s\r\ncompaction_bytes_done:%" PRIu64
               "\r\ncompaction_bytes_total:%" PRIu64 "\r\ncompaction_percent:%" PRIu64
               "\r\ncompaction_last_status:%s\r\n",
               view.state, view.family, view.bytes_done, view.bytes_total, view.percent, view.last);
}

/* Prints figures of all compactions in the process, including those that RocksDB starts by itself. */
static void print_pace(struct pace_figures pace, struct out *out)
{
    out_printf(out,
               "compaction_pace_bytes_per_second:%" PRIu64 "\r\ncompaction_passed_bytes:%" PRIu64
               "\r\ncompaction_waited_seconds:%.3f\r\n",
               pace.bytes_per_s, pace.bytes, (double)pace.waited_us / 1e6);
}

/* Prints the progress of replacing rank trees that older programs wrote. */
static void print_ranks(const struct rank_rebuild *rebuild, struct out *out)
{
    const struct rank_rebuild_figures figures = rank_rebuild_figures(rebuild);
    out_printf(out,
               "rank_trees_check:%s\r\nrank_trees_checked:%" PRIu64
               "\r\nrank_trees_rebuilt:%" PRIu64 "\r\nrank_trees_rebuilding:%" PRIu32 "\r\n",
               figures.is_walked ? "done" : "running", figures.checked, figures.rebuilt,
               figures.drafts);
}

void info_persistence(const struct call *call, struct out *out)
{
    const struct partition *partition = call->partition;
    const struct compaction *compaction = maintenance_compaction(partition->saves.maintenance);
    const char *written = commit_is_failed(partition->commit, NULL) ? "err" : "ok";
    out_printf(out,
               "loading:0\r\nasync_loading:0\r\ncurrent_cow_peak:0\r\ncurrent_cow_size:0\r\n"
               "current_cow_size_age:0\r\ncurrent_fork_perc:0.00\r\n"
               "current_save_keys_processed:0\r\ncurrent_save_keys_total:0\r\n"
               "rdb_changes_since_last_save:%" PRIu64 "\r\nrdb_bgsave_in_progress:%d\r\n",
               space_changes(partition->spaces) - partition->saves.changes,
               maintenance_is_running(partition->saves.maintenance, MAINTENANCE_SAVE) ||
                   backup_is_running(partition->saves.backup));
    out_printf(out,
               "rdb_last_save_time:%" PRIu64 "\r\nrdb_last_bgsave_status:%s\r\n"
               "rdb_last_bgsave_time_sec:-1\r\nrdb_current_bgsave_time_sec:-1\r\n"
               "rdb_saves:%" PRIu64 "\r\nrdb_last_cow_size:0\r\nrdb_last_load_keys_expired:0\r\n"
               "rdb_last_load_keys_loaded:0\r\n",
               partition->saves.last_s, partition->saves.failed ? "err" : "ok",
               partition->saves.count);
    out_printf(out,
               "aof_enabled:1\r\naof_rewrite_in_progress:%d\r\naof_rewrite_scheduled:0\r\n"
               "aof_last_rewrite_time_sec:-1\r\naof_current_rewrite_time_sec:-1\r\n"
               "aof_last_bgrewrite_status:ok\r\naof_last_write_status:%s\r\naof_rewrites:0\r\n"
               "aof_rewrites_consecutive_failures:0\r\naof_last_cow_size:0\r\n"
               "module_fork_in_progress:0\r\nmodule_fork_last_cow_size:0\r\n",
               compaction_is_running(compaction), written);
    out_printf(out,
               "log_id:%016" PRIx64 "\r\nlog_index:%" PRIu64 "\r\nlog_hybrid_us:%" PRIu64 "\r\n",
               partition->batch.log_id, partition->batch.index, partition->batch.hybrid.announced);
    archive_info(partition->saves.archive, out);
    print_compaction(compaction, out);
    print_pace(pace_figures(partition->process->pace), out);
    print_ranks(partition->caches.rebuild, out);
    backup_info(partition->saves.backup, out);
}

void info_rocksdb(const struct call *call, struct out *out)
{
    struct row_cache_figures rows;
    struct range_cache_figures ranges;
    uint64_t plain_keys;
    uint64_t plain_bytes;
    storage_info(call->partition->storage, out);
    overlay_cache_figures(call->partition->overlay, &rows);
    out_printf(out,
               "row_cache_hits:%" PRIu64 "\r\nrow_cache_misses:%" PRIu64
               "\r\nrow_cache_bytes:%" PRIu64 "\r\n",
               rows.hits, rows.misses, rows.bytes);
    overlay_plain_figures(call->partition->overlay, &plain_keys, &plain_bytes);
    out_printf(out, "plain_keys:%" PRIu64 "\r\nplain_keys_bytes:%" PRIu64 "\r\n", plain_keys,
               plain_bytes);
    overlay_range_figures(call->partition->overlay, &ranges);
    out_printf(out,
               "range_cache_hits:%" PRIu64 "\r\nrange_cache_misses:%" PRIu64
               "\r\nrange_cache_bytes:%" PRIu64 "\r\n",
               ranges.hits, ranges.misses, ranges.bytes);
}
