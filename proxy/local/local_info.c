/*
 * local_info.c - INFO: merges the documents of all shards into one, as of a single server.
 *
 *   shard a: # Stats  total_commands_processed:5  ┐
 *   shard b: # Stats  total_commands_processed:7  ├─► # Stats  total_commands_processed:12
 *                                                 ┘   # Shards  shard_a:address=…,state=up,keys=…
 *
 * Figures of a disk or a machine are not summed, as several shards may share it: those of the disk with the least free
 * bytes are shown.
 *
 * Sections and fields keep the order of the shards' documents. Counts are summed (those of a process once per process,
 * recognised by its run_id, so the shards are also asked for the section Server); faults of any shard are shown; other
 * values are the first shard's; values about the endpoint are the proxy's. A shard that does not reply is missing in the
 * sums, and shown as down in # Shards.
 */
#include "proxy/client/fan_out.h"
#include "proxy/cluster/usage.h"
#include "proxy/core/limits.h"
#include "proxy/core/node.h"
#include "proxy/core/proxy.h"
#include "proxy/core/routes.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "proxy/local/own_stats.h"
#include "proxy/upstream/pool.h"
#include "shared/arena.h"
#include "shared/check.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* How the values of a section or a field are merged. */
enum merge_rule {
    RULE_FIRST,
    RULE_FIRST_TEXT,  /* the first that is not empty */
    RULE_FAULT,       /* "err", if any shard says so */
    RULE_SUM,         /* numbers, and the numbers of lists such as keys=1,expires=0 */
    RULE_SUM_PROCESS, /* numbers of a process: counted once per process */
    RULE_LARGEST,
    RULE_SMALLEST,
};

struct field {
    struct bytes name;
    struct bytes value;
    struct field *next;
};

struct section {
    struct bytes name;
    enum merge_rule rule;
    struct field *first;
    struct field **last;
    struct section *next;
};

/* The document that is being written. */
struct info {
    struct arena arena;
    struct section *first;
    struct section **last;
};

/* ---- lines ---- */

static struct bytes trim_front(struct bytes text, size_t len)
{
    return (struct bytes){text.data + len, text.len - len};
}

/* Removes a line from the front of *rest, without its end. False: there is none. */
static bool line_next(struct bytes *rest, struct bytes *line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->data, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    *line = (struct bytes){rest->data, len};
    *rest = trim_front(*rest, end ? len + 1 : len);
    if (line->len && line->data[line->len - 1] == '\r')
        line->len--;
    return true;
}

/* Splits at the first `mark`. False: there is none. */
static bool split_at(struct bytes text, char mark, struct bytes *left, struct bytes *right)
{
    const char *at = text.len ? memchr(text.data, mark, text.len) : NULL;
    if (!at)
        return false;
    *left = (struct bytes){text.data, (size_t)(at - text.data)};
    *right = trim_front(text, left->len + 1);
    return true;
}

/* ---- merging ---- */

static struct section *section_open(struct info *info, struct bytes name)
{
    static const struct {
        const char *name;
        enum merge_rule rule;
    } RULES[] = {
        {"Memory", RULE_SUM_PROCESS}, {"CPU", RULE_SUM_PROCESS},  {"Clients", RULE_SUM},
        {"Stats", RULE_SUM},          {"Commandstats", RULE_SUM}, {"Errorstats", RULE_SUM},
        {"Keyspace", RULE_SUM},       {"Rocksdb", RULE_SUM},      {"Transactions", RULE_SUM},
        {"Latencystats", RULE_SUM},
    };
    for (struct section *section = info->first; section; section = section->next)
        if (bytes_equal(section->name, name))
            return section;
    struct section *section = arena_alloc(&info->arena, sizeof *section);
    *section = (struct section){.name = arena_copy(&info->arena, name)};
    section->last = &section->first;
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        if (bytes_equal(name, bytes_of(RULES[i].name)))
            section->rule = RULES[i].rule;
    *info->last = section;
    info->last = &section->next;
    return section;
}

static struct field *field_find(struct section *section, struct bytes name)
{
    for (struct field *field = section->first; field; field = field->next)
        if (bytes_equal(field->name, name))
            return field;
    return NULL;
}

static void field_set(struct info *info, struct section *section, struct bytes name,
                      struct bytes value)
{
    struct field *field = field_find(section, name);
    if (!field) {
        field = arena_alloc(&info->arena, sizeof *field);
        *field = (struct field){.name = arena_copy(&info->arena, name)};
        *section->last = field;
        section->last = &field->next;
    }
    field->value = arena_copy(&info->arena, value);
}

