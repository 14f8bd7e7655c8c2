/*
 * reload.c - everything a proxy is told from outside, as one immutable snapshot.
 */
#include "config/reload.h"

#include "config/shards_file.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- namespaces ------------------------------------------------------------------------------ */

/* True, or what is wrong with one [namespace NAME] beside those before it. */
static bool namespace_accepted(const struct proxy_config *config, const struct namespaces *before,
                               const struct namespace *item, char *reason, size_t size)
{
    struct bytes token = bytes_of(item->token);
    struct namespace_match match;
    if (!namespace_name_valid(bytes_of(item->name))) {
        (void)snprintf(reason, size, "expected another name, \"default\" is Redis' own user");
        return false;
    }
    if (!*config->upstream_secret) {
        (void)snprintf(reason, size, "expected upstream.secret: plain Redis has no namespaces");
        return false;
    }
    if (token.len && bytes_equal(token, bytes_of(config->requirepass))) {
        (void)snprintf(reason, size, "token: expected another text than requirepass");
        return false;
    }
    if (!item->is_pattern && namespaces_login(before, token, &match)) {
        (void)snprintf(reason, size, "token: expected a text of its own, it is that of %s",
                       match.entry->name);
        return false;
    }
    return true;
}

static struct namespaces *namespaces_make(const struct proxy_config *config, char *error,
                                          size_t size)
{
    struct namespaces *set = namespaces_new();
    for (size_t i = 0; i < config->namespace_count; i++) {
        const struct namespace_config *from = &config->namespaces[i];
        struct namespace item = {.name = from->name,
                                 .token = from->token,
                                 .is_pattern = namespace_is_pattern(bytes_of(from->name)),
                                 .ephemeral = from->ephemeral,
                                 .ephemeral_after_ms = from->ephemeral_after_ms};
        char reason[OPTION_REASON_MAX];
        CHECK(slot_rule_parse(bytes_of(from->slot_rule), &item.slot_rule));
        if (!namespace_accepted(config, set, &item, reason, sizeof reason)) {
            (void)snprintf(error, size, "%s:%d: namespace %s: %s", config->head.path, from->line,
                           from->name, reason);
            namespaces_unref(set);
            return NULL;
        }
        namespaces_add(set, &item);
    }
    return set;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

/* Rules between options. */
static bool config_consistent(const struct proxy_config *config,
                              const struct namespaces *namespaces, char *error, size_t size)
{
    struct namespace_match match;
    const char *path = config->head.path ? config->head.path : "configuration";
    if (config->upstream_backoff_min_ms > config->upstream_backoff_max_ms) {
        (void)snprintf(error, size, "%s: upstream.backoff-min: expected at most backoff-max", path);
        return false;
    }
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct listener_config *listener = &config->listeners[i];
        if (namespaces_find(namespaces, bytes_of(listener->namespace), &match))
            continue;
        (void)snprintf(error, size,
                       "%s:%d: listener %s.namespace: expected the name of a [namespace] or one "
                       "that a pattern matches",
                       path, listener->line, listener->name);
        return false;
    }
    return true;
}

/* `path`, which a relative one starts at the directory of `file`. */
static char *path_beside(const char *file, const char *path)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    char *whole = NULL;
    int len = *path == '/' || !slash ? asprintf(&whole, "%s", path)
                                     : asprintf(&whole, "%.*s/%s", (int)(slash - file), file, path);
    CHECK(len >= 0);
    return whole;
}

struct proxy_snapshot *snapshot_make(const struct proxy_config *config, struct shard_map *map,
                                     char *error, size_t size)
{
    struct namespaces *namespaces = namespaces_make(config, error, size);
    if (!namespaces || !config_consistent(config, namespaces, error, size)) {
        namespaces_unref(namespaces);
        shard_map_unref(map);
        return NULL;
    }
    struct proxy_snapshot *snapshot = calloc(1, sizeof *snapshot);
    CHECK(snapshot);
    snapshot->refs = 1;
    config_copy(&snapshot->config.head, &config->head);
    snapshot->shards_path = path_beside(config->head.path, config->shards);
    snapshot->map = map;
    snapshot->namespaces = namespaces;
    return snapshot;
}

/* The map that `config` names, and everything checked together. */
static struct proxy_snapshot *snapshot_with_map(const struct proxy_config *config, char *error,
                                                size_t size)
{
    char *shards_path = path_beside(config->head.path, config->shards);
    struct shard_map *map = shards_load(shards_path, error, size);
    free(shards_path);
    return map ? snapshot_make(config, map, error, size) : NULL;
}

