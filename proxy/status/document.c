/*
 * document.c - the status page's JSON: bounded in size, and valid whatever names contain.
 */
#include "proxy/core/events.h"
#include "proxy/core/hot_keys.h"
#include "proxy/core/proxy.h"
#include "proxy/core/slow_log.h"
#include "proxy/status/admin.h"
#include "proxy/status/backends.h"
#include "proxy/status/copies.h"
#include "proxy/status/gather.h"
#include "proxy/status/peers.h"
#include "proxy/status/share.h"
#include "proxy/status/slot_survey.h"
#include "proxy/status/status.h"
#include "proxy/status/survey.h"
#include "shared/bytes.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/json_writer.h"
#include "shared/table.h"
#include "shared/tls.h"
#include "shared/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    CLIENTS_SHOWN = 24,
    KEYS_SHOWN = 24,
    SPACES_SHOWN = 100,
    SLOW_SHOWN = 32,
    SLOW_ARGS_SHOWN = 12,
};

/* ---- the proxy --------------------------------------------------------------------------------- */

uint64_t status_resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_proxy(struct json_writer *json, const struct status *status,
                        const struct proxy_snapshot *snapshot, uint32_t late_workers)
{
    const struct proxy *proxy = status->proxy;
    const struct proxy_config *config = &snapshot->config;
    char zone[ZONE_NAME_MAX + 1];
    (void)zone_expand(bytes_of(config->zone), zone);
    json_put_object(json, "proxy");
    json_put_text(json, "version", SCREE_VERSION);
    json_put_text(json, "commit", version_commit());
    json_put_text(json, "run_id", proxy->run_id);
    json_put_uint(json, "process_id", (uint64_t)getpid());
    json_put_uint(json, "started_ms", proxy->started_ms);
    json_put_text(json, "listen", config->listen);
    json_put_text(json, "zone", zone);
    json_put_text(json, "config_file", config->head.path ? config->head.path : "");
    json_put_bool(json, "is_stopping", atomic_load(&proxy->is_stopping));
    json_put_bool(json, "files_refused", !metrics_sum(METRIC_PROXY_RELOAD_GOOD));
    json_put_uint(json, "workers", gatherer_count(status->gatherer));
    json_put_uint(json, "workers_late", late_workers);
    json_put_uint(json, "memory_resident_bytes", status_resident_bytes());
    json_put_uint(json, "memory_buffer_bytes", atomic_load(&proxy->memory.used));
    json_put_uint(json, "memory_limit_bytes", config->memory_limit_bytes);
    json_put_uint(json, "clients_max", (uint64_t)config->maxclients);
    json_put_uint(json, "certificate_expires_s", tls_context_expires_s(snapshot->tls));
    json_put_uint(json, "upstream_certificate_expires_s",
                  tls_context_expires_s(snapshot->upstream_tls));
    json_put_end(json);
}

/* Writes every counter and gauge of the proxy under its name in /metrics. */
static void write_totals(struct json_writer *json)
{
    json_put_object(json, "totals");
    json_put_uint(json, "requests", metrics_sum(METRIC_PROXY_REQUESTS));
    json_put_uint(json, "errors", metrics_sum(METRIC_PROXY_ERRORS));
    json_put_uint(json, "bytes_in", metrics_sum(METRIC_PROXY_BYTES_IN));
    json_put_uint(json, "bytes_out", metrics_sum(METRIC_PROXY_BYTES_OUT));
    json_put_uint(json, "inflight", metrics_sum(METRIC_PROXY_INFLIGHT));
    json_put_uint(json, "clients", metrics_sum(METRIC_PROXY_CLIENTS));
    json_put_uint(json, "clients_blocked", metrics_sum(METRIC_PROXY_CLIENTS_BLOCKED));
    json_put_uint(json, "clients_accepted", metrics_sum(METRIC_PROXY_CLIENTS_ACCEPTED));
    json_put_uint(json, "clients_refused", metrics_sum(METRIC_PROXY_CLIENTS_REFUSED));
    json_put_uint(json, "clients_disconnected", metrics_sum(METRIC_PROXY_CLIENTS_DISCONNECTED));
    json_put_uint(json, "upstream_requests", metrics_sum(METRIC_PROXY_UPSTREAM_REQUESTS));
    json_put_uint(json, "upstream_failures", metrics_sum(METRIC_PROXY_UPSTREAM_FAILURES));
    json_put_uint(json, "upstream_timeouts", metrics_sum(METRIC_PROXY_UPSTREAM_TIMEOUTS));
    json_put_uint(json, "reloads", metrics_sum(METRIC_PROXY_RELOADS));
    json_put_uint(json, "reload_failures", metrics_sum(METRIC_PROXY_RELOAD_FAILURES));
    json_put_end(json);
}

