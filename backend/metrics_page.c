#include "backend/metrics_page.h"

#include "backend/admin.h"
#include "backend/context/backend_metrics.h"
#include "backend/context/cluster_clock.h"
#include "backend/context/partition.h"
#include "backend/server.h"
#include "backend/storage/compaction.h"
#include "backend/storage/maintenance.h"
#include "backend/store/pace.h"
#include "backend/store/store.h"
#include "shared/check.h"
#include "shared/metric_text.h"
#include "shared/net/http.h"
#include "shared/zone.h"

#include <stdio.h>
#include <sys/statvfs.h>

static const struct label_family command_families[] = {
    {LABEL_COUNT, COMMAND_SECONDS, "scree_backend_command_calls_total", "Commands executed.", 0, 0,
     0},
    {LABEL_COUNTER, COMMAND_ERRORS, "scree_backend_command_errors_total", "Commands that failed.",
     0, 0, 0},
    {LABEL_HISTOGRAM, COMMAND_SECONDS, "scree_backend_command_duration_seconds",
     "Time of execution, without queues and commits.", 1e6, 0, 24},
};

static const struct label_family partition_families[] = {
    {LABEL_HISTOGRAM, PARTITION_COMMIT_SECONDS, "scree_backend_commit_duration_seconds",
     "Time from closing a batch until its replies may be sent.", 1e6, 4, 24},
    {LABEL_HISTOGRAM, PARTITION_SYNC_SECONDS, "scree_backend_sync_duration_seconds",
     "Time to write a batch to the WAL and fsync it.", 1e6, 4, 24},
    {LABEL_HISTOGRAM, PARTITION_BATCH_COMMANDS, "scree_backend_batch_commands",
     "Commands with effects in one batch.", 0, 0, 16},
    {LABEL_HISTOGRAM, PARTITION_BATCH_BYTES, "scree_backend_batch_bytes", "Bytes of one batch.", 0,
     6, 26},
    {LABEL_HISTOGRAM, PARTITION_TURN_SECONDS, "scree_backend_loop_turn_seconds",
     "Duration of one turn of the event loop; requests that arrive during it wait.", 1e6, 4, 24},
    {LABEL_COUNTER, PARTITION_STALL_US, "scree_backend_stall_seconds_total",
     "Time without reading requests, because the open batch was full.", 1e6, 0, 0},
    {LABEL_GAUGE, PARTITION_KEYS, "scree_backend_partition_keys", "Keys of the partition.", 0, 0,
     0},
    {LABEL_GAUGE, PARTITION_CLIENTS, "scree_backend_partition_clients",
     "Connections of the partition.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_LOCKED_KEYS, "scree_backend_locked_keys",
     "Keys that transactions over several shards have locked, or wait for.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_EXPIRY_DUE, "scree_backend_expiry_due_keys",
     "Keys that have expired, or have fields that have, and were not deleted yet.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_EXPIRY_LAG_MS, "scree_backend_expiry_lag_seconds",
     "Time since the oldest of these keys has expired.", 1e3, 0, 0},
    {LABEL_GAUGE, PARTITION_TRANSACTIONS_OPEN, "scree_backend_transactions_open",
     "Commands and transactions over several shards that are coordinated here and not decided.", 0,
     0, 0},
    {LABEL_GAUGE, PARTITION_TRANSACTIONS_DECIDED, "scree_backend_transactions_decided",
     "Committed transactions that some shard has not applied yet.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_TRANSACTIONS_JOINED, "scree_backend_transactions_joined",
     "Transactions coordinated by other shards that have locked keys here, or wait for them.", 0, 0,
     0},
    {LABEL_GAUGE, PARTITION_TRANSACTIONS_IN_DOUBT, "scree_backend_transactions_in_doubt",
     "Transactions prepared here whose coordinator does not answer, or whose decision could not be "
     "written; their keys stay locked.",
     0, 0, 0},
    {LABEL_GAUGE, PARTITION_SLOTS_OWNED, "scree_backend_slots_owned",
     "Slots that the partition owns.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_SLOTS_WANTED, "scree_backend_slots_wanted",
     "Slots that the shard map of this backend gives to the partition.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_SLOTS_TO_SEND, "scree_backend_slots_to_send",
     "Slots that the partition owns, and that the shard map gives to others.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_SLOTS_TO_GET, "scree_backend_slots_to_get",
     "Slots that the shard map gives to the partition, and that it does not own.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_SLOTS_ORPHANED, "scree_backend_slots_orphaned",
     "Slots that the shard map gives to the partition, and that no shard owns.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_SLOTS_MOVING, "scree_backend_slots_moving",
     "Slots that are being copied from or to the partition.", 0, 0, 0},
    {LABEL_HISTOGRAM, PARTITION_FREEZE_SECONDS, "scree_backend_slot_freeze_seconds",
     "Time that writes to slots waited while these were handed over.", 1e6, 4, 24},
    {LABEL_HISTOGRAM, PARTITION_LOCK_SECONDS, "scree_backend_lock_hold_seconds",
     "Time that a command or transaction over several shards has held locks here.", 1e6, 4, 24},
    {LABEL_GAUGE, PARTITION_READONLY, "scree_backend_partition_readonly",
     "1: writes are refused because the store failed.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_ROW_HITS, "scree_backend_row_cache_hits_total",
     "Rows found in the row cache.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_ROW_MISSES, "scree_backend_row_cache_misses_total",
     "Rows that were not in the row cache and were read from the store.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_RANGE_HITS, "scree_backend_range_cache_hits_total",
     "Iterations over collections that began in the range cache.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_RANGE_MISSES, "scree_backend_range_cache_misses_total",
     "Iterations over collections that began in the store.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_BLOCK_HITS, "scree_backend_block_cache_hits_total",
     "Blocks that commands found in the block cache.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_BLOCK_READS, "scree_backend_block_cache_misses_total",
     "Blocks that commands read from files.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_COPIES, "scree_backend_copies",
     "Copies of the partition's shard that are members of its group; 0: there is one copy.", 0, 0,
     0},
    {LABEL_GAUGE, PARTITION_COPIES_UP, "scree_backend_copies_up",
     "Copies that are connected, this one too; part of scree_backend_copies.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_COPY_SERVES, "scree_backend_copy_serves",
     "1: of the copies, this one serves.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_COPY_IS_IDLE, "scree_backend_copy_idle",
     "1: this copy neither serves nor follows another one, or has not caught up with it yet.", 0, 0,
     0},
    {LABEL_GAUGE, PARTITION_COPY_BEHIND, "scree_backend_copy_behind_records",
     "Records that the slowest connected copy has not applied; at a copy that follows: that it has "
     "not applied itself.",
     0, 0, 0},
    {LABEL_GAUGE, PARTITION_COPY_LAG_MS, "scree_backend_copy_lag_seconds",
     "For how long the slowest connected copy, or a copy that follows itself, has lacked records "
     "that are committed.",
     1e3, 0, 0},
    {LABEL_GAUGE, PARTITION_COPY_PAUSED_MS, "scree_backend_copy_paused_seconds",
     "Time until a copy that SCREE REPLICAS PAUSE has paused adds records again; 0: none is.", 1e3,
     0, 0},
    {LABEL_GAUGE, PARTITION_COPIES_UNREADABLE, "scree_backend_copies_log_unreadable",
     "Copies that lack a record of the log which cannot be read here.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_COPIES_DIFFERENT, "scree_backend_copies_different",
     "At the copy that serves: copies, this one too, with rows that are not as here, or that "
     "cannot "
     "be read, when they were compared last.",
     0, 0, 0},
    {LABEL_GAUGE, PARTITION_COPIES_SPARE, "scree_backend_copies_spare",
     "At the copy that serves: connected copies that may be lost until no copy can serve. Of "
     "copies "
     "that do not vote: those that an operator could make serve.",
     0, 0, 0},
    {LABEL_GAUGE, PARTITION_COPY_TERM, "scree_backend_copy_term",
     "Number of the present leadership of the shard, as far as this copy has heard.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_COPY_LEADS, "scree_backend_copy_leads_total",
     "Times that this copy has begun to serve its shard.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_COPY_CHANGES, "scree_backend_copy_leader_changes_total",
     "Times that a copy of the shard has become its leader, as far as this copy has heard, since "
     "it first heard of one.",
     0, 0, 0},
    {LABEL_GAUGE, PARTITION_BACKUP_SUCCESS_MS,
     "scree_backend_backup_last_success_timestamp_seconds",
     "When the last good backup of the partition ended, Unix time; 0: there was none.", 1e3, 0, 0},
    {LABEL_GAUGE, PARTITION_BACKUP_FAILED, "scree_backend_backup_failed",
     "1: the last backup of the partition failed.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_BACKUP_DURATION_MS, "scree_backend_backup_last_duration_seconds",
     "Duration of the last backup of the partition.", 1e3, 0, 0},
    {LABEL_GAUGE, PARTITION_BACKUP_BYTES, "scree_backend_backup_last_bytes",
     "Bytes of the last good backup of the partition.", 0, 0, 0},
    {LABEL_GAUGE, PARTITION_ARCHIVE_MS, "scree_backend_archive_timestamp_seconds",
     "Unix time up to which the archive has all changes of the partition; 0: it has none.", 1e3, 0,
     0},
    {LABEL_GAUGE, PARTITION_ARCHIVE_STOPPED, "scree_backend_archive_stopped",
     "1: the archive of the partition cannot be written.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_ARCHIVE_BYTES, "scree_backend_archive_bytes_total",
     "Bytes of changes that went into the archive, before they were compressed.", 0, 0, 0},
    {LABEL_COUNTER, PARTITION_ARCHIVE_GAPS, "scree_backend_archive_gaps_total",
     "Gaps of the archive: changes that were not in the write-ahead log any more when it could be "
     "written again.",
     0, 0, 0},
};