struct proxy_snapshot *snapshot_load(const char *path, char *error, size_t size)
{
    struct proxy_config config;
    struct proxy_snapshot *snapshot = NULL;
    config_init_defaults(&config.head, &proxy_schema);
    if (!path || config_load(&config.head, path, error, size))
        snapshot = snapshot_with_map(&config, error, size);
    config_fini(&config.head);
    return snapshot;
}

struct proxy_snapshot *snapshot_ref(struct proxy_snapshot *snapshot)
{
    CHECK(atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed) > 0);
    return snapshot;
}

void snapshot_unref(struct proxy_snapshot *snapshot)
{
    if (!snapshot)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel);
    CHECK(before > 0);
    if (before > 1)
        return;
    config_fini(&snapshot->config.head);
    free(snapshot->shards_path);
    shard_map_unref(snapshot->map);
    namespaces_unref(snapshot->namespaces);
    free(snapshot);
}

/* ---- reload ---------------------------------------------------------------------------------- */

/* Adds a word to a list; what does not fit is left out. */
static void list_add(char list[RELOAD_TEXT_MAX], const char *word)
{
    size_t len = strlen(list);
    if (len + strlen(word) + 2 <= RELOAD_TEXT_MAX)
        (void)snprintf(list + len, RELOAD_TEXT_MAX - len, "%s%s", len ? " " : "", word);
}

/* Reports what differs and puts back in `fresh` what only a restart may change. */
static void compare_options(struct config *fresh, const struct config *in_force,
                            struct reload_report *report)
{
    const struct option *option;
    size_t cursor = 0;
    while ((option = config_diff(in_force, fresh, &cursor))) {
        list_add(option->reload == OPTION_RELOAD ? report->changed : report->needs_restart,
                 option->key);
        if (option->reload == OPTION_RESTART)
            config_keep(fresh, in_force, option);
    }
}

static bool listeners_equal(const struct proxy_config *a, const struct proxy_config *b)
{
    if (a->listener_count != b->listener_count)
        return false;
    for (size_t i = 0; i < a->listener_count; i++)
        if (strcmp(a->listeners[i].name, b->listeners[i].name) != 0 ||
            strcmp(a->listeners[i].address, b->listeners[i].address) != 0 ||
            strcmp(a->listeners[i].namespace, b->listeners[i].namespace) != 0)
            return false;
    return true;
}

struct proxy_snapshot *snapshot_reload(const struct proxy_snapshot *old,
                                       struct reload_report *report, char *error, size_t size)
{
    struct proxy_config config;
    struct proxy_snapshot *fresh = NULL;
    const char *path = old->config.head.path;
    memset(report, 0, sizeof *report);
    config_init_defaults(&config.head, &proxy_schema);
    if (path && !config_load(&config.head, path, error, size))
        goto out;
    compare_options(&config.head, &old->config.head, report);
    fresh = snapshot_with_map(&config, error, size);
    if (!fresh)
        goto out;
    if (fresh->map->epoch < old->map->epoch) {
        (void)snprintf(error, size,
                       "%s: map.epoch: expected at least %" PRIu64
                       ", the one in force, found %" PRIu64,
                       fresh->shards_path, old->map->epoch, fresh->map->epoch);
        snapshot_unref(fresh);
        fresh = NULL;
        goto out;
    }
    report->map_changed = !shard_map_equal(old->map, fresh->map);
    report->namespaces_changed = !namespaces_equal(old->namespaces, fresh->namespaces);
    if (!listeners_equal(&old->config, &fresh->config))
        list_add(report->needs_restart, "listeners");
out:
    config_fini(&config.head);
    return fresh;
}

bool backend_reload(struct backend_config *config, struct reload_report *report, char *error,
                    size_t size)
{
    struct backend_config fresh;
    const struct option *option;
    size_t cursor = 0;
    memset(report, 0, sizeof *report);
    if (!config->head.path)
        return true;
    config_init_defaults(&fresh.head, &backend_schema);
    bool ok = config_load(&fresh.head, config->head.path, error, size);
    if (ok)
        compare_options(&fresh.head, &config->head, report);
    while (ok && (option = config_diff(&config->head, &fresh.head, &cursor)))
        config_keep(&config->head, &fresh.head, option);
    config_fini(&fresh.head);
    return ok;
}
