/*
 * live_apply.c - brings the stream from the spool into the target.
 *
 *   spool ─► bytes ─► batch ─► (MULTI is open) commands, HSET row, EXEC │ WATCH row, HGET row generation, MULTI ─► all replies
 *                       ▲                                                                                            │
 *                       │  the row is written: the next batch                                                         │
 *                       └─────────────────────────────────────────────────────────────────────────────────────────────┤
 *     a command is refused when it is queued: nothing was executed; the rest is sent again, and then it is named      │
 *     anything else, also a lost connection: connect, read the row, which says whether the batch was executed, raise ◄┘
 *     the generation, so that it will not be later, and go on from there with half as many commands
 */
#include "backend/copy/value_reader.h"
#include "backend/live/live.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/number.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    READ_BYTES = 256 * 1024,
    READ_MAX_GB = 4, /* longer transactions are refused */
    WAIT_MS = 50,
    SILENT_MS = 1000,
    PAUSE_MS = 50,
    PAUSE_MS_MAX = 1000,
    RATE_PAUSE_MS =
        1000, /* limits are per second: after that, a second's amount is allowed at once */
    GIVE_UP_MS = 60 * 1000,
    AWAY_MS = 60 * 1000,
    DROP_BYTES = 16 * 1024 * 1024
};

/* The state of the loop. */
struct applying {
    struct live *live;
    size_t limit;      /* commands of a batch */
    size_t next_limit; /* after an error that may be a command's or the target's; 0: none */
    uint64_t pause_ms;
    uint64_t good_ms;  /* when a batch was written last, or there was none */
    uint64_t news_ms;  /* when the source has sent something last */
    uint64_t there_ms; /* when there was a stream last */
    uint64_t dropped;  /* the spool was shortened up to here */
    bool is_row_old;   /* the target's row does not count what failed in the last batch */
};

static uint64_t apply_now_ms(void)
{
    return clock_mono_us() / 1000;
}

/* ---- reading ---- */

static bool make_read_room(struct live *live)
{
    struct live_read *read = &live->read;
    if (read->room - read->len >= READ_BYTES)
        return true;
    size_t room = read->room * 2 + READ_BYTES;
    char *bigger = room > (size_t)READ_MAX_GB << 30 ? NULL : realloc(read->data, room);
    if (!bigger)
        return live_fail(live, EXIT_SOURCE, "a transaction of the source is too long",
                         "no memory for it");
    read->data = bigger;
    read->room = room;
    return true;
}

/* Reads more of the stream. False: the spool has no more, or the run ends. */
static bool read_more_stream(struct applying *applying, const struct source_state *state)
{
    struct live *live = applying->live;
    struct live_read *read = &live->read;
    uint64_t position = live->row.point.position + read->len;
    if (position >= state->end || !make_read_room(live))
        return false;
    ssize_t got = spool_read(&live->spool, position, read->data + read->len, READ_BYTES);
    if (got <= 0)
        return live_fail(live, EXIT_SOURCE, live->spool.error,
                         got < 0 ? "" : "the spool has lost what was received");
    read->len += (size_t)got;
    applying->news_ms = apply_now_ms();
    return true;
}

/* Collects a batch. False: no unit is whole yet. */
static bool collect(struct applying *applying, const struct source_state *state)
{
    struct live *live = applying->live;
    for (;;) {
        struct bytes bytes = {live->read.data, live->read.len};
        if (!batch_collect(&live->batch, bytes, live->row.db, applying->limit))
            return live_fail(live, EXIT_HISTORY, "the stream", live->batch.error);
        bool is_enough = live->batch.bytes >= BATCH_BYTES || live->batch.count >= applying->limit;
        if (is_enough || !read_more_stream(applying, state))
            return live->batch.bytes > 0;
    }
}

/* ---- sending ---- */

static void queue_frame(struct live *live, struct bytes frame)
{
    struct lane *lane = lane_of(live->link.lanes, BYTES(""));
    out_write(lane_begin(lane, 0), frame.data, frame.len);
    (void)lane_end(lane, REQUEST_QUEUED, BYTES(""));
}

static void queue_select(struct live *live, uint64_t db)
{
    char text[INT64_TEXT_MAX];
    char frame[64];
    size_t len = number_format_int64(text, (int64_t)db);
    int size = snprintf(frame, sizeof frame, "*2\r\n$6\r\nSELECT\r\n$%zu\r\n%.*s\r\n", len,
                        (int)len, text);
    queue_frame(live, (struct bytes){frame, (size_t)size});
}

