#include "backend/context/config_snapshot.h"

#include "backend/context/notify_class.h"
#include "config/ini_file.h"
#include "config/redis_units.h"
#include "config/shards_file.h"
#include "config/tls_files.h"
#include "config/users_file.h"
#include "shared/check.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const char *text_of(const struct config_snapshot *snapshot,
                           const struct parameter *parameter)
{
    const char *text = snapshot->parameters[parameter_index(parameter)];
    return text ? text : parameter->initial;
}

struct acl *config_snapshot_acl_edit(struct config_snapshot *snapshot)
{
    struct acl *shared = snapshot->acl;
    snapshot->acl = acl_copy(shared);
    acl_unref(shared);
    return snapshot->acl;
}

bool config_snapshot_needs_password(const struct config_snapshot *snapshot)
{
    const struct acl_user *user = acl_user_find(snapshot->acl, BYTES("default"));
    return acl_user_needs_password(user) || !acl_user_is_enabled(user);
}

/* requirepass was changed: it is the default user's new password. */
static void derive_password(struct config_snapshot *snapshot)
{
    const char *password = snapshot->config.requirepass;
    const char *known = snapshot->acl_password ? snapshot->acl_password : "";
    if (strcmp(password, known) == 0)
        return;
    struct acl_user *user = acl_user_find(config_snapshot_acl_edit(snapshot), BYTES("default"));
    acl_user_set_password(user, bytes_of(password));
    free(snapshot->acl_password);
    snapshot->acl_password = strdup(password);
    CHECK(snapshot->acl_password);
}

static void derive_slowlogs(struct config_snapshot *snapshot)
{
    static const char *const from[SLOWLOG_KINDS] = {
        "slowlog-log-slower-than",
        "commandlog-request-larger-than",
        "commandlog-reply-larger-than",
    };
    static const char *const len_max[SLOWLOG_KINDS] = {
        "slowlog-max-len",
        "commandlog-large-request-max-len",
        "commandlog-large-reply-max-len",
    };
    for (int i = 0; i < SLOWLOG_KINDS; i++) {
        snapshot->slowlog_from[i] = config_snapshot_number(snapshot, from[i]);
        snapshot->slowlog_len_max[i] = config_snapshot_number(snapshot, len_max[i]);
    }
}

void config_snapshot_derive(struct config_snapshot *snapshot)
{
    const char *reason;
    derive_password(snapshot);
    snapshot->memory = memory_plan_here(&snapshot->config);
    derive_slowlogs(snapshot);
    CHECK(output_limits_parse(
        bytes_of(text_of(snapshot, parameter_find(BYTES("client-output-buffer-limit")))),
        snapshot->output_limits, &reason));
    snapshot->tracking_keys_max = config_snapshot_number(snapshot, "tracking-table-max-keys");
    CHECK(notify_parse(bytes_of(text_of(snapshot, parameter_find(BYTES("notify-keyspace-events")))),
                       &snapshot->notify_classes));
    snapshot->latency_threshold_ms = config_snapshot_number(snapshot, "latency-monitor-threshold");
    snapshot->busy_reply_ms = config_snapshot_number(snapshot, "busy-reply-threshold");
    snapshot->stream_node_entries = config_snapshot_number(snapshot, "stream-node-max-entries");
    snapshot->stream_node_bytes = config_snapshot_number(snapshot, "stream-node-max-bytes");
    snapshot->maxmemory = config_snapshot_number(snapshot, "maxmemory");
    snapshot->protected_mode =
        strcmp(text_of(snapshot, parameter_find(BYTES("protected-mode"))), "yes") == 0;
    snapshot->latency_tracking =
        strcmp(text_of(snapshot, parameter_find(BYTES("latency-tracking"))), "yes") == 0;
}

struct config_snapshot *config_snapshot_new(const struct backend_config *config)
{
    struct config_snapshot *snapshot = calloc(1, sizeof *snapshot);
    CHECK(snapshot);
    snapshot->refs = 1;
    config_copy(&snapshot->config.head, &config->head);
    snapshot->acl = acl_new();
    config_snapshot_derive(snapshot);
    return snapshot;
}

