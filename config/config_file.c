/*
 * config_file.c - reads an ini file into a config. The section of a line determines the struct that it sets:
 *
 *   [upstream]         ─► the program's struct; options are the rows of section "upstream"
 *   [namespace NAME]   ─► a new item of the group "namespace"; options are the rows of the group
 *
 *   proxy.ini ──include──► secrets.ini     read second: its values replace those of the first file
 *
 * An option that is unknown, given twice in one file, or refused by its row is an error with file and line.
 */
#include "config/ini_file.h"
#include "config/schema.h"

#include "shared/check.h"
#include "shared/log.h"

#include <stdlib.h>

enum { SECTION_OPTIONS_MAX = 128, SECTIONS_MAX = 4096 };

/* State while a file is read. */
struct loading {
    struct config *config;
    bool is_included; /* this is the file that another one includes */
    void *owner;      /* the struct that the current section sets */
    const struct option *options;
    size_t option_count;
    char *section; /* the text in the brackets: "upstream", "namespace shop" */
    int seen_line
        [SECTION_OPTIONS_MAX]; /* line of each option in the current section; 0: not given */
    const char *plain_seen[SECTION_OPTIONS_MAX]; /* sections read so far that may occur only once */
    size_t plain_seen_count;
    size_t sections;
};

static void list_sections(const struct config_schema *schema, char *to, size_t size)
{
    size_t used = (size_t)snprintf(to, size, "unknown section, expected");
    const char *last = "";
    for (size_t i = 0; i < schema->option_count && used < size; i++) {
        if (strcmp(schema->options[i].section, last) == 0)
            continue;
        last = schema->options[i].section;
        used += (size_t)snprintf(to + used, size - used, " [%s]", last);
    }
    for (size_t g = 0; g < schema->group_count && used < size; g++)
        used += (size_t)snprintf(to + used, size - used, " [%s NAME]", schema->groups[g].word);
}

static bool on_plain_section(struct loading *loading, struct bytes name, char *reason)
{
    const struct config_schema *schema = loading->config->schema;
    for (size_t i = 0; i < loading->plain_seen_count; i++)
        if (bytes_equal(name, bytes_of(loading->plain_seen[i]))) {
            (void)snprintf(reason, INI_REASON_MAX, "expected [%s] only once",
                           loading->plain_seen[i]);
            return false;
        }
    for (size_t i = 0; i < schema->option_count; i++)
        if (bytes_equal(name, bytes_of(schema->options[i].section))) {
            CHECK(loading->plain_seen_count < SECTION_OPTIONS_MAX);
            loading->plain_seen[loading->plain_seen_count++] = schema->options[i].section;
            loading->owner = loading->config;
            loading->options = schema->options;
            loading->option_count = schema->option_count;
            return true;
        }
    list_sections(schema, reason, INI_REASON_MAX);
    return false;
}

static struct group_item *find_item(const struct config *config, const struct group *group,
                                    struct bytes name)
{
    for (size_t i = 0; i < *group_count(config, group); i++) {
        struct group_item *item = group_item(config, group, i);
        if (bytes_equal(bytes_of(item->name), name))
            return item;
    }
    return NULL;
}

/* Begins [word name]: adds an item to the group; an included file may also continue an item of the first file. */
static bool on_group_section(struct loading *loading, const struct group *group, struct bytes name,
                             int line, char *reason)
{
    struct config *config = loading->config;
    if (name.len == 0 || name.len > 200 || memchr(name.data, '\n', name.len)) {
        (void)snprintf(reason, INI_REASON_MAX, "expected [%s NAME], a name of 1 to 200 characters",
                       group->word);
        return false;
    }
    struct group_item *item = find_item(config, group, name);
    if (item && (!loading->is_included || item->include_line)) {
        (void)snprintf(reason, INI_REASON_MAX,
                       "expected another name: [%s %s] is already on line %d", group->word,
                       item->name, item->include_line ? item->include_line : item->line);
        return false;
    }
    if (!item)
        item = group_add(config, group, name, line);
    if (loading->is_included)
        item->include_line = line;
    loading->owner = item;
    loading->options = group->options;
    loading->option_count = group->option_count;
    return true;
}

static bool on_section(void *owner, int line, struct bytes name, char *reason)
{
    struct loading *loading = owner;
    const struct config_schema *schema = loading->config->schema;
    memset(loading->seen_line, 0, sizeof loading->seen_line);
    free(loading->section);
    loading->section = strndup(name.data, name.len);
    CHECK(loading->section);
    if (loading->sections++ >= SECTIONS_MAX) {
        (void)snprintf(reason, INI_REASON_MAX, "expected at most %d sections", SECTIONS_MAX);
        return false;
    }
    struct bytes rest = name;
    struct bytes word;
    (void)word_next(&rest, &word);
    for (size_t g = 0; g < schema->group_count; g++) {
        if (!bytes_equal(word, bytes_of(schema->groups[g].word)))
            continue;
        struct bytes item;
        (void)word_next(&rest, &item);
        item.len = (size_t)(name.data + name.len - item.data);
        return on_group_section(loading, &schema->groups[g], item, line, reason);
    }
    return on_plain_section(loading, name, reason);
}

