/*
 * info.c - INFO: one function per section, in Redis' order and with Redis' names, then our own sections.
 *
 * For its clients a partition is a server, so the figures are those of the partition; memory and CPU are those of the
 * process. A client inside a namespace sees only fields about its namespace and about the server in general; the
 * `tenant_fields` of a section list them.
 */
#include "backend/commands/info.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/script/script.h"
#include "backend/session/memory.h"
#include "backend/session/pubsub.h"
#include "backend/session/session.h"
#include "backend/session/tracking.h"
#include "backend/storage/reader.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/tls.h"
#include "shared/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { HUMAN_MAX = 32 };

typedef void section_fn(const struct call *call, struct out *out);

/* Formats bytes in the largest unit that fits: 1.25M. */
static const char *human(uint64_t bytes, char text[HUMAN_MAX])
{
    static const char units[] = "KMGTP";
    double value = (double)bytes;
    int unit = -1;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    if (unit < 0)
        (void)snprintf(text, HUMAN_MAX, "%" PRIu64 "B", bytes);
    else
        (void)snprintf(text, HUMAN_MAX, "%.2f%c", value, units[unit]);
    return text;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* ---- Redis' sections ---- */

static void print_server(const struct call *call, struct out *out)
{
    const struct partition *partition = call->partition;
    const struct process *process = partition->process;
    const char *path = partition->snapshot->config.head.path;
    uint64_t uptime_s = (clock_mono_us() / 1000 - process->started_mono_ms) / 1000;
    struct utsname name;
    char executable[1024];
    char zone[ZONE_NAME_MAX + 1];
    ssize_t len = readlink("/proc/self/exe", executable, sizeof executable - 1);
    executable[len > 0 ? len : 0] = 0;
    if (uname(&name) != 0)
        memset(&name, 0, sizeof name);
    out_printf(out,
               "redis_version:%s\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0\r\n"
               "redis_build_id:0\r\n",
               version_text());
    out_printf(out, "redis_mode:%s\r\nos:%s %s %s\r\narch_bits:64\r\n",
               cluster_client(call->session) ? "cluster" : "standalone", name.sysname, name.release,
               name.machine);
    out_printf(out,
               "monotonic_clock:POSIX clock_gettime\r\nmultiplexing_api:epoll\r\n"
               "atomicvar_api:c11-builtin\r\ngcc_version:%d.%d.%d\r\n",
               __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
    out_printf(out, "process_id:%d\r\nprocess_supervised:no\r\nrun_id:%s\r\ntcp_port:%d\r\n",
               (int)getpid(), process->run_id, partition->listeners.port);
    out_printf(out,
               "server_time_usec:%" PRIu64 "\r\nuptime_in_seconds:%" PRIu64
               "\r\nuptime_in_days:%" PRIu64 "\r\n",
               call->now_us, uptime_s, uptime_s / 86400);
    out_printf(out, "hz:10\r\nconfigured_hz:10\r\nlru_clock:%" PRIu64 "\r\nexecutable:%s\r\n",
               call->now_ms / 1000 & 0xffffff, executable);
    (void)zone_expand(bytes_of(partition->snapshot->config.zone), zone);
    out_printf(out, "config_file:%s\r\nio_threads_active:0\r\nzone:%s\r\n", path ? path : "", zone);
}

static void print_clients(const struct call *call, struct out *out)
{
    const struct partition *partition = call->partition;
    out_printf(out, "connected_clients:%u\r\ncluster_connections:0\r\nmaxclients:%d\r\n",
               partition->clients.count, partition->snapshot->config.maxclients);
    out_printf(out,
               "client_recent_max_input_buffer:0\r\nclient_recent_max_output_buffer:0\r\n"
               "blocked_clients:%u\r\ntracking_clients:%u\r\nclients_in_timeout_table:%u\r\n",
               blocking_clients(partition->watchers.blocking) + partition->pause.clients,
               tracking_clients(partition->watchers.tracking),
               blocking_timeouts(partition->watchers.blocking));
    uint32_t on_nokey;
    uint32_t keys = blocking_keys(partition->watchers.blocking, &on_nokey);
    out_printf(out, "total_blocking_keys:%u\r\ntotal_blocking_keys_on_nokey:%u\r\n", keys,
               on_nokey);
}

static void print_allocator_info(const struct memory *memory, struct out *out)
{
    uint64_t overhead = memory->startup + memory->clients + memory->batches;
    uint64_t dataset = memory->allocated > overhead ? memory->allocated - overhead : 0;
    out_printf(out,
               "used_memory_overhead:%" PRIu64 "\r\nused_memory_startup:%" PRIu64
               "\r\nused_memory_dataset:%" PRIu64 "\r\nused_memory_dataset_perc:%.2f%%\r\n",
               overhead, memory->startup, dataset,
               memory->allocated ? 100.0 * (double)dataset / (double)memory->allocated : 0.0);
    out_printf(out,
               "allocator_allocated:%" PRIu64 "\r\nallocator_active:%" PRIu64
               "\r\nallocator_resident:%" PRIu64 "\r\n",
               memory->allocated, memory->active, memory->resident);
    out_printf(out,
               "allocator_frag_ratio:%.2f\r\nallocator_frag_bytes:%" PRIu64
               "\r\nallocator_rss_ratio:%.2f\r\nallocator_rss_bytes:%" PRId64 "\r\n",
               ratio(memory->active, memory->allocated), memory->active - memory->allocated,
               ratio(memory->resident, memory->active),
               (int64_t)(memory->resident - memory->active));
    out_printf(out,
               "rss_overhead_ratio:%.2f\r\nrss_overhead_bytes:%" PRId64
               "\r\nmem_fragmentation_ratio:%.2f\r\nmem_fragmentation_bytes:%" PRId64 "\r\n",
               ratio(memory->rss, memory->resident), (int64_t)(memory->rss - memory->resident),
               ratio(memory->rss, memory->allocated), (int64_t)(memory->rss - memory->allocated));
    out_printf(out,
               "mem_not_counted_for_evict:0\r\nmem_replication_backlog:0\r\n"
               "mem_total_replication_buffers:0\r\nmem_clients_slaves:0\r\n"
               "mem_clients_normal:%" PRIu64 "\r\nmem_cluster_links:0\r\nmem_aof_buffer:%" PRIu64
               "\r\n",
               memory->clients, memory->batches);
    out_printf(out,
               "mem_block_cache:%" PRIu64 "\r\nmem_memtables:%" PRIu64
               "\r\nmem_table_readers:%" PRIu64 "\r\n",
               memory->block_cache, memory->memtables, memory->table_readers);
}

/* Prints the sizes in force: [store] memory and its shares, of all partitions of the process. */
static void print_memory_plan(const struct call *call, struct out *out)
{
    const struct config_snapshot *snapshot = call->partition->snapshot;
    const struct memory_plan *plan = &snapshot->memory;
    uint64_t partitions = (uint64_t)snapshot->config.partitions;
    out_printf(out,
               "mem_configured:%" PRIu64 "\r\nmem_configured_block_cache:%" PRIu64
               "\r\nmem_configured_row_cache:%" PRIu64 "\r\nmem_configured_range_cache:%" PRIu64
               "\r\nmem_configured_rank_cache:%" PRIu64 "\r\nmem_configured_memtables:%" PRIu64
               "\r\nmem_configured_memtable:%" PRIu64 "\r\nmem_configured_write_buffer:%" PRIu64
               "\r\n",
               plan->memory, plan->block_cache, plan->row_cache, plan->range_cache,
               plan->rank_cache, plan->memtables * partitions, plan->memtable, plan->write_buffer);
}

/* Libraries of a namespace. */
struct library_sums {
    uint64_t libraries;
    uint64_t functions;
    uint64_t bytes; /* of code and names; compiled code is memory of Lua */
};

static struct library_sums add_up_libraries(const struct scripts *scripts)
{
    struct library_sums sums = {0};
    for (const struct library *l = functions_first(scripts); l; l = l->next) {
        sums.libraries++;
        sums.bytes += sizeof *l + l->code_len + strlen(l->name);
        for (const struct function *f = l->functions; f; f = f->next) {
            sums.functions++;
            sums.bytes += sizeof *f + strlen(f->name);
        }
    }
    return sums;
}

/* Prints the memory of all namespaces, and the scripts and functions of the session's namespace. */
static void print_scripts(const struct call *call, struct out *out)
{
    char text[HUMAN_MAX];
    (void)functions_load(call->partition, session_namespace(call->session));
    const struct scripts *scripts = scripts_of(call->session);
    const struct library_sums sums = add_up_libraries(scripts);
    uint64_t eval = script_set_memory(call->partition->scripts, SCRIPT_EVAL);
    uint64_t functions = script_set_memory(call->partition->scripts, SCRIPT_FUNCTION);
    uint64_t texts = scripts_cached_bytes(scripts);
    out_printf(out, "used_memory_lua:%" PRIu64 "\r\nused_memory_vm_eval:%" PRIu64 "\r\n", eval,
               eval);
    out_printf(out, "used_memory_lua_human:%s\r\nused_memory_scripts_eval:%" PRIu64 "\r\n",
               human(eval, text), texts);
    out_printf(out,
               "number_of_cached_scripts:%zu\r\nnumber_of_functions:%" PRIu64
               "\r\nnumber_of_libraries:%" PRIu64 "\r\n",
               scripts_cached(scripts), sums.functions, sums.libraries);
    out_printf(out, "used_memory_vm_functions:%" PRIu64 "\r\nused_memory_vm_total:%" PRIu64 "\r\n",
               functions, eval + functions);
    out_printf(out, "used_memory_vm_total_human:%s\r\nused_memory_functions:%" PRIu64 "\r\n",
               human(eval + functions, text), sums.bytes);
    out_printf(out, "used_memory_scripts:%" PRIu64 "\r\nused_memory_scripts_human:%s\r\n",
               texts + sums.bytes, human(texts + sums.bytes, text));
}

static void print_memory(const struct call *call, struct out *out)
{
    char text[HUMAN_MAX];
    struct memory memory;
    memory_read(call->partition, &memory);
    uint64_t used = memory.allocated;
    uint64_t peak = memory.peak_rss;
    uint64_t system = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    int64_t limit = call->partition->snapshot->maxmemory;
    const struct parameter *policy = parameter_find(BYTES("maxmemory-policy"));
    char buffer[OPTION_TEXT_MAX];
    struct bytes policy_name = config_snapshot_get(call->partition->snapshot, policy, buffer);
    out_printf(out, "used_memory:%" PRIu64 "\r\nused_memory_human:%s\r\n", used, human(used, text));
    out_printf(out, "used_memory_rss:%" PRIu64 "\r\nused_memory_rss_human:%s\r\n", memory.rss,
               human(memory.rss, text));
    out_printf(out, "used_memory_peak:%" PRIu64 "\r\nused_memory_peak_human:%s\r\n", peak,
               human(peak, text));
    out_printf(out, "used_memory_peak_perc:%.2f%%\r\n",
               peak ? 100.0 * (double)memory.rss / (double)peak : 0.0);
    out_printf(out, "total_system_memory:%" PRIu64 "\r\ntotal_system_memory_human:%s\r\n", system,
               human(system, text));
    print_scripts(call, out);
    out_printf(out, "maxmemory:%" PRId64 "\r\nmaxmemory_human:%s\r\nmaxmemory_policy:%.*s\r\n",
               limit, human((uint64_t)limit, text), (int)policy_name.len, policy_name.data);
    print_allocator_info(&memory, out);
    print_memory_plan(call, out);
    uint64_t lazyfreed = stats_metric(call->partition->metrics.process, METRIC_BACKEND_LAZYFREED) -
                         call->partition->metrics.stats->before.lazyfreed;
    out_printf(out,
               "mem_allocator:jemalloc\r\nactive_defrag_running:0\r\n"
               "lazyfree_pending_objects:0\r\nlazyfreed_objects:%" PRIu64 "\r\n",
               lazyfreed);
}

static size_t channels(const struct call *call, enum channel_kind kind)
{
    struct bytes name = session_namespace(call->session);
    return subscription_topics(pubsub_set(call->partition->watchers.pubsub, name, kind));
}

/* Prints numbers of subscribed channels and of tracked keys. */
static void print_messages(const struct call *call, struct out *out)
{
    size_t tracked[3];
    tracking_counts(call->partition->watchers.tracking, session_namespace(call->session), tracked);
    out_printf(
        out,
        "pubsub_channels:%zu\r\npubsub_patterns:%zu\r\npubsubshard_channels:%zu\r\n"
        "latest_fork_usec:0\r\n"
        "total_forks:0\r\nmigrate_cached_sockets:0\r\nslave_expires_tracked_keys:0\r\n"
        "tracking_total_keys:%zu\r\ntracking_total_items:%zu\r\ntracking_total_prefixes:%zu\r\n",
        channels(call, CHANNEL_PLAIN), channels(call, CHANNEL_PATTERN),
        channels(call, CHANNEL_SHARD), tracked[0], tracked[1], tracked[2]);
}

/* Prints counters of rows that were not in memory. */
static void print_uncached(const struct partition *partition, struct out *out)
{
    const struct metrics *metrics = partition->metrics.process;
    struct reader_figures figures = {0};
    if (partition->reader)
        figures = reader_figures(partition->reader);
    out_printf(out,
               "uncached_fetches:%" PRIu64 "\r\nuncached_blocking_reads:%" PRIu64
               "\r\nsuspended_commands:%" PRIu64 "\r\nsuspended_clients:%" PRIu64 "\r\n",
               figures.fetches, figures.blocking,
               stats_metric(metrics, METRIC_BACKEND_SUSPENDED_COMMANDS),
               stats_metric(metrics, METRIC_BACKEND_SUSPENDED_CLIENTS));
}

/* Calls of commands that proxies and shards send each other. They are no commands of clients. */
static uint64_t internal_calls(const struct stats *stats)
{
    uint64_t calls = 0;
    for (enum command_id id = COMMAND_NONE + 1; id < COMMAND_COUNT; id++)
        calls += command_of(id)->flags & CMD_INTERNAL ? stats->commands[id].calls : 0;
    return calls;
}

static void print_stats(const struct call *call, struct out *out)
{
    const struct partition *partition = call->partition;
    const struct stats *stats = partition->metrics.stats;
    const struct metrics *metrics = partition->metrics.process;
    out_printf(out,
               "total_connections_received:%" PRIu64 "\r\ntotal_commands_processed:%" PRIu64 "\r\n",
               stats->connections_total, stats->commands_total - internal_calls(stats));
    out_printf(out, "instantaneous_ops_per_sec:%" PRIu64 "\r\n", stats_rate(stats, STATS_COMMANDS));
    out_printf(out, "total_net_input_bytes:%" PRIu64 "\r\ntotal_net_output_bytes:%" PRIu64 "\r\n",
               stats->input_bytes, stats->output_bytes);
    out_printf(out,
               "rejected_connections:%" PRIu64
               "\r\nsync_full:0\r\nsync_partial_ok:0\r\nsync_partial_err:0\r\n",
               stats->connections_refused);
    out_printf(out,
               "expired_keys:%" PRIu64
               "\r\nexpired_stale_perc:%.2f\r\nexpired_time_cap_reached_count:%" PRIu64 "\r\n"
               "evicted_keys:0\r\nevicted_clients:0\r\n",
               stats_metric(metrics, METRIC_BACKEND_EXPIRED) - stats->before.expired,
               stats->expiry.stale_percent, stats->expiry.cuts);
    out_printf(out, "expired_subkeys:%" PRIu64 "\r\n",
               stats_metric(metrics, METRIC_BACKEND_EXPIRED_FIELDS) - stats->before.expired_fields);
    out_printf(out, "keyspace_hits:%" PRIu64 "\r\nkeyspace_misses:%" PRIu64 "\r\n",
               stats_metric(metrics, METRIC_BACKEND_HITS) - stats->before.hits,
               stats_metric(metrics, METRIC_BACKEND_MISSES) - stats->before.misses);
    print_uncached(partition, out);
    print_messages(call, out);
    out_printf(out,
               "total_net_repl_input_bytes:0\r\ntotal_net_repl_output_bytes:0\r\n"
               "instantaneous_input_kbps:%.2f\r\ninstantaneous_output_kbps:%.2f\r\n"
               "instantaneous_input_repl_kbps:0.00\r\ninstantaneous_output_repl_kbps:0.00\r\n",
               (double)stats_rate(stats, STATS_INPUT_BYTES) / 1024,
               (double)stats_rate(stats, STATS_OUTPUT_BYTES) / 1024);
    out_printf(out,
               "expire_cycle_cpu_milliseconds:%" PRIu64
               "\r\ntotal_eviction_exceeded_time:0\r\ncurrent_eviction_exceeded_time:0\r\n"
               "active_defrag_hits:0\r\nactive_defrag_misses:0\r\nactive_defrag_key_hits:0\r\n"
               "active_defrag_key_misses:0\r\ntotal_active_defrag_time:0\r\n"
               "current_active_defrag_time:0\r\ndump_payload_sanitizations:0\r\n",
               stats->expiry.usec / 1000);
    out_printf(out,
               "total_reads_processed:%" PRIu64 "\r\ntotal_writes_processed:%" PRIu64
               "\r\nio_threaded_reads_processed:0\r\nio_threaded_writes_processed:0\r\n"
               "reply_buffer_shrinks:0\r\nreply_buffer_expands:0\r\n",
               stats->reads_total, stats->replies_total);
    out_printf(out, "unexpected_error_replies:0\r\ntotal_error_replies:%" PRIu64 "\r\n",
               stats->errors_total);
}

static void print_times(struct out *out, int who, const char *suffix)
{
    struct rusage usage;
    CHECK(getrusage(who, &usage) == 0);
    out_printf(out, "used_cpu_sys%s:%ld.%06ld\r\nused_cpu_user%s:%ld.%06ld\r\n", suffix,
               usage.ru_stime.tv_sec, usage.ru_stime.tv_usec, suffix, usage.ru_utime.tv_sec,
               usage.ru_utime.tv_usec);
}

static void print_cpu(const struct call *call, struct out *out)
{
    (void)call;
    print_times(out, RUSAGE_SELF, "");
    print_times(out, RUSAGE_CHILDREN, "_children");
    print_times(out, RUSAGE_THREAD, "_main_thread");
}

static void print_modules(const struct call *call, struct out *out)
{
    (void)call;
    (void)out;
}

static void print_commandstats(const struct call *call, struct out *out)
{
    for (enum command_id id = COMMAND_NONE + 1; id < COMMAND_COUNT; id++) {
        const struct command_stats *stats = &call->partition->metrics.stats->commands[id];
        bool is_internal = command_of(id)->flags & CMD_INTERNAL;
        if (is_internal || (!stats->calls && !stats->rejected && !stats->failed && !stats->parts))
            continue;
        double each = stats->calls ? (double)stats->usec / (double)stats->calls : 0;
        out_printf(out,
                   "cmdstat_%s:calls=%" PRIu64 ",usec=%" PRIu64
                   ",usec_per_call=%.2f,rejected_calls=%" PRIu64 ",failed_calls=%" PRIu64 "\r\n",
                   command_full_name(command_of(id)), stats->calls, stats->usec, each,
                   stats->rejected, stats->failed);
    }
}

/* Prints a field per percentile of latency-tracking-info-percentiles ("50 99 99.9"). */
static void print_percentiles(const struct histogram *histogram, struct bytes percents,
                              struct out *out)
{
    const char *comma = "";
    while (percents.len) {
        const char *space = memchr(percents.data, ' ', percents.len);
        size_t len = space ? (size_t)(space - percents.data) : percents.len;
        if (len)
            out_printf(out, "%sp%.*s=%.3f", comma, (int)len, percents.data,
                       histogram_percentile(histogram, strtod(percents.data, NULL)));
        comma = len ? "," : comma;
        len += space != NULL;
        percents = (struct bytes){percents.data + len, percents.len - len};
    }
}

static void print_latencystats(const struct call *call, struct out *out)
{
    char buffer[OPTION_TEXT_MAX];
    struct bytes percents =
        config_snapshot_get(call->partition->snapshot,
                            parameter_find(BYTES("latency-tracking-info-percentiles")), buffer);
    for (enum command_id id = COMMAND_NONE + 1; id < COMMAND_COUNT; id++) {
        const struct histogram *histogram = call->partition->metrics.latency->commands[id];
        if (!histogram || command_of(id)->flags & CMD_INTERNAL)
            continue;
        out_printf(out, "latency_percentiles_usec_%s:", command_full_name(command_of(id)));
        print_percentiles(histogram, percents, out);
        out_printf(out, "\r\n");
    }
}

static void print_errorstats(const struct call *call, struct out *out)
{
    const struct stats *stats = call->partition->metrics.stats;
    for (uint32_t i = 0; i < stats->errors_count; i++)
        out_printf(out, "errorstat_%s:count=%" PRIu64 "\r\n", stats->errors[i].name,
                   stats->errors[i].count);
}

static void print_cluster(const struct call *call, struct out *out)
{
    out_printf(out, "cluster_enabled:%d\r\n", cluster_client(call->session));
}

/* As redis-server 7.0 does; subexpiry, which is of 7.4, follows if it is not 0. */
static void print_database(const struct space *space, int db, struct out *out)
{
    out_printf(out, "db%d:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0", db, space->keys,
               space->expires);
    if (space->ttl_hashes)
        out_printf(out, ",subexpiry=%" PRIu64, space->ttl_hashes);
    out_printf(out, "\r\n");
}

static void print_keyspace(const struct call *call, struct out *out)
{
    struct bytes name = session_namespace(call->session);
    for (int db = 0; db < session_databases(call->session); db++) {
        const struct space *space = space_open(call->partition->spaces, name, (uint8_t)db);
        if (space->keys)
            print_database(space, db, out);
    }
}

/* ---- our own sections ---- */

/* Prints when the own certificates expire, Unix time. */
static void print_certificates(const struct config_snapshot *snapshot, struct out *out)
{
    uint64_t own = tls_context_expires_s(snapshot->tls);
    uint64_t peer = tls_context_expires_s(snapshot->peer_tls);
    if (own)
        out_printf(out, "tls_certificate_expires:%" PRIu64 "\r\n", own);
    if (peer)
        out_printf(out, "peer_tls_certificate_expires:%" PRIu64 "\r\n", peer);
}

static void print_scree(const struct call *call, struct out *out)
{
    static const char *const durabilities[] = {"always", "everysec", "os"};
    const struct partition *partition = call->partition;
    const struct metrics *metrics = partition->metrics.process;
    const char *reason;
    bool failed = commit_refuses_writes(partition->commit, &reason);
    const struct store_engine *engine = store_engine();
    out_printf(out, "scree_version:%s\r\nscree_commit:%s\r\npartition:%u\r\npartitions:%u\r\n",
               SCREE_VERSION, version_commit(), partition->index, partition->process->partitions);
    out_printf(out, "store_engine:%s\r\nstore_engine_assertions:%s\r\nstore_engine_crc32c:%s\r\n",
               engine->version, engine->assertions, engine->crc32c);
    out_printf(out,
               "durability:%s\r\nbatch_index:%" PRIu64 "\r\nkeys_all_namespaces:%" PRIu64 "\r\n",
               durabilities[partition->snapshot->config.durability], partition->batch.index,
               space_keys_total(partition->spaces));
    out_printf(out,
               "commits:%" PRIu64 "\r\ncommit_failures:%" PRIu64 "\r\ncommit_rows:%" PRIu64
               "\r\ncommit_usec:%" PRIu64 "\r\n",
               stats_metric(metrics, METRIC_BACKEND_COMMITS),
               stats_metric(metrics, METRIC_BACKEND_COMMIT_FAILURES),
               stats_metric(metrics, METRIC_BACKEND_COMMIT_ROWS),
               stats_metric(metrics, METRIC_BACKEND_COMMIT_US));
    bool is_disk_low = commit_gate(partition->commit, CMD_WRITE | CMD_DENYOOM) == ERR_DISK_LOW;
    out_printf(out, "read_only:%d\r\nread_only_reason:%s\r\ndisk_low:%d\r\n", failed,
               failed ? reason : "", is_disk_low);
    print_certificates(partition->snapshot, out);
}

static void print_peers(const struct call *call, struct out *out)
{
    peer_set_print(call->partition->shards.peers, out);
}

/* ---- selection ---- */

enum when { BY_DEFAULT, IN_ALL };

#define EVERY_FIELD "*"

static const struct section {
    const char *title;
    const char *name;
    enum when when;
    section_fn *print;
    const char *tenant_fields; /* separated by spaces; NULL: tenants do not see this section */
} sections[] = {
    {"Server", "server", BY_DEFAULT, print_server,
     "redis_version redis_git_sha1 redis_git_dirty redis_build_id redis_mode arch_bits "
     "monotonic_clock multiplexing_api atomicvar_api server_time_usec hz configured_hz lru_clock "
     "io_threads_active"},
    {"Clients", "clients", BY_DEFAULT, print_clients, NULL},
    {"Memory", "memory", BY_DEFAULT, print_memory,
     "maxmemory maxmemory_human maxmemory_policy mem_allocator"},
    {"Persistence", "persistence", BY_DEFAULT, info_persistence,
     "loading async_loading aof_enabled aof_last_write_status"},
    {"Stats", "stats", BY_DEFAULT, print_stats,
     "pubsub_channels pubsub_patterns pubsubshard_channels tracking_total_keys "
     "tracking_total_items tracking_total_prefixes"},
    {"Replication", "replication", BY_DEFAULT, info_replication,
     "role connected_slaves master_failover_state"},
    {"CPU", "cpu", BY_DEFAULT, print_cpu, NULL},
    {"Modules", "modules", BY_DEFAULT, print_modules, EVERY_FIELD},
    {"Commandstats", "commandstats", IN_ALL, print_commandstats, NULL},
    {"Errorstats", "errorstats", BY_DEFAULT, print_errorstats, NULL},
    {"Latencystats", "latencystats", IN_ALL, print_latencystats, NULL},
    {"Cluster", "cluster", BY_DEFAULT, print_cluster, EVERY_FIELD},
    {"Scree", "scree", BY_DEFAULT, print_scree, "scree_version durability"},
    {"Rocksdb", "rocksdb", IN_ALL, info_rocksdb, NULL},
    {"Peers", "peers", IN_ALL, print_peers, NULL},
    {"Transactions", "transactions", IN_ALL, info_transactions, NULL},
    {"Keyspace", "keyspace", BY_DEFAULT, print_keyspace, EVERY_FIELD},
};

static bool is_asked(const struct call *call, const struct section *section)
{
    if (call->argc == 1)
        return section->when == BY_DEFAULT;
    for (uint32_t i = 1; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        if (bytes_is(word, section->name) || bytes_is(word, "everything") ||
            (section->when == BY_DEFAULT && bytes_is(word, "default")) ||
            (bytes_is(word, "all") && section->print != print_modules))
            return true;
    }
    return false;
}

static bool is_tenant(const struct call *call)
{
    return session_namespace(call->session).len > 0;
}

/* Is the line "name:value", with the name of one of these fields? */
static bool is_listed_field(const char *fields, struct bytes line)
{
    const char *colon = memchr(line.data, ':', line.len);
    size_t len = colon ? (size_t)(colon - line.data) : 0;
    for (const char *at = fields; len && *at; at += *at == ' ') {
        size_t word = strcspn(at, " ");
        if (word == len && memcmp(at, line.data, len) == 0)
            return true;
        at += word;
    }
    return false;
}

/* Moves the lines that a tenant may see from `section` to `out`. */
static void move_listed(struct out *out, const char *fields, struct out *section)
{
    struct bytes text = out_take(section);
    const char *end = text.data + text.len;
    for (const char *line = text.data; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t len = newline ? (size_t)(newline + 1 - line) : (size_t)(end - line);
        if (is_listed_field(fields, (struct bytes){line, len}))
            out_write(out, line, len);
        line += len;
    }
    free((char *)text.data);
}

static void print_section(const struct call *call, const struct section *section, struct out *out)
{
    const char *fields = is_tenant(call) ? section->tenant_fields : EVERY_FIELD;
    if (!fields)
        return;
    out_printf(out, "%s# %s\r\n", out->bytes ? "\r\n" : "", section->title);
    if (strcmp(fields, EVERY_FIELD) == 0) {
        section->print(call, out);
        return;
    }
    struct out whole;
    out_init(&whole);
    section->print(call, &whole);
    move_listed(out, fields, &whole);
}

void cmd_info(struct call *call)
{
    struct out out;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (sections[i].print == print_keyspace && is_asked(call, &sections[i]) &&
            !info_may_count_keys(call))
            return;
    out_init(&out);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (is_asked(call, &sections[i]))
            print_section(call, &sections[i], &out);
    struct bytes text = out_take(&out);
    reply_verbatim(&call->reply, "txt", text);
    free((char *)text.data);
}
