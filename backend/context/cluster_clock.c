#include "backend/context/cluster_clock.h"

#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/shard_map.h"
#include "shared/table.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    EVERY_US = 40000, /* the median is computed anew; several partitions tick */
    CLOSE_US = 2000,  /* two readings of one clock differ by this much more than by their errors */
    SLEW = 100,       /* part of the time passed by which the time approaches the median */
    DRIFT = 10000,    /* part of the time passed by which a vote becomes less exact */
    DIFFERS_US = 1000000, /* an own clock that is further away is logged */
};

/* No system clock shows a later time, in µs: it is about the year 150000. A later one could not be told from one before 1970. */
#define SYSTEM_CLOCK_MAX ((uint64_t)1 << 62)

/* A system clock, as its distance to our monotonic clock. */
struct vote {
    int64_t offset_us;
    uint64_t error_us;
    uint64_t heard_us; /* monotonic */
};

struct cluster_clock {
    pthread_mutex_t lock;
    struct table *votes; /* by name of the shard: struct vote, on the heap */
    uint64_t begun_us;   /* monotonic: the first tick; 0: none so far */
    uint64_t ticked_us;  /* monotonic: when the time was last computed */
    int64_t offset_us;   /* of the time to our monotonic clock; 0: not known */
    int64_t own_us;      /* of our system clock to our monotonic clock */
    bool was_complete;   /* all shards were heard at some time */
    bool has_warned;     /* clock_differs was logged */
    atomic_bool is_known;
};

struct cluster_clock *cluster_clock_new(void)
{
    struct cluster_clock *clock = calloc(1, sizeof *clock);
    CHECK(clock);
    CHECK(pthread_mutex_init(&clock->lock, NULL) == 0);
    clock->votes = table_new();
    return clock;
}

void cluster_clock_free(struct cluster_clock *clock)
{
    struct bytes name;
    void *vote;
    for (size_t cursor = 0; table_next(clock->votes, &cursor, &name, &vote);)
        free(vote);
    table_free(clock->votes);
    pthread_mutex_destroy(&clock->lock);
    free(clock);
}

/* ---- votes ---- */

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Does the new reading replace the vote: because it is more exact by now, or because the clock was set? */
static bool is_better(const struct vote *vote, const struct vote *now)
{
    uint64_t drift_us = (now->heard_us - vote->heard_us) / DRIFT;
    return now->error_us <= vote->error_us + drift_us ||
           distance(now->offset_us, vote->offset_us) > now->error_us + vote->error_us + CLOSE_US;
}

static void put_vote(struct cluster_clock *clock, struct bytes shard, const struct vote *now)
{
    struct vote *vote = table_get(clock->votes, shard);
    if (!vote) {
        vote = malloc(sizeof *vote);
        CHECK(vote);
        table_put(clock->votes, shard, vote);
        *vote = *now;
    } else if (is_better(vote, now)) {
        *vote = *now;
    }
}

void cluster_clock_heard(struct cluster_clock *clock, struct bytes shard, uint64_t wall_us,
                         uint64_t mono_us, uint64_t error_us)
{
    const struct vote now = {
        .offset_us = (int64_t)(wall_us - mono_us), .error_us = error_us, .heard_us = mono_us};
    if (wall_us > SYSTEM_CLOCK_MAX)
        return;
    pthread_mutex_lock(&clock->lock);
    put_vote(clock, shard, &now);
    pthread_mutex_unlock(&clock->lock);
}

void cluster_clock_forget(struct cluster_clock *clock, struct bytes shard)
{
    pthread_mutex_lock(&clock->lock);
    free(table_remove(clock->votes, shard));
    pthread_mutex_unlock(&clock->lock);
}

/* ---- the median ---- */

struct election {
    size_t wanted; /* shards of the map */
    size_t count;  /* votes */
    size_t near;   /* votes near the median */
    struct vote median;
};

static int compare_votes(const void *left, const void *right)
{
    const struct vote *a = left;
    const struct vote *b = right;
    return (a->offset_us > b->offset_us) - (a->offset_us < b->offset_us);
}

/* Counts the votes of the map's shards. False: there is none. */
static bool elect(const struct cluster_clock *clock, const struct shard_map *map,
                  struct election *election)
{
    struct vote votes[SHARD_COUNT_MAX];
    *election = (struct election){.wanted = map->shard_count};
    for (size_t i = 0; i < map->shard_count; i++) {
        const struct vote *vote = table_get(clock->votes, bytes_of(map->shards[i].name));
        if (vote)
            votes[election->count++] = *vote;
    }
    if (!election->count)
        return false;
    qsort(votes, election->count, sizeof *votes, compare_votes);
    election->median = votes[(election->count - 1) / 2];
    for (size_t i = 0; i < election->count; i++)
        election->near +=
            distance(votes[i].offset_us, election->median.offset_us) <= CLUSTER_CLOCK_NEAR_US;
    return true;
}

