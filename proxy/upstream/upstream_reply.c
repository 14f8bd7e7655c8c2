/*
 * Frames from a backend. The oldest part in the queue owns the next reply; push frames (`>`) are no replies.
 */
#include "proxy/upstream/upstream_inner.h"

#include "proxy/core/slow_log.h"
#include "proxy/upstream/leaders.h"
#include "shared/bounce.h"
#include "shared/error_code.h"
#include "shared/log.h"
#include "shared/number.h"
#include "shared/stopping.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOUNCE_HEAD_ROOM = 1024 * 1024 }; /* for what a bounce has besides the client's request */

static const char dropped_error[] =
    "-ERR the reply was dropped: it is longer than client-output-limit of the proxy\r\n";

static bool is_error_frame(const char *data)
{
    return data[0] == '-' || data[0] == '!';
}

/* The text of an error frame; heap. */
static char *error_of(const char *data, size_t len)
{
    size_t pos = 0;
    struct resp_value value;
    if (!resp_value_next((struct bytes){data, len}, &pos, &value))
        value.text = BYTES("ERR malformed error");
    char *text = strndup(value.text.data, value.text.len);
    CHECK(text);
    return text;
}

static void handle_greeting(struct upstream *upstream, const char *data, size_t len)
{
    if (is_error_frame(data)) {
        char *text = error_of(data, len);
        char reason[sizeof(upstream->failure.reason)];
        (void)snprintf(reason, sizeof(reason), "refused the greeting: %s", text);
        free(text);
        upstream_lost(upstream, reason);
        return;
    }
    if (--upstream->greetings == 0)
        upstream_up(upstream);
}

static void handle_auth(struct upstream *upstream, const char *data, size_t len)
{
    if (greeting_auth(&upstream->greeting, (struct bytes){data, len}))
        upstream->greetings--; /* the reply to SCREE SELF follows */
    else
        handle_greeting(upstream, data, len);
}

/* Requests for a copy that does not lead wait as for a shard that restarts. */
static bool serves_requests(const struct upstream *upstream, const struct greeting_self *self,
                            char *reason, size_t size)
{
    if (upstream->use.is_copy)
        return greeting_follows(self, reason, size);
    bool serves = greeting_serves(self, reason, size);
    if (!serves)
        upstream_hold_for_leader(upstream);
    if (!serves && !upstream->node->has_copies)
        leaders_look_for(upstream->worker->proxy, upstream->node->name);
    return serves;
}

/* The partition must be the shard for which the map has its address. */
static void handle_self(struct upstream *upstream, const char *data, size_t len)
{
    struct greeting_self self;
    char reason[sizeof(upstream->failure.reason)];
    greeting_read((struct bytes){data, len}, &self);
    upstream->node->is_owner = *self.shard;
    upstream->session_id = self.client;
    if (!greeting_check(&self, upstream->node->name, reason, sizeof(reason)) ||
        !serves_requests(upstream, &self, reason, sizeof(reason)))
        upstream_lost(upstream, reason);
    else if (--upstream->greetings == 0)
        upstream_up(upstream);
}

/* Requests after a refused SCREE USE or SELECT fail with its error. */
static void handle_switch_reply(struct upstream *upstream, const char *data, size_t len)
{
    upstream_forget(&upstream->reading.switch_error);
    if (!is_error_frame(data))
        return;
    upstream->reading.switch_error = error_of(data, len);
    upstream_set_keyspace(upstream, NULL);
    log_event(LOG_DEBUG, "switch_refused", "shard=%s reason=" LOG_QUOTED, upstream->node->name,
              upstream->reading.switch_error);
}

/* Discards a reply that precedes the part's own, and keeps the first error. */
static void handle_swallowed(struct upstream *upstream, struct part *part, const char *data,
                             size_t len)
{
    part->swallow--;
    if (is_error_frame(data) && !upstream->reading.block_error)
        upstream->reading.block_error = error_of(data, len);
}

/* The shard has refused a command of the transaction, for which the client already got QUEUED: EXEC fails with the
 * shard's error. */
static void fail_block(struct upstream *upstream, struct part *part)
{
    char text[UPSTREAM_TEXT_MAX];
    bool is_busy =
        part->request->is_exec && error_has_code(bytes_of(upstream->reading.block_error), "BUSY");
    (void)snprintf(text, sizeof text, "%s%s",
                   is_busy ? "EXECABORT Transaction discarded because of: " : "",
                   upstream->reading.block_error);
    part_failed(part, text);
}

static void handle_reply(struct upstream *upstream, struct part *part, struct block *block,
                         const char *data, size_t len)
{
    if (part->is_answered) {
        part_unlinked(part);
    } else if (upstream->reading.switch_error) {
        part_failed(part, upstream->reading.switch_error);
        part_unlinked(part);
    } else if (upstream->reading.block_error) {
        fail_block(upstream, part);
        part_unlinked(part);
    } else {
        part_answered(part, block, data, len);
    }
    if (upstream->reading.block_error)
        upstream_forget(&upstream->reading.block_error);
}

