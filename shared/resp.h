/*
 * resp.h - finds where RESP frames begin and end; allocates and copies no payload.
 *
 *   *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n   resp_scan: one request and the offsets of its arguments
 *   *2\r\n:1\r\n$-1\r\n                          resp_skip: the end of one reply
 *
 * Both resume: when called again with the previous bytes and more after them (at any address), they continue where
 * they stopped, so a slow sender costs linear time. Positions are offsets from the frame's start. Limits and error
 * texts are those of Redis 7.0 (networking: processInlineBuffer, processMultibulkBuffer). RESP3:
 * https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md
 */
#pragma once

#include "shared/bytes.h"
#include "shared/out.h"

enum resp_result {
    RESP_MORE,  /* no complete frame yet */
    RESP_FRAME, /* one complete frame of `size` bytes */
    RESP_BAD,   /* protocol error: reply `error`, then close */
};

/* Position of an argument, as offsets from the first byte of the frame. */
struct span {
    uint32_t at;
    uint32_t len;
};

struct resp_limits {
    uint32_t bulk_bytes_max;   /* proto-max-bulk-len, default 512 MiB */
    uint32_t args_max;         /* Redis: INT_MAX */
    uint32_t inline_bytes_max; /* Redis: 64 KiB */
    /* refuses bulk strings over 16384 bytes and more than 10 arguments */
    bool unauthenticated;
};

/* State of the request scanner; all zero initially (resp_scan_init). */
struct resp_scan {
    struct span *args; /* argc spans; owned by the scanner, valid until the next frame begins */
    uint32_t argc;     /* arguments found so far; all of them after RESP_FRAME */
    uint32_t args_cap;
    uint32_t expected; /* number of arguments that the header announced */
    uint8_t state;
    bool is_kept;      /* resp_scan_keep */
    bool is_inline;    /* the frame is an inline command: arguments are in inline_text */
    size_t pos;        /* next byte to scan, from the frame's start */
    size_t line;       /* start of the current header line */
    size_t size;       /* after RESP_FRAME: bytes of the frame */
    size_t need;       /* after RESP_MORE: total size of the frame, 0 = unknown */
    char *inline_text; /* the inline command as a multibulk frame; args are offsets into it */
    size_t inline_len;
    char error[128]; /* after RESP_BAD: text after "-", e.g. "ERR Protocol error: ..." */
};

void resp_scan_init(struct resp_scan *scan);
void resp_scan_fini(struct resp_scan *scan);
/* Scans one request in data[0..len), which begins at the first byte of a frame. After RESP_FRAME, the next call
 * begins a new frame. A frame without arguments ("*0", "*-1", an empty line) gives RESP_FRAME with argc 0; ignore
 * it. Argument i lies at resp_scan_base(scan, data) + args[i].at. */
enum resp_result resp_scan(struct resp_scan *scan, const struct resp_limits *limits,
                           const char *data, size_t len);
/* After RESP_FRAME: the frame is not consumed yet, and the next call finds it again, without scanning it. */
void resp_scan_keep(struct resp_scan *scan);
/* The bytes to which the spans refer: `data` itself, or inline_text for an inline command. */
const char *resp_scan_base(const struct resp_scan *scan, const char *data);
/* Drops an unfinished frame; frees an argument table that became large. */
void resp_scan_reset(struct resp_scan *scan);

/* State of the reply skipper; all zero initially. */
struct resp_skip {
    int64_t pending; /* values still missing; 0 = at the start of a frame */
    size_t pos;
    size_t need;  /* after RESP_MORE: total size of the frame, 0 = unknown */
    size_t size;  /* after RESP_FRAME: bytes of the frame */
    size_t rest;  /* bytes that have not arrived yet of a bulk string that is being dropped */
    char first;   /* type byte of the frame: + - : $ * _ # , ( ! = % ~ > | */
    bool in_line; /* pos is inside a line whose end has not arrived */
};

/* Searches the end of one reply (RESP2 or RESP3, nested, with attributes). RESP_BAD: the bytes are not RESP. */
enum resp_result resp_skip(struct resp_skip *skip, const char *data, size_t len);
/* Drops the received part of an unwanted reply. Call it after resp_skip() returned RESP_MORE for `len` bytes.
 * Returns how many bytes the caller may discard: the next resp_skip() gets the bytes after these, and `size` counts
 * from there. */
size_t resp_skip_drop(struct resp_skip *skip, size_t len);

/* Writes one argument of a multibulk request. */
void resp_write_word(struct out *out, struct bytes word);
/* Writes a command as a multibulk request. */
void resp_write_words(struct out *out, const struct bytes *words, uint32_t count);

/* Iterates over a reply. Reads one header or scalar at *pos of a complete frame and advances *pos: `type` is the
 * type byte; `count` the number of elements of an aggregate (pairs of a map; -1 = null), the integer of ':' or 1/0
 * of '#'; `text` the payload of a scalar (of '=' including "txt:"). False on malformed bytes. */
struct resp_value {
    char type;
    bool is_null;
    int64_t count;
    struct bytes text;
};
bool resp_value_next(struct bytes frame, size_t *pos, struct resp_value *value);
/* The text of a string of any type; for a verbatim string without the leading "txt:". */
struct bytes resp_value_text(const struct resp_value *value);
/* Advances *pos to after one whole value, including nested ones. */
bool resp_value_skip(struct bytes frame, size_t *pos);
