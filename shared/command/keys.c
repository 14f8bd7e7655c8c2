/*
 * keys_find(), on which permissions and routing depend, reads the options as the command's handler does (arguments.h). A
 * request that the handler refuses has no keys, or only the keys that the handler uses before it refuses.
 *
 * keys_report() does what COMMAND GETKEYS of Redis 7.0 does, which guesses. It uses the key specs first, unless a spec's
 * flags depend on other arguments; where the specs fail, the row's rule decides:
 *
 *   specs reliable? ──yes──► find_by_specs ──found──► done
 *         │no                      │failed
 *         └────────► guess_by_rule ◄┘
 *
 * A spec that searches for a word also finds it where the command reads a value: STREAMS as the name of a group.
 */
#include "shared/command/keys.h"

#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

#include <stdlib.h>

enum { LIST_KEEP = 4096 }; /* a longer list is freed after use */

void keys_list_init(struct key_list *list)
{
    list->count = 0;
    list->cap = KEYS_INLINE;
    list->refs = list->inline_refs;
}

void keys_list_fini(struct key_list *list)
{
    if (list->refs != list->inline_refs)
        free(list->refs);
    keys_list_init(list);
}

static void list_grow(struct key_list *list)
{
    bool is_inline = list->refs == list->inline_refs;
    size_t cap = (size_t)list->cap * 2;
    struct key_ref *refs = realloc(is_inline ? NULL : list->refs, cap * sizeof(*refs));
    CHECK(refs);
    if (is_inline)
        memcpy(refs, list->inline_refs, sizeof(list->inline_refs));
    list->refs = refs;
    list->cap = (uint32_t)cap;
}

static inline void key_list_add(struct key_list *list, int64_t index, uint32_t flags, uint32_t spec)
{
    if (list->count == list->cap)
        list_grow(list);
    list->refs[list->count++] = (struct key_ref){(uint32_t)index, (uint16_t)flags, (uint16_t)spec};
}

bool keys_possible(const struct command *command)
{
    for (int i = 0; i < KEY_SPECS_MAX && command->keys[i].begin != KEY_BEGIN_NONE; i++) {
        if (!(command->keys[i].flags & KEY_NOT_KEY))
            return true;
    }
    return false;
}

bool keys_lack_value(const struct command *command, const struct key_list *keys, uint32_t argc)
{
    uint32_t step = keys->count > 1 ? keys->refs[1].index - keys->refs[0].index : 1;
    return command->route == ROUTE_SPLIT && keys->count &&
           keys->refs[keys->count - 1].index + step > argc;
}

uint32_t keys_number_at(const struct command *command)
{
    const struct key_spec *spec = counted_keys_spec(command);
    return spec ? (uint32_t)(spec->at + spec->number_at) : 0;
}

static bool has_spec(const struct command *command, uint32_t flags)
{
    for (int i = 0; i < KEY_SPECS_MAX && command->keys[i].begin != KEY_BEGIN_NONE; i++)
        if (command->keys[i].flags & flags)
            return true;
    return false;
}

void keys_init_fast_path(struct command *command)
{
    const struct key_spec *spec = &command->keys[0];
    command->made.has_sources = command->flags & CMD_WRITE && has_spec(command, KEY_RO) &&
                                has_spec(command, KEY_RW | KEY_OW | KEY_RM);
    command->made.key_at = 0;
    command->made.key_argc_max = UINT32_MAX;
    if (!keys_possible(command))
        return;
    bool plain = spec->begin == KEY_BEGIN_INDEX && spec->find == KEY_FIND_RANGE &&
                 spec->limit == 0 && command->keys[1].begin == KEY_BEGIN_NONE;
    command->made.key_at = plain ? spec->at : KEYS_SEARCH;
    if (!plain || spec->last > 0)
        command->made.key_argc_max = 0;
    else if (spec->last < 0)
        command->made.key_argc_max = (uint32_t)(spec->at - spec->last + spec->step - 1);
}

/* --- by specs --------------------------------------------------------------------------------- */

/* The argument index of the first key; 0 when the spec's word is missing. As in Redis, the last argument is never
 * compared, nor the first when searching from the end. */
