/*
 * Request scanner:
 *
 *   BEGIN ──'*'──► COUNT ──"*n"──► LENGTH ──"$n"──► DATA ──► ... ──last argument──► frame, BEGIN
 *     │                               ▲               │
 *     └──else──► INLINE ──'\n'──►     └───────────────┘         any ──► FAILED (final)
 *
 * `pos` is the next byte to scan, so each byte is scanned once, however the request is split into reads. As in Redis,
 * a header ends at '\r', and the byte after it is skipped without a check, like the two bytes after an argument.
 * Unlike Redis, a line longer than the limit is refused even when it arrives in one read.
 */
#include "shared/resp.h"

#include "shared/check.h"
#include "shared/number.h"
#include "shared/resp_inner.h"

#include <stdio.h>
#include <stdlib.h>

enum scan_state { BEGIN, COUNT, LENGTH, DATA, INLINE, FAILED };

enum {
    ARGS_FIRST = 8,                /* spans of a new argument table */
    ARGS_KEPT = 256,               /* resp_scan_reset frees a longer table */
    UNAUTHENTICATED_ARGS_MAX = 10, /* as Redis */
    UNAUTHENTICATED_BULK_MAX = 16384,
};

void resp_scan_init(struct resp_scan *scan)
{
    *scan = (struct resp_scan){0};
}

static void drop_inline(struct resp_scan *scan)
{
    free(scan->inline_text);
    scan->inline_text = NULL;
    scan->inline_len = 0;
    scan->is_inline = false;
}

void resp_scan_fini(struct resp_scan *scan)
{
    free(scan->args);
    drop_inline(scan);
    resp_scan_init(scan);
}

void resp_scan_reset(struct resp_scan *scan)
{
    struct resp_scan kept = *scan;
    drop_inline(&kept);
    if (kept.args_cap > ARGS_KEPT) {
        free(kept.args);
        kept.args = NULL;
        kept.args_cap = 0;
    }
    *scan = (struct resp_scan){.args = kept.args, .args_cap = kept.args_cap};
}

void resp_scan_keep(struct resp_scan *scan)
{
    CHECK(scan->state == BEGIN);
    scan->is_kept = true;
}

const char *resp_scan_base(const struct resp_scan *scan, const char *data)
{
    return scan->is_inline ? scan->inline_text : data;
}

static enum resp_result scan_fail(struct resp_scan *scan, const char *reason)
{
    (void)snprintf(scan->error, sizeof(scan->error), "ERR Protocol error: %s", reason);
    scan->state = FAILED;
    return RESP_BAD;
}

static enum resp_result complete(struct resp_scan *scan, size_t size)
{
    scan->size = size;
    scan->state = BEGIN;
    return RESP_FRAME;
}

/* Grows with the arguments that have arrived, not with the number that the header announced. */
static bool grow_args(struct resp_scan *scan)
{
    uint64_t cap = scan->args_cap ? (uint64_t)scan->args_cap * 2 : ARGS_FIRST;
    struct span *args = NULL;
    if (cap <= UINT32_MAX)
        args = realloc(scan->args, cap * sizeof(*args));
    if (!args)
        return false;
    scan->args = args;
    scan->args_cap = (uint32_t)cap;
    return true;
}

enum line { LINE_PARTIAL, LINE_TOO_LONG, LINE_ENDS };

/* Searches the end of the line that began at scan->line. Advances scan->pos, to the final byte when it is found. */
static enum line find_line_end(struct resp_scan *scan, const char *data, size_t len, char byte,
                               size_t max)
{
    bool is_long = len - scan->line > max;
    size_t stop = is_long ? scan->line + max + 1 : len;
    const char *found = NULL;
    if (scan->pos < stop)
        found = memchr(data + scan->pos, byte, stop - scan->pos);
    scan->pos = found ? (size_t)(found - data) : stop;
    if (found)
        return LINE_ENDS;
    return is_long ? LINE_TOO_LONG : LINE_PARTIAL;
}

/* ---- requests: multibulk ---------------------------------------------------------------- */

/* Reads "*n\r\n". Here RESP_FRAME only means that the header is complete. */
static enum resp_result scan_count(struct resp_scan *scan, const struct resp_limits *limits,
                                   const char *data, size_t len)
{
    enum line line = find_line_end(scan, data, len, '\r', limits->inline_bytes_max);
    if (line == LINE_TOO_LONG)
        return scan_fail(scan, "too big mbulk count string");
    size_t end = scan->pos;
    if (line == LINE_PARTIAL || end + 1 == len)
        return RESP_MORE;

    int64_t count;
    if (!number_parse_int64((struct bytes){data + 1, end - 1}, &count) || count > INT32_MAX)
        return scan_fail(scan, "invalid multibulk length");
    if (limits->unauthenticated && count > UNAUTHENTICATED_ARGS_MAX)
        return scan_fail(scan, "unauthenticated multibulk length");
    if (count > (int64_t)limits->args_max)
        return scan_fail(scan, "invalid multibulk length");
    scan->expected = count > 0 ? (uint32_t)count : 0;
    scan->pos = scan->line = end + 2;
    scan->state = LENGTH;
    return RESP_FRAME;
}