/* The sum of two numbers as text; the first text if one of them is not a number. */
static struct bytes add_numbers(struct info *info, struct bytes a, struct bytes b)
{
    int64_t x;
    int64_t y;
    double u;
    double v;
    char *text = arena_alloc(&info->arena, DOUBLE_TEXT_MAX);
    int len = 0;
    if (number_parse_int64(a, &x) && number_parse_int64(b, &y))
        len = snprintf(text, DOUBLE_TEXT_MAX, "%" PRId64, (int64_t)((uint64_t)x + (uint64_t)y));
    else if (number_parse_double(a, &u) && number_parse_double(b, &v))
        len = snprintf(text, DOUBLE_TEXT_MAX, "%.6f", u + v);
    else
        return a;
    return (struct bytes){text, (size_t)len};
}

static struct bytes larger_number(struct bytes a, struct bytes b)
{
    double u;
    double v;
    return number_parse_double(a, &u) && number_parse_double(b, &v) && v > u ? b : a;
}

/* Averages and percentiles cannot be summed; the largest is shown. */
static bool is_average(struct bytes name)
{
    return bytes_equal(name, BYTES("avg_ttl")) ||
           (name.len > 1 && name.data[0] == 'p' && name.data[1] >= '0' && name.data[1] <= '9');
}

/* Sums of a command's statistics. */
struct call_sums {
    double calls;
    double usec;
};

/* The sum of two values of a list. usec_per_call is computed from the sums of calls and usec, which precede it. */
static struct bytes add_values(struct info *info, struct bytes name, struct bytes a, struct bytes b,
                               struct call_sums *sums)
{
    if (is_average(name))
        return larger_number(a, b);
    if (bytes_equal(name, BYTES("usec_per_call"))) {
        char *text = arena_alloc(&info->arena, DOUBLE_TEXT_MAX);
        int len =
            snprintf(text, DOUBLE_TEXT_MAX, "%.2f", sums->calls > 0 ? sums->usec / sums->calls : 0);
        return (struct bytes){text, (size_t)len};
    }
    struct bytes sum = add_numbers(info, a, b);
    if (bytes_equal(name, BYTES("calls")))
        (void)number_parse_double(sum, &sums->calls);
    else if (bytes_equal(name, BYTES("usec")))
        (void)number_parse_double(sum, &sums->usec);
    return sum;
}

/* Adds lists such as keys=1,expires=0,avg_ttl=0 entry by entry. Both have the same names, except that one may end earlier: what it
 * leaves out is 0, such as subexpiry. */
static struct bytes add_lists(struct info *info, struct bytes a, struct bytes b)
{
    struct out out;
    struct call_sums sums = {0, 0};
    out_init(&out);
    bool is_first = true;
    while (a.len && b.len) {
        struct bytes item_a = a;
        struct bytes item_b = b;
        struct bytes rest_a = {"", 0};
        struct bytes rest_b = {"", 0};
        struct bytes name;
        struct bytes value_a;
        struct bytes value_b;
        (void)split_at(a, ',', &item_a, &rest_a);
        (void)split_at(b, ',', &item_b, &rest_b);
        if (!split_at(item_a, '=', &name, &value_a) || !split_at(item_b, '=', &name, &value_b))
            break;
        struct bytes sum = add_values(info, name, value_a, value_b, &sums);
        out_printf(&out, "%s%.*s=%.*s", is_first ? "" : ",", (int)name.len, name.data, (int)sum.len,
                   sum.data);
        is_first = false;
        a = rest_a;
        b = rest_b;
    }
    struct bytes rest = a.len ? a : b;
    if (!a.len || !b.len)
        out_printf(&out, "%s%.*s", rest.len ? "," : "", (int)rest.len, rest.data);
    struct bytes sum = {arena_alloc(&info->arena, out.bytes + 1), out.bytes};
    out_copy(&out, (char *)sum.data);
    out_clear(&out);
    return sum;
}

