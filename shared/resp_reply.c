/*
 * resp_reply.c - skips a reply, reads its values, and writes words.
 *
 * Reply skipper: `pending` counts the values that are still missing; an aggregate of n elements subtracts 1 and adds
 * n. This needs no stack and has no limit of depth.
 */
#include "shared/resp.h"

#include "shared/number.h"
#include "shared/reply.h"
#include "shared/resp_inner.h"

enum {
    SKIP_FAILED = -1, /* `pending` after malformed bytes */
    HEADER_MAX = 32,  /* longest reply header */
    SHORT_LINE_MAX = 24,
};

/* max. bytes or elements that a reply header may announce */
static const uint64_t reply_count_max = UINT32_MAX;

/* Reads the number of a header "<type>n\r\n" that begins at `at`. Returns the header's length, 0 when it is
 * incomplete, -1 when it is malformed. */
static int read_count_header(const char *at, size_t len, int64_t *count)
{
    size_t stop = len < HEADER_MAX ? len : HEADER_MAX;
    uint64_t sum = 0;
    size_t i = 1;
    for (; i < stop && (unsigned char)(at[i] - '0') <= 9 && sum <= reply_count_max; i++)
        sum = sum * 10 + (unsigned char)(at[i] - '0');
    if (i == 1 && i < stop && at[i] == '-') {
        if (stop > 2 && at[2] != '1')
            return -1;
        i = 3;
    }
    if ((i < stop && at[i] != '\r') || (i + 1 < stop && at[i + 1] != '\n'))
        return -1;
    if (i + 1 >= stop)
        return len < HEADER_MAX ? 0 : -1;
    if (i == 1 || sum > reply_count_max)
        return -1;
    *count = at[1] == '-' ? -1 : (int64_t)sum;
    return (int)i + 2;
}

static enum resp_result skip_fail(struct resp_skip *skip)
{
    skip->pending = SKIP_FAILED;
    return RESP_BAD;
}

/* Skips "+text\r\n" and the other one-line types; RESP_FRAME: skipped. */
static enum resp_result skip_line(struct resp_skip *skip, const char *data, size_t len)
{
    const char *end = memchr(data + skip->pos, '\r', len - skip->pos);
    skip->pos = end ? (size_t)(end - data) : len;
    skip->in_line = true;
    if (!end || skip->pos + 1 == len)
        return RESP_MORE;
    if (end[1] != '\n')
        return RESP_BAD;
    skip->pos += 2;
    skip->in_line = false;
    skip->pending--;
    return RESP_FRAME;
}

/* Skips "$n\r\n<n bytes>\r\n". */
static enum resp_result skip_bulk(struct resp_skip *skip, const char *data, size_t len)
{
    int64_t count;
    int header = read_count_header(data + skip->pos, len - skip->pos, &count);
    if (header <= 0)
        return header < 0 ? RESP_BAD : RESP_MORE;
    size_t end = skip->pos + (size_t)header;
    if (count < 0) {
        if (data[skip->pos] != '$')
            return RESP_BAD;
    } else {
        end += (size_t)count + 2;
        if (end > len) {
            skip->need = end;
            return RESP_MORE;
        }
        if (data[end - 2] != '\r' || data[end - 1] != '\n')
            return RESP_BAD;
    }
    skip->pos = end;
    skip->pending--;
    return RESP_FRAME;
}

/* "*n\r\n" and the other aggregates: replaced by n values, or n pairs, in `pending`; an attribute does not count as
 * a value. */
static enum resp_result skip_aggregate(struct resp_skip *skip, const char *data, size_t len)
{
    char type = data[skip->pos];
    int64_t count;
    int header = read_count_header(data + skip->pos, len - skip->pos, &count);
    if (header <= 0)
        return header < 0 ? RESP_BAD : RESP_MORE;
    if (count < 0) {
        if (type != '*')
            return RESP_BAD;
        count = 0;
    }
    skip->pos += (size_t)header;
    if (type == '%' || type == '|')
        count *= 2;
    if (type != '|')
        skip->pending--;
    return __builtin_add_overflow(skip->pending, count, &skip->pending) ? RESP_BAD : RESP_FRAME;
}

/* Length of the complete bulk string of the usual form at `at`; 0: it is incomplete or has another form. */
static inline size_t short_bulk(const char *at, size_t len)
{
    uint32_t count = 0;
    size_t header = len < SHORTEST_BULK || *at != '$' ? 0 : resp_short_count(at, &count);
    if (!header || at[header - 1] != '\n' || header + count + 2 > len)
        return 0;
    size_t end = header + count;
    return at[end] == '\r' && at[end + 1] == '\n' ? end + 2 : 0;
}

/* The length of a status or an integer at the beginning of the data, if it is complete and short; else 0. */
static inline size_t short_line(const char *data, size_t len)
{
    size_t stop = len < SHORT_LINE_MAX ? len : SHORT_LINE_MAX;
    for (size_t i = 1; i + 1 < stop; i++)
        if (data[i] == '\r')
            return data[i + 1] == '\n' ? i + 2 : 0;
    return 0;
}

/* The length of a short reply of one value, the usual case, at the beginning of the data; 0: it has another form. */
static inline size_t short_reply(const char *data, size_t len)
{
    if (data[0] == '+' || data[0] == ':')
        return short_line(data, len);
    return short_bulk(data, len);
}

/* Skips bulk strings of the usual form as long as they are complete. */
static void skip_short_bulks(struct resp_skip *skip, const char *data, size_t len)
{
    size_t size;
    while (skip->pending > 0 && (size = short_bulk(data + skip->pos, len - skip->pos)) > 0) {
        skip->pos += size;
        skip->pending--;
    }
}