struct config_snapshot *config_snapshot_copy(const struct config_snapshot *from)
{
    struct config_snapshot *snapshot = config_snapshot_new(&from->config);
    snapshot->epoch = from->epoch + 1;
    for (size_t i = 0; i < parameters_count; i++) {
        if (from->parameters[i]) {
            snapshot->parameters[i] = strdup(from->parameters[i]);
            CHECK(snapshot->parameters[i]);
        }
    }
    stored_options_copy(&snapshot->stored, &from->stored);
    acl_unref(snapshot->acl);
    snapshot->acl = acl_ref(from->acl);
    snapshot->tls = from->tls ? tls_context_ref(from->tls) : NULL;
    snapshot->peer_tls = from->peer_tls ? tls_context_ref(from->peer_tls) : NULL;
    snapshot->map = from->map ? shard_map_ref(from->map) : NULL;
    config_snapshot_derive(snapshot);
    return snapshot;
}

struct config_snapshot *config_snapshot_ref(struct config_snapshot *snapshot)
{
    atomic_fetch_add(&snapshot->refs, 1);
    return snapshot;
}

void config_snapshot_unref(struct config_snapshot *snapshot)
{
    if (atomic_fetch_sub(&snapshot->refs, 1) > 1)
        return;
    for (size_t i = 0; i < parameters_count; i++)
        free(snapshot->parameters[i]);
    stored_options_fini(&snapshot->stored);
    config_fini(&snapshot->config.head);
    acl_unref(snapshot->acl);
    tls_context_unref(snapshot->tls);
    tls_context_unref(snapshot->peer_tls);
    shard_map_unref(snapshot->map);
    free(snapshot->acl_password);
    free(snapshot);
}

/* ---- reading ---- */

int64_t config_snapshot_number(const struct config_snapshot *snapshot, const char *name)
{
    const struct parameter *parameter = parameter_find(bytes_of(name));
    CHECK(parameter);
    CHECK(parameter->kind == PARAMETER_INT || parameter->kind == PARAMETER_BYTES);
    int64_t number;
    if (number_parse_int64(bytes_of(text_of(snapshot, parameter)), &number))
        return number;
    CHECK(parameter->kind == PARAMETER_BYTES); /* which may be up to UINT64_MAX */
    return INT64_MAX;
}

static const struct option *own_option(const struct config_snapshot *snapshot,
                                       const struct parameter *parameter)
{
    const struct option *option = config_find(&snapshot->config.head, bytes_of(parameter->initial));
    CHECK(option);
    return option;
}

struct bytes config_snapshot_get(const struct config_snapshot *snapshot,
                                 const struct parameter *parameter, char buffer[OPTION_TEXT_MAX])
{
    if (parameter->kind == PARAMETER_ALIAS)
        parameter = parameter_find(bytes_of(parameter->initial));
    if (parameter->kind == PARAMETER_OWN)
        return redis_option_text(own_option(snapshot, parameter), &snapshot->config, buffer);
    if (parameter->kind == PARAMETER_EVENTS)
        return (struct bytes){buffer, notify_format(snapshot->notify_classes, buffer)};
    return bytes_of(text_of(snapshot, parameter));
}

bool config_snapshot_has_option(const struct config_snapshot *snapshot, struct bytes name)
{
    return parameter_find(name) || config_find(&snapshot->config.head, name);
}

bool config_snapshot_is_fixed(const struct config_snapshot *snapshot, struct bytes name)
{
    const struct parameter *parameter = parameter_find(name);
    if (parameter && parameter->kind != PARAMETER_OWN)
        return parameter->kind == PARAMETER_FIXED;
    const struct option *option =
        parameter ? own_option(snapshot, parameter) : config_find(&snapshot->config.head, name);
    CHECK(option);
    return option->reload == OPTION_RESTART;
}

bool config_snapshot_is_path(const struct config_snapshot *snapshot, struct bytes name)
{
    const struct option *option = config_find(&snapshot->config.head, name);
    return option && option_is_path(option);
}

/* ---- changing ---- */

