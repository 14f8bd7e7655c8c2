/*
 * live_target.c - the connection of a live copy to its target, and the row that says what the target has.
 */
#include "backend/copy/value_reader.h"
#include "backend/live/live.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error_code.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPLY_MS = 60 * 1000, STOPPED_REPLY_MS = 3000 };

/* ---- events ---- */

static void on_link_ready(void *owner)
{
    struct live *live = owner;
    live->link.is_ready = true;
    loop_stop(live->link.loop);
}

static void on_link_fail(void *owner, const char *reason)
{
    struct live *live = owner;
    live->link.is_broken = true;
    (void)snprintf(live->link.error, sizeof live->link.error, "%s", reason);
    loop_stop(live->link.loop);
}

static void on_link_room(void *owner)
{
    struct live *live = owner;
    if (lanes_waiting(live->link.lanes) == 0)
        loop_stop(live->link.loop);
}

static void keep_frame(struct bytes *kept, struct bytes frame)
{
    char *copied = malloc(frame.len + 1);
    CHECK(copied);
    char *end = copied;
    free((char *)kept->data);
    *kept = bytes_copy_to(&end, frame);
}

static void keep_link_error(struct live *live, struct bytes frame)
{
    (void)snprintf(live->link.error, sizeof live->link.error, "%s: %.*s", live->options->to.address,
                   (int)(frame.len < 500 ? frame.len - 3 : 500), frame.data + 1);
    live->link.is_rate_limited = error_has_code(frame, "RATELIMIT");
}

/* Is it an error of the command, which comes again however often it is sent? */
static bool is_refusal(struct bytes frame)
{
    return error_has_code(frame, "ERR") || error_has_code(frame, "NOPERM") ||
           error_has_code(frame, "WRONGTYPE");
}

static void note_refusal(struct live *live, size_t number, struct bytes frame)
{
    if (error_has_code(frame, "ERR") && !live->link.unclear)
        live->link.unclear = number + 1;
    for (size_t i = 0; i < live->batch.count; i++) {
        struct batch_command *command = &live->batch.all[i];
        if (command->is_refused || command->element != number)
            continue;
        batch_refuse(&live->batch, command, (struct bytes){frame.data + 1, frame.len - 3});
        live->link.has_refused = true;
        return;
    }
    live->link.has_failed = true; /* SELECT, or the row: then it is not the command that is wrong */
}

/* The replies to commands in MULTI come in their order. */
static void note_queued(struct live *live, struct bytes frame)
{
    size_t number = live->link.queued++;
    if (*frame.data != '-')
        return;
    keep_link_error(live, frame);
    if (is_refusal(frame))
        note_refusal(live, number, frame);
    else
        live->link.has_failed = true;
}

static void on_link_reply(void *owner, const struct request *request, struct bytes frame)
{
    struct live *live = owner;
    if (request->kind == REQUEST_QUEUED) {
        note_queued(live, frame);
    } else if (request->kind == REQUEST_STEP) {
        live->link.has_failed |= *frame.data == '-';
        if (*frame.data == '-')
            keep_link_error(live, frame);
    } else {
        keep_frame(request->kind == REQUEST_EXEC ? &live->link.exec : &live->link.reply, frame);
    }
}

/* ---- the connection ---- */

/* How long replies may take. */
static uint64_t patience_ms(const struct live *live)
{
    uint64_t now_ms = clock_mono_us() / 1000;
    if (live->goal.end == LIVE_POSITION)
        return live->goal.until_ms > now_ms ? live->goal.until_ms - now_ms : 1;
    return live->is_stopped ? STOPPED_REPLY_MS : REPLY_MS;
}

/* Runs the loop until it is stopped, or for so long; then link.is_given_up. */
static void run_link(struct live *live)
{
    bool was_stopped = live->is_stopped;
    loop_run(live->link.loop);
    live->is_stopped |= atomic_load(&live->is_ended);
    if (live->is_stopped && !was_stopped)
        timer_start(live->link.timer, patience_ms(live), 0);
}

