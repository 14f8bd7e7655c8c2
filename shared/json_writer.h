/*
 * json_writer.h - JSON text, written piece by piece: commas, quotes and escapes are the writer's business.
 *
 *   json_put_object(w, NULL)   json_put_text(w, "name", "a")   json_put_list(w, "slots")   json_put_uint(w, NULL, 7) …
 *                     ──►  {"name":"a","slots":[7]}
 *
 * Each call takes the member's name, NULL inside a list. Whatever bytes are given, the result is valid JSON in UTF-8
 * and has no byte that means something to HTML.
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
/* Everything that was opened has been ended. */
void json_writer_fini(const struct json_writer *writer);

void json_put_object(struct json_writer *writer, const char *name);
void json_put_list(struct json_writer *writer, const char *name);
/* Of the innermost object or list. */
void json_put_end(struct json_writer *writer);

void json_put_uint(struct json_writer *writer, const char *name, uint64_t value);
/* What is no number is written as null. */
void json_put_double(struct json_writer *writer, const char *name, double value);
void json_put_bool(struct json_writer *writer, const char *name, bool value);
void json_put_null(struct json_writer *writer, const char *name);
void json_put_text(struct json_writer *writer, const char *name, const char *text);
/* Arbitrary bytes as a person can read them: printable UTF-8 stays, any other byte becomes the four characters \xNN and
 * a backslash two. What is longer than `max` bytes is cut, and "… (N bytes)" says so. */
void json_put_shown(struct json_writer *writer, const char *name, struct bytes bytes, size_t max);
