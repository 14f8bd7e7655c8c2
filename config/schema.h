/*
 * schema.h - the rows of a program's .def file, for the files of this room that walk over them.
 *
 *   schema ─► options   rows of the program's own struct
 *          └► groups    sections that repeat ([namespace NAME]): an array of structs in the config,
 *                       each with rows of its own
 */
#pragma once

#include "config/config.h"

/* Sections that repeat. Their structs begin as struct group_item does. */
struct group {
    const char *word; /* "namespace" */
    const struct option *options;
    size_t option_count;
    size_t item_size;
    size_t items_offset; /* of the array and its count in the config */
    size_t count_offset;
};

struct group_item {
    char *name;
    int line;
    int include_line;
};

struct config_schema {
    const char *program;
    const struct option *options;
    size_t option_count;
    size_t size; /* of the program's struct */
    const struct group *groups;
    size_t group_count;
};

struct group_item *group_item(const struct config *config, const struct group *group, size_t i);
size_t *group_count(const struct config *config, const struct group *group);
/* A new item with the defaults. It moves when the next one is added. */
struct group_item *group_add(struct config *config, const struct group *group, struct bytes name,
                             int line);
/* NULL: none. The text is copied. */
void config_set_path(struct config *config, const char *path);
