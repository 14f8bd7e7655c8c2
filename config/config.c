/*
 * config.c - the rows of the .def files as tables, and the functions that work on a whole configuration.
 */
#include "config/config.h"

#include "config/schema.h"

#include "shared/check.h"
#include "shared/glob.h"

#include <stdlib.h>

// clang-format off
/* Offset of a member, whose name is the row's field and the suffix of its kind. */
#define FIELD_INT(type, field)       offsetof(type, field)
#define FIELD_BYTES(type, field)     offsetof(type, field##_bytes)
#define FIELD_AUTO_BYTES(type, field) offsetof(type, field##_bytes)
#define FIELD_MS(type, field)        offsetof(type, field##_ms)
#define FIELD_BOOL(type, field)      offsetof(type, field)
#define FIELD_ENUM(type, field)      offsetof(type, field)
#define FIELD_OCTAL(type, field)     offsetof(type, field)
#define FIELD_STRING(type, field)    offsetof(type, field)
#define FIELD_ADDRESS(type, field)   offsetof(type, field)
#define FIELD_ADDRESSES(type, field) offsetof(type, field)
#define FIELD_SLOT_RULE(type, field) offsetof(type, field)
#define FIELD_HOURS(type, field) offsetof(type, field)
#define FIELD_HOST(type, field) offsetof(type, field)
#define FIELD_ZONE(type, field) offsetof(type, field)
/* The key is "section-name"; in the program's own section ([proxy] or [backend]) the key is the name alone, so the
 * pointer skips the section and the '-'. The own section is recognized by its length, which no other section has. */