/* ---- traffic ----------------------------------------------------------------------------------- */

/* Members of the open object: figures of a histogram in µs. */
static void write_traffic(struct json_writer *json, const uint64_t *histogram, uint64_t errors)
{
    uint64_t requests = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        requests += histogram[i];
    json_put_uint(json, "requests", requests);
    json_put_uint(json, "errors", errors);
    json_put_uint(json, "usec", histogram[HISTOGRAM_BUCKETS]);
    json_put_list(json, "latency");
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        json_put_uint(json, NULL, histogram[i]);
    json_put_end(json);
}

/* Upper bounds of the buckets of "latency"; the last has none. */
static void write_bounds(struct json_writer *json)
{
    json_put_list(json, "latency_bounds_us");
    for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++)
        json_put_uint(json, NULL, UINT64_C(1) << i);
    json_put_end(json);
}

static void write_commands(struct json_writer *json, const struct status *status)
{
    struct labels *labels = status->proxy->labelled.commands;
    uint64_t sums[LABEL_WORDS_MAX];
    json_put_list(json, "commands");
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const char *name = command_full_name(command_of((enum command_id)id));
        if (!labels_find(labels, bytes_of(name), sums))
            continue;
        json_put_object(json, NULL);
        json_put_text(json, "name", name);
        write_traffic(json, sums + COMMAND_SECONDS, sums[COMMAND_ERRORS]);
        json_put_end(json);
    }
    json_put_end(json);
}

/* ---- the map and its shards -------------------------------------------------------------------- */

/* Sum over all workers. */
static struct share_shard sum_shard(const struct status *status, const struct shard_map *map,
                                    size_t shard)
{
    struct share_shard sum = {0};
    for (uint32_t i = 0; i < gatherer_count(status->gatherer); i++) {
        const struct share *share = gatherer_share(status->gatherer, i);
        if (!share || share->map != map)
            continue;
        const struct share_shard *one = &share->shards[shard];
        sum.open += one->open;
        sum.broken += one->broken;
        sum.in_flight += one->in_flight;
        sum.queued_bytes += one->queued_bytes;
        if (one->broken)
            sum.reason = one->reason;
    }
    return sum;
}

static const char *shard_state(const struct health *health, const struct shard_health *check,
                               const struct share_shard *sum)
{
    if (check->is_empty && health->state == HEALTH_UP)
        return "down";
    switch (health->state) {
    case HEALTH_UP:
        return "up";
    case HEALTH_DOWN:
        return "down";
    case HEALTH_SILENT:
        return "silent";
    case HEALTH_UNKNOWN:
        break;
    }
    return sum->broken ? "down" : sum->open ? "up" : "unknown";
}

static void write_ranges(struct json_writer *json, const struct shard_map *map, int shard)
{
    unsigned slot = 0;
    unsigned first;
    unsigned last;
    json_put_list(json, "slots");
    while (shard_map_next_range(map, shard, &slot, &first, &last)) {
        json_put_list(json, NULL);
        json_put_uint(json, NULL, first);
        json_put_uint(json, NULL, last);
        json_put_end(json);
    }
    json_put_end(json);
}