static void save_client_id(struct upstream *upstream, const char *data, size_t len)
{
    size_t pos = 0;
    struct resp_value value;
    int64_t id;
    if (resp_value_next((struct bytes){data, len}, &pos, &value) && data[0] == ':' &&
        number_parse_int64(value.text, &id) && id > 0)
        upstream->use.backend_id = (uint64_t)id;
}

/* The reply to the PING of ask_busy(). */
static void note_busy(struct upstream *upstream, const char *data, size_t len)
{
    upstream->node->said_busy = error_has_code((struct bytes){data, len}, "BUSY");
    upstream->node->busy_ms = (uint32_t)worker_now_ms(upstream->worker);
}

/* Handles a frame that shows a command of a script, for MONITOR clients. False: it is another push frame. */
static bool show_script_command(const struct upstream *upstream, const struct part *part,
                                struct bytes frame)
{
    struct resp_value head;
    struct resp_value word;
    struct resp_value line;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &head) || head.count != 2 ||
        !resp_value_next(frame, &pos, &word) || word.type != '$' ||
        !bytes_equal(word.text, BYTES("monitor")) || !resp_value_next(frame, &pos, &line))
        return false;
    struct client *client = part && part->request ? part->request->client : NULL;
    if (client) /* NULL: the client has left */
        upstream->worker->client_events->script_shown(client, line.text);
    return true;
}

static void handle_push(struct upstream *upstream, struct block *block, const char *data,
                        size_t len)
{
    if (show_script_command(upstream, upstream->queue.first, (struct bytes){data, len}))
        return;
    if (len == sizeof STOPPING_FRAME - 1 && memcmp(data, STOPPING_FRAME, len) == 0) {
        upstream_hold_stopping(upstream);
        return;
    }
    if (events_of(upstream)->push)
        events_of(upstream)->push(upstream, block, data, len);
    else if (upstream->waits && !wait_table_answer(upstream, block, data, len))
        upstream_lost(upstream, "received a push frame that answers no blocked command");
}

/* A bounce has come, also if the proxy does not take its request back: what is behind it bounces until the shard hears that. One that was
 * behind is news only if the bounce before it was replaced by an error, so that the shard has heard nothing. */
static void count_bounce(struct upstream *upstream, const struct bounce *bounce)
{
    bool is_news = !upstream->queue.has_bounced && upstream->queue.seens == 0;
    if (!bounce || bounce->why != BOUNCE_BEHIND || is_news)
        upstream_note_bounce(upstream);
}

/* Can the part's request be sent again? */
static bool may_send_again(const struct upstream *upstream, const struct part *part)
{
    return part && part->swallow == 0 && part_is_request(part) && !part->is_answered &&
           !upstream->reading.switch_error && !upstream->reading.block_error &&
           upstream->life.has_authenticated;
}

/* Takes a request back that the shard has bounced. False: the frame is a reply. */
static bool take_bounce(struct upstream *upstream, struct part *part, struct block *block,
                        struct bytes frame)
{
    struct bounce bounce;
    bool is_bounce = block && bounce_read(frame, &bounce);
    count_bounce(upstream, is_bounce ? &bounce : NULL);
    if (!is_bounce || !may_send_again(upstream, part))
        return false;
    upstream_pop(upstream, part);
    upstream->worker->client_events->bounced(upstream, part, block, &bounce);
    if (upstream->use.is_single_use)
        upstream_release(upstream, true);
    return true;
}

/* Does a frame with this first byte need handle_special? */
static const bool is_special[UCHAR_MAX + 1] = {['>'] = true, ['-'] = true, ['!'] = true};

/* Handles a push frame or a bounce. False: the frame is a reply. */
static bool handle_special(struct upstream *upstream, struct part *part, struct block *block,
                           const char *data, size_t len)
{
    if (data[0] == '>') {
        handle_push(upstream, block, data, len);
        return true;
    }
    if (data[0] == '!')
        return take_bounce(upstream, part, block, (struct bytes){data, len});
    if (!part || part->swallow > 0 || !part_is_request(part))
        return false;
    cell_add(upstream->node->cell, SHARD_ERRORS, 1);
    return false;
}

/* The reply to a request that has bounced before. */
static void handle_followed(struct upstream *upstream, struct part *part, struct block *block,
                            const char *data, size_t len)
{
    struct client *client = part->request->client;
    bool is_single_use = upstream->use.is_single_use;
    if (is_single_use)
        part->upstream = NULL;
    handle_reply(upstream, part, block, data, len);
    if (is_single_use)
        upstream_release(upstream, true);
    if (client)
        upstream->worker->client_events->followed(client);
}

