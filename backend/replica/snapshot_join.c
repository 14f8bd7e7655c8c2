#include "backend/replica/snapshot_join.h"

#include "backend/consensus/consensus.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/replica/snapshot_install.h"
#include "backend/replica/snapshot_source.h"
#include "backend/replica/snapshot_target.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "shared/path.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOIN_TICK_MS = 100,
    LINK_WAIT_US = 10 * 1000000, /* for the second link to come up */
    CUT_DELAY_US = 1000000,      /* after the first cut for a copy; doubled with each further one */
    CUT_DOUBLINGS = 6,
    HOLD_US = 600 * 1000000, /* for a copy that installs, replays and connects again */
    CURSOR_TRIES = 10,
    CACHE_US =
        600 * 1000000, /* files of an unfinished snapshot stay so long for the next attempt */
};

/* A copy that a leader gives files to. */
struct receiver {
    uint64_t id; /* 0: none */
    unsigned cuts;
    uint64_t next_us; /* no cut before */
    bool must_report, is_fetched;
    uint64_t index;          /* of its newest cut; 0: it was not made */
    struct wal_cursor *tail; /* holds the records after it; NULL: none */
    uint64_t held_until_us;
};

/* What a learner does. */
struct fetch {
    bool is_wanted; /* replica_fetched was not called yet */
    bool has_ended, is_good;
    struct peer_link *link; /* NULL: there is none */
    uint64_t from, index;   /* of the announcement */
    uint64_t link_until_us;
    struct snapshot_target *target; /* NULL: not begun, or ended */
    uint64_t got_index, got_term, got_whole_at;
};

struct snapshot_join {
    struct snapshot_join_options options;
    char *dir, *incoming;
    struct replica *replica;
    struct timer *tick;
    struct snapshot_source *source;
    struct receiver receivers[MEMBERS_MAX];
    /* of the present cut */
    struct receiver *reader;
    uint64_t origin, begun_us;
    uint64_t index; /* 0: it was not made */
    struct wal_cursor *tail;
    struct fetch fetch;
    uint64_t cache_until_us; /* what was fetched is removed then; UINT64_MAX: it was */
    struct worker *remover;
    struct job remove;
    bool is_removing;
    pthread_mutex_t lock;
    struct snapshot_join_figures figures; /* under the lock */
};

/* ---- a cut, on the thread of a worker ----------------------------------------------------------- */

/* The record at the commit index is there: a flush leaves the newest one that it might trim. But the index may grow before the cursor is
 * made. */
static bool hold_tail(struct snapshot_join *join)
{
    struct wal *wal = storage_wal(join->options.storage);
    for (int i = 0; i < CURSOR_TRIES && !join->tail; i++)
        join->tail = wal_cursor_new(wal, storage_committed(join->options.storage));
    return join->tail != NULL;
}

/* Moves the cursor behind the record `index` and reads its term. */
static int read_term(struct snapshot_join *join, uint64_t index, uint64_t *term, char *error,
                     size_t size)
{
    struct effects_header header;
    struct effects_reader reader;
    struct bytes record = {0};
    uint64_t at = 0;
    int err = OK;
    while (err == OK && at < index)
        err = wal_cursor_next(join->tail, &at, &record, error, size);
    if (err == OK && at == index && effects_open(record, &header, &reader) == EFFECTS_READ) {
        *term = header.term;
        return OK;
    }
    if (err == OK || err == ERR_NOT_FOUND)
        (void)snprintf(error, size, "the log does not have record %" PRIu64, index);
    return ERR_STORE;
}