/* Reads "$n\r\n" of any form. Here RESP_FRAME means that *count is valid and scan->pos is after the header. */
static enum resp_result scan_length(struct resp_scan *scan, const struct resp_limits *limits,
                                    const char *data, size_t len, uint32_t *count)
{
    enum line line = find_line_end(scan, data, len, '\r', limits->inline_bytes_max);
    if (line == LINE_TOO_LONG)
        return scan_fail(scan, "too big bulk count string");
    size_t end = scan->pos;
    if (line == LINE_PARTIAL || end + 1 == len)
        return RESP_MORE;

    char type = data[scan->line];
    if (type != '$') {
        char reason[] = "expected '$', got '?'";
        if (type == '\r' || type == '\n' || type == '\0')
            type = ' ';
        reason[sizeof(reason) - 3] = type;
        return scan_fail(scan, reason);
    }
    int64_t bytes;
    struct bytes digits = {data + scan->line + 1, end - scan->line - 1};
    if (!number_parse_int64(digits, &bytes) || bytes < 0 || bytes > limits->bulk_bytes_max)
        return scan_fail(scan, "invalid bulk length");
    if (limits->unauthenticated && bytes > UNAUTHENTICATED_BULK_MAX)
        return scan_fail(scan, "unauthenticated bulk length");
    *count = (uint32_t)bytes;
    scan->pos = end + 2;
    return RESP_FRAME;
}

/* Begins an argument of `count` bytes at scan->pos. */
static enum resp_result begin_data(struct resp_scan *scan, uint32_t count)
{
    if (scan->pos > UINT32_MAX - 2 || count > UINT32_MAX - 2 - scan->pos)
        return scan_fail(scan, "too big request");
    if (scan->argc == scan->args_cap && !grow_args(scan))
        return scan_fail(scan, "too big request");
    scan->args[scan->argc] = (struct span){(uint32_t)scan->pos, count};
    scan->state = DATA;
    return RESP_FRAME;
}

/* Ends the current argument; false while it is incomplete. */
static bool end_data(struct resp_scan *scan, size_t len)
{
    struct span arg = scan->args[scan->argc];
    size_t end = (size_t)arg.at + arg.len + 2;
    if (end > len) {
        scan->need = end;
        return false;
    }
    scan->argc++;
    scan->pos = scan->line = end;
    scan->state = LENGTH;
    return true;
}

/* Scans arguments of the usual form as long as they are complete. */
static void scan_short_args(struct resp_scan *scan, const struct resp_limits *limits,
                            const char *data, size_t len)
{
    size_t pos = scan->pos;
    uint32_t argc = scan->argc;
    uint32_t stop = scan->expected < scan->args_cap ? scan->expected : scan->args_cap;
    struct span *args = scan->args;
    while (argc < stop && pos + SHORTEST_BULK <= len && data[pos] == '$' && pos < UINT32_MAX / 2) {
        uint32_t count;
        size_t header = resp_short_count(data + pos, &count);
        if (!header || pos + header + count + 2 > len || count > limits->bulk_bytes_max)
            break;
        args[argc++] = (struct span){(uint32_t)(pos + header), count};
        pos += header + count + 2;
    }
    scan->pos = scan->line = pos;
    scan->argc = argc;
}

static enum resp_result scan_args(struct resp_scan *scan, const struct resp_limits *limits,
                                  const char *data, size_t len)
{
    while (scan->argc < scan->expected) {
        if (scan->state == DATA) {
            if (!end_data(scan, len))
                return RESP_MORE;
            continue;
        }
        if (scan->pos == scan->line)
            scan_short_args(scan, limits, data, len);
        if (scan->argc == scan->expected)
            break;
        uint32_t count = 0;
        enum resp_result result = scan_length(scan, limits, data, len, &count);
        if (result == RESP_FRAME)
            result = begin_data(scan, count);
        if (result != RESP_FRAME)
            return result;
    }
    return complete(scan, scan->pos);
}

/* ---- requests: inline ------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes an escape in double quotes: *at is after the backslash (and before `end`), and is advanced. */
static char unescape(const char **at, const char *end)
{
    const char *p = *at;
    if (*p == 'x' && end - p >= 3 && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0) {
        *at = p + 3;
        return (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
    }
    *at = p + 1;
    switch (*p) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return *p;
    }
}

/* Copies a quoted text to *to. `at` is after the opening quote; returns the position after the closing quote, or
 * NULL when it is missing or is not the end of the word. */
static const char *unquote(const char *at, const char *end, char quote, char **to)
{
    while (at < end && *at != quote) {
        if (*at == '\\' && quote == '"' && end - at >= 2) {
            at++;
            *(*to)++ = unescape(&at, end);
        } else if (*at == '\\' && quote == '\'' && end - at >= 2 && at[1] == '\'') {
            *(*to)++ = '\'';
            at += 2;
        } else {
            *(*to)++ = *at++;
        }
    }
    if (at == end || (at + 1 < end && !is_blank(at[1])))
        return NULL;
    return at + 1;
}

