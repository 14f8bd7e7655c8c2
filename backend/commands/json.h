/*
 * json.h - shared by the JSON commands: opens a document at a path, collects an answer per match, writes the text back.
 *
 *   json_begin ─► edit: entry, root, matches ─► answer() for each match ─► json_finish: replies, saves
 *
 * For a $ path the reply is an array with an element per match, null where the value has the wrong kind. For a path
 * of the old dialect the reply is a single answer: a read takes that of the first match, a change that of the last
 * match which it changed. An error is replied when there is no such match.
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
    const char *event; /* keyspace event of a change: "json.arrappend" */
};

/* The reply when the key does not exist. */
enum json_missing {
    MISSING_IS_NULL,
    MISSING_IS_ERROR,
    MISSING_IS_BY_PATH, /* an error with a $ path, null with a path of the old dialect */
};

struct json_answer {
    enum { ANSWER_NULL, ANSWER_INT, ANSWER_TEXT } kind;
    int64_t number;
    struct bytes text;
};

/* Parses the path in argument `index`; 0: the root, in the old dialect. False: an error was replied. */
bool json_path_argument(struct call *call, uint32_t index, struct json_path *path);
/* Parses a JSON value given as an argument. NULL: an error was replied. */
json *json_argument(struct call *call, uint32_t index);
/* Opens the document; *root is NULL when the key does not exist. False: an error was replied. */
bool json_open(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry,
               json **root);
/* json_open in two steps: first the entry, then its text as a tree. Some commands need only the text. */
bool json_open_text(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry);
bool json_open_tree(struct call *call, const struct entry *entry, json **root);
/* Writes the document back and keeps its TTL. */
void json_save(struct call *call, struct entry *entry, json *root);

/* Argument 1 is the key, argument `path_at` the path (0: none given). False: a reply was written, also for a missing
 * key. */
bool json_begin(struct call *call, uint32_t path_at, enum open_flag flags,
                enum json_missing missing, struct json_edit *edit);
/* json_begin in two steps: path and entry, then the tree and the matches. */
bool json_begin_text(struct call *call, uint32_t path_at, enum open_flag flags,
                     struct json_edit *edit);
bool json_begin_tree(struct json_edit *edit, enum json_missing missing);
/* Writes the document back with `value` instead of `place`, the part of the text that json_place_find found. */
void json_save_place(struct json_edit *edit, struct bytes place, const json *value);
/* Replaces the match by another value. */
void json_replace(struct json_edit *edit, const struct json_match *match, json *value);
/* Calls answer() for every match, replies, and saves the document if it was changed. Values inside a container are
 * visited before the container, so that a change of the container does not hide them. `expected` names the kind in
 * the error: "an array". */
typedef void json_answer_fn(struct json_edit *edit, const struct json_match *match,
                            struct json_answer *answer);
void json_finish(struct json_edit *edit, json_answer_fn *fn, const char *expected);
/* Saves and notifies if something was changed. */
void json_commit(struct json_edit *edit);
/* A path has more than JSON_MATCHES_MAX matches. */
void json_error_matches(struct call *call);
/* Errors of paths in the old dialect. */
void json_error_no_path(struct call *call, const struct json_path *path);
void json_error_no_key(struct call *call);