/* snapshot_cut.make: the cut has the log up to S, and nothing after S is trimmed from then on. */
static int make_cut(void *owner, const char *path, struct snapshot_list *list, char *error,
                    size_t size)
{
    struct snapshot_join *join = owner;
    struct storage *storage = join->options.storage;
    if (!hold_tail(join)) {
        (void)snprintf(error, size, "the log has no committed record");
        return ERR_STORE;
    }
    int err = storage_flush(storage, error, size);
    if (err == OK)
        err = storage_checkpoint(storage, path, error, size);
    if (err == OK)
        wal_copy_kept(storage_wal(storage), path);
    list->origin = join->origin;
    list->index = list->whole_at = wal_committed_at(path);
    if (err == OK)
        err = read_term(join, list->index, &list->term, error, size);
    join->index = err == OK ? list->index : 0;
    return err;
}

/* ---- receivers ------------------------------------------------------------------------------------ */

static void let_tail_go(struct receiver *receiver)
{
    wal_cursor_free(receiver->tail);
    receiver->tail = NULL;
}

static struct receiver *receiver_with(struct snapshot_join *join, uint64_t id)
{
    for (unsigned i = 0; i < MEMBERS_MAX; i++)
        if (join->receivers[i].id == id)
            return &join->receivers[i];
    return NULL;
}

/* A leader gives files before it serves: its first record may need the very copy that lacks them. NULL: it is no member, or this copy does
 * not lead. */
static struct receiver *receiver_to_serve(struct snapshot_join *join, uint64_t id)
{
    const struct consensus *core = replica_core(join->replica);
    bool is_member = false;
    if (!core || core->role < CONSENSUS_LEADING)
        return NULL;
    for (unsigned i = 0; i < core->members.count; i++)
        is_member |= core->members.list[i].id == id && id != core->id;
    struct receiver *receiver = is_member ? receiver_with(join, id) : NULL;
    if (is_member && !receiver && (receiver = receiver_with(join, 0)))
        *receiver = (struct receiver){.id = id};
    return receiver;
}

static uint64_t match_of_receiver(const struct consensus *core, uint64_t id)
{
    for (unsigned i = 0; i < core->members.count; i++)
        if (core->members.list[i].id == id)
            return core->progress[i].match;
    return UINT64_MAX; /* no member any more: nothing is held for it */
}

/* snapshot_cut.on_end. The message that all was fetched may be lost: the tail is held all the same. */
static void cut_ended(void *owner, uint64_t index)
{
    struct snapshot_join *join = owner;
    struct receiver *receiver = join->reader;
    uint64_t sent, total;
    snapshot_source_progress(join->source, &sent, &total);
    let_tail_go(receiver);
    receiver->tail = join->tail;
    receiver->must_report = true;
    receiver->is_fetched = index != 0;
    receiver->index = join->index;
    receiver->held_until_us = clock_boot_us() + HOLD_US;
    join->tail = NULL;
    join->reader = NULL;
    log_event(LOG_INFO, "snapshot_sent",
              "partition=%u to=%016" PRIx64 " whole=%d index=%" PRIu64 " bytes=%" PRIu64
              " of=%" PRIu64 " ms=%" PRIu64,
              join->options.index, receiver->id, index != 0, receiver->index, sent, total,
              (clock_boot_us() - join->begun_us) / 1000);
}

static void begin_cut_for(struct snapshot_join *join, struct receiver *receiver)
{
    const struct replica_record *record = replica_newest_record(join->replica);
    unsigned cuts = receiver->cuts < CUT_DOUBLINGS ? receiver->cuts : CUT_DOUBLINGS;
    receiver->cuts++;
    receiver->next_us = clock_boot_us() + ((uint64_t)CUT_DELAY_US << cuts);
    join->reader = receiver;
    join->begun_us = clock_boot_us();
    join->index = 0;
    join->origin = snapshot_origin(record->id, record->base);
}

static void handle_files_begin(struct snapshot_join *join, struct peer_incoming *incoming,
                               const struct peer_frame *frame, uint64_t from)
{
    struct receiver *receiver = receiver_to_serve(join, from);
    struct refusal refusal = NO_REFUSAL;
    if (!receiver)
        refusal = REFUSAL(OTHER, "this copy does not lead, or the other one is no member");
    else if (clock_boot_us() < receiver->next_us)
        refusal = REFUSAL(WAIT, "this copy was given files a moment ago");
    if (refusal.code) {
        peer_incoming_refuse(incoming, frame->id, refusal);
        return;
    }
    if (!snapshot_source_is_busy(join->source))
        begin_cut_for(join, receiver);
    (void)snapshot_source_handle(join->source, incoming, frame);
}

