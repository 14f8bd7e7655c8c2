#include "proxy/upstream/leaders.h"

#include "config/reload.h"
#include "proxy/upstream/greeting.h"
#include "shared/backoff.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/resp.h"

#include <stdlib.h>
#include <string.h>

enum {
    FRAME_BYTES_MAX = 4096, /* a longer frame is not one of a copy */
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 250,
    LOGGED_FAILURES = 3, /* in a row: a copy that restarts is not worth a line */
};

/* One address of a shard. */
struct copy {
    struct list link; /* in leaders->copies */
    struct leaders *all;
    char *shard;
    char *address;
    struct stream *stream; /* NULL: it waits until it connects again */
    struct timer *timer;
    struct resp_skip skip;
    struct greeting greeting;
    bool is_asking;    /* it is connecting, or the reply to SCREE SELF has not come */
    bool asks_again;   /* a change was heard since it was sent */
    bool is_wanted;    /* the present map has it */
    uint32_t failures; /* in a row */
};

struct leaders {
    struct loop *loop;
    const struct leaders_events *events;
    void *owner;
    struct proxy_snapshot *snapshot; /* NULL: not configured yet */
    struct list copies;
    /* frees copies that no map has any more: one of them may be in an event now */
    struct timer *sweep;
    bool is_stopped;
};

static const struct proxy_config *config_of(const struct copy *copy)
{
    return &copy->all->snapshot->config;
}

/* ---- connections ------------------------------------------------------------------------------- */

static void hang_up(struct copy *copy)
{
    timer_stop(copy->timer);
    if (copy->stream)
        stream_abort(copy->stream);
    copy->stream = NULL;
    copy->is_asking = copy->asks_again = false;
}

static void tell_ended(const struct copy *copy, bool is_lost)
{
    copy->all->events->on_ended(copy->all->owner, copy->shard, copy->address, is_lost);
}

static void connect_later(struct copy *copy, const char *reason)
{
    copy->failures++;
    if (copy->failures == LOGGED_FAILURES)
        log_event(LOG_INFO, "copy_unheard", "shard=%s address=%s reason=" LOG_QUOTED, copy->shard,
                  copy->address, reason);
    hang_up(copy);
    timer_start(copy->timer, backoff_ms(copy->failures, RETRY_MIN_MS, RETRY_MAX_MS), 0);
    if (copy->failures >= LOGGED_FAILURES)
        tell_ended(copy, true);
}

static void send_self(struct copy *copy)
{
    const struct bytes self[] = {BYTES("SCREE"), BYTES("SELF"), BYTES("LEADS")};
    resp_write_words(stream_out(copy->stream), self, 3);
    stream_send(copy->stream);
    copy->is_asking = true;
    timer_start(copy->timer, config_of(copy)->upstream_connect_timeout_ms, 0);
}

/* If the last reply is still to come, it may be of before the change. */
static void ask_copy(struct copy *copy)
{
    copy->asks_again = copy->is_asking;
    if (!copy->is_asking)
        send_self(copy);
}

static void copy_is_open(void *owner, int err)
{
    struct copy *copy = owner;
    if (err) {
        connect_later(copy, stream_error(copy->stream, err));
        return;
    }
    const struct proxy_config *config = config_of(copy);
    greeting_write_auth(&copy->greeting, stream_out(copy->stream), config->upstream_secret,
                        config->upstream_secret_previous);
    send_self(copy);
}

/* ---- frames ------------------------------------------------------------------------------------ */

static void tell_lead(const struct copy *copy, const struct greeting_self *self)
{
    const struct route_leader leader = {.shard = copy->shard,
                                        .address = copy->address,
                                        .generation = (uint32_t)self->generation,
                                        .term = self->term};
    if (self->leads)
        copy->all->events->on_found(copy->all->owner, &leader);
    else
        tell_ended(copy, false);
}

static void take_self(struct copy *copy, struct bytes frame)
{
    struct greeting_self self;
    char reason[256];
    greeting_read(frame, &self);
    if (!greeting_check(&self, copy->shard, reason, sizeof reason)) {
        connect_later(copy, reason);
        return;
    }
    copy->failures = 0;
    copy->is_asking = false;
    tell_lead(copy, &self);
    if (copy->asks_again)
        ask_copy(copy);
    else
        timer_start(copy->timer, config_of(copy)->upstream_health_interval_ms, 0);
}

/* Of the replies only that to SELF is an array. */
static void take_copy_frame(struct copy *copy, struct bytes frame)
{
    if (frame.data[0] == '>')
        ask_copy(copy);
    else if (copy->greeting.auths_left && !greeting_auth(&copy->greeting, frame))
        connect_later(copy, "it has refused the secret");
    else if (frame.data[0] == '*' && copy->is_asking)
        take_self(copy, frame);
}

