#include "proxy/status/survey.h"

#include "proxy/client/fan_out.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct survey {
    pthread_mutex_t mutex;
    uint64_t wanted_ms;       /* when the page was last read; monotonic */
    struct shard_map *map;    /* a reference; NULL: no shard was polled yet */
    struct health *health;    /* [map->shard_count] */
    struct survey_said *said; /* [map->shard_count] */
};

struct survey *survey_new(void)
{
    struct survey *survey = calloc(1, sizeof *survey);
    CHECK(survey);
    CHECK(pthread_mutex_init(&survey->mutex, NULL) == 0);
    return survey;
}

void survey_free_said(struct survey_said *said, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (unsigned topic = 0; topic < SURVEY_TOPICS; topic++)
            free(said[i].on[topic]);
        free(said[i].storage.info);
    }
    free(said);
}

static void forget_map(struct survey *survey)
{
    survey_free_said(survey->said, survey->map ? survey->map->shard_count : 0);
    free(survey->health);
    shard_map_unref(survey->map);
}

void survey_free(struct survey *survey)
{
    forget_map(survey);
    (void)pthread_mutex_destroy(&survey->mutex);
    free(survey);
}

static void lock(struct survey *survey)
{
    CHECK(pthread_mutex_lock(&survey->mutex) == 0);
}

static void unlock(struct survey *survey)
{
    CHECK(pthread_mutex_unlock(&survey->mutex) == 0);
}

/* ---- what the page requested ------------------------------------------------------------------- */

void survey_wanted(struct survey *survey, uint64_t now_ms)
{
    lock(survey);
    survey->wanted_ms = now_ms;
    unlock(survey);
}

bool survey_is_wanted(struct survey *survey, uint64_t now_ms)
{
    lock(survey);
    bool is_wanted = survey->wanted_ms && now_ms < survey->wanted_ms + SURVEY_PATIENCE_MS;
    unlock(survey);
    return is_wanted;
}

void survey_copy_health(struct survey *survey, const struct shard_map *map, uint64_t now_us,
                        struct health *to)
{
    memset(to, 0, map->shard_count * sizeof *to);
    lock(survey);
    for (size_t i = 0; survey->map == map && i < map->shard_count; i++) {
        struct health *health = &survey->health[i];
        bool is_owed = health->asked_us > health->answered_us;
        to[i] = *health;
        if (is_owed && now_us > health->asked_us + (uint64_t)SURVEY_SILENT_MS * 1000)
            to[i].state = HEALTH_SILENT;
    }
    unlock(survey);
}

static char *copy_of_text(const char *text)
{
    char *copied = text ? strdup(text) : NULL;
    CHECK(copied || !text);
    return copied;
}

void survey_copy_said(struct survey *survey, const struct shard_map *map, struct survey_said *to)
{
    memset(to, 0, map->shard_count * sizeof *to);
    lock(survey);
    for (size_t i = 0; survey->map == map && i < map->shard_count; i++) {
        to[i] = survey->said[i];
        for (unsigned topic = 0; topic < SURVEY_TOPICS; topic++)
            to[i].on[topic] = copy_of_text(survey->said[i].on[topic]);
        to[i].storage.info = copy_of_text(survey->said[i].storage.info);
    }
    unlock(survey);
}

/* ---- polling the health of shards -------------------------------------------------------------- */

struct question;

/* Keeps what a shard of the survey's map has answered; called with the lock. */
typedef void answer_fn(struct survey *survey, const struct question *question,
                       const struct shard_reply *answer, uint64_t now_us);

/* A poll in flight; kept in its request. */
struct question {
    struct survey *survey;
    answer_fn *on_answer;
    struct shard_map *map; /* to which `shard` refers; a reference */
    int shard;
};

/* Copies the text of an error frame, without the shard's name and address at its beginning. */
static void copy_reason(char to[SURVEY_REASON_MAX], struct bytes frame)
{
    char text[UPSTREAM_TEXT_MAX];
    int len = frame.len > 3 ? (int)frame.len - 3 : 0; /* without '-' and the end of line */
    (void)snprintf(text, sizeof text, "%.*s", len, frame.data + 1);
    const char *reason = strstr(text, "): ");
    (void)snprintf(to, SURVEY_REASON_MAX, "%.150s", reason ? reason + 3 : text);
}

/* Keeps the reply; an error or an empty one removes the one before. */
static void keep_said(struct survey *survey, int shard, enum survey_topic topic, struct bytes frame)
{
    bool is_good = frame.len && frame.data[0] != '-' && frame.len <= SURVEY_INFO_MAX;
    char **said = &survey->said[shard].on[topic];
    free(*said);
    *said = is_good ? strndup(frame.data, frame.len) : NULL;
    CHECK(*said || !is_good);
}

static struct bytes frame_of_answer(const struct shard_reply *answer)
{
    return answer->is_failure ? BYTES("") : answer->frame;
}

/* answer_fn of INFO peers transactions */
static void informed(struct survey *survey, const struct question *question,
                     const struct shard_reply *answer, uint64_t now_us)
{
    (void)now_us;
    keep_said(survey, question->shard, SURVEY_INFO, frame_of_answer(answer));
}

/* answer_fn of SCREE REPLICAS */
static void copies_listed(struct survey *survey, const struct question *question,
                          const struct shard_reply *answer, uint64_t now_us)
{
    (void)now_us;
    keep_said(survey, question->shard, SURVEY_REPLICAS, frame_of_answer(answer));
}

