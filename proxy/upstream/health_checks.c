#include "proxy/upstream/health_checks.h"

#include "config/reload.h"
#include "shared/check.h"
#include "shared/error_code.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/resp.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { REPLY_BYTES_MAX = 4096 }; /* a longer reply is not one of a backend */

struct check {
    struct health_checks *all;
    char *shard;
    char *address;
    struct stream *stream; /* NULL: no check is under way */
    struct timer *timer;   /* limits the check */
    struct resp_skip skip;
    struct greeting greeting;
    enum { CHECK_AUTH, CHECK_SELF, CHECK_PING } next; /* which reply comes next */
    struct greeting_self self;
    struct shard_health health; /* guarded by the mutex */
};

struct health_checks {
    pthread_mutex_t mutex;
    struct loop *loop;
    shard_back_fn *on_back;
    void *owner;
    struct timer *timer; /* NULL: not configured yet, or stopped */
    bool is_stopped;
    uint64_t interval_ms;
    struct proxy_snapshot *snapshot;
    size_t count;          /* guarded by the mutex, as `each` */
    struct check **each;   /* in the order of the map */
    struct shard_map *map; /* a reference; guarded by the mutex */
};

static void lock(struct health_checks *checks)
{
    CHECK(pthread_mutex_lock(&checks->mutex) == 0);
}

static void unlock(struct health_checks *checks)
{
    CHECK(pthread_mutex_unlock(&checks->mutex) == 0);
}

/* ---- one check ----------------------------------------------------------------------------------- */

static void check_abort(struct check *check)
{
    timer_stop(check->timer);
    if (check->stream)
        stream_abort(check->stream);
    check->stream = NULL;
}

static void end_as_down(struct check *check, const char *what, const char *reason)
{
    lock(check->all);
    check->health.is_up = false;
    check->health.is_empty = false;
    (void)snprintf(check->health.reason, sizeof check->health.reason, "%s%s", what, reason);
    unlock(check->all);
    check_abort(check);
}

/* An empty disk: the shard answers, and would refuse every command for its keys. */
static void end_as_empty(struct check *check)
{
    char reason[HEALTH_REASON_MAX];
    (void)snprintf(reason, sizeof reason,
                   "it owns none of the %" PRIu64
                   " slots that the map gives it, and no other shard does: is its disk empty?",
                   check->self.orphaned);
    end_as_down(check, "", reason);
    lock(check->all);
    check->health.is_empty = true;
    unlock(check->all);
}

static void end_as_up(struct check *check)
{
    if (!check->health.is_up) /* only this thread writes it */
        check->all->on_back(check->all->owner, check->shard);
    lock(check->all);
    check->health.is_up = true;
    check->health.is_empty = false;
    check->health.reason[0] = '\0';
    check->health.self = check->self;
    unlock(check->all);
    check_abort(check);
}

/* The text of an error frame without its '-' and end of line. */
static void copy_error(char to[HEALTH_REASON_MAX], struct bytes frame)
{
    int len = frame.len > 3 ? (int)frame.len - 3 : 0;
    (void)snprintf(to, HEALTH_REASON_MAX, "%.*s", len < 200 ? len : 200, frame.data + 1);
}

static bool end_with_error(struct check *check, const char *what, struct bytes frame)
{
    char reason[HEALTH_REASON_MAX];
    copy_error(reason, frame);
    end_as_down(check, what, reason);
    return false;
}

/* True: the check goes on. */
static bool handle_check_reply(struct check *check, struct bytes frame)
{
    char reason[HEALTH_REASON_MAX];
    switch (check->next) {
    case CHECK_AUTH:
        if (!greeting_auth(&check->greeting, frame))
            return end_with_error(check, "refused the greeting: ", frame);
        if (check->greeting.auths_left == 0)
            check->next = CHECK_SELF;
        return true;
    case CHECK_SELF:
        greeting_read(frame, &check->self);
        check->next = CHECK_PING;
        if (greeting_check(&check->self, check->shard, reason, sizeof reason) &&
            greeting_serves(&check->self, reason, sizeof reason))
            return true;
        end_as_down(check, "", reason);
        return false;
    case CHECK_PING:
        break;
    }
    if (frame.data[0] == '-' && !error_has_code(frame, "BUSY"))
        return end_with_error(check, "refused PING: ", frame);
    if (check->self.orphaned && !check->self.slots)
        end_as_empty(check);
    else
        end_as_up(check);
    return false;
}

