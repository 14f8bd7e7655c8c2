/*
 * budget.h - what one call may use: memory, bytes that it writes, and time.
 *
 *   arena: a chunk; a pinned value ────► memory ──┐
 *   keyspace: a row is read or put ────► work ────┤ a limit is exceeded: `end` is set
 *   overlay: keys and values of effects ► written ┘        │
 *                                                          ▼
 *              the next read fails (ERR_OVER), nothing is put any more ─► the handler returns ─► dispatch rolls back, and
 *              replies which limit it was
 *
 * A call is a client's request: a command, an EXEC with its queue, a script with its commands, or one attempt of a transaction over
 * shards. All its commands share the one budget of the partition, because only one call runs at a time. Changes that no client has asked
 * for (expiry, moves, APPLY) have none: `call` is NULL.
 *
 * Nothing is counted per allocation: an arena counts chunks, a row costs an addition and a comparison, and the clock is read after
 * about a millisecond of work. Limits are looked at before something begins: one value may exceed them. `end` is a flag and not a jump,
 * because handlers own memory: a handler returns when a read fails, and a loop without reads asks call_goes_on().
 *
 * Too much memory ends one command; a script may catch its error, and EXEC goes on. Each other limit ends the whole call. What a
 * transaction over shards holds from one attempt to the next (tally.h) counts against the same limit; if that alone is too much, the
 * next command would fail too, so it ends the whole call.
 */
#pragma once

#include "shared/arena.h"

struct tally;
struct call;
struct partition;
struct process;

enum budget_end {
    BUDGET_GOES_ON,
    BUDGET_AGAIN,       /* it is rolled back and will run again (slow_call.h) */
    BUDGET_MEMORY,      /* command-memory */
    BUDGET_TRANSACTION, /* command-memory, by what the transaction over shards holds (tally.h) */
    BUDGET_BATCH,       /* batch-limit */
    BUDGET_TIME,        /* command-time-limit */
    BUDGET_KILLED,      /* SCREE KILL */
    BUDGET_GONE,        /* its client has left, or was ended by CLIENT KILL */
    BUDGET_STOPPED,     /* the server stops */
    BUDGET_ENDS,
};

enum {
    /* Work between two reads of the clock, about a millisecond: the unit is about 10 ns. */
    BUDGET_WORK_SLICE = 100000,
    BUDGET_WORK_OVER = 1 << 30, /* the next row or piece of work ends the command */
    BUDGET_ROW = 30,            /* work of a row, besides its bytes */
    BUDGET_PASSED = 5,          /* work of a deleted row that an iterator passes */
    BUDGET_BYTES = 64,          /* bytes of a row per unit of work */
    BUDGET_ITERATOR = 1000,     /* work of opening an iterator over rows */
};

/* Limits of the call's namespace; 0: as for all. */
struct budget_limits {
    uint64_t memory; /* bytes of one command */
    uint64_t time_ms;
};

/* The state between two calls, with `call` NULL, is what budget_init makes. */
struct call_budget {
    struct arena_meter memory;
    uint32_t work;
    uint8_t end;       /* enum budget_end */
    bool is_measured;  /* the fields from here on are set, because the call is not short */
    bool is_slow;      /* over busy-reply-threshold: others get BUSY */
    size_t memory_max; /* of `memory`, and of the effects */
    size_t effects_max;
    size_t effects_from; /* memory of effects of earlier calls */
    size_t reported;     /* of `memory`, in process->calls_memory */
    uint64_t limit_us;   /* command-time-limit; 0: no limit */
    /* CPU time of the thread when the call began, some microseconds later than it did */
    uint64_t cpu_from_us;
    uint64_t slow_us;    /* monotonic: when it is slow */
    uint64_t polled_us;  /* monotonic: when other sessions were last served */
    uint64_t started_us; /* monotonic; always set */
    uint64_t id;         /* for SCREE KILL */
    struct call *call;   /* the first one; NULL: no client's call runs */
};

void budget_init(struct partition *partition);
/* Reads the limits of a call that is not short, unless this was done. */
void budget_measure(struct call_budget *budget);
/* Has the call used more CPU time than command-time-limit? What the machine does for other programs does not count, nor do waits for a
 * disk. `now_us`: monotonic. */
bool budget_is_late(const struct call_budget *budget, uint64_t now_us);
/* The call, which is not short, has ended. Use call_ends. */
void budget_end(struct partition *partition);
/* A command has ended. If it was too much memory that ended it, the next command begins without. */
void budget_forgive(struct partition *partition);

/* Other sessions are served while the call stands still: their commands do not use its budget, which is in *aside until then. */
void budget_set_aside(struct partition *partition, struct call_budget *aside);
void budget_restore(struct partition *partition, const struct call_budget *aside);

/* Counts the work. False: the call must end, and the error was replied. Use call_goes_on. */
bool budget_look(struct call *call);
/* False: the call has written too much, and the error was replied. Use call_may_write_more. */
bool budget_look_at_writes(struct call *call);
/* Memory outside of the arena, such as that of a pinned value, which the command holds until it gives it back. */
void budget_hold(struct call_budget *budget, size_t bytes);
void budget_give_back(struct call_budget *budget, size_t bytes);
/* The tally of a transaction is over its limit: if the call is one of its attempts, it must end. Use tally_add. */
void budget_end_transaction(struct call_budget *budget, const struct tally *tally);
/* command-memory of the call's namespace. */
size_t budget_memory_max(const struct call *call);
/* Must the whole call end: are all its effects rolled back? */
static inline bool budget_ends_call(const struct call_budget *budget)
{
    return budget->end > BUDGET_MEMORY;
}
/* The error of a call that needs more than `max` bytes of memory. */
void budget_memory_text(size_t max, char *text, size_t size);
/* The error of a call that must end. */
void budget_text(const struct call *call, char *text, size_t size);
/* "memory", "batch", "time" … */
const char *budget_reason(enum budget_end end);