static void parameter_keep(struct config_snapshot *snapshot, const struct parameter *parameter,
                           struct bytes value)
{
    char **text = &snapshot->parameters[parameter_index(parameter)];
    char limits[OUTPUT_LIMITS_TEXT_MAX];
    uint64_t number;
    if (parameter->kind == PARAMETER_LIMITS) {
        const char *reason;
        CHECK(output_limits_parse(value, snapshot->output_limits, &reason));
        value = (struct bytes){limits, output_limits_format(snapshot->output_limits, limits)};
    }
    free(*text);
    *text = NULL;
    if (parameter->kind == PARAMETER_BYTES && redis_bytes(value, &number))
        CHECK(asprintf(text, "%" PRIu64, number) > 0);
    else
        *text = strndup(value.data, value.len);
    CHECK(*text);
    if (parameter->kind == PARAMETER_BOOL || parameter->kind == PARAMETER_WORD)
        for (char *c = *text; *c; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
}

bool config_snapshot_set(struct config_snapshot *snapshot, struct bytes name, struct bytes value,
                         char *error, size_t size)
{
    const struct parameter *parameter = parameter_find(name);
    if (!parameter) {
        const struct option *option = config_find(&snapshot->config.head, name);
        CHECK(option);
        bool good = config_set(&snapshot->config.head, option, value, error, size);
        config_snapshot_derive(snapshot);
        return good;
    }
    if (parameter->kind == PARAMETER_OWN) {
        bool good = redis_option_set(own_option(snapshot, parameter), &snapshot->config, value,
                                     error, size);
        config_snapshot_derive(snapshot);
        return good;
    }
    if (!parameter_check(parameter, value, error, size))
        return false;
    parameter_keep(snapshot, parameter, value);
    config_snapshot_derive(snapshot);
    return true;
}

/* ---- users ---- */

bool config_snapshot_all_channels(const struct config_snapshot *snapshot)
{
    return strcmp(text_of(snapshot, parameter_find(BYTES("acl-pubsub-default"))), "allchannels") ==
           0;
}

bool config_snapshot_load_users(struct config_snapshot *snapshot, char *error, size_t size)
{
    const char *path = snapshot->config.aclfile;
    if (!*path)
        return true;
    struct acl *acl = users_load(path, config_snapshot_all_channels(snapshot), NULL, error, size);
    if (!acl)
        return false;
    acl_unref(snapshot->acl);
    snapshot->acl = acl;
    return true;
}

/* ---- TLS ---- */

/* Replaces the context in force, unless the files are unchanged: then it stays, so that TLS sessions can be resumed. */
static void put_context(struct tls_context **in_force, struct tls_context *fresh)
{
    struct tls_context *old = tls_context_equal(fresh, *in_force) ? fresh : *in_force;
    if (old != fresh)
        *in_force = fresh;
    tls_context_unref(old);
}

bool config_snapshot_load_tls(struct config_snapshot *snapshot, char *error, size_t size)
{
    struct tls_context *tls = NULL;
    struct tls_context *peer_tls = NULL;
    if (snapshot->config.tls_port && !(tls = backend_tls_load(&snapshot->config, error, size)))
        return false;
    if (snapshot->config.peer_tls && !(peer_tls = peer_tls_load(&snapshot->config, error, size))) {
        tls_context_unref(tls);
        return false;
    }
    if (tls)
        put_context(&snapshot->tls, tls);
    if (peer_tls)
        put_context(&snapshot->peer_tls, peer_tls);
    return true;
}

/* ---- the shard map ---- */

bool config_snapshot_load_map(struct config_snapshot *snapshot, char *error, size_t size)
{
    if (!*snapshot->config.shards && snapshot->map) {
        (void)snprintf(
            error, size,
            "shards: expected a file; a shard map in force can be replaced, but not removed");
        return false;
    }
    if (!*snapshot->config.shards)
        return true;
    if (!*snapshot->config.secret) {
        (void)snprintf(error, size, "secret: expected a text, because shards is set");
        return false;
    }
    char *path = path_beside(snapshot->config.head.path, snapshot->config.shards);
    struct shard_map *map = shards_load(path, snapshot->map, error, size);
    free(path);
    if (!map)
        return false;
    struct shard_map *old =
        snapshot->map && shard_map_equal(map, snapshot->map) ? map : snapshot->map;
    if (old != map)
        snapshot->map = map;
    shard_map_unref(old);
    return true;
}
