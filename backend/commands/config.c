/*
 * config.c - CONFIG for our own options and Redis' parameters. As in Redis, CONFIG SET applies all values or none.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/slot_load.h"
#include "backend/context/stats.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/handlers.h"
#include "backend/partition/refresh.h"
#include "backend/session/session.h"
#include "backend/storage/commit.h"
#include "config/ini_file.h"
#include "shared/command/command_reply.h"
#include "shared/command/latency.h"
#include "shared/glob.h"
#include "shared/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- GET ---- */

/* The value of a parameter. The port is that of this partition; the file has the port of the first one. */
static struct bytes parameter_value(const struct call *call, const struct parameter *parameter,
                                    char buffer[OPTION_TEXT_MAX])
{
    const struct partition *partition = call->partition;
    if (strcmp(parameter->name, "cluster-enabled") == 0 && cluster_client(call->session))
        return BYTES("yes");
    if (strcmp(parameter->name, "port") != 0)
        return config_snapshot_get(partition->snapshot, parameter, buffer);
    return (struct bytes){buffer, number_format_int64(buffer, partition->listeners.port)};
}

static bool is_tenant(const struct call *call)
{
    return session_namespace(call->session).len > 0;
}

/* Replies the matching parameters (`reply` NULL: only counts them). */
static int64_t get_parameters(struct call *call, struct globs *patterns, struct reply *reply)
{
    int64_t count = 0;
    char buffer[OPTION_TEXT_MAX];
    for (size_t i = 0; i < parameters_count; i++) {
        const struct parameter *parameter = &parameters[i];
        if (!globs_fit(patterns, bytes_of(parameter->name)) ||
            (is_tenant(call) && !parameter_is_public(parameter)))
            continue;
        count++;
        if (!reply)
            continue;
        reply_bulk_text(reply, parameter->name);
        reply_bulk(reply, parameter_value(call, parameter, buffer));
    }
    return count;
}

/* Replies the matching options that are not also parameters. The cluster's secret is never shown, because a proxy
 * would pass it on to its clients; tenants see none of these options. */
static int64_t get_options(struct call *call, struct globs *patterns, struct reply *reply)
{
    const struct config *config = &call->partition->snapshot->config.head;
    const struct option *option;
    size_t cursor = 0;
    int64_t count = 0;
    char buffer[OPTION_TEXT_MAX];
    while (!is_tenant(call) && (option = config_next(config, BYTES("*"), &cursor))) {
        bool is_hidden = strcmp(option->key, "secret") == 0;
        if (is_hidden || parameter_find(bytes_of(option->key)) ||
            !globs_fit(patterns, bytes_of(option->key)))
            continue;
        count++;
        if (!reply)
            continue;
        reply_bulk_text(reply, option->key);
        reply_bulk(reply, config_get(config, option, buffer));
    }
    return count;
}

void cmd_config_get(struct call *call)
{
    for (uint32_t i = 2; i < call->argc; i++)
        if (!call_pattern(call, i))
            return;
    struct globs *patterns = globs_new(call->arena, call->argv + 2, call->argc - 2, true);
    reply_map(&call->reply,
              get_parameters(call, patterns, NULL) + get_options(call, patterns, NULL));
    get_parameters(call, patterns, &call->reply);
    get_options(call, patterns, &call->reply);
}

/* ---- SET ---- */

static void set_failed(struct call *call, struct bytes name, const char *reason)
{
    call_errorf(call, "ERR CONFIG SET failed (possibly related to argument '%.*s') - %s",
                (int)name.len, name.data, reason);
}

/* Redis' reason why the option cannot be set; NULL: it can. */
static const char *why_not_set(const struct config_snapshot *snapshot, struct bytes name)
{
    if (config_snapshot_is_fixed(snapshot, name))
        return "can't set immutable config";
    return config_snapshot_is_path(snapshot, name) ? "can't set protected config" : NULL;
}

static bool is_named_before(const struct call *call, uint32_t first, uint32_t at)
{
    struct bytes name = call->argv[at];
    for (uint32_t i = first; i < at; i += 2)
        if (call->argv[i].len == name.len &&
            strncasecmp(call->argv[i].data, name.data, name.len) == 0)
            return true;
    return false;
}

