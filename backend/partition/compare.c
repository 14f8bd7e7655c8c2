#include "backend/partition/compare.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/partition/compare_inner.h"
#include "backend/partition/leader_line.h"
#include "backend/peer/messages.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PARTS = 24 }; /* of all slots */

/* ---- summing ----------------------------------------------------------------------------------- */

static void run_sums(struct job *job)
{
    const struct compare *compare = container_of(job, struct compare, job);
    row_sums_run(compare->sums);
}

static void log_sums(const struct compare *compare)
{
    const struct row_sums *sums = compare->sums;
    log_event(sums->is_failed ? LOG_ERROR : LOG_INFO,
              sums->is_failed ? "rows_unreadable" : "rows_summed",
              "partition=%u batch=%" PRIu64 " first_slot=%u last_slot=%u rows=%" PRIu64,
              compare->partition->index, compare->index, sums->first, sums->last, sums->rows);
}

static void keep_own(struct compare *compare)
{
    row_sums_free(compare->own);
    compare->own = compare->sums;
    compare->own_index = compare->index;
    compare->sums = NULL;
    compare_judge_all(compare);
}

static void drop_answer(struct compare *compare)
{
    free((char *)compare->answer.data);
    compare->answer = (struct bytes){0};
}

/* Sent by compare_tick. */
static void make_answer(struct compare *compare)
{
    struct replica_figures figures;
    struct out out;
    replica_figures(compare->partition->copies.replica, &figures);
    out_init(&out);
    compare_sums_write(compare->sums, compare->index, figures.own, &out);
    drop_answer(compare);
    compare->answer = out_take(&out);
}

static void sums_done(struct job *job)
{
    struct compare *compare = container_of(job, struct compare, job);
    compare->state = COMPARE_IDLE;
    if (!atomic_load(&compare->sums->is_stopped)) {
        log_sums(compare);
        if (compare->partition->copies.is_closed)
            make_answer(compare);
        else
            keep_own(compare);
    }
    row_sums_free(compare->sums);
    compare->sums = NULL;
}

/* commit_cut_fn */
static void rows_are_cut(void *owner, uint64_t index)
{
    struct compare *compare = owner;
    struct partition *partition = compare->partition;
    if (!index) {
        compare->state = partition->copies.is_closed ? COMPARE_IDLE : COMPARE_WANTED;
        return;
    }
    if (!compare->worker)
        compare->worker = worker_new(partition->loop, "compare");
    compare->index = index;
    compare->state = COMPARE_SUMMING;
    compare->sums = row_sums_new(storage_store(partition->storage), compare->row.first,
                                 compare->row.last, compare->row.now_ms);
    compare->job = (struct job){.work = run_sums, .done = sums_done};
    worker_submit(compare->worker, &compare->job);
}

static struct compare *compare_of(struct partition *partition)
{
    struct compare *compare = partition->copies.compare;
    if (compare)
        return compare;
    compare = calloc(1, sizeof *compare);
    CHECK(compare);
    compare->partition = partition;
    partition->copies.compare = compare;
    return compare;
}

/* It does not wait: a disk that hangs must not hold up a new role. */
static void stop_soon(struct compare *compare)
{
    if (compare->state == COMPARE_SUMMING) {
        row_sums_stop(compare->sums);
        return;
    }
    if (compare->state == COMPARE_CUTTING)
        commit_cut_cancel(compare->partition->commit);
    compare->state = COMPARE_IDLE;
}

static void stop_summing(struct compare *compare)
{
    stop_soon(compare);
    if (compare->state == COMPARE_IDLE)
        return;
    worker_free(compare->worker);
    compare->worker = NULL;
    CHECK(compare->state == COMPARE_IDLE);
}

/* ---- a copy that follows ----------------------------------------------------------------------- */

void compare_follow(struct partition *partition, const struct compare_row *row, uint64_t index)
{
    struct compare *compare = compare_of(partition);
    if (!partition->copies.replica)
        return;
    stop_summing(compare);
    drop_answer(compare);
    compare->row = *row;
    compare->index = index;
    compare->state = COMPARE_CUTTING;
    commit_cut(partition->commit, rows_are_cut, compare);
}

bool compare_holds(const struct partition *partition)
{
    const struct compare *compare = partition->copies.compare;
    return compare && compare->state == COMPARE_CUTTING;
}

/* ---- the leader -------------------------------------------------------------------------------- */

