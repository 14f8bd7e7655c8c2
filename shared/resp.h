/*
 * resp.h - finds the edges of RESP frames; builds nothing, copies nothing.
 *
 *   *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n   resp_scan: one request and where its arguments lie
 *   *2\r\n:1\r\n$-1\r\n                          resp_skip: where one reply ends
 *
 * Both resume: called again with the same bytes and more behind them (at any address) they go on
 * where they stopped, so a slow sender costs linear time. Positions are offsets from the frame's start.
 * Limits and error texts are those of Redis 7.0 (networking: processInlineBuffer, processMultibulkBuffer).
 * RESP3: https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md
 */
#pragma once

#include "shared/bytes.h"
#include "shared/out.h"

enum resp_result {
    RESP_MORE,  /* no complete frame yet */
    RESP_FRAME, /* one complete frame of `size` bytes */
    RESP_BAD,   /* protocol error: answer `error`, then close */
};

/* An argument's place, as offsets from the first byte of the frame. */
struct span {
    uint32_t at;
    uint32_t len;
};

struct resp_limits {
    uint32_t bulk_bytes_max;   /* proto-max-bulk-len, default 512 MiB */
    uint32_t args_max;         /* Redis: INT_MAX */
    uint32_t inline_bytes_max; /* Redis: 64 KiB */
    bool unauthenticated;      /* bulks over 16384 bytes and over 10 arguments are refused */
};

/* The request scanner's state. Zero bytes are its initial state (resp_scan_init). */
struct resp_scan {
    struct span *args; /* argc spans; owned by the scanner, valid until the next frame is begun */
    uint32_t argc;     /* arguments found so far; all of them after RESP_FRAME */
    uint32_t args_cap;
    uint32_t expected; /* arguments the header announced */
    uint8_t state;
    bool is_inline;    /* the frame was an inline command: arguments are in inline_text */
    size_t pos;        /* next byte to look at, from the frame's start */
    size_t line;       /* where the header line that is being read begins */
    size_t size;       /* after RESP_FRAME: bytes of the frame */
    size_t need;       /* after RESP_MORE: total bytes the frame is known to need, 0 = unknown */
    char *inline_text; /* inline: the request again as a multibulk frame (args point into it) */
    size_t inline_len;
    char error[128]; /* after RESP_BAD: text behind "-", e.g. "ERR Protocol error: ..." */
};

void resp_scan_init(struct resp_scan *scan);
void resp_scan_fini(struct resp_scan *scan);
/* Looks for one request in data[0..len), which begins at a frame's first byte. After RESP_FRAME the next
 * call begins a new frame. A frame of no arguments ("*0", "*-1", an empty line) gives RESP_FRAME with
 * argc 0 and is to be ignored. Argument i lies at resp_scan_base(scan, data) + args[i].at. */
enum resp_result resp_scan(struct resp_scan *scan, const struct resp_limits *limits,
                           const char *data, size_t len);
/* The bytes the spans refer to: `data` itself, or inline_text for an inline command. */
const char *resp_scan_base(const struct resp_scan *scan, const char *data);
/* Forgets a begun frame; gives back an argument table that a huge request made. */
void resp_scan_reset(struct resp_scan *scan);

/* The reply skipper's state. Zero bytes are its initial state. */
struct resp_skip {
    int64_t pending; /* values still to come; 0 = at a frame's start */
    size_t pos;
    size_t need;  /* after RESP_MORE: total bytes known to be needed, 0 = unknown */
    size_t size;  /* after RESP_FRAME */
    size_t rest;  /* of a bulk string that is dropped: bytes that have not arrived yet */
    char first;   /* type byte of the frame: + - : $ * _ # , ( ! = % ~ > | */
    bool in_line; /* pos is inside a line whose end has not come yet */
};

/* Looks for the end of one reply (RESP2 or RESP3, nested, with attributes). RESP_BAD: not RESP. */
enum resp_result resp_skip(struct resp_skip *skip, const char *data, size_t len);
/* Drops the part of an unwanted reply that has arrived: to be called after resp_skip() returned RESP_MORE for `len` bytes.
 * Returns how many of them are done with: the next resp_skip() gets the bytes after these, and `size` counts from there. */
size_t resp_skip_drop(struct resp_skip *skip, size_t len);

/* Writes a command of these words as clients send it. */
void resp_write_words(struct out *out, const struct bytes *words, uint32_t count);

/* Walks a reply's parts. Reads one header or scalar at *pos of a complete frame and moves *pos behind it:
 * `type` the type byte, `count` the elements of an aggregate (pairs of a map; -1 = null), the integer of
 * ':' or 1/0 of '#', `text` the payload of a scalar (of '=' with its "txt:"). Returns false on malformed
 * bytes. */
struct resp_value {
    char type;
    bool is_null;
    int64_t count;
    struct bytes text;
};
bool resp_value_next(struct bytes frame, size_t *pos, struct resp_value *value);
/* The text of a string, whatever its type: of a verbatim one without the "txt:" in front. */
struct bytes resp_value_text(const struct resp_value *value);
/* Moves *pos behind one whole value (nested). */
bool resp_value_skip(struct bytes frame, size_t *pos);
