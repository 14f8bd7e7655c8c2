#include "proxy/upstream/leaders.h"

#include "config/option.h"
#include "config/reload.h"
#include "proxy/core/proxy.h"
#include "proxy/upstream/greeting.h"
#include "shared/backoff.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/resp.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    char *leader;          /* the address that it names as its leader's; NULL: none */
    struct stream *stream; /* NULL: it waits until it connects again */
    struct timer *timer;
    struct resp_skip skip;
    struct greeting greeting;
    bool is_asking;  /* it is connecting, or the reply to SCREE SELF has not come */
    bool asks_again; /* a change was heard since it was sent */
    bool is_wanted;  /* the present map has it, or a copy of the map names it */
    bool is_of_map;
    uint32_t failures; /* in a row */
};

struct leaders {
    struct loop *loop;
    const struct leaders_events *events;
    void *owner;
    struct proxy_snapshot *snapshot; /* NULL: not configured yet */
    struct list copies;
    struct table *led_elsewhere; /* names of shards → themselves: leaders_look_for */
    /* frees copies that are not wanted any more: one of them may be in an event now */
    struct timer *sweep;
    bool is_stopped;
};

static const struct proxy_config *config_of(const struct copy *copy)
{
    return &copy->all->snapshot->config;
}

static void watch_all(struct leaders *leaders);

/* ---- connections ------------------------------------------------------------------------------- */

static void hang_up(struct copy *copy)
{
    timer_stop(copy->timer);
    if (copy->stream)
        stream_abort(copy->stream);
    copy->stream = NULL;
    copy->is_asking = copy->asks_again = false;
}

static void tell_lost(const struct copy *copy)
{
    const struct route_leader lost = {.shard = copy->shard, .address = copy->address};
    copy->all->events->on_ended(copy->all->owner, &lost, true);
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
        tell_lost(copy);
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
    const struct route_leader said = {.shard = copy->shard,
                                      .address = copy->address,
                                      .generation = (uint32_t)self->generation,
                                      .term = self->term};
    if (self->leads)
        copy->all->events->on_found(copy->all->owner, &said);
    else
        copy->all->events->on_ended(copy->all->owner, &said, false);
}

/* Only addresses to which any program could connect: a copy must not make a proxy open files. */
static bool may_be_watched(const char *address)
{
    return *address && strncmp(address, "unix:", 5) != 0 && address_valid(bytes_of(address));
}

/* What a copy outside the map names is not heard: it would be a chain without an end. */
static void take_name(struct copy *copy, const struct greeting_self *self)
{
    const char *named = self->leads || !may_be_watched(self->leader) ? NULL : self->leader;
    if (copy->leader && named && strcmp(copy->leader, named) == 0)
        return;
    free(copy->leader);
    copy->leader = named ? strdup(named) : NULL;
    CHECK(copy->leader || !named);
    if (copy->is_of_map)
        watch_all(copy->all);
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
    copy->all->events->on_zone(copy->all->owner, copy->address, self.zone);
    tell_lead(copy, &self);
    take_name(copy, &self);
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
    copy->all->events->on_zone(copy->all->owner, copy->address, "");
    hang_up(copy);
    timer_free(copy->timer);
    list_remove(&copy->link);
    free(copy->shard);
    free(copy->address);
    free(copy->leader);
    free(copy);
}

/* Watches the address from now on, if it was not watched before. */
static struct copy *want_copy(struct leaders *leaders, const char *shard, const char *address)
{
    struct copy *copy = find_copy(leaders, shard, address);
    if (!copy) {
        copy = copy_new(leaders, shard, address);
        connect_now(copy);
    }
    copy->is_wanted = true;
    return copy;
}

static void set_unwanted(struct leaders *leaders)
{
    for (struct list *link = leaders->copies.next; link != &leaders->copies; link = link->next) {
        struct copy *copy = container_of(link, struct copy, link);
        copy->is_wanted = copy->is_of_map = false;
    }
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

static bool is_copied(const struct leaders *leaders, const struct shard *shard)
{
    return shard->address_count > 1 || table_get(leaders->led_elsewhere, bytes_of(shard->name));
}

static void want_copies_of_map(struct leaders *leaders)
{
    const struct shard_map *map = leaders->snapshot->map;
    for (size_t i = 0; i < map->shard_count; i++) {
        const struct shard *shard = &map->shards[i];
        for (size_t n = 0; is_copied(leaders, shard) && n < shard->address_count; n++)
            want_copy(leaders, shard->name, shard->addresses[n])->is_of_map = true;
    }
}

static bool is_watched_by_map(const struct leaders *leaders, const char *shard, const char *address)
{
    for (struct list *link = leaders->copies.next; link != &leaders->copies; link = link->next) {
        const struct copy *copy = container_of(link, struct copy, link);
        if (copy->is_of_map && strcmp(copy->shard, shard) == 0 &&
            strcasecmp(copy->address, address) == 0)
            return true;
    }
    return false;
}

/* New copies are put behind the ones that are looked at, and name no leader yet. */
static void want_leaders(struct leaders *leaders)
{
    for (struct list *link = leaders->copies.next; link != &leaders->copies; link = link->next) {
        const struct copy *copy = container_of(link, struct copy, link);
        if (copy->is_of_map && copy->leader &&
            !is_watched_by_map(leaders, copy->shard, copy->leader))
            (void)want_copy(leaders, copy->shard, copy->leader);
    }
}

static void watch_all(struct leaders *leaders)
{
    set_unwanted(leaders);
    if (*leaders->snapshot->config.upstream_secret) {
        want_copies_of_map(leaders);
        want_leaders(leaders);
    }
    timer_start(leaders->sweep, 0, 0);
}

void leaders_configure(struct leaders *leaders, struct proxy_snapshot *snapshot)
{
    struct proxy_snapshot *before = leaders->snapshot;
    if (leaders->is_stopped)
        return;
    leaders->snapshot = snapshot_ref(snapshot);
    watch_all(leaders);
    if (before)
        snapshot_unref(before);
}

/* ---- shards with one address ------------------------------------------------------------------- */

/* From a worker to the main thread. */
struct look {
    struct task task;
    const struct proxy *proxy;
    char shard[SHARD_NAME_MAX + 1];
};

static void on_found_elsewhere(struct task *task)
{
    struct look *look = container_of(task, struct look, task);
    struct leaders *leaders = look->proxy->leaders;
    if (leaders && !leaders->is_stopped &&
        !table_put(leaders->led_elsewhere, bytes_of(look->shard), leaders))
        watch_all(leaders);
    free(look);
}

void leaders_look_for(const struct proxy *proxy, const char *shard)
{
    struct look *look = calloc(1, sizeof *look);
    CHECK(look);
    look->proxy = proxy;
    look->task.run = on_found_elsewhere;
    (void)snprintf(look->shard, sizeof look->shard, "%s", shard);
    loop_post(proxy->loop, &look->task);
}

/* ---- life -------------------------------------------------------------------------------------- */

struct leaders *leaders_new(struct loop *loop, const struct leaders_events *events, void *owner)
{
    struct leaders *leaders = calloc(1, sizeof *leaders);
    CHECK(leaders);
    leaders->loop = loop;
    leaders->events = events;
    leaders->owner = owner;
    leaders->sweep = timer_new(loop, free_unwanted, leaders);
    leaders->led_elsewhere = table_new();
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
    table_free(leaders->led_elsewhere);
    free(leaders);
}