/* replica_snapshots */
static bool handle_files(void *owner, struct peer_incoming *incoming,
                         const struct peer_frame *frame, uint64_t from)
{
    struct snapshot_join *join = owner;
    if (frame->kind != PEER_SNAPSHOT_BEGIN)
        return snapshot_source_handle(join->source, incoming, frame);
    handle_files_begin(join, incoming, frame, from);
    return true;
}

static void files_closed(void *owner, struct peer_incoming *incoming)
{
    const struct snapshot_join *join = owner;
    snapshot_source_closed(join->source, incoming);
}

static bool is_giving(void *owner, uint64_t id)
{
    struct snapshot_join *join = owner;
    const struct receiver *receiver = receiver_with(join, id);
    return receiver && (join->reader == receiver || receiver->must_report);
}

/* Home may have committed more than the core has heard of. */
static void report_receiver(struct snapshot_join *join, const struct consensus *core,
                            struct receiver *receiver)
{
    if (!receiver->must_report || core->committed < receiver->index)
        return;
    receiver->must_report = false;
    replica_snapshot_sent(join->replica, receiver->id, receiver->is_fetched ? receiver->index : 0);
}

static bool may_hold(const struct snapshot_join *join, const struct receiver *receiver)
{
    uint64_t room = path_free_bytes(join->dir);
    return clock_boot_us() < receiver->held_until_us && (!room || room >= join->options.free_min);
}

/* A copy that has caught up may be given another snapshot at once. Until its log has passed the files, it may still be installing them; then
 * the records behind them, which a leader with a short log would trim, are on their way. */
static void caught_up(struct receiver *receiver)
{
    receiver->cuts = 0;
    receiver->next_us = 0;
    let_tail_go(receiver);
}

static void drop_tail(const struct snapshot_join *join, struct receiver *receiver, bool is_needed)
{
    if (is_needed)
        log_event(LOG_WARN, "snapshot_tail_dropped",
                  "partition=%u to=%016" PRIx64 " index=%" PRIu64, join->options.index,
                  receiver->id, receiver->index);
    let_tail_go(receiver);
}

static void tend_receiver(struct snapshot_join *join, struct receiver *receiver)
{
    const struct consensus *core = replica_core(join->replica);
    uint64_t match = match_of_receiver(core, receiver->id);
    if (match == UINT64_MAX) {
        let_tail_go(receiver);
        *receiver = (struct receiver){0};
        return;
    }
    if (receiver->index && match > receiver->index && consensus_is_caught_up(core, receiver->id))
        caught_up(receiver);
    else if (receiver->tail && !may_hold(join, receiver))
        drop_tail(join, receiver, core->last > match);
    report_receiver(join, core, receiver);
}

/* Leads no more: what it has promised other copies is void. */
static void forget_receivers(struct snapshot_join *join)
{
    for (unsigned i = 0; i < MEMBERS_MAX; i++) {
        struct receiver *receiver = &join->receivers[i];
        if (receiver == join->reader)
            continue;
        let_tail_go(receiver);
        *receiver = (struct receiver){0};
    }
}

static void tend_receivers(struct snapshot_join *join)
{
    const struct consensus *core = replica_core(join->replica);
    if (!core || core->role < CONSENSUS_LEADING) {
        forget_receivers(join);
        return;
    }
    for (unsigned i = 0; i < MEMBERS_MAX && replica_core(join->replica); i++)
        if (join->receivers[i].id && &join->receivers[i] != join->reader)
            tend_receiver(join, &join->receivers[i]);
}

/* ---- fetching ---------------------------------------------------------------------------------- */

