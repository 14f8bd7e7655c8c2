#include "proxy/status/backends.h"

#include "shared/number.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINKS_SHOWN = 200,
    LINK_TEXT_SHOWN = 200, /* longest name or reason shown */
};

/* A line "peer_SHARD:address=…,state=…,…" of INFO. */
struct reported_link {
    const char *from;
    struct bytes to;
    struct bytes values;
    bool is_up;
};

/* ---- lines ---- */

/* Removes a line from the front of *rest. False: there is none. */
static bool line_of_info(const char **rest, struct bytes *line)
{
    if (!**rest)
        return false;
    size_t len = strcspn(*rest, "\r\n");
    *line = (struct bytes){*rest, len};
    *rest += len;
    *rest += strspn(*rest, "\r\n");
    return true;
}

/* The value after `prefix`, which begins the line. False: it does not. */
static bool value_after(struct bytes line, const char *prefix, struct bytes *value)
{
    size_t len = strlen(prefix);
    if (line.len < len || memcmp(line.data, prefix, len) != 0)
        return false;
    *value = (struct bytes){line.data + len, line.len - len};
    return true;
}

/* The value of NAME in "NAME=VALUE,NAME=VALUE"; empty: there is none. A quoted value is the last one. */
static struct bytes value_of(struct bytes values, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = values.data; at && at < values.data + values.len;) {
        size_t left = (size_t)(values.data + values.len - at);
        const char *comma = memchr(at, ',', left);
        bool is_it = left > len && memcmp(at, name, len) == 0 && at[len] == '=';
        if (is_it && left > len + 2 && at[len + 1] == '"')
            return (struct bytes){at + len + 2, left - len - 3};
        if (is_it)
            return (struct bytes){at + len + 1, (comma ? (size_t)(comma - at) : left) - len - 1};
        at = comma ? comma + 1 : NULL;
    }
    return (struct bytes){"", 0};
}

static uint64_t number_in(struct bytes values, const char *name)
{
    uint64_t number = 0;
    return number_parse_uint64(value_of(values, name), &number) ? number : 0;
}

/* The value of the line "NAME:VALUE"; empty: there is none. */
static struct bytes reported_text(const char *info, const char *name)
{
    struct bytes line;
    struct bytes value;
    while (line_of_info(&info, &line))
        if (value_after(line, name, &value) && value.len && value.data[0] == ':')
            return (struct bytes){value.data + 1, value.len - 1};
    return (struct bytes){"", 0};
}

/* The number of the line "NAME:NUMBER". False: there is none. */
static bool reported_figure(const char *info, const char *name, uint64_t *figure)
{
    return number_parse_uint64(reported_text(info, name), figure);
}

/* ---- transactions ---- */

static void write_failures(struct json_writer *json, const char *info)
{
    struct bytes line;
    struct bytes value;
    json_put_list(json, "failures");
    while (line_of_info(&info, &line)) {
        uint64_t count;
        if (!value_after(line, "transactions_failed_", &value))
            continue;
        const char *colon = memchr(value.data, ':', value.len);
        size_t len = colon ? (size_t)(colon - value.data) : value.len;
        if (!colon ||
            !number_parse_uint64((struct bytes){colon + 1, value.len - len - 1}, &count) || !count)
            continue;
        json_put_object(json, NULL);
        json_put_shown(json, "reason", (struct bytes){value.data, len}, LINK_TEXT_SHOWN);
        json_put_uint(json, "count", count);
        json_put_end(json);
    }
    json_put_end(json);
}

void backends_write_transactions(struct json_writer *json, const char *info)
{
    static const struct {
        const char *name;
        const char *figure;
    } rows[] = {
        {"open", "transactions_open"},
        {"decided", "transactions_decided"},
        {"joined", "transactions_joined"},
        {"in_doubt", "transactions_in_doubt"},
        {"locked_keys", "locked_keys"},
        {"one_shard", "transactions_read_only_elsewhere"},
        {"two_shards", "transactions_two_shards"},
        {"many_shards", "transactions_many_shards"},
        {"retries", "transactions_retries"},
        {"failed", "transactions_failed"},
    };
    uint64_t figure;
    if (!info || !reported_figure(info, rows[0].figure, &figure)) {
        json_put_null(json, "transactions");
        return;
    }
    json_put_object(json, "transactions");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        json_put_uint(json, rows[i].name,
                      reported_figure(info, rows[i].figure, &figure) ? figure : 0);
    write_failures(json, info);
    json_put_end(json);
}

/* ---- storage ---- */

/* The most level-0 files of a column family: too many of them delay writes. */
static uint64_t most_level0_files(const char *info)
{
    struct bytes line;
    struct bytes values;
    uint64_t most = 0;
    while (line_of_info(&info, &line)) {
        uint64_t files =
            value_after(line, "store_cf_", &values) ? number_in(values, "level0_files") : 0;
        most = files > most ? files : most;
    }
    return most;
}

