#include "backend/context/stored_options.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/process.h"
#include "backend/format/option_row.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/option_version.h"

#include <stdlib.h>

/* ---- the list ---- */

static void stored_option_fini(struct stored_option *option)
{
    free(option->name);
    free(option->value);
}

void stored_options_fini(struct stored_options *stored)
{
    for (uint32_t i = 0; i < stored->count; i++)
        stored_option_fini(&stored->items[i]);
    free(stored->items);
    *stored = (struct stored_options){0};
}

static struct stored_option stored_option_of(struct bytes name, struct bytes value,
                                             uint64_t version)
{
    struct stored_option option = {
        .name = strndup(name.data, name.len),
        .value = strndup(value.data, value.len),
        .version = version,
    };
    CHECK(option.name);
    CHECK(option.value);
    return option;
}

void stored_options_copy(struct stored_options *to, const struct stored_options *from)
{
    *to = (struct stored_options){.count = from->count};
    if (from->count == 0)
        return;
    to->items = malloc(from->count * sizeof *to->items);
    CHECK(to->items);
    for (uint32_t i = 0; i < from->count; i++)
        to->items[i] = stored_option_of(bytes_of(from->items[i].name),
                                        bytes_of(from->items[i].value), from->items[i].version);
}

static struct stored_option *find_stored(const struct stored_options *stored, struct bytes name)
{
    for (uint32_t i = 0; i < stored->count; i++)
        if (bytes_equal(bytes_of(stored->items[i].name), name))
            return &stored->items[i];
    return NULL;
}

/* Is the stored option at least as new as this value? NULL: no. */
static bool is_newer(const struct stored_option *option, struct bytes value, uint64_t version)
{
    if (!option || option->version != version)
        return option && option->version > version;
    return bytes_compare(bytes_of(option->value), value) > 0;
}

bool stored_options_put(struct stored_options *stored, struct bytes name, struct bytes value,
                        uint64_t version)
{
    struct stored_option *old = find_stored(stored, name);
    if (is_newer(old, value, version))
        return false;
    struct stored_option option = stored_option_of(name, value, version);
    if (old) {
        stored_option_fini(old);
        *old = option;
        return true;
    }
    stored->items = realloc(stored->items, (stored->count + 1) * sizeof option);
    CHECK(stored->items);
    stored->items[stored->count++] = option;
    return true;
}

uint64_t stored_options_version(const struct stored_options *stored)
{
    uint64_t version = 0;
    for (uint32_t i = 0; i < stored->count; i++)
        if (stored->items[i].version > version)
            version = stored->items[i].version;
    return version;
}

uint64_t stored_options_next_version(const struct stored_options *stored)
{
    return option_version_after(stored_options_version(stored), clock_wall_us());
}

/* ---- values ---- */

/* The canonical name and value of an option or parameter. The name of an option that is also a parameter is its key. */
static struct bytes canonical(const struct config_snapshot *snapshot, struct bytes name,
                              struct bytes *value, char buffer[OPTION_TEXT_MAX])
{
    const struct config *config = &snapshot->config.head;
    const struct parameter *parameter = parameter_find(name);
    const struct option *option = config_find(config, name);
    if (parameter && parameter->kind == PARAMETER_ALIAS)
        parameter = parameter_find(bytes_of(parameter->initial));
    if (parameter && parameter->kind == PARAMETER_OWN)
        option = config_find(config, bytes_of(parameter->initial));
    if (!option || (parameter && parameter->kind != PARAMETER_OWN)) {
        *value = config_snapshot_get(snapshot, parameter, buffer);
        return bytes_of(parameter->name);
    }
    *value = config_get(config, option, buffer);
    return bytes_of(option->key);
}

bool stored_options_set(struct config_snapshot *snapshot, struct bytes name, struct bytes value,
                        uint64_t version, char *error, size_t size)
{
    char buffer[OPTION_TEXT_MAX];
    struct bytes text;
    struct bytes before = canonical(snapshot, name, &text, buffer);
    const struct stored_option *old = find_stored(&snapshot->stored, before);
    if (old && old->version > version)
        return true;
    if (!config_snapshot_set(snapshot, name, value, error, size))
        return false;
    struct bytes kept = canonical(snapshot, name, &text, buffer);
    if (!stored_options_put(&snapshot->stored, kept, text, version))
        stored_options_apply(snapshot);
    return true;
}

