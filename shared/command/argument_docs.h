/*
 * argument_docs.h - the arguments of every command, as COMMAND DOCS shows them: clients make hints and checks of them.
 *
 *   SET key value [NX | XX] [GET] [EX seconds | … | KEEPTTL]
 *       │   │     └───┬───┘  └ a word of its own: ARGUMENT_TOKEN
 *       │   │         └ ARGUMENT_ONE_OF with two parts; optional
 *       └───┴ ARGUMENT_KEY, ARGUMENT_STRING
 *
 * This is documentation: what a command accepts is decided by its handler, and where its keys are by key specs.
 */
#pragma once

#include "shared/command/command.h"
#include "shared/reply.h"

enum argument_type {
    ARGUMENT_STRING,
    ARGUMENT_INTEGER,
    ARGUMENT_DOUBLE,
    ARGUMENT_KEY,
    ARGUMENT_PATTERN,
    ARGUMENT_UNIX_TIME, /* in seconds or milliseconds */
    ARGUMENT_TOKEN,     /* the word `token` */
    ARGUMENT_ONE_OF,    /* one of `parts` */
    ARGUMENT_BLOCK,     /* all `parts`, one after the other */
};

struct argument {
    const char *name; /* NULL: the end of a list */
    enum argument_type type;
    const char *token;    /* the word before the value; NULL: none */
    uint32_t key_spec;    /* index of the command's key spec; of keys and of patterns for keys */
    bool is_optional;     /* shown as [argument] */
    bool is_repeated;     /* there may be several */
    bool repeats_token;   /* the token precedes each of several values, not only the first */
    const char *since;    /* version that introduced it; NULL: that of its command */
    const char *outdated; /* version that replaced it by another; NULL: it is current */
    const struct argument *parts; /* of ARGUMENT_ONE_OF and ARGUMENT_BLOCK */
};

/* The command's arguments behind its name; the last element has no name. NULL: it has none. */
const struct argument *argument_docs_of(enum command_id id);
/* Writes the arguments as in COMMAND DOCS: an array of maps. */
void argument_docs_reply(struct reply *reply, const struct argument *arguments);
