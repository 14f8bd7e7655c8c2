#include "backend/context/settings.h"

#include "backend/context/notify_class.h"
#include "config/redis_units.h"
#include "config/tls_files.h"
#include "config/users_file.h"
#include "shared/check.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const char *text_of(const struct settings *settings, const struct parameter *parameter)
{
    const char *text = settings->parameters[parameter_index(parameter)];
    return text ? text : parameter->initial;
}

struct acl *settings_acl_edit(struct settings *settings)
{
    struct acl *shared = settings->acl;
    settings->acl = acl_copy(shared);
    acl_unref(shared);
    return settings->acl;
}

bool settings_needs_password(const struct settings *settings)
{
    const struct acl_user *user = acl_user_find(settings->acl, BYTES("default"));
    return acl_user_needs_password(user) || !acl_user_is_enabled(user);
}

/* A changed requirepass is the default user's new password. */
static void settle_password(struct settings *settings)
{
    const char *password = settings->config.requirepass;
    const char *known = settings->acl_password ? settings->acl_password : "";
    if (strcmp(password, known) == 0)
        return;
    struct acl_user *user = acl_user_find(settings_acl_edit(settings), BYTES("default"));
    acl_user_set_password(user, bytes_of(password));
    free(settings->acl_password);
    settings->acl_password = strdup(password);
    CHECK(settings->acl_password);
}

void settings_settle(struct settings *settings)
{
    const char *reason;
    settle_password(settings);
    settings->slowlog_slower_than_us = settings_number(settings, "slowlog-log-slower-than");
    settings->slowlog_len_max = settings_number(settings, "slowlog-max-len");
    CHECK(output_limits_parse(
        bytes_of(text_of(settings, parameter_find(BYTES("client-output-buffer-limit")))),
        settings->output_limits, &reason));
    settings->tracking_keys_max = settings_number(settings, "tracking-table-max-keys");
    CHECK(notify_parse(bytes_of(text_of(settings, parameter_find(BYTES("notify-keyspace-events")))),
                       &settings->notify_classes));
    settings->latency_threshold_ms = settings_number(settings, "latency-monitor-threshold");
    settings->stream_node_entries = settings_number(settings, "stream-node-max-entries");
    settings->stream_node_bytes = settings_number(settings, "stream-node-max-bytes");
    settings->protected_mode =
        strcmp(text_of(settings, parameter_find(BYTES("protected-mode"))), "yes") == 0;
    settings->latency_tracking =
        strcmp(text_of(settings, parameter_find(BYTES("latency-tracking"))), "yes") == 0;
}

struct settings *settings_new(const struct backend_config *config)
{
    struct settings *settings = calloc(1, sizeof *settings);
    CHECK(settings);
    settings->refs = 1;
    config_copy(&settings->config.head, &config->head);
    settings->acl = acl_new();
    settings_settle(settings);
    return settings;
}

struct settings *settings_copy(const struct settings *from)
{
    struct settings *settings = settings_new(&from->config);
    settings->epoch = from->epoch + 1;
    for (size_t i = 0; i < parameters_count; i++) {
        if (from->parameters[i]) {
            settings->parameters[i] = strdup(from->parameters[i]);
            CHECK(settings->parameters[i]);
        }
    }
    acl_unref(settings->acl);
    settings->acl = acl_ref(from->acl);
    settings->tls = from->tls ? tls_context_ref(from->tls) : NULL;
    settings_settle(settings);
    return settings;
}

struct settings *settings_ref(struct settings *settings)
{
    atomic_fetch_add(&settings->refs, 1);
    return settings;
}

void settings_unref(struct settings *settings)
{
    if (atomic_fetch_sub(&settings->refs, 1) > 1)
        return;
    for (size_t i = 0; i < parameters_count; i++)
        free(settings->parameters[i]);
    config_fini(&settings->config.head);
    acl_unref(settings->acl);
    tls_context_unref(settings->tls);
    free(settings->acl_password);
    free(settings);
}

/* ---- reading ---- */

