/*
 * wire.h - one connection to a server: commands are queued, and their replies awaited together.
 *
 *   wire_queue GET a, wire_queue GET b ─► wire_await ─► wire_next: "1", wire_next: "2"
 *
 * One wire of a loop is used at a time. After a failure wire.error says why, and the wire must be connected again.
 */
#pragma once

#include "backend/copy/lanes.h"

enum { WIRE_ERROR_MAX = 700 };

struct wire {
    struct loop *loop;
    struct copy_options options; /* one lane, to this server */
    const bool *is_stopped;      /* set by a signal: nothing is awaited any more */
    struct lanes *lanes;
    struct timer *timer;
    uint64_t reply_ms; /* how long a reply may take */
    char *replies;     /* what wire_await has got */
    size_t len;
    size_t room;
    size_t at; /* of the next one */
    bool is_ready;
    bool is_broken;
    bool is_late;   /* the timer has fired */
    bool does_pass; /* the last error was one that may pass */
    char error[WIRE_ERROR_MAX];
};

/* A wire to `server`, which is not connected yet. Other options, such as the files of TLS, are those of `options`. */
void wire_init(struct wire *wire, struct loop *loop, const struct copy_options *options,
               const struct copy_target *server, const bool *is_stopped);
void wire_fini(struct wire *wire);
bool wire_connect(struct wire *wire);
void wire_drop(struct wire *wire);
void wire_queue(struct wire *wire, uint64_t db, const struct bytes *words, uint32_t count);
/* Waits for the replies to all that is queued. */
bool wire_await(struct wire *wire);
/* The next reply, a frame that is valid until the next wire_await. Empty: there is none. */
struct bytes wire_next(struct wire *wire);
/* Queues one command in database 0 and awaits its reply. An error is a failure. */
bool wire_call(struct wire *wire, const struct bytes *words, uint32_t count, struct bytes *frame);
/* Takes the replies, so that they stay valid; the caller frees result.data. */
struct bytes wire_take(struct wire *wire);
/* May it be asked on? */
bool wire_answers(const struct wire *wire);
/* Notes that the server has replied this error. Returns false. */
bool wire_refused(struct wire *wire, struct bytes frame);
/* Does nothing for so long. */
void wire_rest(struct wire *wire, uint64_t ms);