/* receive_fn */
static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct check *check = owner;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(&check->skip, data + used, len - used);
        if (result == RESP_MORE && len - used < REPLY_BYTES_MAX &&
            check->skip.need < REPLY_BYTES_MAX) {
            *need = check->skip.need;
            return used;
        }
        if (result != RESP_FRAME) {
            end_as_down(check, "", "received data that is not RESP");
            return len;
        }
        if (!handle_check_reply(check, (struct bytes){data + used, check->skip.size}))
            return len;
        used += check->skip.size;
    }
    return used;
}

static void on_end(void *owner, int err)
{
    struct check *check = owner;
    end_as_down(check, "", err ? stream_error(check->stream, err) : "closed by the backend");
}

static void check_is_open(void *owner, int err)
{
    static const struct bytes ping[] = {{"PING", 4}};
    struct check *check = owner;
    if (err) {
        end_as_down(check, "not reachable: ", stream_error(check->stream, err));
        return;
    }
    const struct proxy_config *config = &check->all->snapshot->config;
    check->next = *config->upstream_secret ? CHECK_AUTH : CHECK_PING;
    if (*config->upstream_secret)
        greeting_write(&check->greeting, stream_out(check->stream), config->upstream_secret,
                       config->upstream_secret_previous);
    resp_write_words(stream_out(check->stream), ping, 1);
    stream_send(check->stream);
}

static void check_took_too_long(void *owner)
{
    struct check *check = owner;
    char reason[64];
    (void)snprintf(reason, sizeof reason, "no reply within %" PRIu64 " ms",
                   check->all->snapshot->config.upstream_connect_timeout_ms);
    end_as_down(check, "", reason);
}

static const struct stream_events events = {.on_data = on_data, .on_end = on_end};

static void check_begin(struct check *check)
{
    const struct proxy_snapshot *snapshot = check->all->snapshot;
    uint64_t timeout_ms = snapshot->config.upstream_connect_timeout_ms;
    if (check->stream || !check->address)
        return;
    check->skip = (struct resp_skip){0};
    check->self = (struct greeting_self){.slots = 0};
    check->stream =
        stream_connect(check->all->loop, check->address, timeout_ms, &events, check_is_open, check);
    if (snapshot->upstream_tls && strncmp(check->address, "unix:", 5) != 0)
        stream_secure(check->stream, snapshot->upstream_tls, check->address);
    timer_start(check->timer, timeout_ms, 0);
}

static struct check *check_new(struct health_checks *checks, const struct shard *shard)
{
    struct check *check = calloc(1, sizeof *check);
    CHECK(check);
    check->all = checks;
    check->shard = strdup(shard->name);
    check->address = shard->address_count ? strdup(shard->addresses[0]) : NULL;
    check->timer = timer_new(checks->loop, check_took_too_long, check);
    (void)snprintf(check->health.reason, sizeof check->health.reason, "not checked yet");
    CHECK(check->shard && (check->address || !shard->address_count));
    return check;
}

static void check_end(struct check *check)
{
    check_abort(check);
    timer_free(check->timer);
    check->timer = NULL;
}

static void check_free(struct check *check)
{
    free(check->shard);
    free(check->address);
    free(check);
}

/* ---- all checks ---------------------------------------------------------------------------------- */

static void begin_all(void *owner)
{
    struct health_checks *checks = owner;
    for (size_t i = 0; i < checks->count; i++)
        check_begin(checks->each[i]);
}

