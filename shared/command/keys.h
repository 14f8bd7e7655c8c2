/*
 * keys.h - which arguments of a request are keys, and how the command uses each.
 *
 *   keys_first(row, argc)  > 0: argument index of the only key   hot path: two loads and a compare
 *                          = 0: the command has no keys
 *                          < 0: call keys_find()
 *   keys_find(row, argv)   the keys that the command uses, found as its handler finds them (arguments.h)
 *   keys_report(row, argv) the keys that COMMAND GETKEYS of Redis 7.0 replies
 *
 * Channels (specs with KEY_NOT_KEY) are not keys and are skipped.
 */
#pragma once

#include "shared/command/command.h"

enum {
    KEYS_SEARCH = -1,  /* from keys_first(): use keys_find() */
    KEYS_INVALID = -1, /* from keys_find(): the arguments are invalid for this command */
    KEYS_INLINE = 16,
};

struct key_ref {
    uint32_t index; /* argument index */
    uint16_t flags; /* enum key_flags */
    uint16_t spec;  /* index of the spec that found the key; 0 for a special rule */
};

/* True when the command changes or removes the key. */
static inline bool key_is_written(const struct key_ref *ref)
{
    return ref->flags & (KEY_RW | KEY_OW | KEY_RM);
}

/* A reusable list: keys_find() empties it first; it allocates only for more than KEYS_INLINE keys. */
struct key_list {
    uint32_t count;
    uint32_t cap;
    /* `count` keys in the order in which Redis reports them; inline_refs or heap */
    struct key_ref *refs;
    struct key_ref inline_refs[KEYS_INLINE];
};

/* Do not copy or move a list by value: refs may point into it. */
void keys_list_init(struct key_list *list);
void keys_list_fini(struct key_list *list);

/* Finds the keys. A request that the handler refuses for its syntax has at most the keys that the handler opens before.
 * Returns 0 (also without keys: count 0), or KEYS_INVALID with an empty list. The arity must have been checked. */
int keys_find(const struct command *command, const struct bytes *argv, uint32_t argc,
              struct key_list *list);

/* Finds the keys as COMMAND GETKEYS of Redis 7.0 does, which guesses in unusual requests (GEORADIUS with two STOREs, XREAD
 * with an odd number of words behind STREAMS, ZUNION 2x). KEYS_INVALID: COMMAND GETKEYS replies "Invalid arguments
 * specified for command". */
int keys_report(const struct command *command, const struct bytes *argv, uint32_t argc,
                struct key_list *list);

/* Has the last of the keys that keys_find found no value, as in MSET a 1 b? Then the handler refuses the request before it opens a key. */
bool keys_lack_value(const struct command *command, const struct key_list *keys, uint32_t argc);

/* Index of the argument with the number of keys that follow it; 0: the command has none. */
uint32_t keys_number_at(const struct command *command);

/* Can requests of this command have keys? */
bool keys_possible(const struct command *command);

/* The argument index of the only key, 0 for no keys, KEYS_SEARCH when there may be several or they must be searched.
 * DEL k, MGET k, MSET k v have one key and take this path too. The arity must have been checked. */
static inline int32_t keys_first(const struct command *command, uint32_t argc)
{
    return argc <= command->made.key_argc_max ? command->made.key_at : KEYS_SEARCH;
}

/* Fills key_at, key_argc_max and has_sources; part of command_init(). */
void keys_init_fast_path(struct command *command);
