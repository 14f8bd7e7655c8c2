#include "shared/command/arguments.h"

#include "shared/number.h"

#include <stddef.h>
#include <string.h>

const struct option_word stream_options[] = {
    [STREAM_BLOCK] = {"BLOCK", 1}, [STREAM_COUNT] = {"COUNT", 1}, [STREAM_GROUP] = {"GROUP", 2},
    [STREAM_CLAIM] = {"CLAIM", 1}, [STREAM_NOACK] = {"NOACK", 0}, {NULL, 0},
};

const struct option_word sort_options[] = {
    [SORT_ASC] = {"ASC", 0},     [SORT_DESC] = {"DESC", 0},
    [SORT_ALPHA] = {"ALPHA", 0}, [SORT_LIMIT] = {"LIMIT", 2},
    [SORT_STORE] = {"STORE", 1}, [SORT_BY] = {"BY", 1},
    [SORT_GET] = {"GET", 1},     {NULL, 0},
};

const struct option_word radius_options[] = {
    [RADIUS_WITHDIST] = {"WITHDIST", 0},
    [RADIUS_WITHHASH] = {"WITHHASH", 0},
    [RADIUS_WITHCOORD] = {"WITHCOORD", 0},
    [RADIUS_ANY] = {"ANY", 0},
    [RADIUS_ASC] = {"ASC", 0},
    [RADIUS_DESC] = {"DESC", 0},
    [RADIUS_COUNT] = {"COUNT", 1},
    [RADIUS_STORE] = {"STORE", 1},
    [RADIUS_STOREDIST] = {"STOREDIST", 1},
    {NULL, 0},
};

const struct option_word set_options[] = {
    [SET_OPTION_NX] = {"NX", 0},           [SET_OPTION_XX] = {"XX", 0},
    [SET_OPTION_GET] = {"GET", 0},         [SET_OPTION_KEEPTTL] = {"KEEPTTL", 0},
    [SET_OPTION_PERSIST] = {"PERSIST", 0}, [SET_OPTION_EX] = {"EX", 1},
    [SET_OPTION_PX] = {"PX", 1},           [SET_OPTION_EXAT] = {"EXAT", 1},
    [SET_OPTION_PXAT] = {"PXAT", 1},       [SET_OPTION_IFEQ] = {"IFEQ", 1},
    [SET_OPTION_IFNE] = {"IFNE", 1},       [SET_OPTION_IFDEQ] = {"IFDEQ", 1},
    [SET_OPTION_IFDNE] = {"IFDNE", 1},     {NULL, 0},
};

const struct option_word bitfield_words[] = {
    [BITFIELD_GET] = {"GET", 2},
    [BITFIELD_SET] = {"SET", 3},
    [BITFIELD_INCRBY] = {"INCRBY", 3},
    [BITFIELD_OVERFLOW] = {"OVERFLOW", 1},
    {NULL, 0},
};

static const struct option_word add_options[] = {
    [ADD_NX] = {"NX", 0},
    [ADD_XX] = {"XX", 0},
    [ADD_GT] = {"GT", 0},
    [ADD_LT] = {"LT", 0},
    [ADD_CH] = {"CH", 0},
    [ADD_INCR] = {"INCR", 0},
    {NULL, 0},
};

int option_next(const struct option_word *list, const struct bytes *argv, uint32_t argc,
                uint32_t *at)
{
    for (int i = 0; list[i].word; i++) {
        if (!bytes_is(argv[*at], list[i].word))
            continue;
        if (list[i].values > argc - *at - 1)
            return NO_OPTION;
        *at += 1 + list[i].values;
        return i;
    }
    return NO_OPTION;
}

bool streams_begin(const struct bytes *argv, uint32_t argc, uint32_t at,
                   struct stream_arguments *found)
{
    uint32_t words = argc - at - 1;
    if (!words || !bytes_is(argv[at], "STREAMS"))
        return false;
    found->streams_at = at + 1;
    found->count = words % 2 ? 0 : words / 2;
    return true;
}

