/*
 * sim_history.h - what clients asked and were told, and whether one database can have told it.
 *
 * An operation is what one atomic request (a command, a MULTI block, a shard's share of an MSET) does to
 * one key, in steps. It happened at one moment between `begin` and `end`; one without an answer happened at
 * some moment after `begin`, or never. A history holds when the operations of every key can be put into an
 * order that
 *   (1) keeps those apart that did not overlap in time (so an acknowledged write is never lost, and nothing
 *       that was read is rolled back),
 *   (2) keeps the order of one connection's answered requests,
 *   (3) explains every answer, expiry included.
 * Every written value is a number that is written once. If anybody has read one, its whole group (MULTI
 * block) has happened: an unanswered group is there as a whole or not at all.
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
    STEP_NOTHING, /* the command failed, and so has no effects */
};

struct step {
    enum step_kind kind;
    bool has_result;                 /* false: answered as part of a sum */
    uint8_t fields;                  /* HSET, HGET: a bit for each field */
    int64_t number;                  /* SET: the value; GET, INCR: what came back, 0 = nothing */
    int64_t result;                  /* DEL, EXISTS, EXPIRE: 0 or 1; HSET: new fields */
    uint64_t ttl_ms;                 /* SET: 0 = none; EXPIRE */
    uint32_t values[HISTORY_FIELDS]; /* HSET: written; HGET, HGETALL: read; 0 = nothing */
};

struct operation {
    uint32_t key;
    uint32_t connection;
    uint32_t group;
    bool is_sent;
    bool is_answered;
    bool is_certain; /* not answered, but somebody has read what its group wrote */
    uint64_t begin;  /* the history's clock */
    uint64_t end;
    uint64_t begin_ms; /* wall clock */
    uint64_t end_ms;
    unsigned step_count;
    struct step steps[HISTORY_STEPS_MAX];
};

/* Who wrote a value. */
struct written {
    uint32_t operation;
    uint8_t field;
};

struct history {
    struct operation *operations;
    size_t count;
    size_t cap;
    struct written *written; /* by value; 0 is nobody's */
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
/* A key by a name for people; returns its number. */
uint32_t history_add_key(struct history *history, const char *text);
/* An operation that is not sent yet; pointers are good until the next one. */
uint32_t history_begin(struct history *history, uint32_t key, uint32_t connection, uint32_t group);
struct operation *history_operation(struct history *history, uint32_t index);
/* One more step of it; NULL: it has as many as there may be. */
struct step *history_step(struct history *history, uint32_t index, enum step_kind kind);
/* A new value, which the operation writes (to the field). */
uint32_t history_value(struct history *history, uint32_t index, uint8_t field);
void history_sent(struct history *history, uint32_t index, uint64_t now_ms);
void history_answered(struct history *history, uint32_t index, uint64_t now_ms);

/* A value's bytes; it has a length of its own. Returns the length. */
size_t value_format(uint32_t value, char text[VALUE_TEXT_MAX]);
/* False: these are the bytes of no value. */
bool value_parse(struct bytes text, uint32_t *value);
/* May a client read this value there? False: a line in why[size]. */
bool history_may_read(const struct history *history, uint32_t key, unsigned field, uint32_t value,
                      char *why, size_t size);

/* False: the answers contradict each other; a line in why[size]. */
bool history_check(struct history *history, char *why, size_t size);
/* Prints the operations of a key. */
void history_print(const struct history *history, uint32_t key, FILE *to);