/* Skips the remaining bytes of a bulk string that is being dropped. */
static enum resp_result skip_rest(struct resp_skip *skip, size_t len)
{
    size_t come = len - skip->pos < skip->rest ? len - skip->pos : skip->rest;
    skip->pos += come;
    skip->rest -= come;
    if (skip->rest > 0)
        return RESP_MORE;
    skip->pending--;
    return RESP_FRAME;
}

static enum resp_result skip_step(struct resp_skip *skip, const char *data, size_t len)
{
    if (skip->rest > 0)
        return skip_rest(skip, len);
    if (skip->in_line)
        return skip_line(skip, data, len);
    switch (data[skip->pos]) {
    case '$':
    case '=':
    case '!':
        return skip_bulk(skip, data, len);
    case '*':
    case '~':
    case '>':
    case '%':
    case '|':
        return skip_aggregate(skip, data, len);
    case '+':
    case '-':
    case ':':
    case '_':
    case '#':
    case ',':
    case '(':
        return skip_line(skip, data, len);
    default:
        return RESP_BAD;
    }
}

enum resp_result resp_skip(struct resp_skip *skip, const char *data, size_t len)
{
    if (skip->pending == SKIP_FAILED)
        return RESP_BAD;
    skip->need = 0;
    if (skip->pending == 0) {
        if (len == 0)
            return RESP_MORE;
        skip->first = data[0];
        skip->size = short_reply(data, len);
        if (skip->size)
            return RESP_FRAME;
        skip->pending = 1;
        skip->pos = 0;
        skip->in_line = false;
    }
    while (skip->pending > 0) {
        if (!skip->in_line && skip->rest == 0)
            skip_short_bulks(skip, data, len);
        if (skip->pending == 0)
            break;
        if (skip->pos >= len)
            return RESP_MORE;
        enum resp_result result = skip_step(skip, data, len);
        if (result == RESP_BAD)
            return skip_fail(skip);
        if (result == RESP_MORE)
            return RESP_MORE;
    }
    skip->size = skip->pos;
    return RESP_FRAME;
}

size_t resp_skip_drop(struct resp_skip *skip, size_t len)
{
    size_t gone = skip->pos;
    if (skip->rest == 0 && skip->need > len) {
        skip->rest = skip->need - len;
        gone = len;
    }
    skip->pos = 0;
    skip->need = 0;
    return gone;
}

/* ---- iterating over a complete reply ---------------------------------------------------- */

static bool value_line(struct bytes rest, struct resp_value *value, size_t *size)
{
    const char *end = memchr(rest.data, '\r', rest.len);
    if (!end || end + 1 == rest.data + rest.len || end[1] != '\n')
        return false;
    value->text = (struct bytes){rest.data + 1, (size_t)(end - rest.data) - 1};
    *size = (size_t)(end - rest.data) + 2;
    switch (value->type) {
    case ':':
        return number_parse_int64(value->text, &value->count);
    case '#':
        value->count = bytes_equal(value->text, BYTES("t"));
        return value->count || bytes_equal(value->text, BYTES("f"));
    case '_':
        value->is_null = true;
        value->count = -1;
        return value->text.len == 0;
    default:
        return true;
    }
}

static bool value_header(struct bytes rest, struct resp_value *value, size_t *size)
{
    bool is_bulk = value->type == '$' || value->type == '=' || value->type == '!';
    int header = read_count_header(rest.data, rest.len, &value->count);
    if (header <= 0)
        return false;
    *size = (size_t)header;
    if (value->count < 0) {
        value->is_null = true;
        return value->type == '$' || value->type == '*';
    }
    if (!is_bulk)
        return true;
    size_t len = (size_t)value->count;
    if (rest.len - *size < len + 2 || memcmp(rest.data + *size + len, "\r\n", 2) != 0)
        return false;
    value->text = (struct bytes){rest.data + *size, len};
    *size += len + 2;
    return true;
}

bool resp_value_next(struct bytes frame, size_t *pos, struct resp_value *value)
{
    if (*pos >= frame.len)
        return false;
    struct bytes rest = {frame.data + *pos, frame.len - *pos};
    *value = (struct resp_value){.type = rest.data[0]};
    size_t size;
    bool ok = false;
    if (value->type != '\0' && strchr("$=!*~>%|", value->type))
        ok = value_header(rest, value, &size);
    else if (value->type != '\0' && strchr("+-:_#,(", value->type))
        ok = value_line(rest, value, &size);
    if (ok)
        *pos += size;
    return ok;
}

struct bytes resp_value_text(const struct resp_value *value)
{
    enum { FORMAT_LEN = 4 }; /* "txt:" */
    struct bytes text = value->text;
    if (value->type == '=' && text.len >= FORMAT_LEN)
        text = (struct bytes){text.data + FORMAT_LEN, text.len - FORMAT_LEN};
    return text;
}

bool resp_value_skip(struct bytes frame, size_t *pos)
{
    if (*pos >= frame.len)
        return false;
    struct resp_skip skip = {0};
    if (resp_skip(&skip, frame.data + *pos, frame.len - *pos) != RESP_FRAME)
        return false;
    *pos += skip.size;
    return true;
}

void resp_write_word(struct out *out, struct bytes word)
{
    struct reply reply = {.out = out};
    reply_bulk(&reply, word); /* without printf: requests may have a million words */
}

void resp_write_words(struct out *out, const struct bytes *words, uint32_t count)
{
    out_printf(out, "*%u\r\n", count);
    for (uint32_t i = 0; i < count; i++)
        resp_write_word(out, words[i]);
}
