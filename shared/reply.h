/*
 * reply.h - writes RESP2 or RESP3 values into an out.
 *
 * A handler chooses the type (map, set, double, null ...); the client's protocol decides the bytes, shown below as
 * RESP2 | RESP3: https://redis.io/docs/latest/develop/reference/protocol-spec/
 */
#pragma once

#include "shared/error.h"
#include "shared/out.h"

struct reply {
    struct out *out;
    uint8_t resp; /* 2 or 3 */
};

void reply_status(struct reply *reply, const char *text); /* +text */
void reply_ok(struct reply *reply);                       /* +OK */
void reply_int(struct reply *reply, int64_t value);
void reply_bulk(struct reply *reply, struct bytes value);
/* A bulk string whose bytes lie in `block`; the block is referenced when they are many. */
void reply_bulk_block(struct reply *reply, struct block *block, struct bytes value);
/* Writes a bulk string of `len` bytes in pieces, whose lengths must add up to `len`. */
void reply_bulk_begin(struct reply *reply, int64_t len);
void reply_bulk_part(struct reply *reply, struct bytes part);
void reply_bulk_end(struct reply *reply);
void reply_bulk_text(struct reply *reply, const char *text);
void reply_bulk_int(struct reply *reply, int64_t value); /* the integer as a bulk string */
void reply_null(struct reply *reply);                    /* $-1 | _ */
void reply_null_array(struct reply *reply);              /* *-1 | _ */
void reply_array(struct reply *reply, int64_t count);
void reply_map(struct reply *reply, int64_t pairs); /* *2n | %n */
/* A pair of a map: a name, then an integer or a text. */
void reply_pair_int(struct reply *reply, const char *name, int64_t value);
void reply_pair_text(struct reply *reply, const char *name, const char *value);
/* Three pairs: bytes-done, bytes-total, percent. */
void reply_progress(struct reply *reply, uint64_t done, uint64_t total);
void reply_set(struct reply *reply, int64_t count);   /* *n | ~n */
void reply_push(struct reply *reply, int64_t count);  /* *n | >n */
void reply_double(struct reply *reply, double value); /* bulk %.17g as Redis 7.0 | ,value */
void reply_double_text(struct reply *reply, struct bytes text); /* bulk | ,text; a number as text */
void reply_bool(struct reply *reply, bool value);               /* :1 :0 | #t #f */
void reply_verbatim(struct reply *reply, const char *format3,
                    struct bytes text); /* bulk | =len txt:... */
/* Moves the bytes of `text` into the reply; `text` is empty afterwards. */
void reply_verbatim_out(struct reply *reply, const char *format3, struct out *text);
/* An error: `text` begins with its code word, e.g. "ERR no such key". CR and LF become spaces. */
void reply_error(struct reply *reply, const char *text);
void reply_errorf(struct reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* An error of errors.def. */
void reply_code(struct reply *reply, enum error error);