bool live_connect(struct live *live)
{
    static const struct lanes_events events = {on_link_ready, on_link_reply, on_link_room,
                                               on_link_fail};
    live_disconnect(live);
    live->link.is_ready = live->link.is_broken = live->link.is_given_up = false;
    live->link.lanes = lanes_new(live->link.loop, &live->target, &events, live, live->link.error);
    if (!live->link.lanes)
        return false;
    timer_start(live->link.timer, patience_ms(live), 0);
    while (!live->link.is_ready && !live->link.is_broken && !live->link.is_given_up &&
           !live->is_stopped)
        run_link(live);
    timer_stop(live->link.timer);
    return live->link.is_ready;
}

void live_disconnect(struct live *live)
{
    if (live->link.lanes)
        lanes_free(live->link.lanes);
    live->link.lanes = NULL;
}

static void on_given_up(void *owner)
{
    struct live *live = owner;
    live->link.is_given_up = true;
    (void)snprintf(live->link.error, sizeof live->link.error, "%s: no reply in time",
                   live->target.to.address);
    loop_stop(live->link.loop);
}

void live_link_init(struct live *live, struct loop *loop)
{
    live->link.loop = loop;
    live->link.timer = timer_new(loop, on_given_up, live);
}

void live_link_fini(struct live *live)
{
    live_disconnect(live);
    timer_free(live->link.timer);
    free((char *)live->link.reply.data);
    free((char *)live->link.exec.data);
}

bool live_await(struct live *live)
{
    struct live_link *link = &live->link;
    link->is_given_up = false;
    timer_start(link->timer, patience_ms(live), 0);
    while (!link->is_broken && !link->is_given_up && lanes_waiting(link->lanes) > 0)
        run_link(live);
    timer_stop(link->timer);
    return !link->is_broken && !link->is_given_up;
}

bool live_call(struct live *live, const struct bytes *words, uint32_t count)
{
    struct lane *lane = lane_of(live->link.lanes, BYTES(""));
    resp_write_words(lane_begin(lane, 0), words, count);
    (void)lane_end(lane, REQUEST_CALL, BYTES(""));
    if (!live_await(live))
        return false;
    if (*live->link.reply.data != '-')
        return true;
    keep_link_error(live, live->link.reply);
    return false;
}

/* ---- the row ---- */

bool live_read_row(struct live *live, struct live_row *row)
{
    struct bytes words[] = {BYTES("HMGET"),      bytes_of(live->row_name),
                            BYTES("phase"),      BYTES("id"),
                            BYTES("offset"),     BYTES("db"),
                            BYTES("generation"), BYTES("refused"),
                            BYTES("spool"),      BYTES("selection"),
                            BYTES("slots")};
    size_t at = 0;
    *row = (struct live_row){.exists = false};
    if (!live_call(live, words, COUNT_OF(words)))
        return false;
    struct bytes reply = live->link.reply;
    (void)values_count(reply, &at);
    struct bytes phase = value_text(reply, &at);
    row->exists = phase.len > 0;
    row->is_load = bytes_is(phase, "load");
    struct bytes id = value_text(reply, &at);
    (void)snprintf(row->point.id, sizeof row->point.id, "%.*s", (int)id.len, id.data);
    (void)number_parse_uint64(value_text(reply, &at), &row->point.position);
    (void)number_parse_uint64(value_text(reply, &at), &row->db);
    (void)number_parse_uint64(value_text(reply, &at), &row->generation);
    (void)number_parse_uint64(value_text(reply, &at), &row->refused);
    struct bytes spool = value_text(reply, &at);
    (void)snprintf(row->spool, sizeof row->spool, "%.*s", (int)spool.len, spool.data);
    struct bytes selection = value_text(reply, &at);
    (void)snprintf(row->selection, sizeof row->selection, "%.*s", (int)selection.len,
                   selection.data);
    struct bytes slots = value_text(reply, &at);
    (void)snprintf(row->slots, sizeof row->slots, "%.*s", (int)slots.len, slots.data);
    return true;
}

