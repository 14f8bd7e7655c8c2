/*
 * json_path.h - JSONPath: selects values of a document.
 *
 *   $.sections['A-1'].seats[0:4]..price        segments, each after the other's matches
 *   ─┬─────── ───┬─── ──┬── ─┬─  ─┬───
 *    child     child  child slice  child of every value below
 *
 *   segment    .name  ['name', "name"]  [0, -1]  [from:to:step]  .*  [*]  [?(filter)]     with .. before it: of all below
 *   filter     or: a || b    and: a && b    ! a    ( a )    @.x  $.x (there is one)    operand == != < <= > >= operand
 *   operand    @ or $ with segments (the first match), a number, 'text', "text", true, false, null
 *
 * A path that does not begin with $ is in the legacy syntax: ".", ".a.b", "a.b", "a[0]"; it selects its first match.
 */
#pragma once

#include "backend/format/json/json_doc.h"

enum {
    JSON_SEGMENTS_MAX = 128,
    JSON_FILTER_DEPTH_MAX = 32,
    JSON_FILTER_TERMS_MAX =
        1024, /* && and || in one path: each is a level of recursion when the filter is evaluated */
    JSON_MATCHES_MAX = 1 << 20, /* matches of one path: ".." can match a value repeatedly */
};

struct json_segment;

struct json_path {
    struct bytes text; /* as the client sent it */
    bool is_legacy;
    struct json_segment *segments;
    uint32_t count;
};

/* One match, and its position. */
struct json_match {
    json *value;
    const struct json_match *parent; /* NULL: the document itself */
    struct bytes name;               /* in an object; data NULL: `index` in an array */
    size_t index;
};

struct json_matches {
    struct json_match **items;
    size_t count;
    size_t cap;
};

/* Parses a path into the arena. False: it is not valid; the reason is in error. */
bool json_path_parse(struct arena *arena, struct bytes text, struct json_path *path,
                     char error[JSON_ERROR_MAX]);
/* Finds the values, containers before their content. False: more than JSON_MATCHES_MAX. */
bool json_path_find(struct arena *arena, const struct json_path *path, json *root,
                    struct json_matches *matches);
/* Is the path the document itself? */
static inline bool json_path_is_root(const struct json_path *path)
{
    return path->count == 0;
}
/* Does the path end in one [index]? */
bool json_path_ends_in_index(const struct json_path *path);
/* If the path ends in a member name: that name, and the path before it. */
bool json_path_split(const struct json_path *path, struct json_path *parent, struct bytes *name);