/* One complete reply came. */
static inline void handle_reply_frame(struct upstream *upstream, struct block *block,
                                      const char *data, size_t len)
{
    struct part *part = upstream->queue.first;
    upstream->queue.answered += data[0] != '>';
    if (upstream->use.is_copy &&
        upstream->use.events->reply(upstream, part, (struct bytes){data, len}))
        return;
    if (is_special[(unsigned char)data[0]] && handle_special(upstream, part, block, data, len))
        return;
    if (!part) {
        upstream_lost(upstream, data[0] == '-' ? "received an error without a request"
                                               : "received a reply without a request");
        return;
    }
    if (part->next)
        part_prefetch(part->next);
    if (part->swallow > 0) {
        handle_swallowed(upstream, part, data, len);
        return;
    }
    upstream_pop(upstream, part);
    if (part->kind == PART_REQUEST) {
        bool is_single_use = upstream->use.is_single_use;
        if (is_single_use)
            part->upstream = NULL;
        if (part->request->begun_us && !part->request->is_blocking)
            cell_observe(upstream->node->cell, SHARD_SECONDS,
                         upstream->worker->timing.now_us - part->request->begun_us);
        handle_reply(upstream, part, block, data, len);
        if (is_single_use)
            upstream_release(upstream, true);
        return;
    }
    enum part_kind kind = (enum part_kind)part->kind;
    if (kind == PART_FOLLOWED) {
        handle_followed(upstream, part, block, data, len);
        return;
    }
    part_unlinked(part);
    if (kind == PART_AUTH)
        handle_auth(upstream, data, len);
    else if (kind == PART_GREETING)
        handle_greeting(upstream, data, len);
    else if (kind == PART_SELF)
        handle_self(upstream, data, len);
    else if (kind == PART_SWITCH)
        handle_switch_reply(upstream, data, len);
    else if (kind == PART_ID)
        save_client_id(upstream, data, len);
    else if (kind == PART_SEEN &&
             upstream->queue.seens) /* else it was written for the connection before */
        upstream->queue.seens--;
    else if (kind == PART_PROBE && upstream->lane == LANE_CONTROL)
        note_busy(upstream, data, len);
}

/* Called with an incomplete reply. If it is longer than client-output-limit, its bytes are discarded as they arrive, and
 * the client gets an error; with the whole reply the client would be closed. Returns the number of bytes discarded. */
static size_t limit_partial(struct upstream *upstream, const char *data, size_t len, size_t *need)
{
    uint64_t limit = upstream_config(upstream)->client_output_limit_bytes;
    if (data[0] == '!' && limit < upstream_config(upstream)->client_query_limit_bytes)
        limit = upstream_config(upstream)->client_query_limit_bytes + BOUNCE_HEAD_ROOM;
    bool is_long = len > limit || upstream->reading.skip.need > limit;
    if (is_long && !upstream->reading.is_dropping && upstream->waits)
        wait_table_drop(upstream, data, len, dropped_error);
    upstream->reading.is_dropping |= is_long;
    if (upstream->reading.is_dropping)
        return resp_skip_drop(&upstream->reading.skip, len);
    *need = upstream->reading.skip.need;
    return 0;
}

/* A discarded reply is complete: its request is answered with an error. */
static void answer_dropped(struct upstream *upstream)
{
    upstream->reading.is_dropping = false;
    if (upstream->reading.skip.first == '!')
        count_bounce(upstream, NULL);
    if (upstream->reading.skip.first != '>')
        handle_reply_frame(upstream, NULL, dropped_error, sizeof dropped_error - 1);
}

static size_t read_replies(struct upstream *upstream, struct block *block, const char *data,
                           size_t len, size_t *need)
{
    struct stream *stream = upstream->stream;
    size_t used = 0;
    upstream->reading.heard_ms = worker_now_ms(upstream->worker);
    upstream->reading.is_fresh = false;
    if (upstream->life.is_opening)
        upstream_opened(upstream);
    if (upstream->resend.is_unproven)
        upstream_drop_resend(upstream);
    while (used < len) {
        enum resp_result result = resp_skip(&upstream->reading.skip, data + used, len - used);
        if (result == RESP_MORE) {
            used += limit_partial(upstream, data + used, len - used, need);
            break;
        }
        if (result == RESP_BAD) {
            upstream_lost(upstream, "received data that is not RESP");
            return len;
        }
        size_t size = upstream->reading.skip.size;
        if (upstream->reading.is_dropping)
            answer_dropped(upstream);
        else
            handle_reply_frame(upstream, block, data + used, size);
        if (upstream->stream != stream)
            return len; /* the connection was lost while this reply was handled */
        used += size;
    }
    upstream_close_if_drained(upstream);
    return upstream->life.is_closed ? len : used;
}

size_t upstream_read(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct upstream *upstream = owner;
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    struct proxy_worker *worker = upstream->worker;
    worker_clock(worker);
    worker->scratch.answering = upstream->node;
    worker->scratch.answered_us = upstream->reading.answered_us;
    size_t used = read_replies(upstream, block, data, len, need);
    worker->scratch.answering = NULL;
    upstream->reading.answered_us = worker->timing.now_us;
    return used;
}
