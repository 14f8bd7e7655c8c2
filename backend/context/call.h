/*
 * call.h - one run of a command: its handler's arguments, state and reply.
 *
 * A handler is a function of (arguments, state, time, random numbers) → (effects, reply). Time and random numbers come from
 * the call, never from clock.h, so that effects can be logged, replayed and simulated. Memory of the arena is valid until
 * the command ends.
 */
#pragma once

#include "shared/arena.h"
#include "shared/command/command.h"
#include "shared/reply.h"

struct attempt_aside;
struct tally;
struct borrow;
struct lock_waiter;
struct list;
struct partition;
struct retry;
struct slot_rule;
struct slot_set;
struct session;
struct space;

struct call {
    struct partition *partition;
    struct session *session; /* NULL: internal (active expiry) */
    const struct command *command;
    /* argv[0] is the command's name; for a subcommand argv[1] is its name */
    const struct bytes *argv;
    uint32_t argc;
    struct reply reply;
    size_t begun;                 /* reply.out->bytes before this command's reply */
    size_t error_end;             /* reply.out->bytes behind the error, if it failed */
    struct space *space;          /* storage namespace of the session's namespace and database */
    const struct slot_set *slots; /* keys in other slots are not here; NULL: all slots are here */
    struct borrow *borrow;        /* keys in other slots are borrowed; NULL: they are refused */
    struct tally *tally;          /* of its transaction over shards; NULL: it is not one */
    struct lock_waiter *waiter;   /* takes locks by age (lock_waiter.h); NULL: it has not waited */
    const struct slot_rule *slot_rule; /* of the session's namespace; NULL: the {tag} rule */
    struct arena *arena;
    uint64_t now_ms; /* wall clock, constant during the command (during a whole EXEC) */
    uint64_t now_us;
    bool in_exec;   /* inside EXEC: the command must not block */
    bool in_script; /* called by a script; MONITOR shows that */
    bool failed;    /* an error was replied through call_error*: effects are rolled back */
    /* a script or EXEC over shards, which waits where it is when a key is missing (attempt.h) */
    bool may_halt;
    bool has_halted;             /* it waits, and goes on later */
    struct attempt_aside *aside; /* it has waited, and goes on; NULL: it begins */
    bool is_waiting; /* set by blocking_wait and reply_stream_search: the reply comes later */
    /* the key for which a blocking command runs again; NULL: the first run */
    const struct bytes *ready_key;
};

/* The wait of the command's session (retry.h). NULL: the command must not wait, because it cannot be rolled back. */
struct retry *call_wait(const struct call *call);
/* Will the command be rolled back, because it waits, or is refused by retry_refuse? */
bool call_retries(const struct call *call);
/* The command, which may wait, waits in this list, is rolled back and runs again. */
void call_retry(struct call *call, struct list *list);
/* The command, which may wait, is rolled back and refused with this error, whose ownership is taken. */
void call_retry_refused(struct call *call, char *error);
/* Replaces the reply so far by an error and marks the call as failed, so that dispatch rolls back its effects. */
/* For ERR_RETRY the reply is discarded: the command waits, and will run again (retry.h). */
void call_error(struct call *call, enum error error);
/* The rows of a collection have ended, and `left` rows of the number in the reply's header are missing: the store is damaged. False:
 * some are missing, and an error was replied. */
bool call_rows_end(struct call *call, uint64_t left);
/* Memory in the call's arena for `count` elements of `size` bytes; `count` may come from a damaged row. NULL: it is more than the
 * command may have (command-memory), and the error was replied. */
void *call_array(struct call *call, uint64_t count, size_t size);
void call_error_text(struct call *call, const char *text);
/* call_error_text for an error that errorstats already counted. */
void call_error_again(struct call *call, const char *text);
void call_errorf(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Redis' "wrong number of arguments for '...' command", for counts that the table does not describe. */
void call_error_arity(struct call *call);
/* From now on the reply may grow by at most reply-limit; dispatch refuses a longer one. */
void call_limit_reply(struct call *call);
/* If the reply is longer than reply-limit, replaces it by an error and returns true. */
bool call_refuse_reply(struct call *call);
/* The longest allowed string: proto-max-bulk-len. */
uint64_t call_bulk_bytes_max(const struct call *call);
/* 64 random bits of the partition's generator. */
uint64_t call_random(struct call *call);
/* Argument as integer; replies ERR_NOT_INTEGER and returns false when it is none. */
bool call_int64(struct call *call, uint32_t index, int64_t *value);
/* Adds two numbers; *sum is text in the call's arena. False: the sum is not finite, and an error was replied. */
bool call_sum(struct call *call, long double value, long double amount, struct bytes *sum);
/* Is the argument a pattern of allowed length (glob.h)? False: an error was replied. */
bool call_pattern(struct call *call, uint32_t index);
/* The pattern, in the call's arena. A long search ends when the call has exceeded a limit: then the text does not match, and the call
 * has failed. */
struct glob *call_glob(struct call *call, struct bytes pattern);
/* glob_goes_on_fn; the owner is the call. */
bool call_glob_goes_on(void *owner, size_t work);
/* The argument as an integer above 0; else replies `error` and returns false. */
bool call_positive(struct call *call, uint32_t index, const char *error, uint64_t *number);

/* The errors of a command for its number of keys. */
struct counted_errors {
    const char *no_number;
    const char *too_small;
    const char *too_large;
};
struct counted_keys;
/* Finds the keys that are counted (arguments.h). False: replied one of the errors. */
bool call_counted_keys(struct call *call, const struct counted_errors *errors,
                       struct counted_keys *keys);