/* The first shards of `map` are those of `wish`: routes_merge() adds others behind them. */
static void write_shard_slots(struct json_writer *json, const struct shard_map *wish, size_t i)
{
    json_put_uint(json, "slot_count", i < wish->shard_count ? wish->shards[i].slot_count : 0);
    write_ranges(json, wish, (int)i);
}

static void write_shard(struct json_writer *json, const struct status *status,
                        const struct proxy_snapshot *snapshot, size_t i,
                        const struct health *health, const struct shard_health *check,
                        const struct survey_said *said)
{
    const struct survey_storage *storage = &said->storage;
    uint64_t now_us = clock_mono_us();
    const struct shard *shard = &snapshot->map->shards[i];
    struct share_shard sum = sum_shard(status, snapshot->map, i);
    const char *state = shard_state(health, check, &sum);
    bool is_down = health->state == HEALTH_DOWN;
    json_put_object(json, NULL);
    json_put_text(json, "name", shard->name);
    json_put_text(json, "address", shard->address_count ? shard->addresses[0] : "");
    json_put_text(json, "state", state);
    if (is_down || check->is_empty)
        json_put_text(json, "reason", is_down ? health->reason : check->reason);
    else
        json_put_shown(json, "reason", sum.reason, SURVEY_REASON_MAX);
    write_shard_slots(json, snapshot->wish, i);
    json_put_uint(json, "connections", sum.open);
    json_put_uint(json, "in_flight", sum.in_flight);
    json_put_uint(json, "queued_bytes", sum.queued_bytes);
    json_put_uint(json, "ping_us", health->round_trip_us);
    backends_write_transactions(json, said->on[SURVEY_INFO]);
    copies_write(json, said->on[SURVEY_REPLICAS], status->proxy->routes.zones);
    backends_write_storage(json, storage->info,
                           now_us > storage->answered_us ? (now_us - storage->answered_us) / 1000
                                                         : 0);
    uint64_t counts[LABEL_WORDS_MAX] = {0};
    (void)labels_find(status->proxy->labelled.shards, bytes_of(shard->name), counts);
    write_traffic(json, counts + SHARD_SECONDS, counts[SHARD_ERRORS]);
    json_put_end(json);
}

static void write_map(struct json_writer *json, struct status *status,
                      const struct proxy_snapshot *snapshot)
{
    const struct shard_map *map = snapshot->map;
    struct health *health = calloc(map->shard_count + 1, sizeof *health);
    struct shard_health *checks = calloc(map->shard_count + 1, sizeof *checks);
    struct survey_said *said = calloc(map->shard_count + 1, sizeof *said);
    CHECK(health && checks && said);
    admin_copy_health(status->proxy->admin, map, checks);
    survey_copy_health(status->survey, map, clock_mono_us(), health);
    survey_copy_said(status->survey, map, said);
    json_put_object(json, "map");
    json_put_uint(json, "epoch", map->epoch);
    json_put_list(json, "shards");
    for (size_t i = 0; i < map->shard_count; i++)
        write_shard(json, status, snapshot, i, &health[i], &checks[i], &said[i]);
    json_put_end(json);
    backends_write_links(json, map, said);
    slot_survey_write(status->slot_survey, snapshot->wish, json);
    json_put_uint(json, "interval_ms", status->interval_us / 1000);
    json_put_list(json, "slot_rates");
    for (uint32_t slot = 0; slot < SLOT_COUNT; slot++)
        json_put_uint(json, NULL, status->slot_rates[slot]);
    json_put_end(json);
    json_put_end(json);
    survey_free_said(said, map->shard_count);
    free(checks);
    free(health);
}

/* ---- clients ----------------------------------------------------------------------------------- */

static int by_output_then_age(const void *a, const void *b)
{
    const struct share_client *left = *(const struct share_client *const *)a;
    const struct share_client *right = *(const struct share_client *const *)b;
    if (left->output_bytes != right->output_bytes)
        return left->output_bytes > right->output_bytes ? -1 : 1;
    return (left->id > right->id) - (left->id < right->id);
}