#define ROW(type, own, kind, field, section, name, initial, min, max, unit, reload, sentence) \
    {OPTION_##kind, &(section "-" name)[sizeof section == sizeof own ? sizeof own : 0], section, name, initial, min, max, unit, OPTION_##reload, sentence, FIELD_##kind(type, field)},

static const struct option proxy_options[] = {
#define OPTION(...) ROW(struct proxy_config, "proxy", __VA_ARGS__)
#define NAMESPACE_OPTION(...)
#define LISTENER_OPTION(...)
#include "config/proxy_options.def"
#undef OPTION
#undef NAMESPACE_OPTION
#undef LISTENER_OPTION
};
static const struct option namespace_options[] = {
#define OPTION(...)
#define NAMESPACE_OPTION(...) ROW(struct namespace_config, "namespace NAME", __VA_ARGS__)
#define LISTENER_OPTION(...)
#include "config/proxy_options.def"
#undef OPTION
#undef NAMESPACE_OPTION
#undef LISTENER_OPTION
};
static const struct option listener_options[] = {
#define OPTION(...)
#define NAMESPACE_OPTION(...)
#define LISTENER_OPTION(...) ROW(struct listener_config, "listener NAME", __VA_ARGS__)
#include "config/proxy_options.def"
#undef OPTION
#undef NAMESPACE_OPTION
#undef LISTENER_OPTION
};
static const struct option backend_options[] = {
#define OPTION(...) ROW(struct backend_config, "backend", __VA_ARGS__)
#include "config/backend_options.def"
#undef OPTION
};

static const struct group proxy_groups[] = {
    {"namespace", namespace_options, COUNT_OF(namespace_options), sizeof(struct namespace_config),
     offsetof(struct proxy_config, namespaces), offsetof(struct proxy_config, namespace_count)},
    {"listener", listener_options, COUNT_OF(listener_options), sizeof(struct listener_config),
     offsetof(struct proxy_config, listeners), offsetof(struct proxy_config, listener_count)},
};
const struct config_schema proxy_schema = {
    "proxy", proxy_options, COUNT_OF(proxy_options), sizeof(struct proxy_config), proxy_groups, COUNT_OF(proxy_groups)};
const struct config_schema backend_schema = {
    "backend", backend_options, COUNT_OF(backend_options), sizeof(struct backend_config), NULL, 0};
// clang-format on

/* ---- create, copy, free ---------------------------------------------------------------------- */

static void options_init(const struct option *options, size_t count, void *owner)
{
    for (size_t i = 0; i < count; i++)
        option_init(&options[i], owner);
}

static void options_fini(const struct option *options, size_t count, void *owner)
{
    for (size_t i = 0; i < count; i++)
        option_clear(&options[i], owner);
}

static void options_copy(const struct option *options, size_t count, void *to, const void *from)
{
    char buffer[OPTION_TEXT_MAX];
    char reason[OPTION_REASON_MAX];
    for (size_t i = 0; i < count; i++)
        if (!option_missing(&options[i], from))
            CHECK(option_set(&options[i], to, option_text(&options[i], from, buffer), reason,
                             sizeof reason));
}

struct group_item *group_item(const struct config *config, const struct group *group, size_t i)
{
    char *items = *(char *const *)(const void *)((const char *)config + group->items_offset);
    return (struct group_item *)(void *)(items + i * group->item_size);
}

size_t *group_count(const struct config *config, const struct group *group)
{
    return (size_t *)(void *)((char *)(uintptr_t)config + group->count_offset);
}

struct group_item *group_add(struct config *config, const struct group *group, struct bytes name,
                             int line)
{
    char **items = (char **)(void *)((char *)config + group->items_offset);
    size_t *count = group_count(config, group);
    char *bigger = realloc(*items, (*count + 1) * group->item_size);
    CHECK(bigger);
    *items = bigger;
    struct group_item *item = (struct group_item *)(void *)(bigger + *count * group->item_size);
    ++*count;
    memset(item, 0, group->item_size);
    item->name = strndup(name.data, name.len);
    CHECK(item->name);
    item->line = line;
    options_init(group->options, group->option_count, item);
    return item;
}

void config_init_defaults(struct config *config, const struct config_schema *schema)
{
    memset(config, 0, schema->size);
    config->schema = schema;
    options_init(schema->options, schema->option_count, config);
}

void config_fini(struct config *config)
{
    const struct config_schema *schema = config->schema;
    for (size_t g = 0; g < schema->group_count; g++) {
        const struct group *group = &schema->groups[g];
        for (size_t i = 0; i < *group_count(config, group); i++) {
            struct group_item *item = group_item(config, group, i);
            options_fini(group->options, group->option_count, item);
            free(item->name);
        }
        free(*(void **)(void *)((char *)config + group->items_offset));
    }
    options_fini(schema->options, schema->option_count, config);
    free(config->path);
    memset(config, 0, schema->size);
}

void config_set_path(struct config *config, const char *path)
{
    char *copy = path ? strdup(path) : NULL;
    CHECK(copy || !path);
    free(config->path);
    config->path = copy;
}

void config_copy(struct config *to, const struct config *from)
{
    const struct config_schema *schema = from->schema;
    config_init_defaults(to, schema);
    options_copy(schema->options, schema->option_count, to, from);
    for (size_t g = 0; g < schema->group_count; g++) {
        const struct group *group = &schema->groups[g];
        for (size_t i = 0; i < *group_count(from, group); i++) {
            const struct group_item *item = group_item(from, group, i);
            options_copy(group->options, group->option_count,
                         group_add(to, group, bytes_of(item->name), item->line), item);
        }
    }
    config_set_path(to, from->path);
}

/* ---- options by key -------------------------------------------------------------------------- */

const struct option *config_find(const struct config *config, struct bytes key)
{
    const struct config_schema *schema = config->schema;
    for (size_t i = 0; i < schema->option_count; i++)
        if (bytes_is(key, schema->options[i].key))
            return &schema->options[i];
    return NULL;
}

const struct option *config_next(const struct config *config, struct bytes pattern, size_t *cursor)
{
    const struct config_schema *schema = config->schema;
    while (*cursor < schema->option_count) {
        const struct option *option = &schema->options[(*cursor)++];
        if (glob_match_nocase(pattern, bytes_of(option->key)))
            return option;
    }
    return NULL;
}

struct bytes config_get(const struct config *config, const struct option *option,
                        char buffer[OPTION_TEXT_MAX])
{
    return option_text(option, config, buffer);
}

bool config_set(struct config *config, const struct option *option, struct bytes value, char *error,
                size_t size)
{
    return option_set(option, config, value, error, size);
}

const struct option *config_diff(const struct config *a, const struct config *b, size_t *cursor)
{
    CHECK(a->schema == b->schema);
    while (*cursor < a->schema->option_count) {
        const struct option *option = &a->schema->options[(*cursor)++];
        if (!option_equal(option, a, b))
            return option;
    }
    return NULL;
}

void config_keep(struct config *to, const struct config *from, const struct option *option)
{
    char buffer[OPTION_TEXT_MAX];
    char reason[OPTION_REASON_MAX];
    CHECK(option_set(option, to, option_text(option, from, buffer), reason, sizeof reason));
}