void backends_write_storage(struct json_writer *json, const char *info, uint64_t age_ms)
{
    static const struct {
        const char *name;
        const char *figure;
    } rows[] = {
        {"keys", "keys_all_namespaces"},
        {"disk_total_bytes", "store_disk_total_bytes"},
        {"disk_free_bytes", "store_disk_free_bytes"},
        {"disk_bytes", "store_disk_bytes"},
        {"running_compactions", "store_running_compactions"},
        {"pending_compaction_bytes", "store_pending_compaction_bytes"},
        {"delayed_write_rate", "store_delayed_write_rate"},
        {"stalled", "store_stalled"},
        {"damaged_batches", "store_wal_damaged_batches"},
        {"read_only", "read_only"},
        {"disk_low", "disk_low"},
        {"backup_in_progress", "backup_in_progress"},
        {"backup_last_s", "backup_last_time"},
        {"backup_success_s", "backup_last_success_time"},
        {"memory_bytes", "used_memory_rss"},
        {"memory_configured_bytes", "mem_configured"},
        {"certificate_expires_s", "tls_certificate_expires"},
        {"peer_certificate_expires_s", "peer_tls_certificate_expires"},
    };
    if (!info) {
        json_put_null(json, "storage");
        return;
    }
    json_put_object(json, "storage");
    json_put_uint(json, "age_ms", age_ms);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t figure = 0;
        json_put_uint(json, rows[i].name,
                      reported_figure(info, rows[i].figure, &figure) ? figure : 0);
    }
    json_put_uint(json, "level0_files", most_level0_files(info));
    json_put_shown(json, "state", reported_text(info, "store_state"), LINK_TEXT_SHOWN);
    json_put_shown(json, "reason", reported_text(info, "read_only_reason"), LINK_TEXT_SHOWN);
    json_put_shown(json, "backup_status", reported_text(info, "backup_last_status"),
                   LINK_TEXT_SHOWN);
    json_put_end(json);
}

/* ---- links ---- */

/* Reads the next link from the front of *rest. False: there is none. */
static bool next_link(const char **rest, struct reported_link *link)
{
    struct bytes line;
    struct bytes value;
    while (line_of_info(rest, &line)) {
        const char *colon = memchr(line.data, ':', line.len);
        if (!colon || !value_after(line, "peer_", &value))
            continue;
        link->to = (struct bytes){value.data, (size_t)(colon - value.data)};
        link->values = (struct bytes){colon + 1, line.len - (size_t)(colon + 1 - line.data)};
        link->is_up = bytes_equal(value_of(link->values, "state"), BYTES("up"));
        return true;
    }
    return false;
}

static void write_link(struct json_writer *json, const struct reported_link *link)
{
    json_put_object(json, NULL);
    json_put_text(json, "from", link->from);
    json_put_shown(json, "to", link->to, LINK_TEXT_SHOWN);
    json_put_shown(json, "state", value_of(link->values, "state"), LINK_TEXT_SHOWN);
    json_put_shown(json, "reason", value_of(link->values, "reason"), LINK_TEXT_SHOWN);
    json_put_bool(json, "has_other_map",
                  bytes_equal(value_of(link->values, "same_map"), BYTES("no")));
    json_put_uint(json, "since_s", number_in(link->values, "since_s"));
    json_put_uint(json, "round_trip_us", number_in(link->values, "round_trip_us"));
    json_put_uint(json, "outstanding", number_in(link->values, "outstanding"));
    json_put_uint(json, "output_bytes", number_in(link->values, "output_bytes"));
    json_put_end(json);
}

/* Writes the links that are up, or the others, until *shown is LINKS_SHOWN. Returns the number of all of them. */
static uint64_t write_links_that(struct json_writer *json, const struct shard_map *map,
                                 const struct survey_said *said, bool is_up, uint32_t *shown)
{
    uint64_t count = 0;
    for (size_t i = 0; i < map->shard_count; i++) {
        struct reported_link link = {.from = map->shards[i].name};
        const char *info = said[i].on[SURVEY_INFO];
        const char *rest = info ? info : "";
        while (next_link(&rest, &link)) {
            if (link.is_up != is_up)
                continue;
            count++;
            if (*shown < LINKS_SHOWN) {
                ++*shown;
                write_link(json, &link);
            }
        }
    }
    return count;
}

void backends_write_links(struct json_writer *json, const struct shard_map *map,
                          const struct survey_said *said)
{
    uint32_t shown = 0;
    json_put_list(json, "links");
    uint64_t down = write_links_that(json, map, said, false, &shown);
    uint64_t up = write_links_that(json, map, said, true, &shown);
    json_put_end(json);
    json_put_uint(json, "link_count", down + up);
    json_put_uint(json, "links_down", down);
}