static int64_t spec_begin(const struct key_spec *spec, const struct bytes *argv, int64_t argc)
{
    if (spec->begin == KEY_BEGIN_INDEX)
        return spec->at;
    int64_t step = spec->at > 0 ? 1 : -1;
    int64_t end = spec->at > 0 ? argc - 1 : 1;
    for (int64_t at = spec->at > 0 ? spec->at : argc + spec->at; (end - at) * step > 0;
         at += step) {
        if (bytes_is(argv[at], spec->keyword))
            return at + 1;
    }
    return 0;
}

/* Adds the keys of one spec. False: the arguments do not fit the spec. */
static bool find_by_spec(const struct command *command, uint32_t index, const struct bytes *argv,
                         int64_t argc, struct key_list *list)
{
    const struct key_spec *spec = &command->keys[index];
    if (spec->begin == KEY_BEGIN_UNKNOWN || spec->find == KEY_FIND_UNKNOWN)
        return false;
    int64_t first = spec_begin(spec, argv, argc);
    int64_t last = 0;
    if (first == 0)
        return true;
    if (spec->find == KEY_FIND_KEYNUM) {
        int64_t at = first + spec->number_at;
        int64_t number;
        if (at >= argc || !number_parse_int64(argv[at], &number) || number < 0 || number > argc)
            return false;
        first += spec->first;
        last = first + (number - 1) * spec->step;
    } else if (spec->last >= 0) {
        last = first + spec->last;
    } else if (spec->limit == 0) {
        last = argc + spec->last;
    } else {
        last = first + (argc - first) / spec->limit + spec->last;
    }
    if (first >= argc || last >= argc || last < first)
        return false;
    for (int64_t at = first; at <= last; at += spec->step)
        key_list_add(list, at, spec->flags, index);
    return !(spec->flags & KEY_INCOMPLETE);
}

static bool find_by_specs(const struct command *command, const struct bytes *argv, uint32_t argc,
                          struct key_list *list)
{
    for (uint32_t i = 0; i < KEY_SPECS_MAX && command->keys[i].begin != KEY_BEGIN_NONE; i++) {
        if (command->keys[i].flags & KEY_NOT_KEY)
            continue;
        if (!find_by_spec(command, i, argv, argc, list)) {
            list->count = 0;
            return false;
        }
    }
    return true;
}

/* --- by rule ---------------------------------------------------------------------------------- */

static void find_set(const struct bytes *argv, uint32_t argc, struct key_list *list)
{
    bool reads = set_reads_value(argv, argc);
    key_list_add(list, 1, reads ? KEY_RW | KEY_ACCESS | KEY_UPDATE : KEY_OW | KEY_UPDATE, 0);
}

/* SET as Redis' GETKEYS reads it: GET counts also where it is the value of an option. */
static void guess_set(const struct bytes *argv, uint32_t argc, struct key_list *list)
{
    find_set(argv, argc, list);
    for (uint32_t i = 3; i < argc; i++)
        if (bytes_is(argv[i], "get"))
            list->refs[0].flags = KEY_RW | KEY_ACCESS | KEY_UPDATE;
}

static void find_bitfield(const struct bytes *argv, uint32_t argc, struct key_list *list)
{
    bool reads = bitfield_only_reads(argv, argc);
    key_list_add(list, 1, reads ? KEY_RO | KEY_ACCESS : KEY_RW | KEY_ACCESS | KEY_UPDATE, 0);
}

/* SORT as Redis' GETKEYS reads it: the destination of a STORE is parsed as an option again, which SORT does not. */
static void guess_sort(const struct command *command, const struct bytes *argv, uint32_t argc,
                       struct key_list *list)
{
    uint32_t store = 0;
    for (uint32_t i = 2; i < argc; i++) {
        if (bytes_is(argv[i], "limit"))
            i += 2;
        else if (bytes_is(argv[i], "get") || bytes_is(argv[i], "by"))
            i += 1;
        else if (bytes_is(argv[i], "store") && i + 1 < argc)
            store = i + 1;
    }
    key_list_add(list, 1, KEY_RO | KEY_ACCESS, 0);
    if (store && (command->flags & CMD_WRITE))
        key_list_add(list, store, KEY_OW | KEY_UPDATE, 2);
}