/* ---- the time ---- */

/* Our own clock if it cannot be told from the median, otherwise the median. */
static int64_t offset_to_follow(const struct cluster_clock *clock, const struct election *election)
{
    const struct vote *median = &election->median;
    bool is_own = distance(clock->own_us, median->offset_us) <= median->error_us + CLOSE_US;
    return is_own ? clock->own_us : median->offset_us;
}

/* The offset that is at most 1 % of the time passed nearer to the target. */
static int64_t approach(const struct cluster_clock *clock, int64_t target_us, uint64_t now_us)
{
    int64_t most_us = (int64_t)((now_us - clock->ticked_us) / SLEW);
    int64_t missing_us = target_us - clock->offset_us;
    if (missing_us > most_us)
        missing_us = most_us;
    else if (missing_us < -most_us)
        missing_us = -most_us;
    return clock->offset_us + missing_us;
}

/* Logs that the own clock is wrong, and that it is right again. */
static void report_skew(struct cluster_clock *clock)
{
    int64_t skew_us = clock->own_us - clock->offset_us;
    bool differs = distance(skew_us, 0) > DIFFERS_US;
    if (differs != clock->has_warned)
        log_event(differs ? LOG_WARN : LOG_INFO, differs ? "clock_differs" : "clock_agrees",
                  "skew_ms=%" PRId64, skew_us / 1000);
    clock->has_warned = differs;
}

static void set_time(struct cluster_clock *clock, const struct election *election, uint64_t now_us)
{
    int64_t target_us = offset_to_follow(clock, election);
    bool is_complete = election->count == election->wanted;
    bool is_agreed = election->near * 2 > election->wanted;
    bool is_far = distance(target_us, clock->offset_us) > CLUSTER_CLOCK_NEAR_US;
    bool jumps =
        !clock->offset_us || (is_complete && !clock->was_complete) || (is_far && is_agreed);
    bool is_late = now_us >= clock->begun_us + CLUSTER_CLOCK_WAIT_US;
    if (!is_complete && !is_agreed && !is_late)
        return;
    clock->offset_us = jumps ? target_us : approach(clock, target_us, now_us);
    clock->was_complete |= is_complete;
    clock_set_wall(clock->offset_us);
    atomic_store(&clock->is_known, true);
    report_skew(clock);
}

static void tick(struct cluster_clock *clock, const struct shard_map *map, struct bytes own_shard)
{
    uint64_t now_us = clock_mono_us();
    struct election election;
    clock->own_us = (int64_t)(clock_system_us() - now_us);
    put_vote(clock, own_shard,
             &(struct vote){.offset_us = clock->own_us, .error_us = 0, .heard_us = now_us});
    if (!clock->begun_us)
        clock->begun_us = now_us;
    if (now_us < clock->ticked_us + EVERY_US && cluster_clock_is_known(clock))
        return;
    if (elect(clock, map, &election))
        set_time(clock, &election, now_us);
    clock->ticked_us = now_us;
}

void cluster_clock_tick(struct cluster_clock *clock, const struct shard_map *map,
                        struct bytes own_shard)
{
    pthread_mutex_lock(&clock->lock);
    tick(clock, map, own_shard);
    pthread_mutex_unlock(&clock->lock);
}

bool cluster_clock_is_known(const struct cluster_clock *clock)
{
    return atomic_load_explicit(&clock->is_known, memory_order_relaxed);
}

/* ---- skew ---- */

static int64_t skew_of(const struct cluster_clock *clock, int64_t offset_us)
{
    return clock->offset_us ? offset_us - clock->offset_us : 0;
}

int64_t cluster_clock_own_skew(struct cluster_clock *clock)
{
    pthread_mutex_lock(&clock->lock);
    int64_t skew_us = skew_of(clock, clock->own_us);
    pthread_mutex_unlock(&clock->lock);
    return skew_us;
}

int64_t cluster_clock_skew_of(struct cluster_clock *clock, struct bytes shard)
{
    pthread_mutex_lock(&clock->lock);
    const struct vote *vote = table_get(clock->votes, shard);
    int64_t skew_us = vote ? skew_of(clock, vote->offset_us) : 0;
    pthread_mutex_unlock(&clock->lock);
    return skew_us;
}