/* Checks all names, from argv[first] on, before any value is set. */
static bool check_names(struct call *call, uint32_t first)
{
    const struct config_snapshot *snapshot = call->partition->snapshot;
    for (uint32_t i = first; i < call->argc; i += 2) {
        struct bytes name = call->argv[i];
        if (!config_snapshot_has_option(snapshot, name)) {
            call_errorf(call, "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'",
                        (int)name.len, name.data);
            return false;
        }
        const char *reason = why_not_set(snapshot, name);
        if (!reason && is_named_before(call, first, i))
            reason = "duplicate parameter";
        if (reason) {
            set_failed(call, name, reason);
            return false;
        }
    }
    return true;
}

static bool is_tls(struct bytes name)
{
    return name.len > 4 && strncasecmp(name.data, "tls-", 4) == 0;
}

/* Reads the TLS files once after all options are set, because TLS options must fit together. */
static bool load_tls(struct call *call, uint32_t first, struct config_snapshot *snapshot)
{
    char reason[OPTION_REASON_MAX];
    for (uint32_t i = first; i < call->argc; i += 2) {
        if (!is_tls(call->argv[i]))
            continue;
        if (config_snapshot_load_tls(snapshot, reason, sizeof reason))
            return true;
        set_failed(call, call->argv[i], reason);
        return false;
    }
    return true;
}

/* Sets the pairs in a private snapshot: with a version as stored options of all shards, with 0 for this process. */
static bool set_pairs(struct call *call, uint32_t first, uint64_t version,
                      struct config_snapshot *snapshot)
{
    char reason[OPTION_REASON_MAX];
    for (uint32_t i = first; i < call->argc; i += 2) {
        struct bytes name = call->argv[i];
        struct bytes value = call->argv[i + 1];
        bool is_set =
            version ? stored_options_set(snapshot, name, value, version, reason, sizeof reason)
                    : config_snapshot_set(snapshot, name, value, reason, sizeof reason);
        if (!is_set) {
            set_failed(call, name, reason);
            return false;
        }
    }
    return load_tls(call, first, snapshot);
}

/* A record counts as a copy's when it is on its disk. */
static bool keeps_durability(struct call *call, const struct config_snapshot *snapshot)
{
    if (!call->partition->copies.replica || snapshot->config.durability == DURABILITY_ALWAYS)
        return true;
    set_failed(call, BYTES("durability"), "the copies of this shard need always");
    return false;
}

/* Sets the names and values from argv[first] on, all or none. */
static void change_options(struct call *call, uint32_t first, uint64_t version)
{
    struct process *process = call->partition->process;
    if ((call->argc - first) % 2) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (!check_names(call, first))
        return;
    struct config_snapshot *snapshot = process_config_edit(process);
    if (!set_pairs(call, first, version, snapshot) || !keeps_durability(call, snapshot)) {
        process_config_drop(process, snapshot);
        return;
    }
    if (version)
        stored_options_write(&snapshot->stored, version, call->partition->overlay, call->arena);
    process_config_publish(process, snapshot);
    partition_refresh(call->partition);
    reply_ok(&call->reply);
}

void cmd_config_set(struct call *call)
{
    change_options(call, 2, 0);
}

/* ---- SCREE OPTIONS ---- */

/* SCREE OPTIONS VERSION | SET version name value … */
void cmd_scree_options(struct call *call)
{
    int64_t version;
    bool is_set = bytes_is(call->argv[2], "set") && call->argc > 5;
    if (call->argc == 3 && bytes_is(call->argv[2], "version"))
        reply_int(&call->reply,
                  (int64_t)stored_options_version(&call->partition->snapshot->stored));
    else if (!is_set || !number_parse_int64(call->argv[3], &version) || version <= 0)
        call_error(call, ERR_SYNTAX);
    else
        change_options(call, 4, (uint64_t)version);
}

/* ---- RESETSTAT ---- */

void cmd_config_resetstat(struct call *call)
{
    stats_reset(call->partition->metrics.stats, call->partition->metrics.process);
    latency_reset_commands(call->partition->metrics.latency);
    slot_load_reset(call->partition);
    reply_ok(&call->reply);
}

/* ---- REWRITE ---- */

static bool has_value(const struct config *config, const struct option *option, struct bytes value)
{
    char buffer[OPTION_TEXT_MAX];
    return bytes_equal(config_get(config, option, buffer), value);
}

/* Undoes in `config` what comes from the included file. `first` has the values of the file itself, `both` those of
 * the file and the included one together. False: an option was changed that is set in the included file, so the
 * change would have no effect after a restart. */