int64_t settings_number(const struct settings *settings, const char *name)
{
    const struct parameter *parameter = parameter_find(bytes_of(name));
    CHECK(parameter);
    CHECK(parameter->kind == PARAMETER_INT || parameter->kind == PARAMETER_BYTES);
    int64_t number;
    CHECK(number_parse_int64(bytes_of(text_of(settings, parameter)), &number));
    return number;
}

static const struct option *own_option(const struct settings *settings,
                                       const struct parameter *parameter)
{
    const struct option *option = config_find(&settings->config.head, bytes_of(parameter->initial));
    CHECK(option);
    return option;
}

struct bytes settings_get(const struct settings *settings, const struct parameter *parameter,
                          char buffer[OPTION_TEXT_MAX])
{
    if (parameter->kind == PARAMETER_ALIAS)
        parameter = parameter_find(bytes_of(parameter->initial));
    if (parameter->kind == PARAMETER_OWN)
        return redis_option_text(own_option(settings, parameter), &settings->config, buffer);
    if (parameter->kind == PARAMETER_EVENTS)
        return (struct bytes){buffer, notify_format(settings->notify_classes, buffer)};
    return bytes_of(text_of(settings, parameter));
}

bool settings_knows(const struct settings *settings, struct bytes name)
{
    return parameter_find(name) || config_find(&settings->config.head, name);
}

bool settings_is_fixed(const struct settings *settings, struct bytes name)
{
    const struct parameter *parameter = parameter_find(name);
    if (parameter && parameter->kind != PARAMETER_OWN)
        return parameter->kind == PARAMETER_FIXED;
    const struct option *option =
        parameter ? own_option(settings, parameter) : config_find(&settings->config.head, name);
    CHECK(option);
    return option->reload == OPTION_RESTART;
}

bool settings_is_path(const struct settings *settings, struct bytes name)
{
    const struct option *option = config_find(&settings->config.head, name);
    return option && option_is_path(option);
}

/* ---- changing ---- */

static void parameter_keep(struct settings *settings, const struct parameter *parameter,
                           struct bytes value)
{
    char **text = &settings->parameters[parameter_index(parameter)];
    char limits[OUTPUT_LIMITS_TEXT_MAX];
    uint64_t number;
    if (parameter->kind == PARAMETER_LIMITS) {
        const char *reason;
        CHECK(output_limits_parse(value, settings->output_limits, &reason));
        value = (struct bytes){limits, output_limits_format(settings->output_limits, limits)};
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

bool settings_set(struct settings *settings, struct bytes name, struct bytes value, char *error,
                  size_t size)
{
    const struct parameter *parameter = parameter_find(name);
    if (!parameter) {
        const struct option *option = config_find(&settings->config.head, name);
        CHECK(option);
        return config_set(&settings->config.head, option, value, error, size);
    }
    if (parameter->kind == PARAMETER_OWN) {
        bool good = redis_option_set(own_option(settings, parameter), &settings->config, value,
                                     error, size);
        settings_settle(settings);
        return good;
    }
    if (!parameter_check(parameter, value, error, size))
        return false;
    parameter_keep(settings, parameter, value);
    settings_settle(settings);
    return true;
}

/* ---- users ---- */

bool settings_all_channels(const struct settings *settings)
{
    return strcmp(text_of(settings, parameter_find(BYTES("acl-pubsub-default"))), "allchannels") ==
           0;
}

bool settings_load_users(struct settings *settings, char *error, size_t size)
{
    const char *path = settings->config.aclfile;
    if (!*path)
        return true;
    struct acl *acl = users_load(path, settings_all_channels(settings), NULL, error, size);
    if (!acl)
        return false;
    acl_unref(settings->acl);
    settings->acl = acl;
    return true;
}

/* ---- TLS ---- */

bool settings_load_tls(struct settings *settings, char *error, size_t size)
{
    if (!settings->config.tls_port)
        return true;
    struct tls_context *tls = backend_tls_load(&settings->config, error, size);
    if (!tls)
        return false;
    if (tls_context_equal(tls, settings->tls)) {
        tls_context_unref(tls);
        return true;
    }
    tls_context_unref(settings->tls);
    settings->tls = tls;
    return true;
}
