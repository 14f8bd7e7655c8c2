#include "shared/json_writer.h"

#include "shared/check.h"

#include <inttypes.h>
#include <math.h>

void json_writer_init(struct json_writer *writer, struct out *out)
{
    *writer = (struct json_writer){.out = out};
}

void json_writer_fini(const struct json_writer *writer)
{
    CHECK(writer->depth == 0);
}

/* ---- strings ----------------------------------------------------------------------------------- */

/* Writes one character of a string; escapes what JSON or HTML treat specially. */
static void put_char(struct out *out, unsigned char c)
{
    if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == '\'' ||
        c == 0x7f)
        out_printf(out, "\\u%04x", c);
    else
        out_write(out, &c, 1);
}

/* The code point of the well-formed UTF-8 sequence at the start, its length in *len; -1 when there is none. */
static int64_t code_point(struct bytes bytes, size_t *len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *data = (const unsigned char *)bytes.data;
    unsigned char lead = data[0];
    *len = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0x80)
        return lead;
    if (lead < 0xc2 || lead > 0xf4 || bytes.len < *len)
        return -1;
    uint32_t point = lead & (0x7fu >> *len);
    for (size_t i = 1; i < *len; i++) {
        if ((data[i] & 0xc0) != 0x80)
            return -1;
        point = point << 6 | (data[i] & 0x3fu);
    }
    bool is_surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[*len] || point > 0x10ffff || is_surrogate ? -1 : (int64_t)point;
}

/* False for control characters, invisible characters, and characters that change the direction of the text. */
static bool is_printable(int64_t point)
{
    static const struct {
        int64_t first;
        int64_t last;
    } hidden[] = {{-1, 0x1f},         {0x7f, 0xa0},     {0xad, 0xad},     {0x300, 0x36f},
                  {0x61c, 0x61c},     {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},
                  {0x205f, 0x206f},   {0x3000, 0x3000}, {0xe000, 0xf8ff}, {0xfe00, 0xfe0f},
                  {0xfeff, 0xfeff},   {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
                  {0xf0000, 0x10ffff}};
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (point >= hidden[i].first && point <= hidden[i].last)
            return false;
    return true;
}

static void put_shown(struct out *out, struct bytes bytes)
{
    for (size_t at = 0, len; at < bytes.len; at += len) {
        struct bytes rest = {bytes.data + at, bytes.len - at};
        int64_t point = code_point(rest, &len);
        if (!is_printable(point)) {
            len = 1;
            out_printf(out, "\\\\x%02x", (unsigned char)rest.data[0]);
        } else if (point == '\\') {
            out_write(out, "\\\\\\\\", 4);
        } else if (len == 1) {
            put_char(out, (unsigned char)rest.data[0]);
        } else {
            out_write(out, rest.data, len);
        }
    }
}

/* ---- values ------------------------------------------------------------------------------------ */

static void begin_value(struct json_writer *writer, const char *name)
{
    struct out *out = writer->out;
    if (writer->depth == 0) {
        CHECK(!name);
        return;
    }
    uint32_t at = writer->depth - 1;
    CHECK(writer->is_list[at] == !name);
    if (writer->has_items[at])
        out_write(out, ",", 1);
    writer->has_items[at] = true;
    if (!name)
        return;
    out_write(out, "\"", 1);
    for (const char *c = name; *c; c++)
        put_char(out, (unsigned char)*c);
    out_write(out, "\":", 2);
}

static void begin_nested(struct json_writer *writer, const char *name, bool is_list)
{
    begin_value(writer, name);
    CHECK(writer->depth < JSON_DEPTH_MAX);
    writer->is_list[writer->depth] = is_list;
    writer->has_items[writer->depth] = false;
    writer->depth++;
    out_write(writer->out, is_list ? "[" : "{", 1);
}

void json_put_object(struct json_writer *writer, const char *name)
{
    begin_nested(writer, name, false);
}

void json_put_list(struct json_writer *writer, const char *name)
{
    begin_nested(writer, name, true);
}

void json_put_end(struct json_writer *writer)
{
    CHECK(writer->depth > 0);
    writer->depth--;
    out_write(writer->out, writer->is_list[writer->depth] ? "]" : "}", 1);
}

void json_put_uint(struct json_writer *writer, const char *name, uint64_t value)
{
    begin_value(writer, name);
    out_printf(writer->out, "%" PRIu64, value);
}

void json_put_double(struct json_writer *writer, const char *name, double value)
{
    begin_value(writer, name);
    if (isfinite(value))
        out_printf(writer->out, "%.6g", value);
    else
        out_write(writer->out, "null", 4);
}

void json_put_bool(struct json_writer *writer, const char *name, bool value)
{
    begin_value(writer, name);
    out_printf(writer->out, "%s", value ? "true" : "false");
}

void json_put_null(struct json_writer *writer, const char *name)
{
    begin_value(writer, name);
    out_write(writer->out, "null", 4);
}

void json_put_text(struct json_writer *writer, const char *name, const char *text)
{
    json_put_shown(writer, name, bytes_of(text), SIZE_MAX);
}

void json_put_shown(struct json_writer *writer, const char *name, struct bytes bytes, size_t max)
{
    struct out *out = writer->out;
    struct bytes kept = {bytes.data, bytes.len < max ? bytes.len : max};
    begin_value(writer, name);
    out_write(out, "\"", 1);
    put_shown(out, kept);
    if (kept.len < bytes.len)
        out_printf(out, "\u2026 (%zu bytes)", bytes.len);
    out_write(out, "\"", 1);
}