bool stream_arguments_find(const struct bytes *argv, uint32_t argc, struct stream_arguments *found)
{
    *found = (struct stream_arguments){0};
    for (uint32_t at = 1; at < argc;) {
        if (streams_begin(argv, argc, at, found))
            return found->count > 0;
        int option = option_next(stream_options, argv, argc, &at);
        if (option == NO_OPTION)
            return false;
        if (option == STREAM_BLOCK)
            found->block_at = at - 1;
    }
    return false;
}

const char *sort_pattern_star(struct bytes pattern)
{
    return memchr(pattern.data, '*', strnlen(pattern.data, pattern.len));
}

bool sort_arguments_find(const struct bytes *argv, uint32_t argc, struct sort_arguments *found)
{
    *found = (struct sort_arguments){0};
    for (uint32_t at = 2; at < argc;) {
        int option = option_next(sort_options, argv, argc, &at);
        if (option == NO_OPTION)
            return false;
        if (option == SORT_STORE)
            found->store_at = at - 1;
        if (option == SORT_BY || option == SORT_GET)
            found->reads_others |= sort_pattern_star(argv[at - 1]) != NULL;
    }
    return true;
}

bool radius_arguments_find(const struct bytes *argv, uint32_t argc, uint32_t first,
                           uint32_t *store_at)
{
    *store_at = 0;
    for (uint32_t at = first; at < argc;) {
        int option = option_next(radius_options, argv, argc, &at);
        if (option == NO_OPTION)
            return false;
        if (option == RADIUS_STORE || option == RADIUS_STOREDIST)
            *store_at = at - 1;
    }
    return true;
}

bool set_reads_value(const struct bytes *argv, uint32_t argc)
{
    for (uint32_t at = 3; at < argc;) {
        int option = option_next(set_options, argv, argc, &at);
        if (option == NO_OPTION)
            break;
        if (option == SET_OPTION_GET || option >= SET_OPTION_IFEQ)
            return true;
    }
    return false;
}

bool bitfield_only_reads(const struct bytes *argv, uint32_t argc)
{
    for (uint32_t at = 2; at < argc;) {
        int word = option_next(bitfield_words, argv, argc, &at);
        if (word == BITFIELD_SET || word == BITFIELD_INCRBY || word == NO_OPTION)
            return false;
    }
    return true;
}

uint32_t add_arguments_find(const struct bytes *argv, uint32_t argc, uint32_t *given)
{
    uint32_t at = 2;
    *given = 0;
    while (at < argc) {
        int option = option_next(add_options, argv, argc, &at);
        if (option == NO_OPTION)
            break;
        *given |= 1U << option;
    }
    return at;
}

const struct key_spec *counted_keys_spec(const struct command *command)
{
    for (int i = 0; i < KEY_SPECS_MAX && command->keys[i].begin != KEY_BEGIN_NONE; i++)
        if (command->keys[i].find == KEY_FIND_KEYNUM)
            return &command->keys[i];
    return NULL;
}

/* The fewest arguments that the arity allows have the fewest keys: what is left are words that must follow the keys. */
static uint32_t words_behind_keys(const struct command *command, const struct key_spec *spec,
                                  uint32_t fewest)
{
    return command->made.args_min - (uint32_t)(spec->at + spec->first) -
           fewest * (uint32_t)spec->step;
}

enum counted_refusal counted_keys_find(const struct command *command, const struct bytes *argv,
                                       uint32_t argc, struct counted_keys *found)
{
    const struct key_spec *spec = counted_keys_spec(command);
    uint32_t fewest = command->flags & CMD_NO_MANDATORY_KEYS ? 0 : 1;
    uint32_t first = (uint32_t)(spec->at + spec->first);
    uint32_t room = argc - first - words_behind_keys(command, spec, fewest);
    if (!number_parse_int64(argv[spec->at + spec->number_at], &found->number))
        return COUNTED_NO_NUMBER;
    if (found->number < fewest)
        return COUNTED_TOO_SMALL;
    if (found->number > room / (uint32_t)spec->step)
        return COUNTED_TOO_LARGE;
    found->first = first;
    found->count = (uint32_t)found->number;
    found->behind = first + found->count * (uint32_t)spec->step;
    return COUNTED_OK;
}
