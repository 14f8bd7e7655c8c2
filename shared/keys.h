/*
 * keys.h - which arguments of a request are keys, and what the command does to each.
 *
 *   keys_first(row, argc)  > 0: the one key's argument   hot path, two loads and a compare
 *                          = 0: the command has no keys
 *                          < 0: ask keys_find()
 *   keys_find(row, argv)   all that the command opens, by the row's key specs and special rules
 *   keys_report(row, argv) those that COMMAND GETKEYS of Redis 7.0 replies
 *
 * Channels (specs with KEY_NOT_KEY) are not keys: a namespace does not rename them here.
 */
#pragma once

#include "shared/command.h"

enum {
    KEYS_SEARCH = -1,  /* from keys_first(): use keys_find() */
    KEYS_INVALID = -1, /* from keys_find(): the arguments make no sense for this command */
    KEYS_INLINE = 16,
};

struct key_ref {
    uint32_t index; /* of the argument */
    uint16_t flags; /* enum key_flags */
    uint16_t spec;  /* the row's spec that found it; 0 when a special rule did */
};

/* A list for reuse: keys_find() empties it first, and it grows only beyond KEYS_INLINE keys. */
struct key_list {
    uint32_t count;
    uint32_t cap;
    struct key_ref *refs; /* `count` in the order Redis reports them; inline_refs or heap */
    struct key_ref inline_refs[KEYS_INLINE];
};

/* Do not copy or move a list by value: refs may point into it. */
void keys_list_init(struct key_list *list);
void keys_list_fini(struct key_list *list);

/* Finds the keys. Returns 0 (a command without keys, or EVAL ... 0: count 0), or KEYS_INVALID, which
 * COMMAND GETKEYS words "Invalid arguments specified for command"; then the list is empty.
 * The arity must be right. */
int keys_find(const struct command *command, const struct bytes *argv, uint32_t argc,
              struct key_list *list);

/* Likewise, but as COMMAND GETKEYS of Redis 7.0 does, which may miss keys of absurd requests (GEORADIUS with two
 * STOREs). */
int keys_report(const struct command *command, const struct bytes *argv, uint32_t argc,
                struct key_list *list);

/* True when the command can have keys at all. */
bool keys_possible(const struct command *command);

/* The argument of the only key, 0 for no keys, KEYS_SEARCH when there may be several or they must be searched.
 * DEL k, MGET k, MSET k v have one key and take this path too. The arity must be right. */
static inline int32_t keys_first(const struct command *command, uint32_t argc)
{
    return argc <= command->key_argc_max ? command->key_at : KEYS_SEARCH;
}

/* Fills key_at and key_argc_max; part of command_init(). */
void keys_init_fast_path(struct command *command);