static void write_client(struct json_writer *json, const struct share_client *client)
{
    json_put_object(json, NULL);
    json_put_uint(json, "id", client->id);
    json_put_shown(json, "address", client->address, NAME_SHOWN);
    json_put_shown(json, "name", client->name, NAME_SHOWN);
    json_put_shown(json, "user", client->user, NAME_SHOWN);
    json_put_shown(json, "namespace", client->space, NAME_SHOWN);
    json_put_shown(json, "library", client->library, NAME_SHOWN);
    json_put_shown(json, "command", client->command, NAME_SHOWN);
    json_put_shown(json, "flags", client->flags, NAME_SHOWN);
    json_put_uint(json, "database", client->db);
    json_put_uint(json, "age_s", client->age_s);
    json_put_uint(json, "idle_s", client->idle_s);
    json_put_uint(json, "in_flight", client->in_flight);
    json_put_uint(json, "input_bytes", client->input_bytes);
    json_put_uint(json, "output_bytes", client->output_bytes);
    json_put_end(json);
}

static void write_clients(struct json_writer *json, const struct status *status)
{
    uint32_t workers = gatherer_count(status->gatherer);
    const struct share_client **all = calloc((size_t)workers * SHARE_CLIENTS_MAX + 1, sizeof *all);
    size_t count = 0;
    CHECK(all);
    for (uint32_t i = 0; i < workers; i++) {
        const struct share *share = gatherer_share(status->gatherer, i);
        for (uint32_t at = 0; share && at < share->client_count; at++)
            all[count++] = &share->clients[at];
    }
    qsort(all, count, sizeof *all, by_output_then_age);
    json_put_list(json, "clients");
    for (size_t i = 0; i < count && i < CLIENTS_SHOWN; i++)
        write_client(json, all[i]);
    json_put_end(json);
    free(all);
}

/* ---- hot keys ---------------------------------------------------------------------------------- */

static int by_key_rate(const void *a, const void *b)
{
    const struct share_key *left = a;
    const struct share_key *right = b;
    return (left->per_second < right->per_second) - (left->per_second > right->per_second);
}

/* Merges the workers' lists without duplicates; returns the number of names. */
static size_t merge_hot_keys(const struct status *status, struct share_key *to)
{
    struct table *by_name = table_new();
    size_t count = 0;
    for (uint32_t i = 0; i < gatherer_count(status->gatherer); i++) {
        const struct share *share = gatherer_share(status->gatherer, i);
        for (uint32_t at = 0; share && at < share->key_count; at++) {
            const struct share_key *key = &share->keys[at];
            struct share_key *known = table_get(by_name, key->name);
            if (known) {
                known->per_second += key->per_second;
                continue;
            }
            to[count] = *key;
            (void)table_put(by_name, key->name, &to[count++]);
        }
    }
    table_free(by_name);
    qsort(to, count, sizeof *to, by_key_rate);
    return count;
}

static void write_hot_keys(struct json_writer *json, const struct status *status,
                           const struct shard_map *map)
{
    size_t max = (size_t)gatherer_count(status->gatherer) * SHARE_KEYS_MAX;
    struct share_key *keys = calloc(max + 1, sizeof *keys);
    CHECK(keys);
    size_t count = merge_hot_keys(status, keys);
    json_put_list(json, "hot_keys");
    for (size_t i = 0; i < count && i < KEYS_SHOWN; i++) {
        struct hot_key hot = hot_key_parse(keys[i].name);
        json_put_object(json, NULL);
        json_put_shown(json, "key", hot.key, NAME_SHOWN);
        json_put_shown(json, "namespace", hot.space, NAME_SHOWN);
        json_put_uint(json, "database", hot.db);
        json_put_uint(json, "slot", hot.slot);
        json_put_text(json, "shard", map->shards[shard_map_find(map, hot.slot)].name);
        json_put_double(json, "per_second", keys[i].per_second);
        json_put_end(json);
    }
    json_put_end(json);
    free(keys);
}

/* ---- slow log, events, peers ------------------------------------------------------------------- */