/* The rule of a field; that of its section, if the field has none of its own. */
static enum merge_rule rule_of(const struct section *section, struct bytes name)
{
    static const struct {
        const char *name;
        enum merge_rule rule;
    } RULES[] = {
        /* every shard has all scripts and functions */
        {"number_of_cached_scripts", RULE_LARGEST},
        {"number_of_functions", RULE_LARGEST},
        {"number_of_libraries", RULE_LARGEST},
        /* shards share a machine; maxmemory limits all shards together */
        {"total_system_memory", RULE_LARGEST},
        {"maxmemory", RULE_LARGEST},
        /* every shard has all prefixes of CLIENT TRACKING */
        {"tracking_total_prefixes", RULE_LARGEST},
        {"store_cache_bytes", RULE_SUM_PROCESS},
        {"store_disk_total_bytes", RULE_FIRST}, /* see merge_disk */
        {"store_disk_free_bytes", RULE_FIRST},
        {"rdb_changes_since_last_save", RULE_SUM},
        {"rdb_bgsave_in_progress", RULE_LARGEST},
        {"rdb_last_save_time", RULE_SMALLEST},
        {"rdb_last_bgsave_status", RULE_FAULT},
        {"aof_rewrite_in_progress", RULE_LARGEST},
        {"aof_last_write_status", RULE_FAULT},
        {"expired_stale_perc", RULE_LARGEST},
        {"keys_all_namespaces", RULE_SUM},
        {"commits", RULE_SUM_PROCESS},
        {"commit_failures", RULE_SUM_PROCESS},
        {"commit_rows", RULE_SUM_PROCESS},
        {"commit_usec", RULE_SUM_PROCESS},
        {"read_only", RULE_LARGEST},
        {"read_only_reason", RULE_FIRST_TEXT},
        {"disk_low", RULE_LARGEST},
        {"tls_certificate_expires", RULE_SMALLEST},
        {"peer_tls_certificate_expires", RULE_SMALLEST},
        {"backup_in_progress", RULE_LARGEST},
        {"backup_last_status", RULE_FAULT},
        {"backup_last_time", RULE_SMALLEST},
        {"backup_last_success_time", RULE_SMALLEST},
    };
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        if (bytes_equal(name, bytes_of(RULES[i].name)))
            return RULES[i].rule;
    return section->rule;
}

/* The value of a field that several shards have. */
static struct bytes merged_value(struct info *info, enum merge_rule rule, struct bytes a,
                                 struct bytes b)
{
    switch (rule) {
    case RULE_FIRST:
    case RULE_SUM_PROCESS: /* the figures of this process are in `a` already */
        break;
    case RULE_FIRST_TEXT:
        return a.len ? a : b;
    case RULE_FAULT:
        return bytes_equal(b, BYTES("err")) ? b : a;
    case RULE_SUM:
        return memchr(b.data, '=', b.len) ? add_lists(info, a, b) : add_numbers(info, a, b);
    case RULE_LARGEST:
        return larger_number(a, b);
    case RULE_SMALLEST:
        return bytes_equal(larger_number(a, b), b) ? a : b;
    }
    return a;
}

/* The bytes of field X in the form of its field X_human; empty: there is no such field. */
static struct bytes human_of(struct info *info, struct section *section, struct bytes name)
{
    static const char suffix[] = "_human";
    static const char units[] = "BKMGTP";
    size_t len = name.len - (sizeof suffix - 1);
    double value;
    const struct field *field;
    if (name.len < sizeof suffix || memcmp(name.data + len, suffix, sizeof suffix - 1) != 0 ||
        !(field = field_find(section, (struct bytes){name.data, len})) ||
        !number_parse_double(field->value, &value))
        return (struct bytes){"", 0};
    size_t unit = 0;
    for (; value >= 1024 && unit + 2 < sizeof units; unit++)
        value /= 1024;
    char *text = arena_alloc(&info->arena, DOUBLE_TEXT_MAX);
    int written = snprintf(text, DOUBLE_TEXT_MAX, unit ? "%.2f%c" : "%.0f%c", value, units[unit]);
    return (struct bytes){text, (size_t)written};
}

static void field_merge(struct info *info, struct section *section, struct bytes name,
                        struct bytes value, bool is_new_process)
{
    const struct field *field = field_find(section, name);
    enum merge_rule rule = rule_of(section, name);
    struct bytes human = human_of(info, section, name);
    if (rule == RULE_SUM_PROCESS && is_new_process)
        rule = RULE_SUM;
    if (human.len)
        field_set(info, section, name, human);
    else
        field_set(info, section, name,
                  field ? merged_value(info, rule, field->value, value) : value);
}

/* The value of the line "name:value" in the text; empty: there is none. */
static struct bytes info_value(struct bytes text, struct bytes wanted)
{
    struct bytes line;
    struct bytes name;
    struct bytes value;
    while (line_next(&text, &line))
        if (split_at(line, ':', &name, &value) && bytes_equal(name, wanted))
            return value;
    return (struct bytes){"", 0};
}