/* Queues the commands, each in its database, and returns how many replies there will be. */
static void queue_commands(struct live *live)
{
    uint64_t db = 0;
    uint32_t element = 0;
    for (size_t i = 0; i < live->batch.count; i++) {
        struct batch_command *command = &live->batch.all[i];
        if (command->is_refused)
            continue;
        if (command->db != db) {
            queue_select(live, command->db);
            element++;
        }
        db = command->db;
        command->element = element++;
        queue_frame(live, batch_frame((struct bytes){live->read.data, live->read.len}, command));
    }
    if (db != 0)
        queue_select(live, 0);
}

static uint64_t refused_in_batch(const struct batch *batch)
{
    uint64_t refused = 0;
    for (size_t i = 0; i < batch->count; i++)
        refused += batch->all[i].is_refused;
    return refused;
}

/* The row after this batch. */
static struct live_row row_after_batch(const struct applying *applying,
                                       const struct source_state *state)
{
    struct live *live = applying->live;
    struct live_row row = live->row;
    row.point.position += live->batch.bytes;
    row.db = live->batch.db;
    row.refused += refused_in_batch(&live->batch);
    memcpy(row.point.id, state->id, sizeof row.point.id);
    return row;
}

static void send_batch(struct live *live, const struct live_row *row)
{
    struct lane *lane = lane_of(live->link.lanes, BYTES(""));
    struct bytes exec[] = {BYTES("EXEC")};
    struct row_words words = {.numbers = {""}};
    live->link.queued = 0;
    live->link.unclear = 0;
    live->link.has_refused = live->link.has_failed = false;
    queue_commands(live);
    live_row_words(live, row, &words);
    resp_write_words(lane_begin(lane, 0), words.all, ROW_WORDS);
    (void)lane_end(lane, REQUEST_QUEUED, BYTES(""));
    resp_write_words(lane_begin(lane, 0), exec, 1);
    (void)lane_end(lane, REQUEST_EXEC, BYTES(""));
    live_open_transaction(live);
}

/* ---- results ---- */

/* Names commands that failed in the target, though they had worked at the source, and returns how many. */
static uint64_t name_failed_commands(struct live *live)
{
    uint64_t before = live->report.refused;
    struct bytes reply = live->link.exec;
    struct bytes bytes = {live->read.data, live->read.len};
    struct resp_value value;
    size_t at = 0;
    size_t next = 0;
    uint64_t count = values_count(reply, &at);
    for (uint64_t element = 0; element < count; element++) {
        size_t start = at;
        while (next < live->batch.count &&
               (live->batch.all[next].is_refused || live->batch.all[next].element < element))
            next++;
        if (resp_value_next(reply, &at, &value) && value.type == '-' && next < live->batch.count)
            report_refused(&live->report, live->batch.all[next].db,
                           batch_word(bytes, &live->batch.all[next], 1), value.text);
        at = start;
        if (!resp_value_skip(reply, &at))
            break;
    }
    return live->report.refused - before;
}

/* Names the commands that could not be copied, or that the target does not accept. */
static void name_refused_commands(struct live *live)
{
    struct bytes bytes = {live->read.data, live->read.len};
    for (size_t i = 0; i < live->batch.count; i++) {
        struct batch_command *command = &live->batch.all[i];
        if (command->refusal)
            report_refused(&live->report, command->db, batch_word(bytes, command, 1),
                           bytes_of(command->refusal));
    }
}

static void batch_written(struct applying *applying, const struct live_row *row)
{
    struct live *live = applying->live;
    struct live_read *read = &live->read;
    name_refused_commands(live);
    uint64_t failed = name_failed_commands(live);
    live->commands += live->batch.count;
    live->left_out += live->batch.left_out;
    live->row = *row;
    live->row.refused += failed;
    applying->is_row_old = failed > 0;
    read->len -= live->batch.bytes;
    memmove(read->data, read->data + live->batch.bytes, read->len);
    live_source_acknowledge(live->source, row->point.position);
    if (row->point.position > applying->dropped + DROP_BYTES) {
        spool_drop(&live->spool, row->point.position);
        applying->dropped = row->point.position;
    }
    applying->good_ms = apply_now_ms();
    applying->pause_ms = PAUSE_MS;
    applying->limit =
        applying->limit * 2 > BATCH_COMMANDS_MAX ? BATCH_COMMANDS_MAX : applying->limit * 2;
}