static const struct label_family space_families[] = {
    {LABEL_GAUGE, SPACE_KEYS, "scree_backend_namespace_keys", "Keys of the namespace.", 0, 0, 0},
    {LABEL_GAUGE, SPACE_EXPIRES, "scree_backend_namespace_expiring_keys",
     "Keys of the namespace with a time to live.", 0, 0, 0},
};

static const struct label_family link_families[] = {
    {LABEL_GAUGE, LINK_COUNT, "scree_backend_peer_shard_links",
     "Links of partitions of this process to the shard.", 0, 0, 0},
    {LABEL_GAUGE, LINK_IS_UP, "scree_backend_peer_shard_links_up",
     "Links to the shard that are connected; part of scree_backend_peer_shard_links.", 0, 0, 0},
    {LABEL_HISTOGRAM, LINK_ROUND_TRIP_SECONDS, "scree_backend_peer_round_trip_seconds",
     "From sending a STATUS request to the shard until its reply.", 1e6, 4, 24},
};

static void add_partition_label(char labels[METRIC_LABELS_MAX], uint32_t index)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%u", index);
    metric_label(labels, "partition", bytes_of(number));
}

static void print_up(struct out *out, uint32_t index, bool is_up)
{
    char labels[METRIC_LABELS_MAX] = "";
    add_partition_label(labels, index);
    metric_number(out, "scree_backend_partition_up", labels, is_up);
}