/* The current name of an option that was renamed; use of the old name is logged. */
static const char *current_name(const struct loading *loading, const char *name)
{
    static const struct {
        const char *section;
        const char *old_name;
        const char *new_name;
    } renamed[] = {{"backend", "acl-file", "aclfile"},
                   {"backend", "script-time-limit", "command-time-limit"},
                   {"store", "layer", "write-buffer"},
                   {"upstream", "lease-limit", "dedicated-limit"}};
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++) {
        if (strcmp(loading->section, renamed[i].section) != 0 ||
            strcmp(name, renamed[i].old_name) != 0)
            continue;
        log_event(LOG_WARN, "option_renamed", "section=%s option=%s new_name=%s", loading->section,
                  name, renamed[i].new_name);
        return renamed[i].new_name;
    }
    return name;
}

/* The option of the current section with this name; NULL: none. */
static const struct option *find_in_section(const struct loading *loading, const char *name)
{
    for (size_t i = 0; i < loading->option_count; i++) {
        const struct option *option = &loading->options[i];
        bool here =
            loading->owner != loading->config || strcmp(option->section, loading->section) == 0;
        if (here && strcmp(option->name, name) == 0)
            return option;
    }
    return NULL;
}

/* Appends an indented line to the list that the lines before it began. */
static bool append_value(const struct option *option, void *owner, const char *more, char *reason,
                         size_t size)
{
    char buffer[OPTION_TEXT_MAX];
    struct bytes before = option_text(option, owner, buffer);
    char *whole = NULL;
    int len = asprintf(&whole, "%.*s %s", (int)before.len, before.data, more);
    CHECK(len >= 0);
    bool ok = option_set(option, owner, (struct bytes){whole, (size_t)len}, reason, size);
    free(whole);
    return ok;
}

static const struct option *include_option(const struct config *config)
{
    const struct option *option = config_find(config, BYTES("include"));
    CHECK(option);
    return option;
}

static bool on_value(void *owner, const struct ini_value *value, char *reason)
{
    struct loading *loading = owner;
    const struct option *option = find_in_section(loading, current_name(loading, value->name));
    if (!option) {
        (void)snprintf(reason, INI_REASON_MAX,
                       "%s.%s: unknown option of [%s]; --print-config lists all options",
                       loading->section, value->name, loading->section);
        return false;
    }
    if (loading->is_included && option == include_option(loading->config)) {
        (void)snprintf(reason, INI_REASON_MAX,
                       "%s.include: an included file cannot include another file",
                       loading->section);
        return false;
    }
    size_t index = (size_t)(option - loading->options);
    CHECK(index < SECTION_OPTIONS_MAX);
    char expected[OPTION_REASON_MAX];
    bool ok;
    if (value->continued && option->kind == OPTION_ADDRESSES)
        ok = append_value(option, loading->owner, value->value, expected, sizeof expected);
    else if (loading->seen_line[index]) {
        ok = false;
        (void)snprintf(expected, sizeof expected, "expected only once, it is already on line %d%s",
                       loading->seen_line[index],
                       value->continued ? " (an indented line continues the line above it)" : "");
    } else {
        ok = option_set(option, loading->owner, bytes_of(value->value), expected, sizeof expected);
    }
    loading->seen_line[index] = value->line;
    if (!ok)
        (void)snprintf(reason, INI_REASON_MAX, "%.150s.%s: %s", loading->section, value->name,
                       expected);
    return ok;
}

/* Checks that every repeated section sets the options that have no default. */
static bool groups_complete(const struct config *config, const char *path, char *error, size_t size)
{
    const struct config_schema *schema = config->schema;
    for (size_t g = 0; g < schema->group_count; g++) {
        const struct group *group = &schema->groups[g];
        for (size_t i = 0; i < *group_count(config, group); i++) {
            const struct group_item *item = group_item(config, group, i);
            for (size_t o = 0; o < group->option_count; o++) {
                if (!option_missing(&group->options[o], item))
                    continue;
                char expected[OPTION_REASON_MAX];
                option_expected(&group->options[o], expected, sizeof expected);
                (void)snprintf(error, size, "%s:%d: %s %s.%s: missing, expected %s", path,
                               item->line, group->word, item->name, group->options[o].name,
                               expected);
                return false;
            }
        }
    }
    return true;
}

static bool parse(struct config *config, bool is_included, const char *path, struct bytes text,
                  char *error, size_t size)
{
    static const struct ini_events events = {on_section, on_value};
    struct loading loading = {.config = config, .is_included = is_included};
    bool ok = ini_each(path, text, &events, &loading, error, size) &&
              groups_complete(config, path, error, size);
    free(loading.section);
    return ok;
}

bool config_parse(struct config *config, const char *path, struct bytes text, char *error,
                  size_t size)
{
    bool ok = parse(config, false, path, text, error, size);
    config_set_path(config, path);
    return ok;
}

char *config_included_path(const struct config *config)
{
    char buffer[OPTION_TEXT_MAX];
    struct bytes text = config_get(config, include_option(config), buffer);
    if (!text.len)
        return NULL;
    char *name = strndup(text.data, text.len);
    CHECK(name);
    char *path = path_beside(config->path, name);
    free(name);
    return path;
}

static bool load_included(struct config *config, char *error, size_t size)
{
    char *path = config_included_path(config);
    if (!path)
        return true;
    size_t len;
    char *text = file_read(path, &len, error, size);
    bool ok = text && parse(config, true, path, (struct bytes){text, len}, error, size);
    free(text);
    free(path);
    return ok;
}

bool config_load(struct config *config, const char *path, char *error, size_t size)
{
    size_t len;
    char *text = file_read(path, &len, error, size);
    if (!text)
        return false;
    bool ok = config_parse(config, path, (struct bytes){text, len}, error, size) &&
              load_included(config, error, size);
    free(text);
    return ok;
}