/* Waits without work; signals and the end of the connection are noticed. */
static void rest_live(struct live *live, uint64_t wait_ms)
{
    live_source_wait(live->source, live->row.point.position + live->read.len, wait_ms);
    loop_poll(live->link.loop);
}

/* The row's generation is not ours any more, or the row is gone. */
static bool is_superseded(struct live *live, const struct live_row *row)
{
    if (row->exists && row->generation == live->row.generation)
        return false;
    (void)live_fail(live, EXIT_SESSION, live->options->to.address,
                    row->exists ? "another scree-copy goes on with this session"
                                : "the row of this session was deleted: the live copy has ended");
    return true;
}

/* Leaves the target alone for so long; a signal ends that. */
static void leave_target_alone(struct live *live, uint64_t wait_ms)
{
    uint64_t end_ms = apply_now_ms() + wait_ms;
    while (apply_now_ms() < end_ms && !live->is_stopped && !atomic_load(&live->is_ended)) {
        (void)usleep(PAUSE_MS * 1000);
        loop_poll(live->link.loop);
    }
}

static void rest_before_recovery(struct applying *applying)
{
    struct live *live = applying->live;
    leave_target_alone(live, live->link.is_rate_limited ? RATE_PAUSE_MS : applying->pause_ms);
    applying->pause_ms =
        applying->pause_ms * 2 > PAUSE_MS_MAX ? PAUSE_MS_MAX : applying->pause_ms * 2;
    live->link.is_rate_limited = false;
}

static void choose_smaller_limit(struct applying *applying)
{
    if (applying->next_limit)
        applying->limit = applying->next_limit;
    else if (applying->limit > 1)
        applying->limit /= 2;
    applying->next_limit = 0;
}

/* Connects, reads the row, which says what was executed, and opens the next transaction. True: it is open. */
static bool reopen_transaction(struct applying *applying)
{
    struct live *live = applying->live;
    struct live_row row;
    bool taken = false;
    live->link.has_failed = false;
    if (live->is_stopped || !live_enter(live, &row) || is_superseded(live, &row))
        return false;
    if (applying->is_row_old && row.refused < live->row.refused) /* else it was written at last */
        row.refused = live->row.refused;
    if (!live_take_over(live, &row, &taken))
        return false;
    applying->is_row_old &= !taken;
    live->read.len = 0; /* it is read again from where the target is */
    live_open_transaction(live);
    return taken && live_await(live) && live_is_open(live);
}

/* After an error: goes on from where the target is. Nothing is sent before a transaction is open: it would be executed without the row. */
static void recover_link(struct applying *applying)
{
    struct live *live = applying->live;
    if (apply_now_ms() - applying->good_ms > GIVE_UP_MS) {
        (void)live_fail(live, EXIT_TARGET, live->link.error, "run the same command again");
        return;
    }
    rest_before_recovery(applying);
    choose_smaller_limit(applying);
    live->link.is_broken = !reopen_transaction(applying);
}

/* Was a command refused by ERR among others? That may be because the batch is too long, for client-state-limit for example. So what stands
 * before the command is sent first, and then the command alone: if it is refused while the row is accepted, it is the command that is wrong. */
static bool is_unclear(struct applying *applying)
{
    size_t unclear = applying->live->link.unclear;
    if (!unclear || applying->limit == 1)
        return false;
    applying->next_limit = unclear > 1 && unclear <= applying->limit ? unclear - 1 : 1;
    return true;
}

/* Sends the batch until it was executed, or something has failed. */
static bool apply_batch(struct applying *applying, const struct source_state *state)
{
    struct live *live = applying->live;
    struct live_row row;
    do {
        row = row_after_batch(applying, state);
        send_batch(live, &row);
        if (!live_await(live) || !live_is_open(live) || is_unclear(applying))
            return false;
    } while (live->link.has_refused);
    if (*live->link.exec.data != '*' || live->link.exec.data[1] == '-') {
        (void)snprintf(
            live->link.error, sizeof live->link.error, "%s: %.*s", live->options->to.address,
            (int)(live->link.exec.len < 500 ? live->link.exec.len : 500), live->link.exec.data);
        return false;
    }
    batch_written(applying, &row);
    return true;
}

/* ---- the loop ---- */

