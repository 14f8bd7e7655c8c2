/*
 * json_doc.h - JSON documents in memory: text ↔ values. The only access to jansson.
 *
 *   text ──json_parse──► struct json, a tree ──json_print──► text, compact by default
 *
 * All memory is in the call's arena, which json_use sets; nothing is freed individually. If the arena's meter is over, parsing fails,
 * and printing and searching stop. Integers of up to 64 bits
 * stay integers, longer ones become doubles. Members keep their order; of members with equal names the last one wins.
 * Numbers with a fraction are printed with the fewest digits that read back as the same value.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

#include <stdbool.h>

enum { JSON_DEPTH_MAX = 128, JSON_ERROR_MAX = 256 };

struct json_t; /* jansson's */
typedef struct json_t json;

enum json_kind {
    JSON_KIND_OBJECT,
    JSON_KIND_ARRAY,
    JSON_KIND_STRING,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_TRUE,
    JSON_KIND_FALSE,
    JSON_KIND_NULL,
};

/* Sets the arena in which this thread allocates documents from now on. */
void json_use(struct arena *arena);

/* Can the bytes be a string or a member's name: UTF-8 without NUL? */
bool json_is_text(struct bytes bytes);
/* Is the text nested deeper than JSON_DEPTH_MAX when it is placed inside `around` containers? */
bool json_is_too_deep(struct bytes text, unsigned around);
/* NULL: the text is not JSON, too deep, or has a number beyond the range of doubles; the reason is in error. */
json *json_parse(struct bytes text, char error[JSON_ERROR_MAX]);

/* Layout of the text; all empty: one line without spaces. */
struct json_layout {
    struct bytes indent;
    struct bytes newline;
    struct bytes space; /* after a colon */
};

/* Text that grows in an arena. */
struct json_text {
    struct arena *arena;
    char *data;
    size_t len;
    size_t cap;
    /* json_print stops soon after this length; 0 from when the arena's meter is over */
    size_t limit;
};

/* Makes an empty text without a limit; the caller may set one. */
void json_text_init(struct json_text *text, struct arena *arena);
void json_text_add(struct json_text *text, struct bytes bytes);
static inline struct bytes json_text_bytes(const struct json_text *text)
{
    return (struct bytes){text->data, text->len};
}
/* Prints the value, indented for `depth` enclosing containers. */
void json_print(struct json_text *text, const json *value, const struct json_layout *layout,
                unsigned depth);
void json_print_string(struct json_text *text, struct bytes string);

enum json_kind json_kind_of(const json *value);
/* "object", "array", "string", "integer", "number", "boolean", "null" */
const char *json_kind_name(const json *value);
/* Have the values equal kinds and contents? False, too, if the arena's meter is over. */
bool json_equals(const struct arena *arena, const json *a, const json *b);

json *json_new_integer(int64_t value);
json *json_new_real(double value); /* finite */
json *json_new_string(struct bytes value);
json *json_new_boolean(bool value);
json *json_new_object(void);
json *json_new_array(void);

int64_t json_to_integer(const json *value);
double json_to_double(const json *value); /* of both kinds of numbers */
struct bytes json_to_string(const json *value);

size_t json_length(const json *value); /* of an array or object */
json *json_at(const json *array, size_t index);
json *json_member(const json *object, struct bytes name); /* NULL: there is none */
void json_array_put(json *array, size_t index, json *value);
void json_array_add(json *array, json *value);
/* Inserts `count` values before the element `at`. */
void json_array_insert_all(json *array, size_t at, json *const *values, size_t count);
/* Keeps the `count` elements from `from` on; there are so many. */
void json_array_keep(json *array, size_t from, size_t count);
void json_array_drop(json *array, size_t index);
/* Removes elements; `indexes` are ascending and different. */
void json_array_drop_all(json *array, const size_t *indexes, size_t count);
void json_object_put(json *object, struct bytes name, json *value);
bool json_object_drop(json *object, struct bytes name); /* false: there was none */
void json_clear(json *value);                           /* of an array or object */

/* Iterate over an object's members: for (it = json_first(o); it; it = json_next(o, it)) … */
void *json_first(const json *object);
void *json_next(const json *object, void *it);
struct bytes json_it_name(void *it);
json *json_it_value(void *it);
