/*
 * json_writer.h - writes JSON text piece by piece, with commas, quotes and escapes.
 *
 *   json_put_object(w, NULL)   json_put_text(w, "name", "a")   json_put_list(w, "slots")   json_put_uint(w, NULL, 7) …
 *                     ──►  {"name":"a","slots":[7]}
 *
 * Each call takes the member's name, NULL inside a list. For any input the result is valid JSON in UTF-8 without the
 * special characters of HTML.
 */
#pragma once

#include "shared/out.h"

enum { JSON_DEPTH_MAX = 32 };

struct json_writer {
    struct out *out;
    uint32_t depth;
    bool is_list[JSON_DEPTH_MAX];
    bool has_items[JSON_DEPTH_MAX];
};

void json_writer_init(struct json_writer *writer, struct out *out);
/* Checks that every object and list was ended. */
void json_writer_fini(const struct json_writer *writer);

void json_put_object(struct json_writer *writer, const char *name);
void json_put_list(struct json_writer *writer, const char *name);
/* Ends the innermost object or list. */
void json_put_end(struct json_writer *writer);

void json_put_uint(struct json_writer *writer, const char *name, uint64_t value);
/* NaN and infinity are written as null. */
void json_put_double(struct json_writer *writer, const char *name, double value);
void json_put_bool(struct json_writer *writer, const char *name, bool value);
void json_put_null(struct json_writer *writer, const char *name);
void json_put_text(struct json_writer *writer, const char *name, const char *text);
/* Arbitrary bytes in readable form: printable UTF-8 is kept, any other byte becomes \xNN, a backslash becomes two.
 * Text beyond `max` bytes is cut, and "… (N bytes)" is appended. */
void json_put_shown(struct json_writer *writer, const char *name, struct bytes bytes, size_t max);
