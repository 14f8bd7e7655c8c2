#include "proxy/core/own_calls.h"

#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>

struct own_calls *own_calls_new(void)
{
    struct own_calls *calls = calloc(1, sizeof *calls);
    CHECK(calls);
    CHECK(pthread_mutex_init(&calls->mutex, NULL) == 0);
    calls->labels = labels_new(OWN_WORDS, COMMAND_COUNT);
    return calls;
}

void own_calls_free(struct own_calls *calls)
{
    if (!calls)
        return;
    labels_free(calls->labels);
    (void)pthread_mutex_destroy(&calls->mutex);
    free(calls);
}

void own_cells_init(struct own_cells *cells, const struct own_calls *calls, uint32_t thread)
{
    *cells = (struct own_cells){.labels = calls->labels, .thread = thread};
}

/* ---- counting ---- */

uint64_t own_step_end_us(unsigned step)
{
    return ((1032ULL << step) - 1) / 1000;
}

/* The first step whose end is not before `usec`. */
static unsigned step_of(uint64_t usec)
{
    unsigned step = usec <= 1 ? 0 : 63 - (unsigned)__builtin_clzll(usec);
    while (step < HISTOGRAM_BUCKETS - 1 && own_step_end_us(step) < usec)
        step++;
    return step < HISTOGRAM_BUCKETS ? step : HISTOGRAM_BUCKETS - 1;
}

/* Time since the turn began, or since the last call that was counted in this turn: calls that end in the turn in which they
 * began run one after the other, so the clock is read once for each. */
static uint64_t measured_us(struct proxy_worker *worker, struct own_cells *cells)
{
    uint64_t now_us = clock_mono_us();
    uint64_t since_us =
        cells->counted_us > worker->timing.now_us ? cells->counted_us : worker->timing.now_us;
    cells->counted_us = now_us;
    return now_us > since_us ? now_us - since_us : 0;
}

/* Commands about connections, and SUBSCRIBE with its relatives, are never counted on a proxy's connection to a shard. */
static bool is_counted_by_shard(const struct request *request)
{
    const struct command *command = request->command;
    bool is_answered_here = command->group == GROUP_CONNECTION
                                ? command->route == ROUTE_LOCAL
                                : command->group == GROUP_PUBSUB && command->route == ROUTE_PINNED;
    return request->count.is_shards && !is_answered_here;
}

static bool is_of_transactions(const struct command *command)
{
    return command->group == GROUP_TRANSACTIONS;
}

void own_calls_count(struct proxy_worker *worker, const struct request *request, uint64_t usec,
                     bool is_error)
{
    const struct command *command = request->command;
    struct own_cells *cells = &worker->metrics.own;
    bool is_call = request->count.own == OWN_RUN || is_of_transactions(command);
    if (is_counted_by_shard(request) || (!is_call && !is_error))
        return;
    struct metric_cell *cell = cells->cells[command->id];
    if (!cell)
        cell = cells->cells[command->id] =
            labels_cell(cells->labels, bytes_of(command->full_name), cells->thread);
    if (!is_call) {
        cell_add(cell, OWN_REFUSED, 1);
        return;
    }
    usec = usec ? usec : measured_us(worker, cells);
    cell_add(cell, OWN_STEPS + step_of(usec), 1);
    cell_add(cell, OWN_USEC, usec);
    cell_add(cell, OWN_FAILED, is_error);
}

/* ---- reading ---- */

static bool read_words(const struct own_calls *calls, enum command_id id,
                       uint64_t words[LABEL_WORDS_MAX])
{
    return labels_find(calls->labels, bytes_of(command_of(id)->full_name), words);
}

bool own_calls_read(struct own_calls *calls, enum command_id id, struct own_sums *sums)
{
    uint64_t words[LABEL_WORDS_MAX];
    uint64_t any = 0;
    *sums = (struct own_sums){0};
    CHECK(pthread_mutex_lock(&calls->mutex) == 0); /* words are never older than `base` */
    bool is_known = read_words(calls, id, words);
    for (unsigned i = 0; is_known && i < OWN_WORDS; i++)
        any |= sums->words[i] = words[i] - calls->base[id][i];
    CHECK(pthread_mutex_unlock(&calls->mutex) == 0);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        sums->calls += sums->words[OWN_STEPS + i];
    return any != 0;
}

void own_calls_reset(struct own_calls *calls)
{
    uint64_t words[LABEL_WORDS_MAX];
    CHECK(pthread_mutex_lock(&calls->mutex) == 0);
    for (enum command_id id = COMMAND_NONE + 1; id < COMMAND_COUNT; id++)
        if (read_words(calls, id, words))
            memcpy(calls->base[id], words, sizeof calls->base[id]);
    CHECK(pthread_mutex_unlock(&calls->mutex) == 0);
}
