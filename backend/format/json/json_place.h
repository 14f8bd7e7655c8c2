/*
 * json_place.h - where a path's value stands in a document's stored text, found without a tree.
 *
 *   $.a[1].b      {"x":[{"a":1},"}"],"a":[7,{"b":42}]}
 *                  ──────────────── ──── ─    ──┬─
 *                  passed over      .a   [0]    place: to be read, or other text put there
 *
 * Only for text as json_print lays it out compactly, as every stored document is: no spaces, no name twice, one way to
 * escape. So names are compared as they are printed, and text put in a place is what a tree with that value would print.
 */
#pragma once

#include "backend/format/json/json_path.h"

/* False: the path is not made of names and indexes from the front alone, or there is no such value; a tree knows.
 * The place borrows the text. */
bool json_place_find(struct arena *arena, const struct json_path *path, struct bytes text,
                     struct bytes *place);
/* The text with other text in this place; made in the arena. */
struct bytes json_place_put(struct arena *arena, struct bytes text, struct bytes place,
                            struct bytes other);
