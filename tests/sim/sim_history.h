/*
 * sim_history.h - requests and replies of all clients, and whether a single database could have given these replies.
 *
 * An operation is what one atomic request (a command, a MULTI block, a shard's part of an MSET) does to one key, in
 * steps. An answered operation took place at one moment between `begin` and `end`; an unanswered one at some moment
 * after `begin`, or never. A history is valid when the operations of every key can be put into an order that
 *   (1) keeps the order of operations that did not overlap in time (so no acknowledged write is lost, and no value
 *       that was read is rolled back),
 *   (2) keeps the order of a connection's answered requests,
 *   (3) explains every reply, including expired keys.
 * Every value is a number that is written only once. If a client has read one, its whole group (MULTI block) took
 * place: the effects of an unanswered group are all there, or none.
 */
#pragma once

#include "shared/bytes.h"

#include <stdio.h>

enum { HISTORY_FIELDS = 4, HISTORY_STEPS_MAX = 4, HISTORY_KEY_TEXT = 40, VALUE_TEXT_MAX = 6000 };

static const uint64_t HISTORY_NEVER = UINT64_MAX;

enum step_kind {
    STEP_SET,
    STEP_GET,
    STEP_DEL,
    STEP_EXISTS,
    STEP_INCR,
    STEP_EXPIRE,
    STEP_HSET,
    STEP_HGET,
    STEP_HGETALL,
    STEP_NOTHING, /* the command failed and has no effects */
};

struct step {
    enum step_kind kind;
    bool has_result;                 /* false: the reply is a sum over several steps */
    uint8_t fields;                  /* HSET, HGET: one bit for each field */
    int64_t number;                  /* SET: the value; GET, INCR: the reply, 0 = null */
    int64_t result;                  /* DEL, EXISTS, EXPIRE: 0 or 1; HSET: new fields */
    uint64_t ttl_ms;                 /* SET: 0 = none; EXPIRE */
    uint32_t values[HISTORY_FIELDS]; /* HSET: written; HGET, HGETALL: read; 0 = null */
};

struct operation {
    uint32_t key;
    uint32_t connection;
    uint32_t group;
    bool is_sent;
    bool is_answered;
    bool is_certain; /* unanswered, but a client has read a value of its group */
    uint64_t begin;  /* the history's clock */
    uint64_t end;
    uint64_t begin_ms; /* wall clock */
    uint64_t end_ms;
    unsigned step_count;
    struct step steps[HISTORY_STEPS_MAX];
};

/* The operation that wrote a value. */
struct written {
    uint32_t operation;
    uint8_t field;
};

struct history {
    struct operation *operations;
    size_t count;
    size_t cap;
    struct written *written; /* by value; entry 0 is unused */
    size_t written_count;
    size_t written_cap;
    char (*keys)[HISTORY_KEY_TEXT];
    size_t key_count;
    uint64_t clock;
    uint32_t groups;
    size_t undecided; /* keys whose search was given up */
};

void history_init(struct history *history);
void history_fini(struct history *history);
/* Adds a key with a name for the trace; returns its number. */
uint32_t history_add_key(struct history *history, const char *text);
/* Adds an operation that is not sent yet; pointers are valid until the next one. */
uint32_t history_begin(struct history *history, uint32_t key, uint32_t connection, uint32_t group);
struct operation *history_operation(struct history *history, uint32_t index);
/* Adds a step to the operation; NULL: it has as many as it may have. */
struct step *history_step(struct history *history, uint32_t index, enum step_kind kind);
/* A new value, written by the operation (to the field). */
uint32_t history_value(struct history *history, uint32_t index, uint8_t field);
void history_sent(struct history *history, uint32_t index, uint64_t now_ms);
void history_answered(struct history *history, uint32_t index, uint64_t now_ms);

/* The bytes of a value, whose length depends on the value. Returns the length. */
size_t value_format(uint32_t value, char text[VALUE_TEXT_MAX]);
/* False: the bytes are no value. */
bool value_parse(struct bytes text, uint32_t *value);
/* May a client read this value from this key and field? False: the reason, as a line in why[size]. */
bool history_may_read(const struct history *history, uint32_t key, unsigned field, uint32_t value,
                      char *why, size_t size);

/* False: the replies contradict each other; the reason is a line in why[size]. */
bool history_check(struct history *history, char *why, size_t size);
/* Prints the operations of a key. */
void history_print(const struct history *history, uint32_t key, FILE *to);
