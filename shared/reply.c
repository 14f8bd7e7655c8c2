#include "shared/reply.h"

#include "shared/check.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEADER_MAX = 1 + INT64_TEXT_MAX + 2, ERROR_ON_STACK = 512 };

static bool is_resp3(const struct reply *reply)
{
    CHECK(reply->resp == 2 || reply->resp == 3);
    return reply->resp == 3;
}

/* Writes type byte, number and CRLF; returns the length. */
static size_t format_header(char *to, char type, int64_t number)
{
    to[0] = type;
    size_t len = 1 + number_format_int64(to + 1, number);
    to[len++] = '\r';
    to[len++] = '\n';
    return len;
}

static void write_header(struct reply *reply, char type, int64_t number)
{
    char *room = out_reserve(reply->out, HEADER_MAX);
    out_commit(reply->out, format_header(room, type, number));
}

static void write_text(struct reply *reply, const char *text)
{
    out_write(reply->out, text, strlen(text));
}

void reply_status(struct reply *reply, const char *text)
{
    write_text(reply, "+");
    write_text(reply, text);
    write_text(reply, "\r\n");
}

void reply_ok(struct reply *reply)
{
    out_write(reply->out, "+OK\r\n", 5);
}

void reply_int(struct reply *reply, int64_t value)
{
    write_header(reply, ':', value);
}

void reply_bulk(struct reply *reply, struct bytes value)
{
    if (value.len > OUT_COPY_MAX - HEADER_MAX - 2) {
        write_header(reply, '$', (int64_t)value.len);
        out_write(reply->out, value.data, value.len);
        out_write(reply->out, "\r\n", 2);
        return;
    }
    char *room = out_reserve(reply->out, HEADER_MAX + value.len + 2);
    size_t len = format_header(room, '$', (int64_t)value.len);
    if (value.len)
        memcpy(room + len, value.data, value.len);
    len += value.len;
    room[len++] = '\r';
    room[len++] = '\n';
    out_commit(reply->out, len);
}

void reply_bulk_block(struct reply *reply, struct block *block, struct bytes value)
{
    write_header(reply, '$', (int64_t)value.len);
    out_write_block(reply->out, block, value.data, value.len);
    out_write(reply->out, "\r\n", 2);
}

void reply_bulk_begin(struct reply *reply, int64_t len)
{
    write_header(reply, '$', len);
}

void reply_bulk_part(struct reply *reply, struct bytes part)
{
    out_write(reply->out, part.data, part.len);
}

void reply_bulk_end(struct reply *reply)
{
    out_write(reply->out, "\r\n", 2);
}

void reply_bulk_text(struct reply *reply, const char *text)
{
    reply_bulk(reply, bytes_of(text));
}

void reply_bulk_int(struct reply *reply, int64_t value)
{
    char text[INT64_TEXT_MAX];
    reply_bulk(reply, (struct bytes){text, number_format_int64(text, value)});
}

void reply_null(struct reply *reply)
{
    write_text(reply, is_resp3(reply) ? "_\r\n" : "$-1\r\n");
}

void reply_null_array(struct reply *reply)
{
    write_text(reply, is_resp3(reply) ? "_\r\n" : "*-1\r\n");
}

void reply_array(struct reply *reply, int64_t count)
{
    write_header(reply, '*', count);
}

void reply_map(struct reply *reply, int64_t pairs)
{
    if (is_resp3(reply))
        write_header(reply, '%', pairs);
    else
        write_header(reply, '*', pairs * 2);
}

void reply_pair_int(struct reply *reply, const char *name, int64_t value)
{
    reply_bulk_text(reply, name);
    reply_int(reply, value);
}

void reply_progress(struct reply *reply, uint64_t done, uint64_t total)
{
    reply_pair_int(reply, "bytes-done", (int64_t)done);
    reply_pair_int(reply, "bytes-total", (int64_t)total);
    reply_pair_int(reply, "percent", (int64_t)(total ? done * 100 / total : 0));
}

void reply_pair_text(struct reply *reply, const char *name, const char *value)
{
    reply_bulk_text(reply, name);
    reply_bulk_text(reply, value);
}

void reply_set(struct reply *reply, int64_t count)
{
    write_header(reply, is_resp3(reply) ? '~' : '*', count);
}

void reply_push(struct reply *reply, int64_t count)
{
    write_header(reply, is_resp3(reply) ? '>' : '*', count);
}

void reply_double(struct reply *reply, double value)
{
    char text[1 + DOUBLE_TEXT_MAX + 2] = ",";
    size_t len = number_format_double(text + 1, value);
    if (!is_resp3(reply)) {
        reply_bulk(reply, (struct bytes){text + 1, len});
        return;
    }
    text[1 + len] = '\r';
    text[1 + len + 1] = '\n';
    out_write(reply->out, text, 1 + len + 2);
}

void reply_double_text(struct reply *reply, struct bytes text)
{
    if (!is_resp3(reply)) {
        reply_bulk(reply, text);
        return;
    }
    out_write(reply->out, ",", 1);
    out_write(reply->out, text.data, text.len);
    out_write(reply->out, "\r\n", 2);
}

void reply_bool(struct reply *reply, bool value)
{
    if (is_resp3(reply))
        write_text(reply, value ? "#t\r\n" : "#f\r\n");
    else
        write_text(reply, value ? ":1\r\n" : ":0\r\n");
}

void reply_verbatim(struct reply *reply, const char *format3, struct bytes text)
{
    CHECK(strlen(format3) == 3);
    if (!is_resp3(reply)) {
        reply_bulk(reply, text);
        return;
    }
    write_header(reply, '=', (int64_t)text.len + 4);
    write_text(reply, format3);
    write_text(reply, ":");
    out_write(reply->out, text.data, text.len);
    write_text(reply, "\r\n");
}

void reply_verbatim_out(struct reply *reply, const char *format3, struct out *text)
{
    CHECK(strlen(format3) == 3);
    if (is_resp3(reply)) {
        write_header(reply, '=', (int64_t)text->bytes + 4);
        write_text(reply, format3);
        write_text(reply, ":");
    } else {
        write_header(reply, '$', (int64_t)text->bytes);
    }
    out_move(reply->out, text);
    write_text(reply, "\r\n");
}

/* Trims line ends and replaces inner ones by spaces, as Redis does. Changes `text`. */
static void write_error(struct reply *reply, char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == '\r' || text[len - 1] == '\n'))
        len--;
    while (len > 0 && (*text == '\r' || *text == '\n')) {
        text++;
        len--;
    }
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\r' || text[i] == '\n')
            text[i] = ' ';
    out_write(reply->out, "-", 1);
    out_write(reply->out, text, len);
    out_write(reply->out, "\r\n", 2);
}

void reply_error(struct reply *reply, const char *text)
{
    if (strpbrk(text, "\r\n")) {
        reply_errorf(reply, "%s", text);
        return;
    }
    write_text(reply, "-");
    write_text(reply, text);
    write_text(reply, "\r\n");
}

void reply_errorf(struct reply *reply, const char *format, ...)
{
    char room[ERROR_ON_STACK];
    char *text = room;
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(room, sizeof(room), format, args);
    CHECK(len >= 0);
    if (len >= ERROR_ON_STACK) {
        text = malloc((size_t)len + 1);
        CHECK(text);
        (void)vsnprintf(text, (size_t)len + 1, format, again);
    }
    va_end(again);
    va_end(args);
    write_error(reply, text, (size_t)len);
    if (text != room)
        free(text);
}

void reply_code(struct reply *reply, enum error error)
{
    reply_error(reply, error_text(error));
}