/* The reason may be a text of the target. */
static void end_fetch(struct snapshot_join *join, const char *reason)
{
    struct fetch *fetch = &join->fetch;
    if (reason)
        log_event(LOG_WARN, "snapshot_fetch_failed",
                  "partition=%u from=%016" PRIx64 " reason=" LOG_QUOTED, join->options.index,
                  fetch->from, reason);
    snapshot_target_free(fetch->target);
    fetch->target = NULL;
    fetch->link = NULL;
    fetch->has_ended = true;
}

/* snapshot_target_events.on_end. The word that all is here must leave before the link is freed, so replica_fetched comes later. */
static void target_ended(void *owner, enum snapshot_result result, const struct snapshot_list *list,
                         const char *reason)
{
    struct snapshot_join *join = owner;
    struct fetch *fetch = &join->fetch;
    if (result == SNAPSHOT_IS_HERE && list->index < fetch->index)
        reason = "the files are older than was announced";
    else if (result == SNAPSHOT_IS_HERE)
        fetch->is_good = true;
    fetch->got_index = list->index;
    fetch->got_term = list->term;
    fetch->got_whole_at = list->whole_at;
    if (fetch->is_good)
        log_event(LOG_INFO, "snapshot_fetched",
                  "partition=%u from=%016" PRIx64 " index=%" PRIu64 " bytes=%" PRIu64,
                  join->options.index, fetch->from, list->index, snapshot_list_bytes(list));
    end_fetch(join, fetch->is_good ? NULL : reason);
}

/* replica_snapshots. A fetch of an earlier core may still run, which nothing waits for any more. */
static void begin_fetch_files(void *owner, struct peer_link *link,
                              const struct consensus_message *message)
{
    struct snapshot_join *join = owner;
    snapshot_target_free(join->fetch.target);
    join->fetch = (struct fetch){.is_wanted = true,
                                 .link = link,
                                 .from = message->from,
                                 .index = message->index,
                                 .link_until_us = clock_boot_us() + LINK_WAIT_US};
}

static void cancel_fetch_files(void *owner)
{
    struct snapshot_join *join = owner;
    if (join->fetch.is_wanted && !join->fetch.has_ended)
        end_fetch(join, "the connection to the other copy is not wanted any more");
}

static void begin_target(struct snapshot_join *join)
{
    static const struct snapshot_target_events events = {.on_end = target_ended};
    struct snapshot_target_events own = events;
    struct fetch *fetch = &join->fetch;
    own.owner = join;
    if (fetch->link && fetch->link->state == PEER_LINK_UP)
        fetch->target = snapshot_target_new(join->options.loop, fetch->link, join->incoming, &own);
    if (!fetch->target && (!fetch->link || clock_boot_us() > fetch->link_until_us))
        end_fetch(join, "there is no connection to the other copy");
}

/* Files that are whole and are not installed are of no use: the copy has got newer records from the log, or another leader. */
static void report_fetch(struct snapshot_join *join)
{
    const struct fetch fetch = join->fetch;
    join->fetch = (struct fetch){0};
    join->cache_until_us = clock_boot_us() + CACHE_US;
    replica_fetched(join->replica, fetch.is_good ? join->incoming : NULL, fetch.got_index,
                    fetch.got_term, fetch.got_whole_at);
    if (!replica_core(join->replica)) /* they are being installed */
        join->cache_until_us = UINT64_MAX;
    else if (fetch.is_good)
        join->cache_until_us = 0;
}

static void remove_cache_work(struct job *job)
{
    const struct snapshot_join *join = container_of(job, struct snapshot_join, remove);
    (void)path_remove(join->incoming);
}

static void remove_cache_done(struct job *job)
{
    container_of(job, struct snapshot_join, remove)->is_removing = false;
}

static void remove_cache(struct snapshot_join *join)
{
    join->cache_until_us = UINT64_MAX;
    join->is_removing = true;
    join->remove = (struct job){.work = remove_cache_work, .done = remove_cache_done};
    worker_submit(join->remover, &join->remove);
}