/* Keeps the disk with the least free bytes, where writes end first. */
static void merge_disk(struct info *info, struct section *section, struct bytes text)
{
    static const char *const names[] = {"store_disk_total_bytes", "store_disk_free_bytes"};
    struct bytes free_bytes = info_value(text, bytes_of(names[1]));
    const struct field *least = field_find(section, bytes_of(names[1]));
    if (!least || !free_bytes.len ||
        bytes_equal(larger_number(least->value, free_bytes), free_bytes))
        return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        field_set(info, section, bytes_of(names[i]), info_value(text, bytes_of(names[i])));
}

static void info_merge(struct info *info, struct bytes text, bool is_new_process)
{
    struct section *section = NULL;
    struct bytes whole = text;
    struct bytes line;
    struct bytes name;
    struct bytes value;
    while (line_next(&text, &line)) {
        if (line.len > 2 && line.data[0] == '#')
            section = section_open(info, trim_front(line, 2));
        else if (section && split_at(line, ':', &name, &value) && value.len)
            field_merge(info, section, name, value, is_new_process);
        else if (section && split_at(line, ':', &name, &value) && !field_find(section, name))
            field_set(info, section, name, value);
    }
    for (section = info->first; section; section = section->next)
        merge_disk(info, section, whole);
}

static bool field_number(struct section *section, const char *name, double *number)
{
    const struct field *field = field_find(section, bytes_of(name));
    return field && number_parse_double(field->value, number);
}

/* Ratios are those of the sums. */
static void info_ratios(struct info *info)
{
    static const struct {
        const char *name;
        const char *part;
        const char *whole;
        bool is_percent;
    } RATIOS[] = {
        {"mem_fragmentation_ratio", "used_memory_rss", "used_memory", false},
        {"allocator_frag_ratio", "allocator_active", "allocator_allocated", false},
        {"allocator_rss_ratio", "allocator_resident", "allocator_active", false},
        {"rss_overhead_ratio", "used_memory_rss", "allocator_resident", false},
        {"used_memory_peak_perc", "used_memory_rss", "used_memory_peak", true},
        {"used_memory_dataset_perc", "used_memory_dataset", "used_memory", true},
    };
    for (struct section *section = info->first; section; section = section->next)
        for (size_t i = 0; i < sizeof RATIOS / sizeof RATIOS[0]; i++) {
            char text[DOUBLE_TEXT_MAX];
            double part;
            double whole;
            if (!field_find(section, bytes_of(RATIOS[i].name)) ||
                !field_number(section, RATIOS[i].part, &part) ||
                !field_number(section, RATIOS[i].whole, &whole) || whole <= 0)
                continue;
            int len = snprintf(text, sizeof text, RATIOS[i].is_percent ? "%.2f%%" : "%.2f",
                               part / whole * (RATIOS[i].is_percent ? 100 : 1));
            field_set(info, section, bytes_of(RATIOS[i].name), (struct bytes){text, (size_t)len});
        }
}

/* ---- fields of the proxy ---- */

static void field_set_number(struct info *info, struct section *section, const char *name,
                             uint64_t number)
{
    char text[INT64_TEXT_MAX + 1];
    int len = snprintf(text, sizeof text, "%" PRIu64, number);
    if (field_find(section, bytes_of(name)))
        field_set(info, section, bytes_of(name), (struct bytes){text, (size_t)len});
}

static void field_set_text(struct info *info, struct section *section, const char *name,
                           const char *text)
{
    if (field_find(section, bytes_of(name)))
        field_set(info, section, bytes_of(name), bytes_of(text));
}

/* Replaces fields about the endpoint with the proxy's values. */
static void info_own(struct info *info, const struct client *client)
{
    const struct proxy *proxy = client->worker->proxy;
    const struct proxy_config *config = &client->worker->snapshot->config;
    const char *port = strrchr(stream_local(client->stream), ':');
    uint64_t uptime_s = (loop_wall_ms(client->worker->loop) - proxy->started_ms) / 1000;
    for (struct section *section = info->first; section; section = section->next) {
        field_set_number(info, section, "process_id", (uint64_t)getpid());
        field_set_number(info, section, "uptime_in_seconds", uptime_s);
        field_set_number(info, section, "uptime_in_days", uptime_s / 86400);
        field_set_number(info, section, "maxclients", (uint64_t)config->maxclients);
        field_set_number(info, section, "connected_clients",
                         (uint64_t)atomic_load(&proxy->clients));
        field_set_number(info, section, "blocked_clients",
                         metrics_sum(METRIC_PROXY_CLIENTS_BLOCKED));
        field_set_number(info, section, "tracking_clients",
                         metrics_sum(METRIC_PROXY_CLIENTS_TRACKING));
        field_set_number(info, section, "total_connections_received",
                         metrics_sum(METRIC_PROXY_CLIENTS_ACCEPTED));
        field_set_text(info, section, "run_id", proxy->run_id);
        field_set_text(info, section, "zone", client->worker->pool->zone);
        field_set_text(info, section, "tcp_port", port ? port + 1 : "0");
        field_set_text(info, section, "config_file", config->head.path ? config->head.path : "");
    }
}