/* SORT: key 1, of which users need permission even if it refuses the options, and the destination. */
static void find_sort(const struct command *command, const struct bytes *argv, uint32_t argc,
                      struct key_list *list)
{
    struct sort_arguments found;
    bool is_valid = sort_arguments_find(argv, argc, &found);
    key_list_add(list, 1, KEY_RO | KEY_ACCESS, 0);
    if (is_valid && found.store_at && (command->flags & CMD_WRITE))
        key_list_add(list, found.store_at, KEY_OW | KEY_UPDATE, 2);
}

/* MIGRATE host port key|"" db timeout [COPY] [REPLACE] [AUTH p | AUTH2 u p] [KEYS key ...] */
static void find_migrate(const struct bytes *argv, uint32_t argc, struct key_list *list)
{
    const uint32_t flags = KEY_RW | KEY_ACCESS | KEY_DELETE;
    for (uint32_t i = 6; i < argc; i++) {
        if (bytes_is(argv[i], "auth")) {
            i += 1;
        } else if (bytes_is(argv[i], "auth2")) {
            i += 2;
        } else if (bytes_is(argv[i], "keys")) {
            if (argv[3].len)
                return;
            for (uint32_t key = i + 1; key < argc; key++)
                key_list_add(list, key, flags, 1);
            return;
        }
    }
    key_list_add(list, 3, flags, 0);
}

/* GEORADIUS and GEORADIUSBYMEMBER: key 1, which they open even when they refuse the options, and the destination. */
static void find_georadius(const struct command *command, const struct bytes *argv, uint32_t argc,
                           struct key_list *list)
{
    uint32_t store_at;
    bool is_valid = radius_arguments_find(argv, argc, (uint32_t)command->keys[1].at, &store_at);
    key_list_add(list, 1, command->keys[0].flags, 0);
    if (is_valid && store_at)
        key_list_add(list, store_at, command->keys[1].flags, 1);
}

static void find_streams(const struct bytes *argv, uint32_t argc, uint32_t flags,
                         struct key_list *list)
{
    struct stream_arguments found;
    if (!stream_arguments_find(argv, argc, &found))
        return;
    for (uint32_t i = 0; i < found.count; i++)
        key_list_add(list, found.streams_at + i, flags, 0);
}

/* The keys that are counted, behind the destination of STORE commands. */
static void find_counted(const struct command *command, const struct bytes *argv, uint32_t argc,
                         struct key_list *list)
{
    const struct key_spec *spec = counted_keys_spec(command);
    uint32_t index = (uint32_t)(spec - command->keys);
    struct counted_keys found;
    if (counted_keys_find(command, argv, argc, &found) != COUNTED_OK)
        return;
    if (command->key_rule == KEY_RULE_STORE_COUNT)
        key_list_add(list, 1, command->keys[0].flags, 0);
    for (uint32_t at = found.first; at < found.behind; at += (uint32_t)spec->step)
        key_list_add(list, at, spec->flags, index);
}

/* Parses like atoi: leading spaces and a sign are allowed; stops at the first character that is no digit. */
static int64_t loose_number(struct bytes text)
{
    size_t i = 0;
    while (i < text.len && (text.data[i] == ' ' || (text.data[i] >= '\t' && text.data[i] <= '\r')))
        i++;
    bool negative = i < text.len && text.data[i] == '-';
    if (negative || (i < text.len && text.data[i] == '+'))
        i++;
    int64_t number = 0;
    for (; i < text.len && text.data[i] >= '0' && text.data[i] <= '9' && number <= UINT32_MAX; i++)
        number = number * 10 + (text.data[i] - '0');
    return negative ? -number : number;
}

/* Argument `count_at` is the number of keys that follow. `store_at`, unless 0, is one more key, added last. Accepts numbers
 * such as 2x, which the commands refuse. */
