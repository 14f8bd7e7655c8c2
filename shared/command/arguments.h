/*
 * arguments.h - where the options of a command stand that has keys behind options.
 *
 *   handler of the command ──┐
 *   keys_find(): users,      │
 *   routing, locks ──────────┼──► one function for each syntax ──► positions; or false: the command refuses the request
 *   the proxy: waits, parts ─┘
 *
 * All of these act upon the positions. With a parser of their own, one of them would read an unusual request in another
 * way than the handler (a group named STREAMS, BLOCK given twice): it would check, lock or send another key than the
 * command uses. Only the syntax is checked here; the handler checks the values.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/command/command.h"

/* An option of a command: a word, and the number of values that follow it. The last row of a list has no word. */
struct option_word {
    const char *word;
    uint32_t values;
};

enum { NO_OPTION = -1 };

/* The row of the option at argv[*at]. Sets *at to the argument behind the option's values. NO_OPTION: it is none of the
 * list, or values are missing; *at is unchanged. */
int option_next(const struct option_word *list, const struct bytes *argv, uint32_t argc,
                uint32_t *at);

/* ---- XREAD, XREADGROUP ---- */

enum stream_option {
    STREAM_BLOCK,
    STREAM_COUNT,
    STREAM_GROUP,
    STREAM_CLAIM,
    STREAM_NOACK,
};
extern const struct option_word stream_options[];

struct stream_arguments {
    uint32_t block_at;   /* the value of the last BLOCK; 0: the command does not wait */
    uint32_t streams_at; /* the first stream; 0: there is no STREAMS */
    uint32_t count;      /* number of streams: the ids begin at streams_at + count */
};

/* STREAMS at argv[at] takes all arguments behind it, half of them as streams. False: it is not STREAMS, or nothing follows it;
 * an odd number of arguments sets the count to 0. */
bool streams_begin(const struct bytes *argv, uint32_t argc, uint32_t at,
                   struct stream_arguments *found);

/* False: the command refuses the request. */
bool stream_arguments_find(const struct bytes *argv, uint32_t argc, struct stream_arguments *found);

/* ---- SORT ---- */

enum sort_option { SORT_ASC, SORT_DESC, SORT_ALPHA, SORT_LIMIT, SORT_STORE, SORT_BY, SORT_GET };
extern const struct option_word sort_options[];

struct sort_arguments {
    uint32_t store_at; /* the destination of the last STORE; 0: none */
    /* BY or GET name keys by the elements: only the shard can find them */
    bool reads_others;
};

/* Where an element is put into a pattern of BY or GET; NULL: the pattern names no key. As in Redis, it ends with its first zero byte. */
const char *sort_pattern_star(struct bytes pattern);

/* False: the command refuses the request. */
bool sort_arguments_find(const struct bytes *argv, uint32_t argc, struct sort_arguments *found);

/* ---- GEORADIUS, GEORADIUSBYMEMBER ---- */

enum radius_option {
    RADIUS_WITHDIST,
    RADIUS_WITHHASH,
    RADIUS_WITHCOORD,
    RADIUS_ANY,
    RADIUS_ASC,
    RADIUS_DESC,
    RADIUS_COUNT,
    RADIUS_STORE,
    RADIUS_STOREDIST,
};
extern const struct option_word radius_options[];

/* *store_at: the destination, which is that of the last STORE or STOREDIST; 0: none. The options begin at argv[first].
 * False: the command refuses the request. */
bool radius_arguments_find(const struct bytes *argv, uint32_t argc, uint32_t first,
                           uint32_t *store_at);

/* ---- SET and commands with some of its options ---- */

enum set_option {
    SET_OPTION_NX,
    SET_OPTION_XX,
    SET_OPTION_GET,
    SET_OPTION_KEEPTTL,
    SET_OPTION_PERSIST,
    SET_OPTION_EX,
    SET_OPTION_PX,
    SET_OPTION_EXAT,
    SET_OPTION_PXAT,
    SET_OPTION_IFEQ,
    SET_OPTION_IFNE,
    SET_OPTION_IFDEQ,
    SET_OPTION_IFDNE,
};
extern const struct option_word set_options[];

/* Does SET read the old value? Words from the first one on that it refuses do not count. */
bool set_reads_value(const struct bytes *argv, uint32_t argc);

/* ---- BITFIELD ---- */

enum bitfield_word { BITFIELD_GET, BITFIELD_SET, BITFIELD_INCRBY, BITFIELD_OVERFLOW };
/* The words of BITFIELD that begin an operation, and OVERFLOW. */
extern const struct option_word bitfield_words[];

/* Are all words those of GET and OVERFLOW? */
bool bitfield_only_reads(const struct bytes *argv, uint32_t argc);

/* ---- ZADD ---- */

enum add_option { ADD_NX, ADD_XX, ADD_GT, ADD_LT, ADD_CH, ADD_INCR };

/* The position of the first score; `argc`: none. Adds 1 << enum add_option of each option to *given. */
uint32_t add_arguments_find(const struct bytes *argv, uint32_t argc, uint32_t *given);

/* ---- a number of keys, and the keys: ZUNION 2 a b, LMPOP 1 l LEFT, MSETEX 1 k v, EVAL s 0 ---- */

/* Why a command refuses its number of keys. */
enum counted_refusal {
    COUNTED_OK,
    COUNTED_NO_NUMBER, /* it is no integer */
    COUNTED_TOO_SMALL, /* less than 1; of scripts, less than 0 */
    COUNTED_TOO_LARGE, /* too few arguments follow for the keys, their values, and a word such as LEFT of LMPOP */
};

struct counted_keys {
    int64_t number;  /* as it is written; not for COUNTED_NO_NUMBER */
    uint32_t first;  /* the first key */
    uint32_t count;  /* number of keys */
    uint32_t behind; /* the first argument behind the keys and their values; may be argc */
};

/* The key spec of the keys that are counted; NULL: the command has none. */
const struct key_spec *counted_keys_spec(const struct command *command);

/* Finds the keys of a command that has such a spec. Its arity must have been checked. Unless COUNTED_OK, only the number is set. */
enum counted_refusal counted_keys_find(const struct command *command, const struct bytes *argv,
                                       uint32_t argc, struct counted_keys *found);