static struct bytes row_number(char to[24], uint64_t number)
{
    return (struct bytes){to, number_format_int64(to, (int64_t)number)};
}

void live_row_words(const struct live *live, const struct live_row *row, struct row_words *words)
{
    const struct bytes all[ROW_WORDS] = {
        BYTES("HSET"),       bytes_of(live->row_name),
        BYTES("phase"),      row->is_load ? BYTES("load") : BYTES("follow"),
        BYTES("id"),         bytes_of(row->point.id),
        BYTES("offset"),     row_number(words->numbers[0], row->point.position),
        BYTES("db"),         row_number(words->numbers[1], row->db),
        BYTES("generation"), row_number(words->numbers[2], row->generation),
        BYTES("refused"),    row_number(words->numbers[3], row->refused),
        BYTES("spool"),      bytes_of(row->spool),
        BYTES("selection"),  bytes_of(live->batch.selector.name),
        BYTES("slots"),      bytes_of(row->slots),
    };
    memcpy(words->all, all, sizeof all);
}

bool live_enter(struct live *live, struct live_row *row)
{
    struct bytes watch[] = {BYTES("WATCH"), bytes_of(live->row_name)};
    return live_connect(live) && live_call(live, watch, 2) && live_read_row(live, row);
}

bool live_take_over(struct live *live, const struct live_row *row, bool *taken)
{
    struct row_words words = {.numbers = {""}};
    struct live_row next = *row;
    size_t at = 0;
    next.exists = true;
    next.generation++;
    live_row_words(live, &next, &words);
    if (!live_call(live, (struct bytes[]){BYTES("MULTI")}, 1) ||
        !live_call(live, words.all, ROW_WORDS) ||
        !live_call(live, (struct bytes[]){BYTES("EXEC")}, 1))
        return false;
    *taken = values_count(live->link.reply, &at) > 0;
    if (*taken)
        live->row = next;
    return true;
}

bool live_seize(struct live *live, struct live_row *row)
{
    struct bytes raise[] = {BYTES("HINCRBY"), bytes_of(live->row_name), BYTES("generation"),
                            BYTES("1")};
    size_t at = 0;
    if (!live_call(live, raise, COUNT_OF(raise)))
        return false;
    uint64_t generation = (uint64_t)value_number(live->link.reply, &at);
    if (!live_read_row(live, row))
        return false;
    live->row = *row;
    if (!row->exists) /* it was deleted just before, and is there again with this field only */
        return live_call(live, (struct bytes[]){BYTES("DEL"), bytes_of(live->row_name)}, 2);
    row->exists = row->generation == generation;
    return true;
}

static void send_opening(struct live *live, enum request_kind kind, const struct bytes *words,
                         uint32_t count)
{
    struct lane *lane = lane_of(live->link.lanes, BYTES(""));
    resp_write_words(lane_begin(lane, 0), words, count);
    (void)lane_end(lane, kind, BYTES(""));
}

void live_open_transaction(struct live *live)
{
    struct bytes row = bytes_of(live->row_name);
    send_opening(live, REQUEST_STEP, (struct bytes[]){BYTES("WATCH"), row}, 2);
    send_opening(live, REQUEST_CALL, (struct bytes[]){BYTES("HGET"), row, BYTES("generation")}, 3);
    send_opening(live, REQUEST_STEP, (struct bytes[]){BYTES("MULTI")}, 1);
}

bool live_is_open(const struct live *live)
{
    uint64_t generation = 0;
    size_t at = 0;
    return !live->link.has_failed &&
           number_parse_uint64(value_text(live->link.reply, &at), &generation) &&
           generation == live->row.generation;
}
