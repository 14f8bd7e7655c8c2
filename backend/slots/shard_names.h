/*
 * shard_names.h - names of shards by number, so that 16384 slots can name their owners in two bytes each.
 *
 *   "b0p0" ── 0     "b1p0" ── 1     …        shard_names_put finds or adds, shard_names_keep drops what no slot names any more
 *
 * Other shards send these names. So finding one takes the same time however many there are, and their number is bounded by the
 * callers: slots name at most SLOT_COUNT shards, and an answer adds at most as many.
 */
#pragma once

#include "shared/bytes.h"

struct table;

struct shard_names {
    char **texts; /* heap, each too */
    uint16_t count;
    struct table *numbers; /* text → 1 + number */
};

void shard_names_init(struct shard_names *names);
void shard_names_fini(struct shard_names *names);
/* The number of a name, which is added if it is new. */
uint16_t shard_names_put(struct shard_names *names, struct bytes text);
/* Frees the names n for which numbers[n] is 0, and sets the others' numbers[n] to 1 + their new number. Texts that stay do not move. */
void shard_names_keep(struct shard_names *names, uint16_t *numbers);
