/*
 * waiters.h - waiting commands by key, in the order of their arrival, and by deadline. blocking.h has the commands.
 *
 *   table: space | key ─► awaited ─► wait ─► wait       (awaited->waits, oldest first)
 *                            │         │       │
 *   ready ─► awaited ─► …    │      waiter   waiter      (waiter->waits: one per different key)
 *                                      │
 *   heap by due time ──────────────────┘  one loop timer, set to the first
 *
 * (1) A struct awaited exists while its key has waiters or is being served.
 * (2) A change of a key only puts it into `ready`. Its waiters are served between two top-level commands
 *     (blocking_serve).
 * (3) Waiters of a proxy's connection with too many unsent bytes are skipped; their keys are in `stalled` then.
 */
#pragma once

#include "backend/format/encoding.h"
#include "shared/bytes.h"
#include "shared/command/command.h"
#include "shared/list.h"
#include "shared/table.h"

struct partition;
struct session;
struct space;
struct timer;
struct wait_origin;

/* A key with waiters. */
struct awaited {
    struct space *space;
    struct list waits; /* of struct wait, by key_link */
    struct list ready; /* in blocking_set.ready or stalled */
    uint32_t groups;   /* number of XREADGROUP waiters, which are served when the key is deleted */
    bool is_serving;
    bool is_stalled;
    size_t key_len;
    char key[];
};

/* One waiter and one of its keys. */
struct wait {
    struct list key_link;
    struct list waiter_link;
    struct awaited *awaited;
    struct waiter *waiter;
};

enum waiter_end { END_NONE, END_TIMEOUT, END_ERROR, END_COUNTED };

/* A waiting client; the bytes of its arguments follow argv in the same allocation. */
struct waiter {
    struct session *session;
    uint64_t id; /* number of a wait of a proxy's connection; 0: the session itself waits */
    struct wait_origin *origin; /* namespace, database and protocol of the proxy's client */
    const struct command *command;
    enum command_group group; /* the key must have the type of this group's commands */
    struct list waits;
    uint64_t deadline_ms; /* monotonic; 0 = none */
    uint64_t again_ms;    /* when its command runs again although no key changed; 0 = never */
    uint64_t due_ms;      /* the earlier of both; 0: it is not in the heap */
    uint32_t place;       /* index in the heap */
    uint64_t observed;    /* newest ticket that its last run observed */
    bool is_kept;         /* its command ran again and waits again */
    uint8_t end;          /* enum waiter_end, while in blocking_set.ending */
    struct list ending;
    struct list counting; /* in blocking_set.counting: it waits for copies */
    uint64_t index;       /* … that have the record; 0: it waits for keys */
    int64_t copies;       /* so many of them */
    size_t bytes;         /* memory of the waiter */
    uint32_t argc;
    struct bytes argv[];
};

struct blocking_set {
    struct partition *partition;
    struct table *keys;
    struct list ready; /* of struct awaited, in the order they became ready */
    struct list stalled;
    struct list ending;     /* waiters to unblock after the running command */
    struct list counting;   /* waiters for copies */
    struct waiter *serving; /* waiter whose command runs again; NULL: none */
    uint32_t clients;
    struct waiter **heap; /* by due_ms, the earliest first */
    uint32_t heap_count;
    uint32_t heap_cap;
    struct timer *timer;
    void (*resume)(struct blocking_set *set); /* blocking_resume() */
};

/* ---- a key changed. Cheap when no client waits. ---- */

void waiters_key_written(struct blocking_set *set, const struct space *space, struct bytes key,
                         enum type type);
/* True when a client waits for the key. */
bool waiters_concern(struct blocking_set *set, const struct space *space, struct bytes key);
void waiters_key_deleted(struct blocking_set *set, const struct space *space, struct bytes key);
/* Every key of the storage namespace was deleted. */
void waiters_space_flushed(struct blocking_set *set, const struct space *space);
/* Calls blocking_resume(), which lies above the callers of this function. */
void waiters_resume(struct blocking_set *set);

/* ---- for blocking.c ---- */

struct bytes awaited_key(const struct awaited *awaited);
/* NULL: no client waits for the key. */
struct awaited *awaited_get(struct blocking_set *set, const struct space *space, struct bytes key);
struct awaited *awaited_add(struct blocking_set *set, struct space *space, struct bytes key);
/* Puts the key into the table, under its space. */
void awaited_index(struct blocking_set *set, struct awaited *awaited);
/* Frees the key if it has no waiters and is not being served. */
void awaited_free_if_unused(struct blocking_set *set, struct awaited *awaited);
/* Puts the key into `ready`, unless it is there or is being served. */
void awaited_make_ready(struct blocking_set *set, struct awaited *awaited);

/* To be called when deadline_ms or again_ms of a waiter has changed: moves it to its new place in the heap of deadlines. */
void waiter_schedule(struct blocking_set *set, struct waiter *waiter);
/* Takes a waiter with a due time out of the heap. */
void waiter_unschedule(struct blocking_set *set, struct waiter *waiter);
/* The command waits on at another shard: its timeout becomes what is left, a text in `text`. */
enum { WAITER_TIMEOUT_MAX = 32 };
void waiter_shorten_timeout(struct waiter *waiter, uint64_t now_ms, char text[WAITER_TIMEOUT_MAX]);
/* Sets the timer to the first due time. A timer that fires too early is set again. */
void waiters_set_timer(struct blocking_set *set);