/* answer_fn of INFO with figures of storage: a shard that fails keeps its last ones. */
static void storage_informed(struct survey *survey, const struct question *question,
                             const struct shard_reply *answer, uint64_t now_us)
{
    struct survey_storage *storage = &survey->said[question->shard].storage;
    struct bytes frame = answer->is_failure ? BYTES("-") : answer->frame;
    if (frame.data[0] == '-' || frame.len > SURVEY_INFO_MAX)
        return;
    free(storage->info);
    storage->info = strndup(frame.data, frame.len);
    CHECK(storage->info);
    storage->answered_us = now_us;
}

/* answer_fn of PING */
static void pinged(struct survey *survey, const struct question *question,
                   const struct shard_reply *answer, uint64_t now_us)
{
    struct health *health = &survey->health[question->shard];
    health->answered_us = now_us;
    health->state = answer->is_failure ? HEALTH_DOWN : HEALTH_UP;
    for (unsigned topic = 0; answer->is_failure && topic < SURVEY_TOPICS; topic++)
        keep_said(survey, question->shard, topic, BYTES(""));
    if (answer->is_failure)
        copy_reason(health->reason, answer->frame);
    else
        health->round_trip_us = health->answered_us - health->asked_us;
}

/* request_done_fn: keeps the answer, unless the survey has another map by now. */
static void poll_ended(struct client *client, struct request *request, struct reply *reply)
{
    struct question *question = request_state(request, sizeof *question);
    struct survey *survey = question->survey;
    (void)client;
    (void)reply;
    lock(survey);
    if (survey->map == question->map)
        question->on_answer(survey, question, request_reply(request, 0),
                            loop_mono_us(request->worker->loop));
    unlock(survey);
    shard_map_unref(question->map);
}

static void poll_shard(struct survey *survey, struct proxy_worker *worker, int shard,
                       const struct bytes *argv, uint32_t argc, answer_fn *on_answer)
{
    struct request *request = request_internal(worker);
    struct question *question = request_state(request, sizeof *question);
    question->survey = survey;
    question->on_answer = on_answer;
    question->map = shard_map_ref(worker->snapshot->map);
    question->shard = shard;
    request_fan_out(request, NULL, shard, argv, argc, poll_ended);
}

/* Is the shard due for a PING? Marks it as polled. */
static bool is_due(struct survey *survey, const struct shard_map *map, size_t shard,
                   uint64_t now_us)
{
    struct health *health = &survey->health[shard];
    bool is_owed = health->asked_us > health->answered_us;
    if (!map->shards[shard].address_count || is_owed)
        return false;
    health->asked_us = now_us;
    return true;
}

/* Is it time to request INFO with storage from the shard? If so, marks it as polled. */
static bool is_storage_due(struct survey_storage *storage, uint64_t now_us)
{
    if (storage->asked_us && now_us < storage->asked_us + (uint64_t)SURVEY_STORAGE_MS * 1000)
        return false;
    storage->asked_us = now_us;
    return true;
}

/* To be called for a new map: shards that were in the old one keep their figures of storage. */
static void begin_map(struct survey *survey, struct shard_map *map)
{
    struct survey_said *said = calloc(map->shard_count + 1, sizeof *said);
    CHECK(said);
    for (size_t i = 0; survey->map && i < map->shard_count; i++) {
        int old = shard_map_named(survey->map, bytes_of(map->shards[i].name));
        if (old < 0)
            continue;
        said[i].storage = survey->said[old].storage;
        survey->said[old].storage.info = NULL;
    }
    forget_map(survey);
    survey->map = shard_map_ref(map);
    survey->health = calloc(map->shard_count + 1, sizeof *survey->health);
    survey->said = said;
    CHECK(survey->health);
}

static void poll_one(struct survey *survey, struct proxy_worker *worker, int shard, bool is_storage)
{
    const struct bytes ping[] = {BYTES("PING")};
    const struct bytes info[] = {BYTES("INFO"), BYTES("peers"), BYTES("transactions")};
    const struct bytes replicas[] = {BYTES("SCREE"), BYTES("REPLICAS")};
    const struct bytes storage[] = {BYTES("INFO"), BYTES("scree"), BYTES("memory"),
                                    BYTES("persistence"), BYTES("rocksdb")};
    poll_shard(survey, worker, shard, ping, 1, pinged);
    poll_shard(survey, worker, shard, info, 3, informed);
    if (worker->snapshot->map->shards[shard].address_count > 1)
        poll_shard(survey, worker, shard, replicas, 2, copies_listed);
    if (is_storage)
        poll_shard(survey, worker, shard, storage, 5, storage_informed);
}

static void poll_all(struct survey *survey, struct proxy_worker *worker)
{
    struct shard_map *map = worker->snapshot->map;
    lock(survey);
    if (survey->map != map)
        begin_map(survey, map);
    unlock(survey);
    for (size_t i = 0; i < map->shard_count; i++) {
        lock(survey);
        bool due = is_due(survey, map, i, loop_mono_us(worker->loop));
        bool is_storage =
            due && is_storage_due(&survey->said[i].storage, loop_mono_us(worker->loop));
        unlock(survey);
        if (due)
            poll_one(survey, worker, (int)i, is_storage);
    }
}

void survey_tick(struct survey *survey, struct proxy_worker *worker)
{
    uint64_t now_ms = loop_mono_ms(worker->loop);
    if (!survey_is_wanted(survey, now_ms) || worker->thread.is_stopping || !worker->pool->nodes)
        return;
    poll_all(survey, worker);
}
