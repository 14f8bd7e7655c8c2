/*
 * reload.c - reads the files of the configuration into snapshots.
 */
#include "config/reload.h"

#include "config/ini_file.h"
#include "config/shards_file.h"
#include "config/tls_files.h"
#include "config/users_file.h"
#include "shared/check.h"
#include "shared/map_change.h"

#include <stdlib.h>

/* ---- namespaces ------------------------------------------------------------------------------ */

/* Checks one [namespace NAME] against the namespaces before it in the file. False: the reason is in reason[size]. */
static bool namespace_accepted(const struct proxy_config *config, const struct namespaces *before,
                               const struct namespace *item, char *reason, size_t size)
{
    const struct bytes tokens[] = {bytes_of(item->token), bytes_of(item->token_previous)};
    static const char *const names[] = {"token", "token-previous"};
    struct namespace_match match;
    if (!namespace_name_valid(bytes_of(item->name))) {
        (void)snprintf(reason, size,
                       "expected another name: \"default\" is the name of Redis' own user");
        return false;
    }
    if (!*config->upstream_secret) {
        (void)snprintf(reason, size,
                       "upstream.secret must be set: backends that are plain Redis servers have no "
                       "namespaces");
        return false;
    }
    if (tokens[1].len && !tokens[0].len) {
        (void)snprintf(reason, size, "token-previous: expected that token is set too");
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        if (tokens[i].len && bytes_equal(tokens[i], bytes_of(config->requirepass))) {
            (void)snprintf(reason, size, "%s: expected a text that differs from requirepass",
                           names[i]);
            return false;
        }
        if (!item->is_pattern && namespaces_login(before, tokens[i], &match)) {
            (void)snprintf(
                reason, size,
                "%s: expected a text that no other namespace uses, it is the token of %s", names[i],
                match.entry->name);
            return false;
        }
    }
    return true;
}

