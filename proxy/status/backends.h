/*
 * backends.h - what backends report about their storage, their links to each other, and transactions over shards, as
 * JSON.
 *
 *   INFO peers transactions of each shard (survey.h) ─► "links": [{"from":"a","to":"b",…}], "transactions": {…}
 *   INFO scree memory persistence rocksdb             ─► "storage": {…} of each shard
 */
#pragma once

#include "proxy/status/survey.h"
#include "shared/json_writer.h"

/* Adds "transactions" of a shard; null: they are not known. `info` may be NULL. */
void backends_write_transactions(struct json_writer *json, const char *info);
/* Adds the member "storage" of a shard; null if `info` is NULL. */
void backends_write_storage(struct json_writer *json, const char *info, uint64_t age_ms);
/* Adds "links", those that are not up first, and "link_count" and "links_down". `said`: by shard. */
void backends_write_links(struct json_writer *json, const struct shard_map *map,
                          const struct survey_said *said);
