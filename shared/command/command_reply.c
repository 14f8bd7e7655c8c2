#include "shared/command/command_reply.h"

#include "shared/check.h"
#include "shared/command/argument_docs.h"
#include "shared/command/keys.h"
#include "shared/glob.h"

#include <stdio.h>

/* Is the row visible to clients? */
static bool is_shown(const struct command *command)
{
    return !(command->flags & CMD_INTERNAL);
}

static int64_t count_shown(bool with_subs)
{
    int64_t count = 0;
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of((enum command_id)id);
        count += is_shown(command) && (with_subs || command->parent == COMMAND_NONE);
    }
    return count;
}

static int64_t count_subs(const struct command *container)
{
    int64_t count = 0;
    for (enum command_id id = container->made.sub_first; id != COMMAND_NONE;
         id = command_of(id)->made.sub_next)
        count += is_shown(command_of(id));
    return count;
}

/* --- INFO ------------------------------------------------------------------------------------- */

static void write_flags(struct reply *reply, uint32_t flags)
{
    uint32_t printed = 0;
    for (uint32_t bit = 1; bit && bit <= flags; bit <<= 1) {
        if ((flags & bit) && command_flag_name((enum command_flags)bit))
            printed |= bit;
    }
    reply_set(reply, __builtin_popcount(printed));
    for (; printed; printed &= printed - 1)
        reply_status(reply, command_flag_name((enum command_flags)(printed & -printed)));
}

static void write_categories(struct reply *reply, uint32_t categories)
{
    categories &= ~(uint32_t)ACL_NOT_GROUP;
    reply_set(reply, __builtin_popcount(categories));
    for (; categories; categories &= categories - 1) {
        char name[24];
        (void)snprintf(name, sizeof(name), "@%s",
                       command_acl_name((enum command_acl)(categories & -categories)));
        reply_status(reply, name);
    }
}

static void write_key_flags(struct reply *reply, uint32_t flags)
{
    reply_set(reply, __builtin_popcount(flags));
    for (; flags; flags &= flags - 1)
        reply_status(reply, key_flag_name((enum key_flags)(flags & -flags)));
}

static void write_named_int(struct reply *reply, const char *name, int64_t value)
{
    reply_bulk_text(reply, name);
    reply_int(reply, value);
}

/* Writes {type: ..., spec: ...}; the spec, a map of `pairs`, follows. */
static void write_search_head(struct reply *reply, const char *name, const char *type,
                              int64_t pairs)
{
    reply_bulk_text(reply, name);
    reply_map(reply, 2);
    reply_bulk_text(reply, "type");
    reply_bulk_text(reply, type);
    reply_bulk_text(reply, "spec");
    reply_map(reply, pairs);
}

static void write_key_begin(struct reply *reply, const struct key_spec *spec)
{
    if (spec->begin == KEY_BEGIN_INDEX) {
        write_search_head(reply, "begin_search", "index", 1);
        write_named_int(reply, "index", spec->at);
    } else if (spec->begin == KEY_BEGIN_KEYWORD) {
        write_search_head(reply, "begin_search", "keyword", 2);
        reply_bulk_text(reply, "keyword");
        reply_bulk_text(reply, spec->keyword);
        write_named_int(reply, "startfrom", spec->at);
    } else {
        write_search_head(reply, "begin_search", "unknown", 0);
    }
}

static void write_key_find(struct reply *reply, const struct key_spec *spec)
{
    if (spec->find == KEY_FIND_RANGE) {
        write_search_head(reply, "find_keys", "range", 3);
        write_named_int(reply, "lastkey", spec->last);
        write_named_int(reply, "keystep", spec->step);
        write_named_int(reply, "limit", spec->limit);
    } else if (spec->find == KEY_FIND_KEYNUM) {
        write_search_head(reply, "find_keys", "keynum", 3);
        write_named_int(reply, "keynumidx", spec->number_at);
        write_named_int(reply, "firstkey", spec->first);
        write_named_int(reply, "keystep", spec->step);
    } else {
        write_search_head(reply, "find_keys", "unknown", 0);
    }
}

static void write_key_specs(struct reply *reply, const struct command *command)
{
    int count = 0;
    while (count < KEY_SPECS_MAX && command->keys[count].begin != KEY_BEGIN_NONE)
        count++;
    reply_set(reply, count);
    for (int i = 0; i < count; i++) {
        reply_map(reply, 3);
        reply_bulk_text(reply, "flags");
        write_key_flags(reply, command->keys[i].flags);
        write_key_begin(reply, &command->keys[i]);
        write_key_find(reply, &command->keys[i]);
    }
}

/* Writes the first nine of the ten elements: all except the subcommands. */
static void write_info_head(struct reply *reply, const struct command *command)
{
    struct bytes tips[COMMAND_TIPS_MAX];
    uint32_t tip_count = command_tips(command, tips);
    reply_array(reply, 10);
    reply_bulk_text(reply, command_full_name(command));
    reply_int(reply, command->arity);
    write_flags(reply, command->flags);
    reply_int(reply, command->made.legacy_first);
    reply_int(reply, command->made.legacy_last);
    reply_int(reply, command->made.legacy_step);
    write_categories(reply, command->acl);
    reply_set(reply, tip_count);
    for (uint32_t i = 0; i < tip_count; i++)
        reply_bulk(reply, tips[i]);
    write_key_specs(reply, command);
}

