/*
 * map_plan.h - what a reload of another map would move, and how long it may take. Pure.
 *
 *   owners as the shards say ┐
 *   the new map              ├─► a row for each pair of shards: slots, keys, bytes
 *   keys and bytes by slot   ┘
 */
#pragma once

#include "proxy/tool/map_measure.h"
#include "shared/map_change.h"

struct map_plan_row {
    const char *from; /* NULL: the owner is not known */
    const char *to;
    unsigned slots;
    uint64_t keys, bytes;
};

struct map_plan {
    const struct map_figures *figures;
    const struct shard_map *next;
    struct map_plan_row *rows;
    size_t count;
    struct map_plan_row total;
    uint64_t most_bytes; /* of the shard that sends most */
};

/* Borrows its arguments. */
struct map_plan map_plan_make(const struct map_figures *figures, const struct shard_map *next);
void map_plan_free(struct map_plan *plan);
/* Seconds at the migration-rate, if shards send at the same time; -1: there is no limit, or it is not known. */
int64_t map_plan_seconds(const struct map_plan *plan);
/* Prints a table of what would move, and notes for the operator about the new map. */
void map_plan_print(const struct map_plan *plan, struct out *out);
void map_plan_print_json(const struct map_plan *plan, struct out *out);
