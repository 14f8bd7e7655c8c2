/*
 * survey.h - polls the shards for the status page: whether they answer, and their figures.
 *
 *   HTTP thread: survey_wanted ────────► is polling on? (mutex) ──► worker 0, once a second: survey_tick
 *   HTTP thread: survey_copy_… ◄─────── replies (mutex) ◄───────────┘ PING, INFO peers transactions; SCREE REPLICAS
 *                                                                     if the shard has several addresses;
 *                                                                     INFO with storage every SURVEY_STORAGE_MS
 *
 * Polling stops SURVEY_PATIENCE_MS after the page was last read.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/shard_map.h"

enum {
    SURVEY_PATIENCE_MS = 10000,
    SURVEY_STORAGE_MS = 5000,
    SURVEY_SILENT_MS = 2000, /* a shard that has not answered for this time is shown as silent */
    SURVEY_REASON_MAX = 160,
    SURVEY_INFO_MAX = 512 * 1024, /* longer replies are ignored */
};

struct proxy_worker;
struct survey;

enum health_state { HEALTH_UNKNOWN, HEALTH_UP, HEALTH_DOWN, HEALTH_SILENT };

struct health {
    enum health_state state;
    uint64_t round_trip_us; /* of the last answered PING */
    uint64_t asked_us;      /* when the last PING was sent, monotonic; 0: never */
    uint64_t answered_us;   /* when it was answered, monotonic */
    char reason[SURVEY_REASON_MAX];
};

/* The last reply of a shard about its storage and memory; it is kept when the shard does not answer any more. */
struct survey_storage {
    char *info; /* ends with a null byte; NULL: there was no reply */
    uint64_t asked_us;
    uint64_t answered_us; /* monotonic */
};

/* What a shard says each second. */
enum survey_topic {
    SURVEY_INFO,     /* INFO peers transactions */
    SURVEY_REPLICAS, /* SCREE REPLICAS */
    SURVEY_TOPICS
};

/* The last replies of a shard. */
struct survey_said {
    char *on[SURVEY_TOPICS]; /* end with a null byte; NULL: it is down, or has not replied yet */
    struct survey_storage storage;
};

struct survey *survey_new(void);
void survey_free(struct survey *survey);

/* To be called when the page was read: the shards are polled for SURVEY_PATIENCE_MS from now on. */
void survey_wanted(struct survey *survey, uint64_t now_ms);
/* Was the page read in the last SURVEY_PATIENCE_MS? */
bool survey_is_wanted(struct survey *survey, uint64_t now_ms);
/* Copies the shards' health if the survey has the same map; else all are unknown. `to` has map->shard_count entries. */
void survey_copy_health(struct survey *survey, const struct shard_map *map, uint64_t now_us,
                        struct health *to);
/* The last replies of each shard, which the caller frees with survey_free_said. `to` has map->shard_count entries. */
void survey_copy_said(struct survey *survey, const struct shard_map *map, struct survey_said *to);
void survey_free_said(struct survey_said *said, size_t count);
/* Once a second on worker 0. */
void survey_tick(struct survey *survey, struct proxy_worker *worker);