/* Copies one word to *to; returns the position after it, or NULL when its quotes are unbalanced. */
static const char *split_word(const char *at, const char *end, char **to)
{
    while (at < end && !(*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) {
        if (*at == '"' || *at == '\'')
            return unquote(at + 1, end, *at, to);
        *(*to)++ = *at++;
    }
    return at;
}

/* Splits the line into words: their bytes go to `text`, their offsets to args. */
static enum resp_result split_line(struct resp_scan *scan, struct bytes line, char *text)
{
    const char *end = line.data + line.len;
    const char *at = line.data;
    char *to = text;
    for (;;) {
        while (at < end && is_blank(*at))
            at++;
        if (at == end)
            return RESP_FRAME;
        char *word = to;
        at = split_word(at, end, &to);
        if (!at)
            return scan_fail(scan, "unbalanced quotes in request");
        if (scan->argc == scan->args_cap && !grow_args(scan))
            return scan_fail(scan, "too big request");
        scan->args[scan->argc++] = (struct span){(uint32_t)(word - text), (uint32_t)(to - word)};
    }
}

static size_t format_count(char *to, char type, uint32_t count)
{
    to[0] = type;
    size_t len = 1 + number_format_int64(to + 1, count);
    to[len++] = '\r';
    to[len++] = '\n';
    return len;
}

/* Writes the words of `text` as a multibulk frame into inline_text and points the spans into it. */
static void encode_inline(struct resp_scan *scan, const char *text)
{
    enum { COUNT_MAX = 1 + 10 + 2 };
    size_t max = COUNT_MAX;
    for (uint32_t i = 0; i < scan->argc; i++)
        max += COUNT_MAX + scan->args[i].len + 2;
    char *to = malloc(max);
    CHECK(to);
    size_t len = format_count(to, '*', scan->argc);
    for (uint32_t i = 0; i < scan->argc; i++) {
        struct span *arg = &scan->args[i];
        len += format_count(to + len, '$', arg->len);
        memcpy(to + len, text + arg->at, arg->len);
        arg->at = (uint32_t)len;
        len += arg->len;
        to[len++] = '\r';
        to[len++] = '\n';
    }
    CHECK(len <= max);
    scan->inline_text = to;
    scan->inline_len = len;
}

/* First bytes of a client that attempts a TLS handshake. */
static const char TLS_HANDSHAKE[] = "\x16\x03";

static enum resp_result scan_inline(struct resp_scan *scan, const struct resp_limits *limits,
                                    const char *data, size_t len)
{
    if (len >= 2 && memcmp(data, TLS_HANDSHAKE, 2) == 0)
        return scan_fail(scan, "TLS is not enabled on this port");
    enum line found = find_line_end(scan, data, len, '\n', limits->inline_bytes_max);
    if (found == LINE_TOO_LONG)
        return scan_fail(scan, "too big inline request");
    if (found == LINE_PARTIAL)
        return RESP_MORE;

    size_t end = scan->pos;
    struct bytes line = {data, end};
    if (line.len > 0 && data[line.len - 1] == '\r')
        line.len--;
    char *text = malloc(line.len + 1);
    CHECK(text);
    scan->is_inline = true;
    enum resp_result result = split_line(scan, line, text);
    if (result == RESP_FRAME) {
        encode_inline(scan, text);
        scan->expected = scan->argc;
        result = complete(scan, end + 1);
    }
    free(text);
    return result;
}

static void begin_frame(struct resp_scan *scan, char first)
{
    if (scan->is_inline)
        drop_inline(scan);
    scan->argc = 0;
    scan->expected = 0;
    scan->pos = 0;
    scan->line = 0;
    scan->state = first == '*' ? COUNT : INLINE;
}

/* Scans "*n\r\n" of one digit, the usual case. */
static inline bool scan_short_count(struct resp_scan *scan, const struct resp_limits *limits,
                                    const char *data, size_t len)
{
    if (len < 4 || data[0] != '*' || data[2] != '\r')
        return false;
    uint32_t count = (uint32_t)(unsigned char)data[1] - '0';
    if (count > 9 || count > limits->args_max)
        return false;
    scan->expected = count;
    scan->pos = scan->line = 4;
    scan->state = LENGTH;
    return true;
}

enum resp_result resp_scan(struct resp_scan *scan, const struct resp_limits *limits,
                           const char *data, size_t len)
{
    scan->need = 0;
    if (scan->is_kept) {
        scan->is_kept = false;
        return RESP_FRAME;
    }
    if (scan->state == BEGIN) {
        if (len == 0)
            return RESP_MORE;
        begin_frame(scan, data[0]);
        (void)scan_short_count(scan, limits, data, len);
    }
    CHECK(scan->pos <= len);
    switch ((enum scan_state)scan->state) {
    case INLINE:
        return scan_inline(scan, limits, data, len);
    case FAILED:
        return RESP_BAD;
    case COUNT: {
        enum resp_result result = scan_count(scan, limits, data, len);
        return result == RESP_FRAME ? scan_args(scan, limits, data, len) : result;
    }
    case BEGIN:
    case LENGTH:
    case DATA:
        break;
    }
    return scan_args(scan, limits, data, len);
}
