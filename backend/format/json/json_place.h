/*
 * json_place.h - finds a path's value in the stored text of a document without building a tree.
 *
 *   $.a[1].b      {"x":[{"a":1},"}"],"a":[7,{"b":42}]}
 *                  ──────────────── ──── ─    ──┬─
 *                  skipped          .a   [0]    place: to be read or replaced
 *
 * Only for text in json_print's compact layout, which every stored document has: no spaces, no duplicate names, unique
 * escapes. So printed names can be compared, and replacing text gives the same result as printing a changed tree.
 */
#pragma once

#include "backend/format/json/json_path.h"

/* False: the path has segments other than names and non-negative indexes, or there is no such value; the caller then
 * parses the document. The place is borrowed from the text. */
bool json_place_find(struct arena *arena, const struct json_path *path, struct bytes text,
                     struct bytes *place);
/* Replaces the place by `value`; the result is in the arena. */
struct bytes json_place_put(struct arena *arena, struct bytes text, struct bytes place,
                            struct bytes other);