static void write_info(struct reply *reply, const struct command *command)
{
    write_info_head(reply, command);
    if (!command_has_subs(command)) {
        reply_set(reply, 0);
        return;
    }
    reply_array(reply, count_subs(command));
    for (enum command_id id = command->made.sub_first; id != COMMAND_NONE;
         id = command_of(id)->made.sub_next) {
        if (is_shown(command_of(id))) {
            write_info_head(reply, command_of(id));
            reply_set(reply, 0);
        }
    }
}

void command_reply_all(struct reply *reply)
{
    reply_array(reply, count_shown(false));
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of((enum command_id)id);
        if (is_shown(command) && command->parent == COMMAND_NONE)
            write_info(reply, command);
    }
}

void command_reply_count(struct reply *reply)
{
    reply_int(reply, count_shown(false));
}

void command_reply_info(struct reply *reply, const struct bytes *argv, uint32_t argc)
{
    CHECK(argc >= 2);
    if (argc == 2) {
        command_reply_all(reply);
        return;
    }
    reply_array(reply, argc - 2);
    for (uint32_t i = 2; i < argc; i++) {
        const struct command *command = command_find_full(argv[i]);
        if (command && is_shown(command))
            write_info(reply, command);
        else
            reply_null(reply);
    }
}

/* --- DOCS ------------------------------------------------------------------------------------- */

static void write_named_text(struct reply *reply, const char *name, const char *text)
{
    if (!text)
        return;
    reply_bulk_text(reply, name);
    reply_bulk_text(reply, text);
}

/* Writes the command's name and its map without the subcommands. */
static void write_docs_head(struct reply *reply, const struct command *command)
{
    const struct argument *arguments = argument_docs_of(command->id);
    int64_t pairs = 3 + !!arguments + !!command->complexity + !!command->doc_flags +
                    !!command->deprecated.since + !!command->deprecated.replaced_by +
                    command_has_subs(command);
    reply_bulk_text(reply, command_full_name(command));
    reply_map(reply, pairs);
    write_named_text(reply, "summary", command->summary);
    write_named_text(reply, "since", command->since);
    write_named_text(reply, "group", command_group_name(command->group));
    write_named_text(reply, "complexity", command->complexity);
    if (command->doc_flags) {
        reply_bulk_text(reply, "doc_flags");
        reply_set(reply, __builtin_popcount(command->doc_flags));
        if (command->doc_flags & DOC_DEPRECATED)
            reply_status(reply, "deprecated");
        if (command->doc_flags & DOC_SYSCMD)
            reply_status(reply, "syscmd");
    }
    write_named_text(reply, "deprecated_since", command->deprecated.since);
    write_named_text(reply, "replaced_by", command->deprecated.replaced_by);
    if (arguments) {
        reply_bulk_text(reply, "arguments");
        argument_docs_reply(reply, arguments);
    }
}

static void write_docs(struct reply *reply, const struct command *command)
{
    write_docs_head(reply, command);
    if (!command_has_subs(command))
        return;
    reply_bulk_text(reply, "subcommands");
    reply_map(reply, count_subs(command));
    for (enum command_id id = command->made.sub_first; id != COMMAND_NONE;
         id = command_of(id)->made.sub_next) {
        if (is_shown(command_of(id)))
            write_docs_head(reply, command_of(id));
    }
}

static const struct command *find_shown(struct bytes name)
{
    const struct command *command = command_find_full(name);
    return command && is_shown(command) ? command : NULL;
}

void command_reply_docs(struct reply *reply, const struct bytes *argv, uint32_t argc)
{
    CHECK(argc >= 2);
    if (argc == 2) {
        reply_map(reply, count_shown(false));
        for (int id = 1; id < COMMAND_COUNT; id++) {
            const struct command *command = command_of((enum command_id)id);
            if (is_shown(command) && command->parent == COMMAND_NONE)
                write_docs(reply, command);
        }
        return;
    }
    int64_t known = 0;
    for (uint32_t i = 2; i < argc; i++)
        known += find_shown(argv[i]) != NULL;
    reply_map(reply, known);
    for (uint32_t i = 2; i < argc; i++) {
        const struct command *command = find_shown(argv[i]);
        if (command)
            write_docs(reply, command);
    }
}

/* --- LIST ------------------------------------------------------------------------------------- */

/* What LIST selects. */
struct filter {
    /* nothing matches: FILTERBY MODULE (there are no modules), or an unknown category */
    bool nothing;
    uint32_t acl; /* 0: any */
    bool has_pattern;
    struct bytes pattern;
    struct globs *globs; /* of the pattern */
};

static uint32_t find_category(struct bytes name)
{
    for (uint32_t bit = 1;; bit <<= 1) {
        const char *category = command_acl_name((enum command_acl)bit);
        if (!category)
            return 0;
        if (bytes_is(name, category))
            return bit;
    }
}