/* receive_fn */
static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct copy *copy = owner;
    const struct stream *stream = copy->stream;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(&copy->skip, data + used, len - used);
        bool is_short = len - used < FRAME_BYTES_MAX && copy->skip.need < FRAME_BYTES_MAX;
        if (result == RESP_MORE && is_short) {
            *need = copy->skip.need;
            return used;
        }
        if (result != RESP_FRAME) {
            connect_later(copy, "it has sent data that is not RESP");
            return len;
        }
        take_copy_frame(copy, (struct bytes){data + used, copy->skip.size});
        if (copy->stream != stream)
            return len;
        used += copy->skip.size;
    }
    return used;
}

static void on_end(void *owner, int err)
{
    struct copy *copy = owner;
    connect_later(copy, err ? stream_error(copy->stream, err) : "closed by the backend");
}

static const struct stream_events stream_events = {.on_data = on_data, .on_end = on_end};

static void connect_now(struct copy *copy)
{
    const struct proxy_snapshot *snapshot = copy->all->snapshot;
    uint64_t timeout_ms = snapshot->config.upstream_connect_timeout_ms;
    copy->skip = (struct resp_skip){0};
    copy->greeting = (struct greeting){.auths_left = 0};
    copy->is_asking = true;
    copy->stream = stream_connect(copy->all->loop, copy->address, timeout_ms, &stream_events,
                                  copy_is_open, copy);
    if (snapshot->upstream_tls)
        stream_secure(copy->stream, snapshot->upstream_tls, copy->address);
    timer_start(copy->timer, timeout_ms, 0);
}

static void on_timer(void *owner)
{
    struct copy *copy = owner;
    if (!copy->stream)
        connect_now(copy);
    else if (copy->is_asking)
        connect_later(copy, "it has not replied in time");
    else
        ask_copy(copy);
}

/* ---- copies ------------------------------------------------------------------------------------ */

static struct copy *find_copy(const struct leaders *leaders, const char *shard, const char *address)
{
    for (struct list *link = leaders->copies.next; link != &leaders->copies; link = link->next) {
        struct copy *copy = container_of(link, struct copy, link);
        if (strcmp(copy->shard, shard) == 0 && strcmp(copy->address, address) == 0)
            return copy;
    }
    return NULL;
}

static struct copy *copy_new(struct leaders *leaders, const char *shard, const char *address)
{
    struct copy *copy = calloc(1, sizeof *copy);
    CHECK(copy);
    copy->all = leaders;
    copy->shard = strdup(shard);
    copy->address = strdup(address);
    CHECK(copy->shard && copy->address);
    copy->timer = timer_new(leaders->loop, on_timer, copy);
    list_push(&leaders->copies, &copy->link);
    return copy;
}

static void copy_free(struct copy *copy)
{
    hang_up(copy);
    timer_free(copy->timer);
    list_remove(&copy->link);
    free(copy->shard);
    free(copy->address);
    free(copy);
}

/* Watches the address from now on, if it was not watched before. */
static void want_copy(struct leaders *leaders, const char *shard, const char *address)
{
    struct copy *copy = find_copy(leaders, shard, address);
    if (!copy) {
        copy = copy_new(leaders, shard, address);
        connect_now(copy);
    }
    copy->is_wanted = true;
}

static void set_unwanted(struct leaders *leaders)
{
    for (struct list *link = leaders->copies.next; link != &leaders->copies; link = link->next)
        container_of(link, struct copy, link)->is_wanted = false;
}

static void free_unwanted(void *owner)
{
    struct leaders *leaders = owner;
    for (struct list *link = leaders->copies.next; link != &leaders->copies;) {
        struct copy *copy = container_of(link, struct copy, link);
        link = link->next;
        if (!copy->is_wanted)
            copy_free(copy);
    }
}

void leaders_configure(struct leaders *leaders, struct proxy_snapshot *snapshot)
{
    struct proxy_snapshot *before = leaders->snapshot;
    const struct shard_map *map = snapshot->map;
    if (leaders->is_stopped)
        return;
    leaders->snapshot = snapshot_ref(snapshot);
    set_unwanted(leaders);
    for (size_t i = 0; *snapshot->config.upstream_secret && i < map->shard_count; i++) {
        const struct shard *shard = &map->shards[i];
        for (size_t n = 0; shard->address_count > 1 && n < shard->address_count; n++)
            want_copy(leaders, shard->name, shard->addresses[n]);
    }
    timer_start(leaders->sweep, 0, 0);
    if (before)
        snapshot_unref(before);
}

struct leaders *leaders_new(struct loop *loop, const struct leaders_events *events, void *owner)
{
    struct leaders *leaders = calloc(1, sizeof *leaders);
    CHECK(leaders);
    leaders->loop = loop;
    leaders->events = events;
    leaders->owner = owner;
    leaders->sweep = timer_new(loop, free_unwanted, leaders);
    list_init(&leaders->copies);
    return leaders;
}

void leaders_stop(struct leaders *leaders)
{
    if (!leaders || leaders->is_stopped)
        return;
    leaders->is_stopped = true;
    timer_free(leaders->sweep);
    set_unwanted(leaders);
    free_unwanted(leaders);
}

void leaders_free(struct leaders *leaders)
{
    if (!leaders)
        return;
    leaders_stop(leaders);
    if (leaders->snapshot)
        snapshot_unref(leaders->snapshot);
    free(leaders);
}
