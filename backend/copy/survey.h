/*
 * survey.h - reads a whole RDB file before anything is sent: is it complete and known, and what is in it?
 *
 *   version, what wrote it │ keys of each type and database │ modules │ functions │ longest value
 */
#pragma once

#include "backend/copy/rdb_input.h"
#include "backend/copy/report.h"

enum { SURVEY_NAMES_MAX = 32, SURVEY_TEXT_MAX = 128 };

struct survey_count {
    char name[SURVEY_TEXT_MAX];
    uint64_t count;
};

struct survey {
    uint64_t version;
    char writer[SURVEY_TEXT_MAX]; /* "redis 7.0.15"; empty: the file does not say it */
    bool is_kvrocks;              /* the source is a directory of Kvrocks */
    struct survey_count types[SURVEY_NAMES_MAX];
    uint64_t dbs[COPY_DBS_MAX]; /* of the target, that get keys */
    unsigned db_count;
    uint64_t keys;
    uint64_t in_parts;        /* collections that are sent in parts */
    uint64_t longest;         /* bytes of the longest value that is sent in one */
    uint64_t unknown_modules; /* keys that cannot be copied */
    uint64_t module_data;     /* of modules, that belong to no key */
    uint64_t strays; /* keys of slots that the source, a master of a cluster, does not have */
    struct bytes first_key; /* as in the target; owned */
};

/* Can the target read values of this module, as Redis writes them? Bloom filters and sketches are written differently by Scree. */
bool survey_knows_module(const char *name);
/* EXIT_DONE, or EXIT_SOURCE with a message. */
enum copy_exit survey_read(struct survey *survey, const struct copy_options *options,
                           struct copy_report *report, size_t part_max);
void survey_fini(struct survey *survey);
void survey_print(const struct survey *survey);
