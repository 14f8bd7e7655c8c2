/*
 * json_equal.c - compares values. A filter of a path may compare two long values for each element of an array, so the work is counted.
 */
#include "backend/format/json/json_doc.h"

enum { ELEMENT_WORK = 2 }; /* in units of 10 ns */

static bool equal_arrays(const struct arena *arena, const json *a, const json *b)
{
    size_t count = json_length(a);
    if (count != json_length(b))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!arena_goes_on(arena, ELEMENT_WORK) ||
            !json_equals(arena, json_at(a, i), json_at(b, i)))
            return false;
    return true;
}

static bool equal_objects(const struct arena *arena, const json *a, const json *b)
{
    if (json_length(a) != json_length(b))
        return false;
    for (void *it = json_first(a); it; it = json_next(a, it)) {
        struct bytes name = json_it_name(it);
        const json *other = json_member(b, name);
        if (!other || !arena_goes_on(arena, ELEMENT_WORK + name.len / 64) ||
            !json_equals(arena, json_it_value(it), other))
            return false;
    }
    return true;
}

/* The depth is bounded by JSON_DEPTH_MAX. */
bool json_equals(const struct arena *arena, const json *a, const json *b)
{
    enum json_kind kind = json_kind_of(a);
    if (a == b)
        return true;
    if (kind != json_kind_of(b))
        return false;
    switch (kind) {
    case JSON_KIND_OBJECT:
        return equal_objects(arena, a, b);
    case JSON_KIND_ARRAY:
        return equal_arrays(arena, a, b);
    case JSON_KIND_STRING:
        return arena_goes_on(arena, json_to_string(a).len / 64) &&
               bytes_equal(json_to_string(a), json_to_string(b));
    case JSON_KIND_INTEGER:
        return json_to_integer(a) == json_to_integer(b);
    case JSON_KIND_REAL:
        return json_to_double(a) == json_to_double(b);
    case JSON_KIND_TRUE:
    case JSON_KIND_FALSE:
    case JSON_KIND_NULL:
        break;
    }
    return true;
}
