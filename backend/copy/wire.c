#include "backend/copy/wire.h"

#include "backend/copy/copy.h"
#include "shared/check.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>

enum { WIRE_REPLY_MS = 60 * 1000, WIRE_KEPT_MAX = 32 * 1024 * 1024 };

/* ---- events ---- */

static void on_wire_ready(void *owner)
{
    struct wire *wire = owner;
    wire->is_ready = true;
    loop_stop(wire->loop);
}

static void on_wire_fail(void *owner, const char *reason)
{
    struct wire *wire = owner;
    wire->is_broken = true;
    (void)snprintf(wire->error, sizeof wire->error, "%s", reason);
    loop_stop(wire->loop);
}

static void on_wire_room(void *owner)
{
    struct wire *wire = owner;
    if (lanes_waiting(wire->lanes) == 0)
        loop_stop(wire->loop);
}

static void make_reply_room(struct wire *wire, size_t len)
{
    if (wire->room - wire->len >= len)
        return;
    wire->room = 2 * wire->room + len;
    wire->replies = realloc(wire->replies, wire->room);
    CHECK(wire->replies);
}

static void on_wire_reply(void *owner, const struct request *request, struct bytes frame)
{
    struct wire *wire = owner;
    (void)request;
    make_reply_room(wire, frame.len);
    memcpy(wire->replies + wire->len, frame.data, frame.len);
    wire->len += frame.len;
}

static void on_wire_late(void *owner)
{
    struct wire *wire = owner;
    wire->is_late = true;
    loop_stop(wire->loop);
}

/* ---- the connection ---- */

void wire_init(struct wire *wire, struct loop *loop, const struct copy_options *options,
               const struct copy_target *server, const bool *is_stopped)
{
    *wire = (struct wire){
        .loop = loop, .options = *options, .is_stopped = is_stopped, .reply_ms = WIRE_REPLY_MS};
    wire->options.to = *server;
    wire->options.lanes = 1;
    wire->timer = timer_new(loop, on_wire_late, wire);
}

void wire_fini(struct wire *wire)
{
    wire_drop(wire);
    timer_free(wire->timer);
    free(wire->replies);
}

void wire_drop(struct wire *wire)
{
    if (wire->lanes)
        lanes_free(wire->lanes);
    wire->lanes = NULL;
}

static void say_late(struct wire *wire)
{
    (void)snprintf(wire->error, sizeof wire->error, "%s: no reply in time",
                   wire->options.to.address);
}

bool wire_connect(struct wire *wire)
{
    static const struct lanes_events events = {on_wire_ready, on_wire_reply, on_wire_room,
                                               on_wire_fail};
    wire_drop(wire);
    wire->is_ready = wire->is_broken = wire->is_late = false;
    wire->lanes = lanes_new(wire->loop, &wire->options, &events, wire, wire->error);
    timer_start(wire->timer, wire->reply_ms, 0);
    while (wire->lanes && !wire->is_ready && !wire->is_broken && !wire->is_late &&
           !*wire->is_stopped)
        loop_run(wire->loop);
    timer_stop(wire->timer);
    if (wire->is_late)
        say_late(wire);
    return wire->is_ready && !wire->is_broken;
}

void wire_rest(struct wire *wire, uint64_t ms)
{
    wire->is_late = false;
    timer_start(wire->timer, ms, 0);
    while (!wire->is_late && !*wire->is_stopped)
        loop_run(wire->loop);
    timer_stop(wire->timer);
}

/* ---- calls ---- */

void wire_queue(struct wire *wire, uint64_t db, const struct bytes *words, uint32_t count)
{
    struct lane *lane = lane_of(wire->lanes, BYTES(""));
    if (wire->is_broken)
        return;
    resp_write_words(lane_begin(lane, db), words, count);
    (void)lane_end(lane, REQUEST_CALL, BYTES(""));
}

/* A long value must not take memory for ever. */
static void forget_replies(struct wire *wire)
{
    if (wire->room > WIRE_KEPT_MAX) {
        free(wire->replies);
        wire->replies = NULL;
        wire->room = 0;
    }
    wire->len = wire->at = 0;
}

bool wire_await(struct wire *wire)
{
    forget_replies(wire);
    wire->is_late = false;
    timer_start(wire->timer, wire->reply_ms, 0);
    while (!wire->is_broken && !wire->is_late && !*wire->is_stopped &&
           lanes_waiting(wire->lanes) > 0)
        loop_run(wire->loop);
    timer_stop(wire->timer);
    if (wire->is_late)
        say_late(wire);
    return !wire->is_broken && !wire->is_late && lanes_waiting(wire->lanes) == 0;
}

struct bytes wire_next(struct wire *wire)
{
    struct bytes all = {wire->replies, wire->len};
    size_t start = wire->at;
    if (start == wire->len || !resp_value_skip(all, &wire->at))
        return BYTES("");
    return (struct bytes){wire->replies + start, wire->at - start};
}

bool wire_answers(const struct wire *wire)
{
    return !wire->is_broken && !wire->is_late && !*wire->is_stopped;
}

bool wire_refused(struct wire *wire, struct bytes frame)
{
    wire->does_pass = copy_error_passes(frame);
    size_t len = frame.len < 3 ? 0 : frame.len - 3 < 500 ? frame.len - 3 : 500;
    (void)snprintf(wire->error, sizeof wire->error, "%s: %.*s", wire->options.to.address, (int)len,
                   len ? frame.data + 1 : "");
    return false;
}

bool wire_call(struct wire *wire, const struct bytes *words, uint32_t count, struct bytes *frame)
{
    wire_queue(wire, 0, words, count);
    if (!wire_await(wire))
        return false;
    *frame = wire_next(wire);
    return (frame->len > 0 && *frame->data != '-') || wire_refused(wire, *frame);
}

struct bytes wire_take(struct wire *wire)
{
    struct bytes taken = {wire->replies, wire->len};
    wire->replies = NULL;
    wire->len = wire->room = wire->at = 0;
    return taken;
}
