/*
 * schema.h - the rows of a program's .def file as tables. Only for files in config/.
 *
 *   schema ─► options   rows of the program's own struct
 *          └► groups    repeated sections ([namespace NAME]): an array of structs in the config, with rows of their own
 */
#pragma once

#include "config/config.h"

/* One kind of repeated section. Its structs begin with the fields of struct group_item. */
struct group {
    const char *word; /* "namespace" */
    const struct option *options;
    size_t option_count;
    size_t item_size;
    size_t items_offset; /* offsets of the array and of its length in the config */
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
/* Adds an item with the defaults. The pointer is valid until the next item is added. */
struct group_item *group_add(struct config *config, const struct group *group, struct bytes name,
                             int line);
/* Copies the path; NULL: none. */
void config_set_path(struct config *config, const char *path);
