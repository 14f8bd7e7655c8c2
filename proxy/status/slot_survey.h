/*
 * slot_survey.h - asks the shards which slots they own and which of these move, for the status page.
 *
 *   worker 0, once a second: SCREE OWNERS, SCREE MOVES ─► all shards ─► map_truth.h (mutex) ─► HTTP thread: JSON
 *
 * One question at a time: a shard that answers late delays the next question.
 */
#pragma once

#include "shared/json_writer.h"
#include "shared/shard_map.h"

struct proxy_worker;
struct slot_survey;

struct slot_survey *slot_survey_new(void);
/* To be called after the workers have ended. */
void slot_survey_free(struct slot_survey *survey);
/* Once a second on worker 0, while the page is read. */
void slot_survey_tick(struct slot_survey *survey, struct proxy_worker *worker);
/* Writes the member "truth", the difference to shards.ini: null as long as nothing is known for it. */
void slot_survey_write(struct slot_survey *survey, const struct shard_map *wish,
                       struct json_writer *json);
