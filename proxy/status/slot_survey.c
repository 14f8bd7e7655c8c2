#include "proxy/status/slot_survey.h"

#include "proxy/client/fan_out.h"
#include "proxy/cluster/map_truth.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "shared/check.h"
#include "shared/map_change.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOVES_SHOWN = 100, TEXT_SHOWN = 200 };

struct slot_survey {
    pthread_mutex_t mutex;
    struct map_truth *truth; /* of the last answers; NULL: none yet */
    bool is_open;            /* a question has no answer yet; worker 0 only */
};

/* State of a request. */
struct slot_question {
    struct slot_survey *survey;
    struct shard_map *wish; /* a reference */
};

struct slot_survey *slot_survey_new(void)
{
    struct slot_survey *survey = calloc(1, sizeof *survey);
    CHECK(survey);
    CHECK(pthread_mutex_init(&survey->mutex, NULL) == 0);
    return survey;
}

void slot_survey_free(struct slot_survey *survey)
{
    map_truth_free(survey->truth);
    (void)pthread_mutex_destroy(&survey->mutex);
    free(survey);
}

/* ---- asking ---- */

/* request_done_fn */
static void slots_told(struct client *client, struct request *request, struct reply *reply)
{
    struct slot_question *question = request_state(request, sizeof *question);
    struct slot_survey *survey = question->survey;
    struct map_truth *truth = map_truth_new(question->wish);
    (void)client;
    (void)reply;
    map_truth_add_all(truth, request);
    CHECK(pthread_mutex_lock(&survey->mutex) == 0);
    struct map_truth *old = survey->truth;
    survey->truth = truth;
    CHECK(pthread_mutex_unlock(&survey->mutex) == 0);
    survey->is_open = false;
    shard_map_unref(question->wish);
    map_truth_free(old);
}

void slot_survey_tick(struct slot_survey *survey, struct proxy_worker *worker)
{
    const struct bytes owners[] = {BYTES("SCREE"), BYTES("OWNERS")};
    const struct bytes moves[] = {BYTES("SCREE"), BYTES("MOVES")};
    const struct fan_out commands[] = {
        {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = owners, .argc = 2},
        {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = moves, .argc = 2}};
    bool has_slots = *worker_config(worker)->upstream_secret; /* other backends own no slots */
    if (!has_slots || survey->is_open || worker->thread.is_stopping || !worker->pool->nodes)
        return;
    survey->is_open = true;
    struct request *request = request_internal(worker);
    struct slot_question *question = request_state(request, sizeof *question);
    *question =
        (struct slot_question){.survey = survey, .wish = shard_map_ref(worker->snapshot->wish)};
    request_fan_out_each(request, commands, 2, slots_told);
}

/* ---- JSON ---- */

/* Writes [first slot, last slot, owner] for each run of slots whose owner is another shard than that of the map. */
static void write_differences(struct json_writer *json, const struct map_truth *truth)
{
    const struct shard_map *owners = truth->owners;
    json_put_list(json, "differences");
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        uint16_t owner = owners->slot_shard[slot];
        unsigned first = slot;
        if (owner == SHARD_NONE || map_change_keeps(owners, truth->wish, (uint16_t)slot))
            continue;
        while (slot + 1 < SLOT_COUNT && owners->slot_shard[slot + 1] == owner &&
               !map_change_keeps(owners, truth->wish, (uint16_t)(slot + 1)))
            slot++;
        json_put_list(json, NULL);
        json_put_uint(json, NULL, first);
        json_put_uint(json, NULL, slot);
        json_put_text(json, NULL, owners->shards[owner].name);
        json_put_end(json);
    }
    json_put_end(json);
}

static void write_move(struct json_writer *json, const struct map_truth *truth,
                       const struct map_move *move)
{
    const char *own = truth->wish->shards[move->shard].name;
    int64_t eta_s = map_move_eta_s(move);
    json_put_object(json, NULL);
    json_put_text(json, "from", move->role == MAP_SOURCE ? own : move->peer);
    json_put_text(json, "to", move->role == MAP_SOURCE ? move->peer : own);
    json_put_uint(json, "first", move->first);
    json_put_uint(json, "last", move->last);
    json_put_shown(json, "state", bytes_of(move->state), TEXT_SHOWN);
    json_put_uint(json, "keys", move->keys);
    json_put_uint(json, "bytes", move->bytes);
    json_put_uint(json, "done_bytes", move->done_bytes);
    json_put_uint(json, "tail_bytes", move->tail_bytes);
    json_put_uint(json, "rate", move->rate);
    if (eta_s >= 0)
        json_put_uint(json, "eta_s", (uint64_t)eta_s);
    else
        json_put_null(json, "eta_s");
    json_put_shown(json, "reason", bytes_of(move->reason), TEXT_SHOWN);
    json_put_end(json);
}

static void write_truth(struct json_writer *json, const struct map_truth *truth)
{
    char reason[MAP_REASON_MAX];
    struct map_change change = map_change_find(truth->owners, truth->wish);
    json_put_object(json, "truth");
    json_put_bool(json, "is_settled", map_truth_settled(truth, reason));
    json_put_shown(json, "reason", bytes_of(reason), TEXT_SHOWN);
    json_put_uint(json, "to_move", change.slots - change.unknown);
    json_put_uint(json, "unknown", change.unknown);
    json_put_uint(json, "move_count", truth->moves_count);
    write_differences(json, truth);
    json_put_list(json, "moves");
    for (size_t i = 0; i < truth->moves_count && i < MOVES_SHOWN; i++)
        write_move(json, truth, &truth->moves[i]);
    json_put_end(json);
    json_put_end(json);
    map_change_free(&change);
}

void slot_survey_write(struct slot_survey *survey, const struct shard_map *wish,
                       struct json_writer *json)
{
    CHECK(pthread_mutex_lock(&survey->mutex) == 0);
    if (survey->truth && survey->truth->wish == wish)
        write_truth(json, survey->truth);
    else
        json_put_null(json, "truth");
    CHECK(pthread_mutex_unlock(&survey->mutex) == 0);
}
