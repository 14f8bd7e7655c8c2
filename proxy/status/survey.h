/*
 * survey.h - what only the shards know, asked while somebody looks: do they answer, how many keys are where.
 *
 *   HTTP thread: survey_wanted, survey_want_keys ──► what to ask (mutex) ──► worker 0, once a second: survey_tick
 *   HTTP thread: survey_copy_health, survey_keys ◄── what was answered ◄─────┘ PING, INFO keyspace: some a second
 *
 * Nothing is asked SURVEY_PATIENCE_MS after the last look. Keys are asked for again when they are SURVEY_KEYS_MS old.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/shard_map.h"

enum {
    SURVEY_PATIENCE_MS = 10000,
    SURVEY_KEYS_MS = 10000,
    SURVEY_SILENT_MS = 2000, /* a shard that owes an answer for so long is silent */
    SURVEY_REASON_MAX = 160,
};

struct proxy_worker;
struct survey;

enum health_state { HEALTH_UNKNOWN, HEALTH_UP, HEALTH_DOWN, HEALTH_SILENT };

struct health {
    enum health_state state;
    uint64_t round_trip_us; /* of the last PING that was answered */
    uint64_t asked_us;      /* monotonic; 0: not yet */
    uint64_t answered_us;   /* too */
    char reason[SURVEY_REASON_MAX];
};

struct survey *survey_new(void);
void survey_free(struct survey *survey);

/* Somebody looks. */
void survey_wanted(struct survey *survey, uint64_t now_ms);
/* The shards' health if they are those of `map`; else all unknown. `to` has map->shard_count entries. */
void survey_copy_health(struct survey *survey, const struct shard_map *map, uint64_t now_us,
                        struct health *to);
/* Keys of a namespace in all its databases, as of *age_ms ago; false: not known. Asks for them again when they are old,
 * if it `may_ask`. */
bool survey_keys(struct survey *survey, struct bytes space, uint64_t now_ms, bool may_ask,
                 uint64_t *keys, uint64_t *age_ms);

/* Of worker 0, once a second. */
void survey_tick(struct survey *survey, struct proxy_worker *worker);
