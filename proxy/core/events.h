/*
 * events.h - the proxy's latest events: reloads, new maps, lost and restored connections to shards.
 *
 *   any thread ──events_note──► ring of the newest EVENTS_MAX, under a mutex ──events_copy──► status page
 *
 * Events with the same kind and subject are counted in one entry, because every worker loses its connections to a shard
 * that dies. An event of another kind for the subject, or EVENT_APART_MS without one, begins a new entry.
 */
#pragma once

#include "shared/bytes.h"

enum { EVENTS_MAX = 100, EVENT_SUBJECT_MAX = 80, EVENT_TEXT_MAX = 240, EVENT_APART_MS = 10000 };

enum event_kind {
    EVENT_STARTED,
    EVENT_RELOADED,
    EVENT_RELOAD_REFUSED,
    EVENT_MAP_CHANGED,
    EVENT_ROUTES_LEARNED,
    EVENT_LEADER_FOUND,
    EVENT_SHARD_DOWN,
    EVENT_SHARD_UP,
    EVENT_MEMORY_FULL,
    EVENT_STOPPING,
};

struct event {
    enum event_kind kind;
    uint32_t count;
    uint64_t id;       /* 1, 2, … in the order of first occurrence */
    uint64_t first_ms; /* wall clock */
    uint64_t last_ms;
    char subject[EVENT_SUBJECT_MAX]; /* name of the shard; empty: the proxy */
    char text[EVENT_TEXT_MAX];       /* of the last occurrence; longer texts are cut */
};

struct events;

struct events *events_new(void);
void events_free(struct events *events);
/* Notes an event. Any thread; `now_ms` is wall clock. */
void events_note(struct events *events, enum event_kind kind, uint64_t now_ms, const char *subject,
                 const char *text);
/* Notes EVENT_STARTED with the version of the program. */
void events_note_start(struct events *events, uint64_t now_ms);
/* Copies the events, newest first; returns their number. */
uint32_t events_copy(struct events *events, struct event to[EVENTS_MAX]);
/* "shard-down" and the like. */
const char *event_kind_name(enum event_kind kind);