static void write_slow_entry(struct json_writer *json, const struct slow_entry *slow)
{
    json_put_object(json, NULL);
    json_put_uint(json, "id", slow->id);
    json_put_uint(json, "at_s", slow->at_s);
    json_put_uint(json, "usec", slow->usec);
    json_put_uint(json, "shard_usec", slow->shard_usec);
    json_put_shown(json, "shard", slow->shard, NAME_SHOWN);
    json_put_shown(json, "client", slow->peer, NAME_SHOWN);
    json_put_shown(json, "name", slow->name, NAME_SHOWN);
    json_put_shown(json, "namespace", slow->space, NAME_SHOWN);
    json_put_uint(json, "argument_count", slow->argc);
    json_put_list(json, "arguments");
    for (uint32_t i = 0; i < slow->argc && i < SLOW_ARGS_SHOWN; i++)
        json_put_shown(json, NULL, slow->argv[i], NAME_SHOWN);
    json_put_end(json);
    json_put_end(json);
}

static void write_slow(struct json_writer *json, struct slow_log *slow_log)
{
    uint32_t shown = 0;
    json_put_list(json, "slow_log");
    slow_log_lock(slow_log);
    for (const struct slow_entry *slow = slow_log->slowlogs[SLOWLOG_SLOW].newest;
         slow && shown++ < SLOW_SHOWN; slow = slow->next)
        write_slow_entry(json, slow);
    slow_log_unlock(slow_log);
    json_put_end(json);
}

static void write_events(struct json_writer *json, struct events *events)
{
    struct event copy[EVENTS_MAX];
    uint32_t count = events_copy(events, copy);
    json_put_list(json, "events");
    for (uint32_t i = 0; i < count; i++) {
        json_put_object(json, NULL);
        json_put_uint(json, "id", copy[i].id);
        json_put_text(json, "kind", event_kind_name(copy[i].kind));
        json_put_text(json, "subject", copy[i].subject);
        json_put_text(json, "text", copy[i].text);
        json_put_uint(json, "count", copy[i].count);
        json_put_uint(json, "first_ms", copy[i].first_ms);
        json_put_uint(json, "last_ms", copy[i].last_ms);
        json_put_end(json);
    }
    json_put_end(json);
}

static void write_peers(struct json_writer *json, struct peers *peers, const char *token)
{
    struct peer copy[PEERS_MAX];
    uint32_t count = peers ? peers_look(peers, token, copy) : 0;
    json_put_list(json, "peers");
    for (uint32_t i = 0; i < count; i++) {
        json_put_object(json, NULL);
        json_put_text(json, "address", copy[i].address);
        json_put_bool(json, "is_up", copy[i].is_up);
        json_put_bool(json, "is_self", copy[i].is_self);
        json_put_uint(json, "epoch", copy[i].epoch);
        json_put_uint(json, "uptime_s", copy[i].uptime_s);
        json_put_text(json, "version", copy[i].version);
        json_put_text(json, "reason", copy[i].reason);
        json_put_end(json);
    }
    json_put_end(json);
}

void document_write(struct status *status, const struct proxy_snapshot *snapshot,
                    uint32_t late_workers, struct out *out)
{
    struct json_writer json;
    json_writer_init(&json, out);
    json_put_object(&json, NULL);
    json_put_uint(&json, "now_ms", clock_wall_us() / 1000);
    json_put_uint(&json, "mono_ms", clock_mono_us() / 1000);
    write_proxy(&json, status, snapshot, late_workers);
    write_totals(&json);
    write_bounds(&json);
    write_map(&json, status, snapshot);
    write_commands(&json, status);
    document_write_some_namespaces(status, snapshot, SPACES_SHOWN, &json);
    write_clients(&json, status);
    write_hot_keys(&json, status, snapshot->map);
    write_slow(&json, status->proxy->slow_log);
    write_events(&json, status->proxy->events);
    write_peers(&json, status->peers, snapshot->config.admin_token);
    json_put_end(&json);
    json_writer_fini(&json);
}