/* ---- the reply ---- */

/* The text of a shard's reply; empty: the reply is not a text. */
static struct bytes answer_text(const struct shard_reply *answer)
{
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) ||
        (value.type != '$' && value.type != '=') || value.is_null)
        return (struct bytes){"", 0};
    return resp_value_text(&value);
}

/* True when the request names this section, which only the proxy has, or names no section. */
static bool asks_for(const struct request *request, const char *section)
{
    const struct bytes *argv = request_argv(request);
    if (request_argc(request) == 1)
        return true;
    for (uint32_t i = 1; i < request_argc(request); i++)
        if (bytes_is(argv[i], "all") || bytes_is(argv[i], "everything") ||
            bytes_is(argv[i], "default") || bytes_is(argv[i], section))
            return true;
    return false;
}

static void print_shards(const struct client *client, const struct request *request,
                         struct out *out)
{
    const struct shard_map *map = client->worker->snapshot->map;
    out_printf(out, "%s# Shards\r\nshards:%u\r\nmap_epoch:%" PRIu64 "\r\nlearned_slots:%u\r\n",
               out->bytes ? "\r\n" : "", request_reply_count(request), map->epoch,
               routes_count(map, client->worker->snapshot->wish));
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        int shard = shard_map_named(map, bytes_of(answer->node->name));
        struct shard_counts counts;
        proxy_metrics_shard(&client->worker->proxy->labelled, bytes_of(answer->node->name),
                            &counts);
        out_printf(out, "shard_%s:address=%s,slots=%u,state=%s,held=%" PRIu64 "\r\n",
                   answer->node->name, answer->node->address,
                   shard >= 0 ? map->shards[shard].slot_count : 0,
                   answer->is_failure ? "down" : "up", counts.held);
    }
}

/* Limits of the client's namespace, and what it has. Without limits the figures are some seconds old (usage.h). */
static void print_limits(const struct client *client, struct out *out)
{
    const struct proxy_tenants *tenants = &client->worker->proxy->tenants;
    struct bytes name = client->session.keyspace->name;
    struct limit_figures figures = {0};
    struct usage_figures usage;
    bool is_known = usages_find(tenants->usages, name, &usage);
    bool is_limited = limits_find(tenants->limits, name, &figures);
    if (!is_known && !is_limited)
        return;
    if (is_known && !figures.max_keys)
        figures.keys = usage.keys;
    if (is_known && !figures.max_bytes)
        figures.bytes = usage.bytes;
    out_printf(out,
               "%s# Limits\r\nmax_keys:%" PRIu64 "\r\nkeys:%" PRIu64 "\r\nmax_bytes:%" PRIu64
               "\r\nbytes:%" PRIu64 "\r\n",
               out->bytes ? "\r\n" : "", figures.max_keys, figures.keys, figures.max_bytes,
               figures.bytes);
}

/* Writes the counters of the proxy's TLS connections; those of shards are in their own INFO. */
static void print_tls(struct out *out)
{
    out_printf(out,
               "%s# TLS\r\ntls_connections:%" PRIu64 "\r\ntls_handshakes:%" PRIu64
               "\r\ntls_handshakes_resumed:%" PRIu64 "\r\ntls_connects:%" PRIu64
               "\r\ntls_connects_resumed:%" PRIu64 "\r\ntls_failures:%" PRIu64 "\r\n",
               out->bytes ? "\r\n" : "", metrics_sum(METRIC_PROCESS_TLS_CONNECTIONS),
               metrics_sum(METRIC_PROCESS_TLS_HANDSHAKES), metrics_sum(METRIC_PROCESS_TLS_RESUMED),
               metrics_sum(METRIC_PROCESS_TLS_CONNECTS),
               metrics_sum(METRIC_PROCESS_TLS_CONNECTS_RESUMED),
               metrics_sum(METRIC_PROCESS_TLS_FAILURES));
}