bool live_has_goal(const struct live *live, const struct source_state *state)
{
    return live->row.point.position >= live->goal.point.position &&
           strcmp(state->id, live->goal.point.id) == 0;
}

static bool has_all_that_came(const struct applying *applying, const struct source_state *state)
{
    const struct live *live = applying->live;
    return state->streaming_ms && live->row.point.position == state->end && !live->link.is_broken &&
           !applying->is_row_old;
}

/* Has the source sent nothing for a second? A source that is away, or has just come, is not silent: it may have more. */
static bool is_source_silent(const struct applying *applying, const struct source_state *state)
{
    uint64_t since_ms =
        state->streaming_ms > applying->news_ms ? state->streaming_ms : applying->news_ms;
    return has_all_that_came(applying, state) && apply_now_ms() - since_ms > SILENT_MS;
}

static bool may_end(const struct applying *applying, const struct source_state *state)
{
    struct live *live = applying->live;
    switch (live->goal.end) {
    case LIVE_SILENT:
        return is_source_silent(applying, state);
    case LIVE_TOGETHER:
        if (is_source_silent(applying, state))
            atomic_store(&live->shown.has_been_silent, true);
        return atomic_load(&live->is_released) && !live->link.is_broken && !applying->is_row_old;
    case LIVE_CAUGHT_UP:
        return has_all_that_came(applying, state);
    case LIVE_POSITION:
        return !live->link.is_broken && !applying->is_row_old && live_has_goal(live, state);
    default:
        return false;
    }
}

static bool is_too_late(const struct live *live)
{
    return live->goal.end == LIVE_POSITION && apply_now_ms() > live->goal.until_ms;
}

static void fail_too_late(struct live *live, const struct source_state *state)
{
    if (strcmp(state->id, live->goal.point.id) != 0)
        (void)live_fail(live, EXIT_SOURCE, state->address,
                        "what is followed has another history than the server that was fenced: "
                        "there was a failover. Run the same command again");
    else
        (void)live_fail(live, EXIT_TARGET, live->options->to.address,
                        "it did not have everything within --pause-max");
}

/* A copy that is to end does not wait for ever for a source that is away. */
static bool is_away_too_long(struct applying *applying, const struct source_state *state)
{
    enum live_end end = applying->live->goal.end;
    if (state->streaming_ms || end == LIVE_NEVER || end == LIVE_POSITION)
        applying->there_ms = apply_now_ms();
    return apply_now_ms() - applying->there_ms > AWAY_MS;
}

static void apply_once(struct applying *applying)
{
    struct live *live = applying->live;
    struct source_state state;
    live->is_stopped |= atomic_load(&live->is_ended);
    live_source_state(live->source, &state);
    live_progress(live, "follow", state.end);
    if (state.exit != EXIT_DONE) {
        (void)live_fail(live, state.exit, state.error, "");
    } else if (is_away_too_long(applying, &state)) {
        (void)live_fail(live, EXIT_SOURCE, state.address,
                        "it has not been there for a minute: run the same command again");
    } else if (is_too_late(live)) {
        fail_too_late(live, &state);
    } else if (live->link.is_broken) {
        recover_link(applying);
    } else if (!collect(applying, &state) && !applying->is_row_old) {
        applying->good_ms = apply_now_ms();
        rest_live(live, WAIT_MS);
    } else if (!apply_batch(applying, &state)) {
        live->link.is_broken = true;
    }
}

/* Writes the row once more if it does not count what failed in the last batch: a cut-over asks it. */
static void end_row(struct applying *applying)
{
    struct live *live = applying->live;
    struct source_state state;
    live_source_state(live->source, &state);
    bool is_due = applying->is_row_old && !live->link.is_broken && live->exit == EXIT_DONE;
    if (is_due && batch_collect(&live->batch, BYTES(""), live->row.db, 1))
        (void)apply_batch(applying, &state);
}

void live_apply(struct live *live)
{
    struct applying applying = {.live = live,
                                .limit = BATCH_COMMANDS_MAX,
                                .pause_ms = PAUSE_MS,
                                .good_ms = apply_now_ms(),
                                .news_ms = apply_now_ms(),
                                .there_ms = apply_now_ms()};
    struct source_state state;
    do {
        apply_once(&applying);
        live_source_state(live->source, &state);
    } while (live->exit == EXIT_DONE && !live->is_stopped && !may_end(&applying, &state));
    end_row(&applying);
}