static bool filter_parse(struct filter *filter, const struct bytes *argv, uint32_t argc)
{
    *filter = (struct filter){0};
    if (argc == 2)
        return true;
    if (argc != 5 || !bytes_is(argv[2], "filterby"))
        return false;
    if (bytes_is(argv[3], "module")) {
        filter->nothing = true;
    } else if (bytes_is(argv[3], "aclcat")) {
        filter->acl = find_category(argv[4]);
        filter->nothing = filter->acl == 0;
    } else if (bytes_is(argv[3], "pattern")) {
        filter->has_pattern = true;
        filter->pattern = argv[4];
    } else {
        return false;
    }
    return true;
}

static bool filter_passes(const struct filter *filter, const struct command *command)
{
    if (filter->nothing || !is_shown(command))
        return false;
    if (filter->acl && !(command->acl & filter->acl))
        return false;
    return !filter->globs || globs_fit(filter->globs, bytes_of(command_full_name(command)));
}

static void write_selected(struct reply *reply, const struct filter *filter)
{
    int64_t count = 0;
    for (int id = 1; id < COMMAND_COUNT; id++)
        count += filter_passes(filter, command_of((enum command_id)id));
    reply_array(reply, count);
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of((enum command_id)id);
        if (filter_passes(filter, command))
            reply_bulk_text(reply, command_full_name(command));
    }
}

void command_reply_list(struct reply *reply, const struct bytes *argv, uint32_t argc)
{
    CHECK(argc >= 2);
    struct filter filter;
    if (!filter_parse(&filter, argv, argc)) {
        reply_code(reply, ERR_SYNTAX);
        return;
    }
    if (filter.has_pattern && !glob_is_bounded(filter.pattern)) {
        reply_errorf(reply, "ERR pattern is longer than %d bytes", GLOB_PATTERN_MAX);
        return;
    }
    struct arena arena;
    arena_init(&arena);
    if (filter.has_pattern)
        filter.globs = globs_new(&arena, &filter.pattern, 1, true);
    write_selected(reply, &filter);
    arena_fini(&arena);
}

/* --- GETKEYS ---------------------------------------------------------------------------------- */

static void write_keys(struct reply *reply, const struct bytes *argv, const struct key_list *keys,
                       bool with_flags)
{
    reply_array(reply, keys->count);
    for (uint32_t i = 0; i < keys->count; i++) {
        if (with_flags)
            reply_array(reply, 2);
        reply_bulk(reply, argv[keys->refs[i].index]);
        if (with_flags)
            write_key_flags(reply, keys->refs[i].flags);
    }
}

static void reply_keys(struct reply *reply, const struct bytes *argv, uint32_t argc,
                       bool with_flags)
{
    CHECK(argc > 2);
    const struct bytes *inner = argv + 2;
    uint32_t inner_argc = argc - 2;
    const struct command *command = command_find_argv(inner, inner_argc);
    if (!command) {
        reply_error(reply, "ERR Invalid command specified");
    } else if (!keys_possible(command)) {
        reply_error(reply, "ERR The command has no key arguments");
    } else if (!command_arity_ok(command, inner_argc)) {
        reply_error(reply, "ERR Invalid number of arguments specified for command");
    } else {
        struct key_list keys;
        keys_list_init(&keys);
        if (keys_report(command, inner, inner_argc, &keys) == KEYS_INVALID)
            reply_error(reply, "ERR Invalid arguments specified for command");
        else
            write_keys(reply, inner, &keys, with_flags);
        keys_list_fini(&keys);
    }
}

void command_reply_getkeys(struct reply *reply, const struct bytes *argv, uint32_t argc)
{
    reply_keys(reply, argv, argc, false);
}

void command_reply_getkeysandflags(struct reply *reply, const struct bytes *argv, uint32_t argc)
{
    reply_keys(reply, argv, argc, true);
}

/* --- HELP ------------------------------------------------------------------------------------- */

void command_reply_help(struct reply *reply, const struct command *container,
                        enum command_handlers handler)
{
    CHECK(command_has_subs(container));
    int64_t lines = 1;
    char name[40];
    char line[512];
    for (enum command_id id = container->made.sub_first; id != COMMAND_NONE;
         id = command_of(id)->made.sub_next)
        lines += is_shown(command_of(id)) && (command_of(id)->handlers & handler) ? 2 : 0;
    reply_array(reply, lines);
    command_upper(container->name, name, sizeof(name));
    (void)snprintf(line, sizeof(line),
                   "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name);
    reply_status(reply, line);
    for (enum command_id id = container->made.sub_first; id != COMMAND_NONE;
         id = command_of(id)->made.sub_next) {
        const struct command *sub = command_of(id);
        if (!is_shown(sub) || !(sub->handlers & handler))
            continue;
        command_upper(sub->name, name, sizeof(name));
        reply_status(reply, name);
        CHECK(snprintf(line, sizeof line, "    %s", sub->summary) < (int)sizeof line);
        reply_status(reply, line);
    }
}
