/*
 * tracking_bcast.c - CLIENT TRACKING ON BCAST PREFIX: at the end of a turn, each client gets the changed keys with its prefixes.
 *
 *   changed, sorted   a:1  a:2  b:1  b:2  b:3  c:1        prefixes that were found, sorted
 *                               └────┬────┘ ◄──────────── b:  ─► its clients get one message
 *
 * Keys with the same prefix are neighbours. To find the prefixes of a key, its first bytes are looked up among the prefixes, once for
 * each length that some prefix has: the cost grows with the changed keys and the lengths (PREFIX_LENGTHS_MAX), not with the prefixes.
 * Redis sends the messages in the order of the prefixes, and the keys of each in their order; so does this.
 */
#include "backend/session/session.h"
#include "backend/session/tracking_inner.h"
#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

/* A key that changed in this turn. */
struct turn_change {
    struct bytes key; /* in the table `changed` */
    uint64_t by;      /* id of the client that changed it; 0: none or several */
};

/* What has changed in a turn, for as long as it is told. */
struct turn {
    struct partition *partition;
    struct bytes *keys; /* sorted */
    uint64_t *by;       /* of each key */
    size_t count;
    uint64_t *writers;       /* sorted ids of clients that have changed a key alone */
    struct bytes *but_own;   /* room for `count` keys */
    struct topic **prefixes; /* of the keys */
    size_t prefix_count;
    size_t prefix_room;
};

bool tracked_note(struct tracked *tracked, struct bytes key, uint64_t by)
{
    if (!subscription_topics(tracked->prefixes))
        return false;
    struct turn_change *change = table_get(tracked->changed, key);
    if (change) {
        change->by = change->by == by ? by : 0;
        return true;
    }
    change = malloc(sizeof *change);
    CHECK(change);
    change->by = by;
    table_put(tracked->changed, key, change);
    return true;
}

void tracked_forget_changes(struct tracked *tracked)
{
    table_free_values(tracked->changed);
    tracked->changed = table_new();
}

/* ---- what has changed ---- */

static int by_key(const void *a, const void *b)
{
    const struct turn_change *x = a;
    const struct turn_change *y = b;
    return bytes_compare(x->key, y->key);
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The changes, sorted by key; the caller frees them. */
static struct turn_change *sort_changes(const struct tracked *tracked)
{
    size_t cursor = 0;
    struct turn_change *changes = calloc(table_count(tracked->changed), sizeof *changes);
    CHECK(changes);
    struct bytes key;
    void *change;
    for (size_t i = 0; table_next(tracked->changed, &cursor, &key, &change); i++)
        changes[i] = (struct turn_change){key, ((struct turn_change *)change)->by};
    qsort(changes, table_count(tracked->changed), sizeof *changes, by_key);
    return changes;
}

static void turn_init(struct turn *turn, struct partition *partition, const struct tracked *tracked)
{
    size_t count = table_count(tracked->changed);
    struct turn_change *changes = sort_changes(tracked);
    *turn = (struct turn){.partition = partition, .count = count};
    turn->keys = malloc(count * sizeof *turn->keys);
    turn->but_own = malloc(count * sizeof *turn->but_own);
    turn->by = malloc(count * sizeof *turn->by);
    turn->writers = malloc(count * sizeof *turn->writers);
    CHECK(turn->keys && turn->but_own && turn->by && turn->writers);
    for (size_t i = 0; i < count; i++) {
        turn->keys[i] = changes[i].key;
        turn->by[i] = turn->writers[i] = changes[i].by;
    }
    qsort(turn->writers, count, sizeof *turn->writers, by_id);
    free(changes);
}

static void turn_fini(struct turn *turn)
{
    free(turn->keys);
    free(turn->but_own);
    free(turn->by);
    free(turn->writers);
    free((void *)turn->prefixes);
}

/* ---- the prefixes of the keys ---- */

static bool begins_with(struct bytes key, struct bytes prefix)
{
    return key.len >= prefix.len && bytes_equal((struct bytes){key.data, prefix.len}, prefix);
}

static void add_prefix(struct turn *turn, struct topic *prefix)
{
    if (turn->prefix_count == turn->prefix_room) {
        turn->prefix_room = turn->prefix_room ? 2 * turn->prefix_room : 16;
        turn->prefixes =
            realloc((void *)turn->prefixes, turn->prefix_room * sizeof(struct topic *));
        CHECK(turn->prefixes);
    }
    turn->prefixes[turn->prefix_count++] = prefix;
}

static int by_name(const void *a, const void *b)
{
    const struct topic *const *x = a;
    const struct topic *const *y = b;
    return bytes_compare(topic_name(*x), topic_name(*y));
}

/* Neighbours with the same first bytes have the same prefix: it is looked up at the first of them. */
static void find_prefixes(struct turn *turn, const struct subscription_table *prefixes)
{
    const struct name_lengths *lengths = &prefixes->lengths;
    for (size_t i = 0; i < turn->count; i++) {
        struct bytes key = turn->keys[i];
        for (size_t j = 0; j < lengths->count && lengths->items[j].len <= key.len; j++) {
            struct bytes start = {key.data, lengths->items[j].len};
            struct topic *prefix = NULL;
            if (i == 0 || !begins_with(turn->keys[i - 1], start))
                prefix = subscription_find(prefixes, start);
            if (prefix)
                add_prefix(turn, prefix);
        }
    }
    if (turn->prefix_count)
        qsort((void *)turn->prefixes, turn->prefix_count, sizeof *turn->prefixes, by_name);
}

/* The first key that is not below the prefix: some key begins with it, so this one does. */
static size_t first_changed(const struct turn *turn, struct bytes prefix)
{
    size_t low = 0;
    size_t high = turn->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(turn->keys[middle], prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- telling ---- */

/* Tells a NOLOOP client the keys from `at` that it has not changed itself. */
static void tell_but_own(struct turn *turn, size_t at, size_t count, struct session *session)
{
    struct news own = {.partition = turn->partition, .keys = turn->but_own};
    for (size_t i = at; i < at + count; i++)
        if (turn->by[i] != session->id)
            turn->but_own[own.count++] = turn->keys[i];
    if (own.count)
        tracking_send(&own, session);
    news_fini(&own);
}

static bool has_written(const struct turn *turn, const struct session *session)
{
    return bsearch(&session->id, turn->writers, turn->count, sizeof *turn->writers, by_id);
}

static void tell_prefix(struct turn *turn, const struct topic *prefix)
{
    size_t at = first_changed(turn, topic_name(prefix));
    struct news news = {.partition = turn->partition, .keys = turn->keys + at};
    while (at + news.count < turn->count &&
           begins_with(turn->keys[at + news.count], topic_name(prefix)))
        news.count++;
    struct subscription *subscription = NULL;
    while ((subscription = topic_subscription_next(prefix, subscription))) {
        struct session *session =
            container_of(subscription->follower, struct session, tracker.prefixes);
        if (session->tracker.is_noloop && has_written(turn, session))
            tell_but_own(turn, at, news.count, session);
        else
            tracking_send(&news, session);
    }
    news_fini(&news);
}

void tracked_tell(struct partition *partition, struct tracked *tracked)
{
    struct turn turn;
    turn_init(&turn, partition, tracked);
    find_prefixes(&turn, tracked->prefixes);
    for (size_t i = 0; i < turn.prefix_count; i++)
        tell_prefix(&turn, turn.prefixes[i]);
    turn_fini(&turn);
    tracked_forget_changes(tracked);
}