static void tend_fetch(struct snapshot_join *join)
{
    const struct fetch *fetch = &join->fetch;
    if (fetch->is_wanted && fetch->has_ended)
        report_fetch(join);
    else if (fetch->is_wanted && !fetch->target && !join->is_removing)
        begin_target(join);
    else if (!fetch->is_wanted && clock_boot_us() >= join->cache_until_us)
        remove_cache(join);
}

/* ---- figures ----------------------------------------------------------------------------------- */

static void note_join_figures(struct snapshot_join *join)
{
    const struct fetch *fetch = &join->fetch;
    struct snapshot_join_figures figures = {.is_fetching = fetch->is_wanted && !fetch->has_ended};
    if (join->reader) {
        figures.to = join->reader->id;
        snapshot_source_progress(join->source, &figures.sent, &figures.total);
    }
    if (join->fetch.target)
        snapshot_target_progress(join->fetch.target, &figures.fetched, &figures.wanted);
    pthread_mutex_lock(&join->lock);
    join->figures = figures;
    pthread_mutex_unlock(&join->lock);
}

void snapshot_join_figures(struct snapshot_join *join, struct snapshot_join_figures *to)
{
    pthread_mutex_lock(&join->lock);
    *to = join->figures;
    pthread_mutex_unlock(&join->lock);
}

/* ---- life -------------------------------------------------------------------------------------- */

/* timer_fn: what is reported to the replica is reported here, so never inside one of its calls. */
static void join_tick(void *owner)
{
    struct snapshot_join *join = owner;
    tend_fetch(join);
    tend_receivers(join);
    note_join_figures(join);
}

static char *path_beside_data(const char *dir, const char *suffix)
{
    char *path;
    CHECK(asprintf(&path, "%s%s", dir, suffix) > 0);
    return path;
}

struct snapshot_join *snapshot_join_new(const struct snapshot_join_options *options)
{
    struct snapshot_join *join = calloc(1, sizeof *join);
    CHECK(join);
    const struct snapshot_cut cut = {.make = make_cut, .on_end = cut_ended, .owner = join};
    char *outgoing = path_beside_data(options->dir, SNAPSHOT_OUTGOING);
    join->options = *options;
    join->dir = path_beside_data(options->dir, "");
    join->incoming = path_beside_data(options->dir, SNAPSHOT_INCOMING);
    join->source = snapshot_source_new(options->loop, outgoing, &cut);
    snapshot_source_set_rate(join->source, options->rate);
    join->tick = timer_new(options->loop, join_tick, join);
    join->remover = worker_new(options->loop, "snapshot");
    join->cache_until_us = clock_boot_us() + CACHE_US;
    CHECK(pthread_mutex_init(&join->lock, NULL) == 0);
    free(outgoing);
    return join;
}

void snapshot_join_use(struct snapshot_join *join, struct replica *replica)
{
    join->replica = replica;
    timer_start(join->tick, JOIN_TICK_MS, JOIN_TICK_MS);
}

struct replica_snapshots snapshot_join_table(struct snapshot_join *join)
{
    return (struct replica_snapshots){.fetch = begin_fetch_files,
                                      .cancel = cancel_fetch_files,
                                      .is_sending = is_giving,
                                      .handle = handle_files,
                                      .closed = files_closed,
                                      .owner = join};
}

void snapshot_join_free(struct snapshot_join *join)
{
    if (!join)
        return;
    timer_free(join->tick);
    worker_free(join->remover);
    snapshot_source_free(join->source);
    snapshot_target_free(join->fetch.target);
    wal_cursor_free(join->tail);
    for (unsigned i = 0; i < MEMBERS_MAX; i++)
        let_tail_go(&join->receivers[i]);
    pthread_mutex_destroy(&join->lock);
    free(join->incoming);
    free(join->dir);
    free(join);
}