static void print_partitions_up(const struct server *server, struct out *out)
{
    const struct partition *partition;
    metric_head(out, "scree_backend_partition_up", "gauge",
                "0: the partition is not served, because its files are damaged.");
    for (uint32_t at = 0; (partition = server_next(server, &at));)
        print_up(out, partition->index, true);
    for (uint32_t i = 0; i < server->failed_count; i++)
        print_up(out, server->failed[i].index, false);
}

static void print_figure(const struct server *server, struct out *out, const char *figure,
                         const char *name, const char *help)
{
    const struct partition *partition;
    metric_head(out, name, "gauge", help);
    for (uint32_t at = 0; (partition = server_next(server, &at));) {
        char labels[METRIC_LABELS_MAX] = "";
        add_partition_label(labels, partition->index);
        metric_number(out, name, labels, storage_figure(partition->storage, figure));
    }
}

static void print_figures(const struct server *server, struct out *out)
{
    static const struct {
        const char *figure;
        const char *name;
        const char *help;
    } rows[] = {
        {"disk_bytes", "scree_backend_store_bytes", "Files of the store."},
        {"sst_bytes", "scree_backend_store_sst_bytes", "SST files of the store."},
        {"blob_bytes", "scree_backend_store_blob_bytes",
         "Blob files of the store, which hold big values."},
        {"wal_bytes", "scree_backend_store_wal_bytes", "Write-ahead log of the store."},
        {"wal_damaged_batches", "scree_backend_store_wal_damaged_batches",
         "Intact batches of the WAL that were dropped at the start, because they follow a damaged "
         "one."},
        {"kept_bytes", "scree_backend_store_change_log_bytes",
         "Segments of the WAL that are kept for readers of changes."},
        {"kept_since", "scree_backend_store_change_log_oldest_timestamp_seconds",
         "Unix time at which the oldest kept segment was last written; 0: there is none."},
        {"memtable_bytes", "scree_backend_store_memtable_bytes", "Memtables of the store."},
        {"table_reader_bytes", "scree_backend_store_table_reader_bytes",
         "Indexes and filters in memory outside the block cache."},
        {"pending_compaction_bytes", "scree_backend_store_pending_compaction_bytes",
         "Bytes that compaction still has to rewrite."},
        {"running_compactions", "scree_backend_store_running_compactions", "Running compactions."},
        {"running_flushes", "scree_backend_store_running_flushes", "Running flushes of memtables."},
        {"delayed_write_rate", "scree_backend_store_delayed_write_bytes_per_second",
         "Rate to which RocksDB slows down writes; 0: no limit."},
        {"stalled", "scree_backend_store_stalled", "1: RocksDB has stopped writes."},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        print_figure(server, out, rows[i].figure, rows[i].name, rows[i].help);
}

static void print_level(struct out *out, const char *name, const struct partition *partition,
                        uint32_t level, uint64_t value)
{
    char labels[METRIC_LABELS_MAX] = "";
    char number[16];
    add_partition_label(labels, partition->index);
    (void)snprintf(number, sizeof number, "%u", level);
    metric_label(labels, "level", bytes_of(number));
    metric_number(out, name, labels, value);
}

static void print_levels(const struct server *server, struct out *out)
{
    static const char FILES[] = "scree_backend_store_level_files";
    static const char BYTES_OF[] = "scree_backend_store_level_bytes";
    struct store_level levels[PARTITIONS_MAX][STORE_LEVELS];
    const struct partition *partition;
    for (uint32_t at = 0; (partition = server_next(server, &at));)
        store_levels(storage_store(partition->storage), levels[partition->index]);
    metric_head(out, FILES, "gauge", "Data files of a level.");
    for (uint32_t at = 0; (partition = server_next(server, &at));)
        for (uint32_t level = 0; level < STORE_LEVELS; level++)
            print_level(out, FILES, partition, level, levels[partition->index][level].files);
    metric_head(out, BYTES_OF, "gauge", "Bytes of a level.");
    for (uint32_t at = 0; (partition = server_next(server, &at));)
        for (uint32_t level = 0; level < STORE_LEVELS; level++)
            print_level(out, BYTES_OF, partition, level, levels[partition->index][level].bytes);
}

/* Prints figures of compactions that SCREE COMPACT requested. */
static void print_compactions(const struct server *server, struct out *out)
{
    static const struct {
        const char *name;
        const char *help;
    } rows[] = {
        {"scree_backend_store_compact_total_bytes",
         "Bytes to be read by the running compaction on demand; 0: none is running."},
        {"scree_backend_store_compact_done_bytes",
         "Bytes that the running compaction on demand has read so far."},
    };
    for (size_t row = 0; row < COUNT_OF(rows); row++) {
        const struct partition *partition;
        metric_head(out, rows[row].name, "gauge", rows[row].help);
        for (uint32_t at = 0; (partition = server_next(server, &at));) {
            char labels[METRIC_LABELS_MAX] = "";
            uint64_t done;
            uint64_t total;
            compaction_progress(maintenance_compaction(partition->saves.maintenance), &done,
                                &total);
            add_partition_label(labels, partition->index);
            metric_number(out, rows[row].name, labels, row == 0 ? total : done);
        }
    }
}

static void print_pace_metrics(const struct server *server, struct out *out)
{
    const struct pace_figures pace = pace_figures(server->process->pace);
    metric_gauge(out, "scree_backend_compaction_pace_bytes_per_second",
                 "Limit of the rate of compactions; 0: no limit.", (double)pace.bytes_per_s);
    metric_head(out, "scree_backend_compaction_passed_bytes_total", "counter",
                "Bytes of rows that compactions have read.");
    metric_number(out, "scree_backend_compaction_passed_bytes_total", "", pace.bytes);
    metric_head(out, "scree_backend_compaction_waited_seconds_total", "counter",
                "Time that compactions slept to stay below the limit.");
    metric_double(out, "scree_backend_compaction_waited_seconds_total", "",
                  (double)pace.waited_us / 1e6);
}

static void print_part(struct out *out, const char *name, const char *part, uint64_t bytes)
{
    char labels[METRIC_LABELS_MAX] = "";
    metric_label(labels, "part", bytes_of(part));
    metric_number(out, name, labels, bytes);
}

static uint64_t figure_sum(const struct server *server, const char *figure)
{
    uint64_t sum = 0;
    const struct partition *partition;
    for (uint32_t at = 0; (partition = server_next(server, &at));)
        sum += storage_figure(partition->storage, figure);
    return sum;
}

/* Of what all partitions share. */
static uint64_t shared_figure(const struct server *server, const char *figure)
{
    uint32_t at = 0;
    const struct partition *partition = server_next(server, &at);
    return partition ? storage_figure(partition->storage, figure) : 0;
}

/* [store] memory, and the shares of all partitions of the process. */
static void print_memory_plan_metrics(const struct config_snapshot *snapshot, struct out *out)
{
    const struct memory_plan *plan = &snapshot->memory;
    uint64_t partitions = (uint64_t)snapshot->config.partitions;
    static const char name[] = "scree_backend_memory_configured_bytes";
    metric_gauge(out, "scree_backend_memory_limit_bytes", "[store] memory.", (double)plan->memory);
    metric_head(out, name, "gauge", "Configured sizes of caches and buffers.");
    print_part(out, name, "block_cache", plan->block_cache);
    print_part(out, name, "memtables", plan->memtables * partitions);
    print_part(out, name, "row_cache", plan->row_cache);
    print_part(out, name, "range_cache", plan->range_cache);
    print_part(out, name, "rank_cache", plan->rank_cache);
    print_part(out, name, "write_buffers", plan->write_buffer * partitions);
}

static void print_memory_metrics(struct server *server, const struct config_snapshot *snapshot,
                                 struct out *out)
{
    uint64_t sums[LABEL_WORDS_MAX];
    uint64_t words[PARTITION_WORDS] = {0};
    for (size_t i = 0; labels_read(server->process->labelled.partitions, i, sums); i++)
        for (uint32_t word = PARTITION_MEMORY_CLIENTS; word < PARTITION_WORDS; word++)
            words[word] += sums[word];
    static const char name[] = "scree_backend_memory_bytes";
    metric_head(out, name, "gauge", "Memory by use.");
    print_part(out, name, "block_cache", shared_figure(server, "cache_bytes"));
    print_part(out, name, "memtables", figure_sum(server, "memtable_bytes"));
    print_part(out, name, "table_readers", figure_sum(server, "table_reader_bytes"));
    print_part(out, name, "row_cache", words[PARTITION_MEMORY_ROWS]);
    print_part(out, name, "range_cache", words[PARTITION_MEMORY_RANGES]);
    print_part(out, name, "rank_cache", words[PARTITION_MEMORY_RANKS]);
    print_part(out, name, "batches", words[PARTITION_MEMORY_BATCHES]);
    print_part(out, name, "clients", words[PARTITION_MEMORY_CLIENTS]);
    metric_gauge(out, "scree_backend_block_cache_capacity_bytes", "[store] block-cache.",
                 (double)snapshot->memory.block_cache);
    print_memory_plan_metrics(snapshot, out);
}

static void print_failures(struct out *out)
{
    static const char name[] = "scree_backend_transactions_failed_total";
    metric_head(out, name, "counter",
                "Commands and transactions with keys of several shards that were not executed.");
    for (size_t i = 0; i < TRANSACTION_FAILURES; i++) {
        char labels[METRIC_LABELS_MAX] = "";
        metric_label(labels, "reason", bytes_of(transaction_failures[i].reason));
        metric_number(out, name, labels, metrics_sum(transaction_failures[i].metric));
    }
}

/* Prints size and free space of the data's file system. */
static void print_disk(const struct backend_config *config, struct out *out)
{
    struct statvfs found;
    if (statvfs(config->data, &found) != 0)
        return;
    metric_gauge(out, "scree_backend_filesystem_size_bytes", "Size of the data's file system.",
                 (double)found.f_blocks * (double)found.f_frsize);
    metric_gauge(out, "scree_backend_filesystem_free_bytes",
                 "Free bytes of the data's file system for this program.",
                 (double)found.f_bavail * (double)found.f_frsize);
    metric_gauge(out, "scree_backend_filesystem_free_min_bytes",
                 "[store] disk-free-min: with less free bytes, writes are refused.",
                 (double)config->store_disk_free_min_bytes);
    metric_gauge(out, "scree_backend_filesystem_inodes", "Inodes of the data's file system.",
                 (double)found.f_files);
    metric_gauge(out, "scree_backend_filesystem_free_inodes",
                 "Free inodes of the data's file system for this program.", (double)found.f_favail);
}

static void print_build_info(const struct server *server, const struct backend_config *config,
                             struct out *out)
{
    char labels[METRIC_LABELS_MAX] = "";
    char zone[ZONE_NAME_MAX + 1];
    (void)zone_expand(bytes_of(config->zone), zone);
    metric_label_build(labels, server->process->run_id);
    metric_label(labels, "zone", bytes_of(zone));
    metric_label(labels, "engine", bytes_of(store_engine()->version));
    metric_label(labels, "engine_assertions", bytes_of(store_engine()->assertions));
    metric_label(labels, "engine_crc32c", bytes_of(store_engine()->crc32c));
    metric_head(out, "scree_backend_build_info", "gauge", "1; the labels describe the program.");
    metric_number(out, "scree_backend_build_info", labels, 1);
    metric_gauge(out, "scree_backend_ready", "1: /readyz says yes.", admin_is_ready(server, NULL));
}

static void print_clock(const struct server *server, struct out *out)
{
    metric_gauge(out, "scree_backend_clock_skew_seconds",
                 "How much the clock of this machine is ahead of the time of the cluster.",
                 (double)cluster_clock_own_skew(server->process->clock) / 1e6);
}

static void print_map_metrics(const struct shard_map *map, struct out *out)
{
    metric_gauge(out, "scree_backend_map_epoch",
                 "Epoch of the shard map of this backend; 0: it has none.",
                 map ? (double)map->epoch : 0);
    metric_gauge(out, "scree_backend_map_hash",
                 "Hash of the shard map: equal at backends and proxies with the same map.",
                 map ? (double)(shard_map_hash(map) >> 16) : 0);
}

void metrics_page(void *visit, struct http_reply *reply)
{
    struct server *server = visit;
    struct backend_metrics *labelled = &server->process->labelled;
    struct out *out = &reply->body;
    struct config_snapshot *snapshot = process_settings(server->process);
    metrics_print(out, "scree_backend");
    print_build_info(server, &snapshot->config, out);
    print_failures(out);
    print_disk(&snapshot->config, out);
    metric_certificates(out, "scree_backend_tls_certificate_expiry_timestamp_seconds",
                        snapshot->tls, snapshot->peer_tls);
    print_partitions_up(server, out);
    print_figures(server, out);
    print_levels(server, out);
    print_compactions(server, out);
    print_pace_metrics(server, out);
    print_memory_metrics(server, snapshot, out);
    print_clock(server, out);
    print_map_metrics(snapshot->map, out);
    config_snapshot_unref(snapshot);
    labels_print(labelled->commands, out, "command", command_families, COUNT_OF(command_families),
                 COMMAND_COUNT);
    labels_print(labelled->partitions, out, "partition", partition_families,
                 COUNT_OF(partition_families), PARTITIONS_MAX);
    labels_print(labelled->spaces, out, "tenant", space_families, COUNT_OF(space_families),
                 METRICS_SPACES_SHOWN);
    labels_print(labelled->links, out, "shard", link_families, COUNT_OF(link_families),
                 SHARD_COUNT_MAX);
    metric_process(out);
}
