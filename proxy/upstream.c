#include "proxy/upstream.h"

#include "proxy/audience.h"
#include "proxy/blocked.h"
#include "proxy/client.h"
#include "proxy/pool.h"
#include "proxy/proxy.h"
#include "proxy/session.h"
#include "proxy/slow.h"
#include "proxy/tracking.h"
#include "proxy/worker.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/namespace.h"
#include "shared/number.h"
#include "shared/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_MS = 1000,               /* silent for this long: the backend may have closed it */
    RESEND_BYTES_MAX = 64 * 1024, /* of reads kept for a second try */
    SPARE_MS = 30 * 1000,         /* an unused private connection is closed */
    SILENCE_FACTOR = 2,           /* times upstream-timeout without a byte: closed */
    FEED_PROBE_MS = 10 * 1000, /* a feed that is silent for this long is asked whether it lives */
    BACKOFF_DOUBLINGS_MAX = 20,
    PATIENCE_MS_MAX =
        1 << 30, /* an errand that may take longer has no deadline: times are 32 bits */
};

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need);
static void on_end(void *owner, int err);
static void on_drain(void *owner);
static void on_open(void *owner, int err);

static const struct stream_events events = {on_data, on_end, on_drain};

static const struct proxy_config *config_of(const struct upstream *upstream)
{
    return &upstream->worker->snapshot->config;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct upstream *upstream_new(struct proxy_worker *worker, struct node *node, unsigned lane,
                              uint8_t resp)
{
    struct upstream *upstream = calloc(1, sizeof(*upstream));
    CHECK(upstream);
    upstream->magic = UPSTREAM_MAGIC;
    upstream->state = UPSTREAM_IDLE;
    upstream->resp = resp;
    upstream->lane = (uint8_t)lane;
    upstream->worker = worker;
    upstream->node = node_ref(node);
    out_init(&upstream->early);
    out_init(&upstream->resend);
    list_init(&upstream->spare);
    list_init(&upstream->kept_link);
    list_init(&upstream->full);
    list_push(&worker->pool.upstreams, &upstream->link);
    return upstream;
}

void upstream_free(struct upstream *upstream)
{
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    CHECK(upstream->is_closed);
    CHECK(!upstream->stream && !upstream->first);
    list_remove(&upstream->link);
    if (upstream->feed)
        feed_gone(upstream->feed);
    node_unref(upstream->node);
    upstream->magic = 0;
    free(upstream);
}

static void forget(char **text)
{
    free(*text);
    *text = NULL;
}

/* Where the next frames go is no longer known. */
static void set_place(struct upstream *upstream, struct place *place)
{
    struct place *before = upstream->place;
    upstream->place = place ? place_ref(place) : NULL;
    place_unref(&upstream->worker->places, before);
}

static void drop_resend(struct upstream *upstream)
{
    upstream->is_unproven = false;
    out_clear(&upstream->resend);
    place_unref(&upstream->worker->places, upstream->resend_place);
    upstream->resend_place = NULL;
}

static void wake_waiting(struct upstream *upstream)
{
    for (struct list *link; (link = list_pop(&upstream->full));)
        client_unhold(container_of(link, struct client, full_link), HOLD_UPSTREAM);
}

/* ---- the queue ------------------------------------------------------------------------------- */

static inline void queue_push(struct upstream *upstream, struct part *part)
{
    part->next = NULL;
    part->upstream = upstream;
    part->sent_ms = worker_now_ms(upstream->worker);
    if (upstream->last)
        upstream->last->next = part;
    else
        upstream->first = part;
    upstream->last = part;
    if (!upstream->undecided)
        upstream->undecided = part;
    upstream->in_flight++;
    part->request->linked++;
}

static inline void queue_pop(struct upstream *upstream, struct part *part)
{
    CHECK(upstream->first == part);
    upstream->first = part->next;
    if (!part->next)
        upstream->last = NULL;
    if (upstream->undecided == part)
        upstream->undecided = part->next;
    upstream->in_flight--;
}

/* A command of the proxy's own on this connection. */
static void push_own(struct upstream *upstream, enum part_kind kind)
{
    struct request *request = request_new(upstream->worker, NULL);
    request->is_internal = true;
    request->part.kind = (uint8_t)kind;
    queue_push(upstream, &request->part);
}

static void fail_part(struct upstream *upstream, struct part *part, const char *what,
                      const char *reason)
{
    char text[UPSTREAM_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "ERR shard '%s' (%s): %s%s", upstream->node->name,
                   upstream->node->address, what, reason);
    part_failed(part, text);
}

/* Has its client sent more that may have been done already? Then the read would see its own future. */
static bool has_later_write(const struct part *part)
{
    for (const struct part *later = part->next; later; later = later->next) {
        if (!later->resend_bytes && later->request->client == part->request->client)
            return true;
    }
    return false;
}

/* Takes what is to be sent again out of the queue, and leaves only its frames in upstream->resend. The others
 * stay in the queue. */
static void take_resend(struct upstream *upstream, struct part **first)
{
    struct part **end = first;
    struct part **link = &upstream->first;
    char *frames = malloc(upstream->resend.bytes + 1);
    size_t at = 0;
    CHECK(frames);
    out_copy(&upstream->resend, frames);
    out_clear(&upstream->resend);
    *first = NULL;
    while (*link) {
        struct part *part = *link;
        if (part->resend_bytes && !part->is_answered && !has_later_write(part)) {
            out_write(&upstream->resend, frames + at, part->resend_bytes);
            *link = part->next;
            part->next = NULL;
            *end = part;
            end = &part->next;
        } else {
            link = &part->next;
        }
        at += part->resend_bytes;
    }
    free(frames);
}

/* Fails all parts of a list that has left the queue. */
static void fail_parts(struct upstream *upstream, struct part *part, const char *what,
                       const char *reason)
{
    while (part) {
        struct part *next = part->next;
        if (upstream->is_errand)
            part->upstream = NULL;
        if (part->kind == PART_REQUEST && !part->is_answered)
            fail_part(upstream, part, what, reason);
        part_unlinked(part);
        part = next;
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static void write_command(struct out *out, const char *const *words, int count)
{
    out_printf(out, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        out_printf(out, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
}

static void write_greeting(struct upstream *upstream)
{
    const char *secret = config_of(upstream)->upstream_secret;
    struct out *out = stream_out(upstream->stream);
    if (*secret) {
        write_command(out, (const char *const[]){"SCREE", "AUTH", secret}, 3);
        upstream->greetings++;
        push_own(upstream, PART_GREETING);
    }
    if (upstream->resp == 3) {
        write_command(out, (const char *const[]){"HELLO", "3"}, 2);
        upstream->greetings++;
        push_own(upstream, PART_GREETING);
    }
    if (upstream->is_private) {
        write_command(out, (const char *const[]){"CLIENT", "ID"}, 2);
        push_own(upstream, PART_ID);
    }
}

static void upstream_open(struct upstream *upstream, enum upstream_state state)
{
    CHECK(!upstream->stream && !upstream->first);
    upstream->state = (uint8_t)state;
    upstream->is_open = false;
    upstream->is_fresh = true;
    upstream->greetings = 0;
    upstream->skip = (struct resp_skip){0};
    upstream->out = &upstream->early;
    set_place(upstream, upstream->worker->home);
    upstream->stream = stream_connect(upstream->worker->loop, upstream->node->address,
                                      config_of(upstream)->upstream_connect_timeout_ms, &events,
                                      on_open, upstream);
    write_greeting(upstream);
    proxy_worker_need_tick(upstream->worker);
}

/* Connected, and the greeting was answered: what waited may leave. */
static void upstream_up(struct upstream *upstream)
{
    if (upstream->failures > 0)
        log_event(LOG_INFO, "upstream_up", "shard=%s address=%s", upstream->node->name,
                  upstream->node->address);
    upstream->failures = 0;
    upstream->state = UPSTREAM_UP;
    upstream->out = stream_out(upstream->stream);
    out_move(upstream->out, &upstream->early);
    if (upstream->feed)
        feed_up(upstream->feed);
    stream_send(upstream->stream);
}

/* ---- losing ---------------------------------------------------------------------------------- */

/* Doubles with each failure; up to half of it is chance, so that proxies do not come back together. */
static uint64_t backoff_ms(const struct upstream *upstream)
{
    const struct proxy_config *config = config_of(upstream);
    uint32_t doublings = upstream->failures - 1;
    if (doublings > BACKOFF_DOUBLINGS_MAX)
        doublings = BACKOFF_DOUBLINGS_MAX;
    uint64_t wait_ms = config->upstream_backoff_min_ms << doublings;
    if (wait_ms > config->upstream_backoff_max_ms)
        wait_ms = config->upstream_backoff_max_ms;
    return wait_ms / 2 + clock_random() % (wait_ms / 2 + 1);
}

static void upstream_down(struct upstream *upstream, const char *reason)
{
    bool was_down = upstream->failures > 0;
    upstream->state = UPSTREAM_DOWN;
    upstream->failures++;
    upstream->retry_at_ms = loop_mono_ms(upstream->worker->loop) + backoff_ms(upstream);
    (void)snprintf(upstream->reason, sizeof(upstream->reason), "%s", reason);
    metric_add(upstream->worker->metrics, METRIC_PROXY_UPSTREAM_FAILURES, 1);
    log_event(was_down ? LOG_DEBUG : LOG_WARN, "upstream_down",
              "shard=%s address=%s reason=" LOG_QUOTED, upstream->node->name,
              upstream->node->address, reason);
    proxy_worker_need_tick(upstream->worker);
}

/* Closes the stream and empties what belonged to it; returns the parts that were in flight. */
static struct part *upstream_cut(struct upstream *upstream)
{
    struct part *parts = upstream->first;
    upstream->first = upstream->last = upstream->undecided = NULL;
    upstream->in_flight = 0;
    if (upstream->stream)
        stream_abort(upstream->stream);
    upstream->stream = NULL;
    upstream->out = NULL;
    upstream->is_open = false;
    out_clear(&upstream->early);
    forget(&upstream->switch_error);
    forget(&upstream->block_error);
    set_place(upstream, NULL);
    return parts;
}

/* Sends the reads of `part`'s list again on a new connection. */
static void upstream_resend(struct upstream *upstream, struct part *part, struct out *frames,
                            struct place *place)
{
    upstream_open(upstream, UPSTREAM_OPENING);
    while (part) {
        struct part *next = part->next;
        part->resend_bytes = 0;
        part->request->linked--;
        if (!upstream_begin(upstream, part, place))
            CHECK(!"an opening connection takes frames");
        queue_push(upstream, part);
        part = next;
    }
    out_move(upstream->out, frames);
}

/* The connection is gone, or could not be made. */
static void upstream_lost(struct upstream *upstream, const char *reason)
{
    bool was_idle = upstream->state == UPSTREAM_UP && !upstream->first && !upstream->is_fresh &&
                    !upstream->feed; /* a feed is never idle */
    const char *what =
        upstream->state == UPSTREAM_UP ? "connection lost before the reply: " : "not reachable: ";
    struct part *again = NULL;
    if (upstream->is_unproven && !upstream->is_private && !upstream->is_draining)
        take_resend(upstream, &again);
    struct part *parts = upstream_cut(upstream);
    struct out frames = upstream->resend;
    struct place *place = upstream->resend_place;
    out_init(&upstream->resend);
    upstream->resend_place = NULL;
    upstream->is_unproven = false;

    if (upstream->feed)
        feed_lost(upstream->feed);
    if (upstream->is_private || upstream->is_draining) {
        upstream_close(upstream, reason);
    } else if (was_idle || again) {
        upstream->state = UPSTREAM_IDLE;
        upstream->failures = 0;
        if (again)
            upstream_resend(upstream, again, &frames, place);
    } else {
        upstream_down(upstream, reason);
    }
    out_clear(&frames);
    place_unref(&upstream->worker->places, place);
    fail_parts(upstream, parts, what, reason);
    wake_waiting(upstream);
}

static void end_lease(struct upstream *upstream)
{
    if (upstream->is_leased)
        atomic_fetch_sub(&upstream->worker->proxy->leases, 1);
    upstream->is_leased = false;
}

void upstream_close(struct upstream *upstream, const char *reason)
{
    if (upstream->is_closed)
        return;
    upstream->is_closed = true;
    upstream->worker->pool.has_closed = true;
    upstream->state = UPSTREAM_DOWN;
    (void)snprintf(upstream->reason, sizeof(upstream->reason), "%s", reason);
    list_remove(&upstream->spare);
    end_lease(upstream);
    drop_resend(upstream);
    struct part *parts = upstream_cut(upstream);
    struct client *owner = upstream->owner;
    upstream->owner = NULL;
    if (owner && owner->session.transaction.lease == upstream)
        transaction_lease_lost(owner, reason);
    if (owner && upstream->is_kept)
        tracking_lease_lost(owner, upstream);
    fail_parts(upstream, parts, "connection lost before the reply: ", reason);
    wake_waiting(upstream);
}

void upstream_drain(struct upstream *upstream)
{
    upstream->is_draining = true;
    list_remove(&upstream->spare);
    if (!upstream->first)
        upstream_close(upstream, "the shard is no longer in the map");
}

/* ---- stream events --------------------------------------------------------------------------- */

static void on_open(void *owner, int err)
{
    struct upstream *upstream = owner;
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    if (err) {
        upstream_lost(upstream, strerror(-err));
        return;
    }
    upstream->is_open = true;
    upstream->heard_ms = worker_now_ms(upstream->worker);
    if (upstream->greetings == 0)
        upstream_up(upstream);
    else
        stream_send(upstream->stream);
}

static void on_end(void *owner, int err)
{
    struct upstream *upstream = owner;
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    upstream_lost(upstream, err ? strerror(-err) : "closed by the backend");
}

static void on_drain(void *owner)
{
    wake_waiting(owner);
}

/* ---- replies --------------------------------------------------------------------------------- */

static bool is_error(const char *data)
{
    return data[0] == '-' || data[0] == '!';
}

/* The text of an error frame, for messages; heap. */
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

static void take_greeting(struct upstream *upstream, const char *data, size_t len)
{
    if (is_error(data)) {
        char *text = error_of(data, len);
        char reason[sizeof(upstream->reason)];
        (void)snprintf(reason, sizeof(reason), "refused the greeting: %s", text);
        free(text);
        upstream_lost(upstream, reason);
        return;
    }
    if (--upstream->greetings == 0)
        upstream_up(upstream);
}

/* What follows a refused switch fails; a place that may be refused is tried with a PING first (SELECT). */
static void take_switch(struct upstream *upstream, const char *data, size_t len)
{
    forget(&upstream->switch_error);
    if (!is_error(data))
        return;
    upstream->switch_error = error_of(data, len);
    set_place(upstream, NULL);
    log_event(LOG_DEBUG, "switch_refused", "shard=%s reason=" LOG_QUOTED, upstream->node->name,
              upstream->switch_error);
}

/* A reply that is swallowed on the way to a part's own; the first error is kept. */
static void take_swallowed(struct upstream *upstream, struct part *part, const char *data,
                           size_t len)
{
    part->swallow--;
    if (is_error(data) && !upstream->block_error)
        upstream->block_error = error_of(data, len);
}

static void take_reply(struct upstream *upstream, struct part *part, struct block *block,
                       const char *data, size_t len)
{
    if (part->is_answered) {
        part_unlinked(part);
    } else if (upstream->switch_error) {
        part_failed(part, upstream->switch_error);
        part_unlinked(part);
    } else if (upstream->block_error) {
        part_failed(part, upstream->block_error);
        part_unlinked(part);
    } else {
        part_answered(part, block, data, len);
    }
    if (upstream->block_error)
        forget(&upstream->block_error);
}

static void take_id(struct upstream *upstream, const char *data, size_t len)
{
    size_t pos = 0;
    struct resp_value value;
    int64_t id;
    if (resp_value_next((struct bytes){data, len}, &pos, &value) && data[0] == ':' &&
        number_parse_int64(value.text, &id) && id > 0)
        upstream->backend_id = (uint64_t)id;
}

/* One complete reply came. */
static inline void take_frame(struct upstream *upstream, struct block *block, const char *data,
                              size_t len)
{
    struct part *part = upstream->first;
    if (data[0] == '>') {
        if (upstream->feed)
            feed_deliver(upstream->feed, block, data, len);
        else if (upstream->is_kept && upstream->owner)
            tracking_deliver(upstream->owner, block, data, len);
        return;
    }
    if (!part) {
        upstream_lost(upstream,
                      data[0] == '-' ? "an error nobody asked for" : "a reply nobody asked for");
        return;
    }
    if (part->swallow > 0) {
        take_swallowed(upstream, part, data, len);
        return;
    }
    queue_pop(upstream, part);
    if (part->kind == PART_REQUEST) {
        bool is_errand = upstream->is_errand && part->request->is_blocking;
        if (is_errand)
            part->upstream = NULL;
        take_reply(upstream, part, block, data, len);
        if (is_errand)
            upstream_release(upstream, true);
        return;
    }
    enum part_kind kind = (enum part_kind)part->kind;
    part_unlinked(part);
    if (kind == PART_GREETING)
        take_greeting(upstream, data, len);
    else if (kind == PART_SWITCH)
        take_switch(upstream, data, len);
    else if (kind == PART_ID)
        take_id(upstream, data, len);
}

static size_t take_frames(struct upstream *upstream, struct block *block, const char *data,
                          size_t len, size_t *need)
{
    struct stream *stream = upstream->stream;
    size_t used = 0;
    upstream->heard_ms = worker_now_ms(upstream->worker);
    upstream->is_fresh = false;
    if (upstream->is_unproven)
        drop_resend(upstream);
    while (used < len) {
        enum resp_result result = resp_skip(&upstream->skip, data + used, len - used);
        if (result == RESP_MORE) {
            *need = upstream->skip.need;
            break;
        }
        if (result == RESP_BAD) {
            upstream_lost(upstream, "an answer that is not RESP");
            return len;
        }
        size_t size = upstream->skip.size;
        take_frame(upstream, block, data + used, size);
        if (upstream->stream != stream)
            return len; /* it was lost meanwhile */
        used += size;
    }
    if (upstream->is_draining && !upstream->first) {
        upstream_close(upstream, "the shard is no longer in the map");
        return len;
    }
    return used;
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct upstream *upstream = owner;
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    struct proxy_worker *worker = upstream->worker;
    slow_clock(worker);
    worker->answering = upstream;
    size_t used = take_frames(upstream, block, data, len, need);
    worker->answering = NULL;
    upstream->answered_us = worker->now_us;
    return used;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Tells the backend where the following frames belong. */
static void write_switch(struct upstream *upstream, struct place *place)
{
    struct out *out = upstream->out;
    char db[8];
    int len = snprintf(db, sizeof(db), "%u", place->db);
    if (*config_of(upstream)->upstream_secret) {
        const struct slot_rule tag = {.kind = SLOT_RULE_TAG};
        char rule[SLOT_RULE_TEXT_MAX];
        size_t rule_len = slot_rule_format(place->entry ? &place->entry->slot_rule : &tag, rule);
        out_printf(out, "*5\r\n$5\r\nSCREE\r\n$3\r\nUSE\r\n$%zu\r\n", place->name.len);
        out_write(out, place->name.data, place->name.len);
        out_printf(out, "\r\n$%d\r\n%s\r\n$%zu\r\n%.*s\r\n", len, db, rule_len, (int)rule_len,
                   rule);
    } else {
        out_printf(out, "*2\r\n$6\r\nSELECT\r\n$%d\r\n%s\r\n", len, db);
    }
    push_own(upstream, PART_SWITCH);
    set_place(upstream, place);
}

/* The backend may have closed a connection that was silent: reads from here on are kept until it speaks. */
static void become_unproven(struct upstream *upstream)
{
    upstream->is_unproven = true;
    upstream->resend_place = upstream->place ? place_ref(upstream->place) : NULL;
}

void upstream_forget_place(struct upstream *upstream)
{
    set_place(upstream, NULL);
}

bool upstream_is_full(struct upstream *upstream, struct client *client)
{
    if (!upstream->out || upstream->out->bytes <= config_of(upstream)->upstream_queue_limit_bytes)
        return false;
    list_remove(&client->full_link);
    list_push(&upstream->full, &client->full_link);
    client_hold(client, HOLD_UPSTREAM);
    return true;
}

static bool begin_slow(struct upstream *upstream, struct part *part, struct place *place)
{
    if (upstream->state == UPSTREAM_IDLE)
        upstream_open(upstream, UPSTREAM_OPENING);
    if (upstream->state == UPSTREAM_DOWN || upstream->state == UPSTREAM_RETRYING) {
        fail_part(upstream, part, "not reachable: ", upstream->reason);
        return false;
    }
    if (upstream->place != place)
        write_switch(upstream, place);
    return true;
}

struct out *upstream_begin(struct upstream *upstream, struct part *part, struct place *place)
{
    if (upstream->state != UPSTREAM_UP || upstream->place != place) {
        if (!begin_slow(upstream, part, place))
            return NULL;
    }
    if (!upstream->first && upstream->state == UPSTREAM_UP && !upstream->is_unproven &&
        worker_now_ms(upstream->worker) - upstream->heard_ms >= IDLE_MS)
        become_unproven(upstream);
    return upstream->out;
}

void upstream_commit(struct upstream *upstream, struct part *part)
{
    struct proxy_worker *worker = upstream->worker;
    queue_push(upstream, part);
    metric_add(worker->metrics, METRIC_PROXY_UPSTREAM_REQUESTS, 1);
    if (upstream->state == UPSTREAM_UP)
        stream_send(upstream->stream);
    if (!worker->is_ticking)
        proxy_worker_need_tick(worker);
}

void upstream_send_words(struct upstream *upstream, struct part *part, struct place *place,
                         const struct bytes *words, uint32_t count)
{
    struct out *out = upstream_begin(upstream, part, place);
    if (!out)
        return;
    resp_write_words(out, words, count);
    upstream_commit(upstream, part);
}

void upstream_precede(struct upstream *upstream, struct place *place, const struct bytes *words,
                      uint32_t count)
{
    CHECK(upstream->is_private);
    if (upstream->state != UPSTREAM_UP || upstream->place != place)
        CHECK(begin_slow(upstream, NULL, place)); /* a private one is never down: it is closed */
    resp_write_words(upstream->out, words, count);
    push_own(upstream, PART_PROBE);
    if (upstream->state == UPSTREAM_UP)
        stream_send(upstream->stream);
    proxy_worker_need_tick(upstream->worker);
}

/* Keeps a read for a second try. */
static void keep_for_resend(struct upstream *upstream, struct part *part, struct place *place,
                            const struct frame *frame)
{
    if (place != upstream->resend_place || upstream->resend.bytes + frame->len > RESEND_BYTES_MAX)
        return;
    out_write(&upstream->resend, frame->data, frame->len);
    part->resend_bytes = (uint32_t)frame->len;
}

void upstream_send(struct upstream *upstream, struct part *part, struct place *place,
                   const struct frame *frame, bool is_read)
{
    struct out *out = upstream_begin(upstream, part, place);
    if (!out)
        return;
    if (frame->block)
        out_write_block(out, frame->block, frame->data, frame->len);
    else
        out_write(out, frame->data, frame->len);
    upstream_commit(upstream, part);
    if (upstream->is_unproven && is_read)
        keep_for_resend(upstream, part, place, frame);
}

/* ---- leases ---------------------------------------------------------------------------------- */

void upstream_send_errand(struct upstream *upstream, struct part *part, struct place *place,
                          const struct frame *frame, uint64_t patience_ms)
{
    CHECK(upstream->is_private);
    upstream->is_errand = true;
    upstream->patience_ms = patience_ms;
    upstream_send(upstream, part, place, frame, false);
}

static void send_own(struct upstream *upstream, enum part_kind kind, const char *word)
{
    write_command(upstream->out, &word, 1);
    push_own(upstream, kind);
    if (upstream->state == UPSTREAM_UP)
        stream_send(upstream->stream);
    proxy_worker_need_tick(upstream->worker);
}

void upstream_hello(struct upstream *upstream, uint8_t resp)
{
    CHECK(upstream->is_private);
    upstream->resp = resp;
    if (!upstream->out)
        return;
    write_command(upstream->out, (const char *const[]){"HELLO", resp == 3 ? "3" : "2"}, 2);
    push_own(upstream, PART_PROBE);
}

void upstream_release(struct upstream *upstream, bool is_clean)
{
    CHECK(upstream->is_private);
    if (upstream->is_kept) {
        if (!is_clean && upstream->out)
            send_own(upstream, PART_PROBE, "UNWATCH");
        return;
    }
    upstream->owner = NULL;
    upstream->is_errand = false;
    if (upstream->is_closed)
        return;
    end_lease(upstream);
    if (upstream->node->is_removed || upstream->unblock) {
        upstream_drain(upstream);
        return;
    }
    if (!is_clean && upstream->out)
        send_own(upstream, PART_PROBE, "UNWATCH");
    list_remove(&upstream->spare);
    list_push(&upstream->node->spare, &upstream->spare);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void time_out(struct upstream *upstream, struct part *part, uint64_t timeout_ms)
{
    char what[64];
    if (part->kind != PART_REQUEST || part->is_answered)
        return;
    part->is_answered = true;
    (void)snprintf(what, sizeof(what), "no reply within %" PRIu64 " ms", timeout_ms);
    metric_add(upstream->worker->metrics, METRIC_PROXY_UPSTREAM_TIMEOUTS, 1);
    fail_part(upstream, part, what, "");
}

static bool is_silent(const struct upstream *upstream, uint32_t now_ms, uint64_t limit_ms)
{
    if (!upstream->first || !upstream->is_open)
        return false;
    uint32_t since_sent = now_ms - upstream->first->sent_ms;
    uint32_t since_heard = now_ms - upstream->heard_ms;
    return since_sent >= limit_ms && since_heard >= limit_ms;
}

/* How long its replies may take. */
static uint64_t timeout_of(const struct upstream *upstream)
{
    uint64_t timeout_ms = config_of(upstream)->upstream_timeout_ms;
    if (!upstream->is_errand || upstream->state != UPSTREAM_UP)
        return timeout_ms;
    bool is_forever = upstream->patience_ms > PATIENCE_MS_MAX;
    return is_forever ? WAIT_FOREVER : upstream->patience_ms + timeout_ms;
}

bool upstream_tick(struct upstream *upstream, uint64_t now_ms)
{
    uint64_t timeout_ms = timeout_of(upstream);
    uint32_t now = (uint32_t)now_ms;
    if (upstream->unblock && upstream->first && !upstream->is_closed)
        blocked_press(upstream);
    if (upstream->is_closed || timeout_ms == WAIT_FOREVER)
        return !upstream->is_closed && upstream->unblock;
    if (upstream->state == UPSTREAM_DOWN) {
        if (now_ms >= upstream->retry_at_ms)
            upstream_open(upstream, UPSTREAM_RETRYING);
        return true;
    }
    for (struct part *part; (part = upstream->undecided) && now - part->sent_ms >= timeout_ms;) {
        upstream->undecided = part->next;
        time_out(upstream, part, timeout_ms);
    }
    if (is_silent(upstream, now, timeout_ms * SILENCE_FACTOR)) {
        char reason[64];
        (void)snprintf(reason, sizeof(reason), "silent for %" PRIu64 " ms",
                       timeout_ms * SILENCE_FACTOR);
        upstream_lost(upstream, reason);
    }
    return upstream->first || (upstream->state != UPSTREAM_UP && upstream->state != UPSTREAM_IDLE);
}

void upstream_slow(struct upstream *upstream, uint64_t now_ms)
{
    uint64_t keepalive_ms = config_of(upstream)->upstream_keepalive_ms;
    if (upstream->feed && (!keepalive_ms || keepalive_ms > FEED_PROBE_MS))
        keepalive_ms = FEED_PROBE_MS;
    if (upstream->is_closed || upstream->state != UPSTREAM_UP || upstream->first)
        return;
    uint32_t silent_ms = (uint32_t)now_ms - upstream->heard_ms;
    if (upstream->is_private && !upstream->owner && silent_ms >= SPARE_MS)
        upstream_close(upstream, "not used");
    else if (keepalive_ms && silent_ms >= keepalive_ms)
        send_own(upstream, PART_PROBE, "PING");
}

const char *upstream_state_name(const struct upstream *upstream)
{
    static const char *const names[] = {
        [UPSTREAM_IDLE] = "idle", [UPSTREAM_OPENING] = "opening",   [UPSTREAM_UP] = "up",
        [UPSTREAM_DOWN] = "down", [UPSTREAM_RETRYING] = "retrying",
    };
    return names[upstream->state];
}
