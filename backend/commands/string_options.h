/*
 * string_options.h - options of the commands that set strings: conditions and times to live.
 */
#pragma once

#include "backend/keyspace/keyspace.h"
#include "shared/command/arguments.h"

enum set_flag {
    SET_NX = 1 << SET_OPTION_NX,
    SET_XX = 1 << SET_OPTION_XX,
    SET_GET = 1 << SET_OPTION_GET,
    SET_KEEPTTL = 1 << SET_OPTION_KEEPTTL,
    SET_PERSIST = 1 << SET_OPTION_PERSIST,
    SET_EX = 1 << SET_OPTION_EX,
    SET_PX = 1 << SET_OPTION_PX,
    SET_EXAT = 1 << SET_OPTION_EXAT,
    SET_PXAT = 1 << SET_OPTION_PXAT,
    SET_IFEQ = 1 << SET_OPTION_IFEQ,
    SET_IFNE = 1 << SET_OPTION_IFNE,
    SET_IFDEQ = 1 << SET_OPTION_IFDEQ,
    SET_IFDNE = 1 << SET_OPTION_IFDNE,
    SET_EXPIRES = SET_EX | SET_PX | SET_EXAT | SET_PXAT,
    SET_COMPARES = SET_IFEQ | SET_IFNE | SET_IFDEQ | SET_IFDNE,
    /* one of each of these at most */
    SET_CONDITIONS = SET_NX | SET_XX | SET_COMPARES,
    SET_TIMES = SET_KEEPTTL | SET_PERSIST | SET_EXPIRES,
};

/* The options that a command has. */
enum {
    OPTIONS_OF_SET = SET_CONDITIONS | SET_GET | SET_KEEPTTL | SET_EXPIRES,
    OPTIONS_OF_GETEX = SET_PERSIST | SET_EXPIRES,
    OPTIONS_OF_MSETEX = SET_NX | SET_XX | SET_KEEPTTL | SET_EXPIRES,
    OPTIONS_OF_CAS = SET_EXPIRES,
};

struct set_options {
    unsigned flags;
    uint32_t expire_at;  /* argument of EX, PX, EXAT, PXAT; 0: none */
    uint32_t compare_at; /* argument of IFEQ, IFNE, IFDEQ, IFDNE; 0: none */
};

/* Parses the option at *index, if it is one of `allowed`; *index becomes its last argument. 1: parsed, 0: no such option, or its value is
 * missing, -1: an error was replied. */
int set_option_parse(struct call *call, uint32_t *index, unsigned allowed,
                     struct set_options *options);
/* Parses options from argument `from` on; false: an error was replied. */
bool set_options_parse(struct call *call, uint32_t from, unsigned allowed,
                       struct set_options *options);
/* The absolute time of the expiry options in ms, 0 without one. False: Redis' error for an invalid time was replied. */
bool set_options_expiry(struct call *call, const struct set_options *options, uint64_t *expire_ms);
/* As set_options_expiry for the argument of one option. */
bool expire_argument(struct call *call, uint32_t index, unsigned flag, uint64_t *expire_ms);

/* Does the condition of the options hold for the key? Conditions that compare need an entry that is a string or missing.
 * False: the store failed, or the digest has not 16 characters, and an error was replied. */
bool set_condition(struct call *call, struct entry *entry, const struct set_options *options,
                   bool *holds);
/* Is the value of the string equal to `value`? False: the store failed. */
bool string_equals(struct call *call, struct entry *entry, struct bytes value, bool *equal);
/* XXH3 of the value. False: the store failed. */
bool string_digest(struct call *call, struct entry *entry, uint64_t *digest);
/* Reads the value if it is short enough to be a number, otherwise *text is not a number. False: the store failed. */
bool string_number_text(struct call *call, struct entry *entry, struct bytes *text);
/* Replies the value, or null when the key does not exist. False: the store failed. */
bool string_reply(struct call *call, struct entry *entry);
/* Sets the key and notifies; expire_ms 0: no TTL. */
void string_set(struct call *call, struct entry *entry, struct bytes value, uint64_t expire_ms);