static void print_document(const struct info *info, const struct request *request, struct out *out)
{
    for (const struct section *section = info->first; section; section = section->next) {
        if (bytes_equal(section->name, BYTES("Server")) && !asks_for(request, "server"))
            continue; /* only the run ids were needed */
        out_printf(out, "%s# %.*s\r\n", out->bytes ? "\r\n" : "", (int)section->name.len,
                   section->name.data);
        for (const struct field *field = section->first; field; field = field->next)
            out_printf(out, "%.*s:%.*s\r\n", (int)field->name.len, field->name.data,
                       (int)field->value.len, field->value.data);
    }
}

/* Has an earlier shard of this request the same run id? */
static bool is_known_process(const struct request *request, uint32_t index, struct bytes run_id)
{
    for (uint32_t i = 0; i < index; i++)
        if (bytes_equal(info_value(answer_text(request_reply(request, i)), BYTES("run_id")),
                        run_id))
            return true;
    return false;
}

bool local_is_new_process(const struct request *request, uint32_t index)
{
    struct bytes run_id = info_value(answer_text(request_reply(request, index)), BYTES("run_id"));
    return run_id.len == 0 || !is_known_process(request, index, run_id);
}

/* ---- calls that the proxy has answered itself ---- */

static struct section *section_find(const struct info *info, const char *name)
{
    struct section *section = info->first;
    while (section && !bytes_equal(section->name, bytes_of(name)))
        section = section->next;
    return section;
}

/* Merges the section's rows into the document, if it has this section, and frees them. */
static void merge_rows(struct info *info, const char *name, struct out *rows)
{
    struct bytes text = {arena_alloc(&info->arena, rows->bytes + 1), rows->bytes};
    out_copy(rows, (char *)text.data);
    out_clear(rows);
    if (section_find(info, name))
        info_merge(info, text, false);
}

/* Adds the calls that this proxy has answered itself to the sections of statistics, as those of one more shard. */
static void info_own_calls(struct info *info, struct own_calls *calls)
{
    const struct section *times = section_find(info, "Latencystats");
    struct bytes percents =
        times && times->first ? times->first->value : BYTES("p50=0,p99=0,p99.9=0");
    struct out rows[2];
    out_init(&rows[0]);
    out_init(&rows[1]);
    out_printf(&rows[0], "# Commandstats\r\n");
    out_printf(&rows[1], "# Latencystats\r\n");
    uint64_t total = own_stats_print(calls, percents, &rows[0], &rows[1]);
    merge_rows(info, "Commandstats", &rows[0]);
    merge_rows(info, "Latencystats", &rows[1]);
    out_init(&rows[0]);
    out_printf(&rows[0], "# Stats\r\ntotal_commands_processed:%" PRIu64 "\r\n", total);
    merge_rows(info, "Stats", &rows[0]);
}

static void info_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct proxy_snapshot *snapshot = client->worker->snapshot;
    struct info info = {0};
    struct out out;
    arena_init(&info.arena);
    info.last = &info.first;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        struct bytes text = answer_text(request_reply(request, i));
        info_merge(&info, text, local_is_new_process(request, i));
    }
    if (client->session.keyspace->name.len == 0)
        info_own_calls(&info, client->worker->proxy->labelled.own);
    info_ratios(&info);
    info_own(&info, client);
    out_init(&out);
    print_document(&info, request, &out);
    /* clients in a namespace see nothing of the process */
    bool is_tenant = client->session.keyspace->name.len > 0;
    if (is_tenant && asks_for(request, "limits"))
        print_limits(client, &out);
    if (!is_tenant && (snapshot->tls || snapshot->upstream_tls) && asks_for(request, "tls"))
        print_tls(&out);
    if (!is_tenant && asks_for(request, "shards"))
        print_shards(client, request, &out);
    struct bytes document = {arena_alloc(&info.arena, out.bytes + 1), out.bytes};
    out_copy(&out, (char *)document.data);
    out_clear(&out);
    reply_verbatim(reply, "txt", document);
    arena_fini(&info.arena);
}

void local_info(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    struct bytes *with_server = calloc(argc + 1, sizeof *with_server);
    (void)client;
    (void)reply;
    CHECK(with_server);
    memcpy(with_server, argv, argc * sizeof *argv);
    with_server[argc] = BYTES("server");
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ALL, with_server,
                    asks_for(request, "server") ? argc : argc + 1, info_done);
    free(with_server);
}
