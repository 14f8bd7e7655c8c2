/*
 * json.h - what the JSON commands share: a document opened at a path, an answer for each match, the text written back.
 *
 *   json_begin ─► edit: entry, root, matches ─► answer() for each match ─► json_finish: replies, saves
 *
 * A $ path answers an array with an element for each match, null where the value is of another kind. A path of the old
 * dialect answers for one match: for the first of a read, for the last of those that a change reached. It is an error
 * when there is none or it is of another kind.
 */
#pragma once

#include "backend/format/json/json_place.h"
#include "backend/keyspace/keyspace.h"

struct json_edit {
    struct call *call;
    struct entry entry;
    json *root;
    struct json_path path;
    struct json_matches matches;
    bool changed;
    const char *event; /* of a change: "json.arrappend" */
};

/* What a command answers for a key that does not exist. */
enum json_missing {
    MISSING_IS_NULL,
    MISSING_IS_ERROR,
    MISSING_IS_BY_PATH, /* an error with a $ path, null with one of the old dialect */
};

struct json_answer {
    enum { ANSWER_NULL, ANSWER_INT, ANSWER_TEXT } kind;
    int64_t number;
    struct bytes text;
};

/* Reads the path in this argument; 0: the document itself, in the old dialect. Replies what is wrong. */
bool json_path_argument(struct call *call, uint32_t index, struct json_path *path);
/* A value given as an argument. NULL: an error was replied. */
json *json_argument(struct call *call, uint32_t index);
/* Opens the document; *root is NULL when the key does not exist. False: an error was replied. */
bool json_open(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry,
               json **root);
/* The same in two steps: the entry, and its document as a tree. Between them its text may be enough. */
bool json_open_text(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry);
bool json_open_tree(struct call *call, const struct entry *entry, json **root);
/* Writes the document back, with its TTL. */
void json_save(struct call *call, struct entry *entry, json *root);

/* Argument 1 is the key, `path_at` the path's (0: none given). False: replied, also for a missing key. */
bool json_begin(struct call *call, uint32_t path_at, enum open_flag flags,
                enum json_missing missing, struct json_edit *edit);
/* The same in two steps: path and entry; then the tree and the matches. */
bool json_begin_text(struct call *call, uint32_t path_at, enum open_flag flags,
                     struct json_edit *edit);
bool json_begin_tree(struct json_edit *edit, enum json_missing missing);
/* Writes the document back with this value where json_place_find found the path's. */
void json_save_place(struct json_edit *edit, struct bytes place, const json *value);
/* Puts another value in the match's place. */
void json_replace(struct json_edit *edit, const struct json_match *match, json *value);
/* Asks answer() for every match, replies, and saves what was changed. What lies in a container is asked before the
 * container, so that a change of the container does not hide it. `expected` names the kind: "an array". */
typedef void json_answer_fn(struct json_edit *edit, const struct json_match *match,
                            struct json_answer *answer);
void json_finish(struct json_edit *edit, json_answer_fn *fn, const char *expected);
/* Saves and notifies when something changed. */
void json_commit(struct json_edit *edit);
/* The errors of the old dialect. */
void json_error_no_path(struct call *call, const struct json_path *path);
void json_error_no_key(struct call *call);