/* Checks the option `users` of one [namespace NAME]. False: the reason is in reason[size]. */
static bool home_accepted(const struct namespaces *before, const struct namespace *item,
                          char *reason, size_t size)
{
    struct bytes rest = bytes_of(item->users);
    struct bytes word;
    struct namespace_match match;
    while (word_next(&rest, &word)) {
        const char *wrong = item->is_pattern                      ? "no users in a pattern"
                            : bytes_equal(word, BYTES("default")) ? "users other than default"
                            : namespaces_home(before, word, &match)
                                ? "users that no other namespace lists"
                                : NULL;
        if (!wrong)
            continue;
        (void)snprintf(reason, size, "users: expected %s, found %.*s", wrong, (int)word.len,
                       word.data);
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
                                 .token_previous = from->token_previous,
                                 .users = from->users,
                                 .rate_limit = (uint64_t)from->rate_limit,
                                 .bandwidth_limit_bytes = from->bandwidth_limit_bytes,
                                 .memory_limit_bytes = from->memory_limit_bytes,
                                 .max_keys = (uint64_t)from->max_keys,
                                 .maxclients = (uint64_t)from->maxclients,
                                 .max_bytes = from->max_bytes_bytes,
                                 .command_memory = from->command_memory_bytes,
                                 .command_time_ms = from->command_time_limit_ms,
                                 .rate_delays = from->rate_limit_action == RATE_DELAY,
                                 .is_pattern = namespace_is_pattern(bytes_of(from->name)),
                                 .ephemeral = from->ephemeral,
                                 .ephemeral_after_ms = from->ephemeral_after_ms};
        char reason[OPTION_REASON_MAX];
        CHECK(slot_rule_parse(bytes_of(from->slot_rule), &item.slot_rule));
        if (!namespace_accepted(config, set, &item, reason, sizeof reason) ||
            !home_accepted(set, &item, reason, sizeof reason)) {
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

/* Checks options against each other. */
static bool config_consistent(const struct proxy_config *config,
                              const struct namespaces *namespaces, char *error, size_t size)
{
    struct namespace_match match;
    const char *path = config->head.path ? config->head.path : "configuration";
    if (config->upstream_backoff_min_ms > config->upstream_backoff_max_ms) {
        (void)snprintf(error, size, "%s: upstream.backoff-min: expected at most backoff-max", path);
        return false;
    }
    if (!*config->listen && !*config->tls_listen && config->listener_count == 0) {
        (void)snprintf(error, size,
                       "%s: listen: expected an address here, in tls-listen or in a [listener]",
                       path);
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

/* ---- users ----------------------------------------------------------------------------------- */

static bool all_channels(const struct proxy_config *config)
{
    return config->acl_pubsub_default == ACL_CHANNELS_ALL;
}

static void set_password(struct acl **users, const char *password)
{
    struct acl *changed = acl_copy(*users);
    acl_user_set_password(acl_user_find(changed, BYTES("default")), bytes_of(password));
    acl_unref(*users);
    *users = changed;
}

/* Reads the aclfile at `path` (NULL: the only user is "default"). requirepass is the password of "default" unless the
 * file gives it one. NULL: the reason is in error[size]. */
static struct acl *users_begin(const struct proxy_config *config, const char *path,
                               char digest[SHA256_HEX_LEN], char *error, size_t size)
{
    struct acl *users =
        path ? users_load(path, all_channels(config), digest, error, size) : acl_new();
    if (users && *config->requirepass &&
        !acl_user_needs_password(acl_user_find(users, BYTES("default"))))
        set_password(&users, config->requirepass);
    return users;
}

/* The users of the old snapshot; if requirepass has changed, "default" gets the new password. */
static struct acl *users_keep(const struct proxy_snapshot *old, const struct proxy_config *config)
{
    struct acl *users = acl_ref(old->users);
    if (strcmp(old->config.requirepass, config->requirepass) != 0)
        set_password(&users, config->requirepass);
    return users;
}

/* Replaces the users of the snapshot; takes over the reference. */
static void put_users(struct proxy_snapshot *snapshot, struct acl *users,
                      const char digest[SHA256_HEX_LEN])
{
    acl_unref(snapshot->users);
    snapshot->users = users;
    memcpy(snapshot->users_digest, digest, SHA256_HEX_LEN);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static struct tls_context *share_tls(struct tls_context *context)
{
    return context ? tls_context_ref(context) : NULL;
}

/* Uses the old context if the files have not changed, so that TLS sessions can still be resumed. */
static void keep_equal(struct tls_context **fresh, struct tls_context *old)
{
    if (!*fresh ? !old : !tls_context_equal(*fresh, old))
        return;
    tls_context_unref(*fresh);
    *fresh = share_tls(old);
}

/* Reads the TLS files. Listeners cannot stop at a reload, so the context for them is kept even if the new configuration
 * has no TLS. */
static bool find_tls(struct proxy_snapshot *fresh, const struct proxy_snapshot *old, char *error,
                     size_t size)
{
    const struct proxy_config *config = &fresh->config;
    if (proxy_speaks_tls(config) && !(fresh->tls = proxy_tls_load(config, error, size)))
        return false;
    if (config->upstream_tls && !(fresh->upstream_tls = upstream_tls_load(config, error, size)))
        return false;
    if (!old)
        return true;
    keep_equal(&fresh->tls, old->tls);
    keep_equal(&fresh->upstream_tls, old->upstream_tls);
    if (!fresh->tls)
        fresh->tls = share_tls(old->tls);
    return true;
}

static bool same_tls(const struct proxy_config *a, const struct proxy_config *b)
{
    const struct option *option;
    size_t cursor = 0;
    while ((option = config_diff(&a->head, &b->head, &cursor)))
        if (strncmp(option->key, "tls-", 4) == 0 || strncmp(option->key, "upstream-tls-", 13) == 0)
            return false;
    return true;
}

static struct proxy_snapshot *keep_tls(struct proxy_snapshot *fresh,
                                       const struct proxy_snapshot *old)
{
    fresh->tls = share_tls(old->tls);
    fresh->upstream_tls = share_tls(old->upstream_tls);
    return fresh;
}

/* ---- snapshots of parts ---------------------------------------------------------------------- */

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
    snapshot->wish = map;
    snapshot->map = shard_map_ref(map);
    snapshot->namespaces = namespaces;
    snapshot->users = users_begin(config, NULL, NULL, error, size);
    if (*config->aclfile)
        snapshot->users_path = path_beside(config->head.path, config->aclfile);
    return snapshot;
}

struct proxy_snapshot *snapshot_with_config(const struct proxy_snapshot *old,
                                            const struct proxy_config *config, char *error,
                                            size_t size)
{
    struct proxy_snapshot *fresh = snapshot_make(config, shard_map_ref(old->wish), error, size);
    if (!fresh)
        return NULL;
    put_users(fresh, users_keep(old, config), old->users_digest);
    if (same_tls(&old->config, config))
        return keep_tls(fresh, old);
    if (find_tls(fresh, old, error, size))
        return fresh;
    snapshot_unref(fresh);
    return NULL;
}

struct proxy_snapshot *snapshot_with_users(const struct proxy_snapshot *old, struct acl *users)
{
    char error[RELOAD_TEXT_MAX];
    struct proxy_snapshot *fresh =
        snapshot_make(&old->config, shard_map_ref(old->wish), error, sizeof error);
    CHECK(fresh); /* the same configuration was accepted before */
    put_users(fresh, users, old->users_digest);
    return keep_tls(fresh, old);
}

struct proxy_snapshot *snapshot_load_users(const struct proxy_snapshot *old, char *error,
                                           size_t size)
{
    char digest[SHA256_HEX_LEN];
    CHECK(old->users_path);
    struct acl *users = users_begin(&old->config, old->users_path, digest, error, size);
    if (!users)
        return NULL;
    struct proxy_snapshot *fresh = snapshot_with_users(old, users);
    memcpy(fresh->users_digest, digest, sizeof digest);
    return fresh;
}

struct proxy_snapshot *snapshot_save_users(const struct proxy_snapshot *old)
{
    char digest[SHA256_HEX_LEN];
    CHECK(old->users_path);
    if (!users_save(old->users_path, old->users, digest))
        return NULL;
    struct proxy_snapshot *fresh = snapshot_with_users(old, acl_ref(old->users));
    memcpy(fresh->users_digest, digest, sizeof digest);
    return fresh;
}

/* Reads the users from the aclfile. The users of `old` (NULL: none) are kept, with the changes of ACL SETUSER, if the
 * text of the file has not changed. */
static bool find_users(struct proxy_snapshot *fresh, const struct proxy_snapshot *old, char *error,
                       size_t size)
{
    char digest[SHA256_HEX_LEN] = {0};
    struct acl *users = users_begin(&fresh->config, fresh->users_path, digest, error, size);
    if (!users)
        return false;
    if (old && memcmp(old->users_digest, digest, sizeof digest) == 0) {
        acl_unref(users);
        users = users_keep(old, &fresh->config);
    }
    put_users(fresh, users, digest);
    return true;
}

/* A snapshot of this configuration and of the files that it names. NULL: the reason is in error[size]. */
static struct proxy_snapshot *snapshot_with_files(const struct proxy_config *config,
                                                  const struct proxy_snapshot *old, char *error,
                                                  size_t size)
{
    char *shards_path = path_beside(config->head.path, config->shards);
    struct shard_map *map = shards_load(shards_path, old ? old->wish : NULL, error, size);
    free(shards_path);
    struct proxy_snapshot *snapshot = map ? snapshot_make(config, map, error, size) : NULL;
    if (!snapshot ||
        (find_users(snapshot, old, error, size) && find_tls(snapshot, old, error, size)))
        return snapshot;
    snapshot_unref(snapshot);
    return NULL;
}

struct proxy_snapshot *snapshot_load(const char *path, char *error, size_t size)
{
    struct proxy_config config;
    struct proxy_snapshot *snapshot = NULL;
    config_init_defaults(&config.head, &proxy_schema);
    if (!path || config_load(&config.head, path, error, size))
        snapshot = snapshot_with_files(&config, NULL, error, size);
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
    free(snapshot->users_path);
    acl_unref(snapshot->users);
    tls_context_unref(snapshot->tls);
    tls_context_unref(snapshot->upstream_tls);
    shard_map_unref(snapshot->wish);
    shard_map_unref(snapshot->map);
    namespaces_unref(snapshot->namespaces);
    free(snapshot);
}

/* ---- reload ---------------------------------------------------------------------------------- */

/* Appends a word to a list; a word for which there is no room is left out. */
static void append_word(char list[RELOAD_TEXT_MAX], const char *word)
{
    size_t len = strlen(list);
    if (len + strlen(word) + 2 <= RELOAD_TEXT_MAX)
        (void)snprintf(list + len, RELOAD_TEXT_MAX - len, "%s%s", len ? " " : "", word);
}

/* Reports the options that differ. Options that only a restart can change get their old values in `fresh`. */
static void compare_options(struct config *fresh, const struct config *in_force,
                            struct reload_report *report)
{
    const struct option *option;
    size_t cursor = 0;
    while ((option = config_diff(in_force, fresh, &cursor))) {
        append_word(option->reload == OPTION_RELOAD ? report->changed : report->needs_restart,
                    option->key);
        if (option->reload == OPTION_RESTART)
            config_keep(fresh, in_force, option);
    }
}

void reload_report_restart(struct reload_report *report, const char *option)
{
    append_word(report->needs_restart, option);
}

void reload_report_moves(struct reload_report *report, const struct shard_map *before,
                         const struct shard_map *after)
{
    struct map_change change = map_change_find(before, after);
    report->slots_moved = change.slots;
    map_change_print(&change, report->moves, sizeof report->moves);
    map_change_free(&change);
}

static bool listeners_equal(const struct proxy_config *a, const struct proxy_config *b)
{
    if (a->listener_count != b->listener_count)
        return false;
    for (size_t i = 0; i < a->listener_count; i++)
        if (strcmp(a->listeners[i].name, b->listeners[i].name) != 0 ||
            strcmp(a->listeners[i].address, b->listeners[i].address) != 0 ||
            strcmp(a->listeners[i].namespace, b->listeners[i].namespace) != 0 ||
            a->listeners[i].tls != b->listeners[i].tls)
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
    fresh = snapshot_with_files(&config, old, error, size);
    if (!fresh)
        goto out;
    report->map_changed = !shard_map_equal(old->wish, fresh->wish);
    reload_report_moves(report, old->map, fresh->wish);
    report->namespaces_changed = !namespaces_equal(old->namespaces, fresh->namespaces);
    report->tls_changed = old->tls != fresh->tls || old->upstream_tls != fresh->upstream_tls;
    report->users_changed = old->users != fresh->users;
    if (!listeners_equal(&old->config, &fresh->config))
        append_word(report->needs_restart, "listeners");
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