static bool has_other_copies(const struct partition *partition)
{
    struct replica_figures figures = {0};
    if (partition->copies.replica)
        replica_figures(partition->copies.replica, &figures);
    return figures.count > 1;
}

static bool may_write(const struct partition *partition)
{
    const struct partition_pause *pause = &partition->pause;
    return !partition_takes_no_more(partition) && !partition_lease_is_over(partition) &&
           !commit_refuses_writes(partition->commit, NULL) && !partition_is_full(partition) &&
           !partition->shards.is_held && !pause->until_ms && !pause->is_held &&
           !pause->is_quiescing && !overlay_immutable(partition->overlay);
}

static void write_compare_row(struct compare *compare)
{
    struct partition *partition = compare->partition;
    struct arena arena;
    compare->row.now_ms = loop_wall_ms(partition->loop);
    arena_init(&arena);
    overlay_put(partition->overlay, CF_SYSTEM, BYTES(SYSTEM_COMPARE),
                compare_row_write(&arena, &compare->row));
    arena_fini(&arena);
    compare->state = COMPARE_CUTTING;
    commit_cut(partition->commit, rows_are_cut, compare);
}

const char *compare_begin(struct partition *partition, uint16_t first, uint16_t last)
{
    struct compare *compare = compare_of(partition);
    if (partition->copies.is_closed)
        return "this copy does not serve";
    if (!has_other_copies(partition))
        return "the shard has one copy";
    if (compare->state != COMPARE_IDLE)
        return "rows are being compared: try again later";
    compare->row = (struct compare_row){.first = first, .last = last};
    compare->state = COMPARE_WANTED;
    return NULL;
}

bool compare_is_running(const struct partition *partition)
{
    const struct compare *compare = partition->copies.compare;
    return compare && compare->state != COMPARE_IDLE;
}

/* A part that is late is not left out: those behind it are late, too. */
static void compare_part(struct compare *compare, uint64_t part_ms)
{
    uint64_t now_ms = loop_mono_ms(compare->partition->loop);
    unsigned part = compare->part;
    if (!compare->due_ms) {
        compare->due_ms = now_ms + part_ms;
        compare->part = (unsigned)(loop_wall_ms(compare->partition->loop) / part_ms % PARTS);
        return;
    }
    if (now_ms < compare->due_ms ||
        compare_begin(compare->partition, (uint16_t)(part * SLOT_COUNT / PARTS),
                      (uint16_t)((part + 1) * SLOT_COUNT / PARTS - 1)) != NULL)
        return;
    compare->due_ms = now_ms + part_ms;
    compare->part = (part + 1) % PARTS;
}

static void tick_leader(struct compare *compare)
{
    struct partition *partition = compare->partition;
    uint64_t part_ms = partition->snapshot->config.compare_rows_ms / PARTS;
    if (part_ms)
        compare_part(compare, part_ms);
    else
        compare->due_ms = 0;
    if (compare->state == COMPARE_WANTED && may_write(partition))
        write_compare_row(compare);
    cell_set(partition->metrics.cell, PARTITION_COPIES_DIFFERENT, compare_count_different(compare));
}

static void tick_follower(struct compare *compare)
{
    cell_set(compare->partition->metrics.cell, PARTITION_COPIES_DIFFERENT, 0);
    if (compare->answer.data && leader_line_tell(compare->partition, PEER_SUMS, compare->answer))
        drop_answer(compare);
}

void compare_tick(struct partition *partition)
{
    if (!partition->copies.replica || partition->thread.is_stopping ||
        partition->running.busy_error)
        return;
    if (partition->copies.is_closed)
        tick_follower(compare_of(partition));
    else
        tick_leader(compare_of(partition));
}

/* ---- life -------------------------------------------------------------------------------------- */

void compare_stop(struct partition *partition)
{
    if (partition->copies.compare)
        stop_summing(partition->copies.compare);
}

void compare_forget(struct partition *partition)
{
    struct compare *compare = partition->copies.compare;
    if (!compare)
        return;
    stop_soon(compare);
    drop_answer(compare);
    compare->due_ms = 0;
    compare_forget_all(compare);
}

void compare_free(struct partition *partition)
{
    struct compare *compare = partition->copies.compare;
    if (!compare)
        return;
    compare_forget(partition);
    stop_summing(compare);
    if (compare->worker)
        worker_free(compare->worker);
    free(compare);
    partition->copies.compare = NULL;
}