static bool leave_included(struct config *config, const struct config *first,
                           const struct config *both, char *error, size_t size)
{
    const struct option *option;
    size_t cursor = 0;
    while ((option = config_next(config, BYTES("*"), &cursor))) {
        char buffer[OPTION_TEXT_MAX];
        char included[OPTION_TEXT_MAX];
        struct bytes text = config_get(first, option, buffer);
        struct bytes value = config_get(both, option, included);
        if (bytes_equal(text, value))
            continue;
        if (!has_value(config, option, value)) {
            (void)snprintf(
                error, size,
                "%s is set in the included file, which is not rewritten: change it there",
                option->key);
            return false;
        }
        if (!config_set(config, option, text, error, size))
            return false;
    }
    return true;
}

/* Reduces `config` to the values that belong into its own file, without those of the included file. */
static bool separate(struct config *config, char *error, size_t size)
{
    struct backend_config first;
    struct backend_config both;
    size_t len;
    config_init_defaults(&first.head, config->schema);
    config_init_defaults(&both.head, config->schema);
    char *text = file_read(config->path, &len, error, size);
    bool good = text &&
                config_parse(&first.head, config->path, (struct bytes){text, len}, error, size) &&
                config_load(&both.head, config->path, error, size) &&
                leave_included(config, &first.head, &both.head, error, size);
    free(text);
    config_fini(&first.head);
    config_fini(&both.head);
    return good;
}

/* Creates the file with the owner and the permissions of the old one. */
static FILE *open_beside(const char *old, const char *path)
{
    struct stat found;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    if (stat(old, &found) == 0 && fchown(fd, found.st_uid, found.st_gid) == 0)
        (void)fchmod(fd, found.st_mode & 0777);
    FILE *file = fdopen(fd, "w");
    if (!file)
        (void)close(fd);
    return file;
}

/* Writes a new file, then renames it over the old one. */
static bool rewrite(const struct config *config, char *error, size_t size)
{
    char path[4096];
    FILE *file = NULL;
    errno = ENAMETOOLONG;
    if (snprintf(path, sizeof path, "%s.new", config->path) < (int)sizeof path)
        file = open_beside(config->path, path);
    if (!file) {
        (void)snprintf(error, size, "%s", strerror(errno));
        return false;
    }
    config_print(config, file);
    bool good = fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;
    good = fclose(file) == 0 && good && rename(path, config->path) == 0;
    if (good)
        return true;
    (void)snprintf(error, size, "%s", strerror(errno));
    (void)unlink(path);
    return false;
}

/* Writes the options in force to the file. */
static void rewrite_in_force(struct call *call)
{
    char error[512];
    struct backend_config config;
    struct config_snapshot *snapshot = process_settings(call->partition->process);
    config_copy(&config.head, &snapshot->config.head);
    config_snapshot_unref(snapshot);
    if (!config.head.path)
        call_error_text(call, "ERR The server is running without a config file");
    else if (!separate(&config.head, error, sizeof error) ||
             !rewrite(&config.head, error, sizeof error))
        call_errorf(call, "ERR Rewriting config file: %s", error);
    else
        reply_ok(&call->reply);
    config_fini(&config.head);
}

/* Keeps in this partition's rows what the file cannot keep: parameters that are no options, and other values of stored options, which
 * come before those of the file. */
static void keep_stored_options(struct call *call)
{
    struct process *process = call->partition->process;
    struct config_snapshot *snapshot = process_config_edit(process);
    uint64_t version = stored_options_next_version(&snapshot->stored);
    stored_options_keep(snapshot, version);
    if (stored_options_version(&snapshot->stored) != version) {
        process_config_drop(process, snapshot);
        return;
    }
    stored_options_write(&snapshot->stored, version, call->partition->overlay, call->arena);
    process_config_publish(process, snapshot);
    partition_refresh(call->partition);
}

/* A proxy sends CONFIG REWRITE to all partitions of the process at the same time. One writes at a time, from options that
 * it reads after those of the previous one, so the newest options stay. */
void cmd_config_rewrite(struct call *call)
{
    struct process *process = call->partition->process;
    pthread_mutex_lock(&process->rewrite_lock);
    rewrite_in_force(call);
    if (!call->failed && commit_gate(call->partition->commit, CMD_WRITE) == OK)
        keep_stored_options(call);
    pthread_mutex_unlock(&process->rewrite_lock);
}

void cmd_config_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