static void guess_counted(const struct bytes *argv, uint32_t argc, uint32_t count_at,
                          uint32_t store_at, struct key_list *list)
{
    CHECK(count_at < argc);
    int64_t number = loose_number(argv[count_at]);
    int64_t first = count_at + 1;
    if (number < 1 || number > argc - first)
        return;
    for (int64_t at = first; at < first + number; at++)
        key_list_add(list, at, 0, store_at ? 1 : 0);
    if (store_at)
        key_list_add(list, store_at, 0, 0);
}

static void guess_by_rule(const struct command *command, const struct bytes *argv, uint32_t argc,
                          struct key_list *list)
{
    switch (command->key_rule) {
    case KEY_RULE_NONE:
    case KEY_RULE_COUNT_PAIRS:
        return;
    case KEY_RULE_SET:
        guess_set(argv, argc, list);
        return;
    case KEY_RULE_BITFIELD:
        find_bitfield(argv, argc, list);
        return;
    case KEY_RULE_SORT:
        guess_sort(command, argv, argc, list);
        return;
    case KEY_RULE_MIGRATE:
        find_migrate(argv, argc, list);
        return;
    case KEY_RULE_DESTINATION:
        key_list_add(list, 1, command->keys[0].flags, 0);
        return;
    case KEY_RULE_GEORADIUS:
        find_georadius(command, argv, argc, list);
        return;
    case KEY_RULE_STREAMS:
        find_streams(argv, argc, 0, list);
        return;
    case KEY_RULE_COUNT_AT_1:
        guess_counted(argv, argc, 1, 0, list);
        return;
    case KEY_RULE_COUNT_AT_2:
        guess_counted(argv, argc, 2, 0, list);
        return;
    case KEY_RULE_STORE_COUNT:
        guess_counted(argv, argc, 2, 1, list);
        return;
    }
}

/* Empties the list. False: the command has no keys. */
static bool begin_key_list(const struct command *command, uint32_t argc, struct key_list *list)
{
    CHECK(list->cap >= KEYS_INLINE);
    CHECK(command_arity_ok(command, argc));
    if (list->cap > LIST_KEEP)
        keys_list_fini(list);
    list->count = 0;
    return keys_possible(command);
}

static void find_as_handler(const struct command *command, const struct bytes *argv, uint32_t argc,
                            struct key_list *list)
{
    switch (command->key_rule) {
    case KEY_RULE_GEORADIUS:
        find_georadius(command, argv, argc, list);
        return;
    case KEY_RULE_STREAMS:
        find_streams(argv, argc, command->keys[0].flags, list);
        return;
    case KEY_RULE_SORT:
        find_sort(command, argv, argc, list);
        return;
    case KEY_RULE_SET:
        find_set(argv, argc, list);
        return;
    case KEY_RULE_BITFIELD:
        find_bitfield(argv, argc, list);
        return;
    case KEY_RULE_COUNT_AT_1:
    case KEY_RULE_COUNT_AT_2:
    case KEY_RULE_COUNT_PAIRS:
    case KEY_RULE_STORE_COUNT:
        find_counted(command, argv, argc, list);
        return;
    case KEY_RULE_NONE:
        (void)find_by_specs(command, argv, argc, list);
        return;
    case KEY_RULE_MIGRATE:
    case KEY_RULE_DESTINATION:
        if (!find_by_specs(command, argv, argc, list))
            guess_by_rule(command, argv, argc, list);
        return;
    }
}

/* Without keys, though the command needs some: the request is invalid. */
static int keys_found(const struct command *command, const struct key_list *list)
{
    return list->count == 0 && !(command->flags & CMD_NO_MANDATORY_KEYS) ? KEYS_INVALID : 0;
}

int keys_report(const struct command *command, const struct bytes *argv, uint32_t argc,
                struct key_list *list)
{
    if (!begin_key_list(command, argc, list))
        return 0;
    bool flags_vary = command->keys[0].flags & KEY_VARIABLE_FLAGS;
    if (flags_vary || !find_by_specs(command, argv, argc, list))
        guess_by_rule(command, argv, argc, list);
    return keys_found(command, list);
}

int keys_find(const struct command *command, const struct bytes *argv, uint32_t argc,
              struct key_list *list)
{
    if (!begin_key_list(command, argc, list))
        return 0;
    find_as_handler(command, argv, argc, list);
    return keys_found(command, list);
}