static bool is_of_shard(const struct check *check, const struct shard *shard)
{
    const char *address = shard->address_count ? shard->addresses[0] : NULL;
    return strcmp(check->shard, shard->name) == 0 &&
           (address && check->address ? strcmp(address, check->address) == 0
                                      : address == check->address);
}

/* Removes the check of the shard from the list; NULL: there is none. */
static struct check *take_check(struct check **each, size_t count, const struct shard *shard)
{
    for (size_t i = 0; i < count; i++) {
        struct check *check = each[i];
        if (!check || !is_of_shard(check, shard))
            continue;
        each[i] = NULL;
        return check;
    }
    return NULL;
}

static void set_map(struct health_checks *checks, struct shard_map *map)
{
    struct check **old = checks->each;
    size_t old_count = checks->count;
    struct check **each = calloc(map->shard_count, sizeof *each);
    CHECK(each);
    lock(checks); /* health_checks_get must not find the places that take_check empties */
    for (size_t i = 0; i < map->shard_count; i++) {
        each[i] = take_check(old, old_count, &map->shards[i]);
        if (!each[i])
            each[i] = check_new(checks, &map->shards[i]);
    }
    shard_map_unref(checks->map);
    checks->map = shard_map_ref(map);
    checks->each = each;
    checks->count = map->shard_count;
    unlock(checks);
    for (size_t i = 0; i < old_count; i++) {
        if (!old[i])
            continue;
        check_end(old[i]);
        check_free(old[i]);
    }
    free(old);
}

void health_checks_configure(struct health_checks *checks, struct proxy_snapshot *snapshot)
{
    struct proxy_snapshot *old = checks->snapshot;
    if (checks->is_stopped)
        return;
    if (!checks->timer)
        checks->timer = timer_new(checks->loop, begin_all, checks);
    checks->snapshot = snapshot_ref(snapshot);
    if (!checks->map || !shard_map_equal(checks->map, snapshot->map))
        set_map(checks, snapshot->map);
    checks->interval_ms = snapshot->config.upstream_health_interval_ms;
    begin_all(checks);
    timer_start(checks->timer, checks->interval_ms, checks->interval_ms);
    if (old)
        snapshot_unref(old);
}

struct health_checks *health_checks_new(struct loop *loop, shard_back_fn *on_back, void *owner)
{
    struct health_checks *checks = calloc(1, sizeof *checks);
    CHECK(checks);
    CHECK(pthread_mutex_init(&checks->mutex, NULL) == 0);
    checks->loop = loop;
    checks->on_back = on_back;
    checks->owner = owner;
    return checks;
}

void health_checks_stop(struct health_checks *checks)
{
    if (!checks || checks->is_stopped)
        return;
    checks->is_stopped = true;
    for (size_t i = 0; i < checks->count; i++)
        check_end(checks->each[i]);
    timer_free(checks->timer);
    checks->timer = NULL;
}

void health_checks_free(struct health_checks *checks)
{
    if (!checks)
        return;
    health_checks_stop(checks);
    for (size_t i = 0; i < checks->count; i++)
        check_free(checks->each[i]);
    free(checks->each);
    shard_map_unref(checks->map);
    if (checks->snapshot)
        snapshot_unref(checks->snapshot);
    (void)pthread_mutex_destroy(&checks->mutex);
    free(checks);
}

void health_checks_get(struct health_checks *checks, const struct shard_map *map,
                       struct shard_health *to)
{
    lock(checks);
    for (size_t i = 0; i < map->shard_count; i++) {
        const struct shard *shard = &map->shards[i];
        int at = (int)i;
        if (checks->map != map)
            at = checks->map ? shard_map_named(checks->map, bytes_of(shard->name)) : -1;
        if (at >= 0 && is_of_shard(checks->each[at], shard))
            to[i] = checks->each[at]->health;
        else
            to[i] = (struct shard_health){.reason = "not checked yet"};
    }
    unlock(checks);
}