static bool apply_stored(struct config_snapshot *snapshot, const struct stored_option *stored,
                         char *error, size_t size)
{
    struct bytes name = bytes_of(stored->name);
    struct bytes value = bytes_of(stored->value);
    const struct parameter *parameter = parameter_find(name);
    const struct option *option = config_find(&snapshot->config.head, name);
    if (option && (!parameter || parameter->kind == PARAMETER_OWN))
        return option->reload != OPTION_RESTART &&
               config_set(&snapshot->config.head, option, value, error, size);
    return parameter && parameter->kind != PARAMETER_FIXED &&
           config_snapshot_set(snapshot, name, value, error, size);
}

void stored_options_apply(struct config_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->stored.count; i++) {
        const struct stored_option *option = &snapshot->stored.items[i];
        char error[OPTION_REASON_MAX] = "it cannot be set while the program runs";
        if (!apply_stored(snapshot, option, error, sizeof error))
            log_event(LOG_WARN, "option_not_restored",
                      "name=%s value=" LOG_QUOTED " reason=" LOG_QUOTED, option->name,
                      option->value, error);
    }
    config_snapshot_derive(snapshot);
}

/* Makes the value that is in force a stored option with this version, unless it is one. */
static void keep_value(struct config_snapshot *snapshot, struct bytes name, uint64_t version)
{
    char buffer[OPTION_TEXT_MAX];
    struct bytes value;
    struct bytes known = canonical(snapshot, name, &value, buffer);
    const struct stored_option *old = find_stored(&snapshot->stored, known);
    if (!old || !bytes_equal(bytes_of(old->value), value))
        (void)stored_options_put(&snapshot->stored, known, value, version);
}

void stored_options_keep(struct config_snapshot *snapshot, uint64_t version)
{
    for (size_t i = 0; i < parameters_count; i++)
        if (snapshot->parameters[i])
            keep_value(snapshot, bytes_of(parameters[i].name), version);
    for (uint32_t i = 0; i < snapshot->stored.count; i++) {
        struct bytes name = bytes_of(snapshot->stored.items[i].name);
        if (config_snapshot_has_option(snapshot,
                                       name)) /* it may be one of another version of the program */
            keep_value(snapshot, name, version);
    }
}

/* ---- rows ---- */

bool stored_options_read(struct stored_options *stored, struct overlay *overlay)
{
    struct overlay_iter *iter =
        overlay_iter_new(overlay, CF_SYSTEM, option_rows_from(), option_rows_to());
    for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter)) {
        uint64_t version;
        struct bytes value;
        if (option_row_read(overlay_iter_value(iter), &version, &value))
            (void)stored_options_put(stored, option_row_name(overlay_iter_key(iter)), value,
                                     version);
    }
    bool is_good = overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return is_good;
}

void stored_options_write(const struct stored_options *stored, uint64_t version,
                          struct overlay *overlay, struct arena *arena)
{
    for (uint32_t i = 0; i < stored->count; i++) {
        const struct stored_option *option = &stored->items[i];
        if (option->version == version)
            overlay_put(overlay, CF_SYSTEM, option_row_key(arena, bytes_of(option->name)),
                        option_row_value(arena, version, bytes_of(option->value)));
    }
}

void stored_options_adopt(struct process *process, const struct stored_options *found)
{
    struct config_snapshot *snapshot = process_config_edit(process);
    uint32_t count = 0;
    for (uint32_t i = 0; i < found->count; i++)
        count += stored_options_put(&snapshot->stored, bytes_of(found->items[i].name),
                                    bytes_of(found->items[i].value), found->items[i].version);
    if (!count) {
        process_config_drop(process, snapshot);
        return;
    }
    stored_options_apply(snapshot);
    process_config_publish(process, snapshot);
    log_event(LOG_INFO, "options_restored", "count=%u", count);
}

void stored_options_adopt_rows(struct process *process, struct overlay *overlay)
{
    struct stored_options found = {0};
    if (stored_options_read(&found, overlay))
        stored_options_adopt(process, &found);
    stored_options_fini(&found);
}
