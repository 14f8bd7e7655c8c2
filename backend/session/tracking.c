#include "backend/session/tracking.h"

#include "backend/context/call.h"
#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "backend/session/tracking_inner.h"
#include "shared/check.h"
#include "shared/command/keys.h"
#include "shared/table.h"

#include <stdlib.h>

struct tracking {
    struct table *namespaces; /* name → struct tracked */
    struct list trackers;     /* of clients that track */
    uint32_t count;
    bool is_changed; /* one of the `changed` tables is not empty */
    bool is_limited; /* tracking-table-max-keys has changed, and the tables may have more keys */
};

/* ---- create, free, join, leave ---- */

struct tracking *tracking_new(void)
{
    struct tracking *tracking = calloc(1, sizeof *tracking);
    CHECK(tracking);
    tracking->namespaces = table_new();
    list_init(&tracking->trackers);
    return tracking;
}

void tracking_free(struct tracking *tracking)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    if (!tracking)
        return;
    while (table_next(tracking->namespaces, &cursor, &name, &value)) {
        struct tracked *tracked = value;
        subscription_table_free(tracked->keys);
        subscription_table_free(tracked->prefixes);
        table_free_values(tracked->changed);
        free(tracked);
    }
    table_free(tracking->namespaces);
    free(tracking);
}

void tracker_init(struct tracker *tracker)
{
    *tracker = (struct tracker){0};
    list_init(&tracker->redirect_link);
    list_init(&tracker->redirectors);
    list_init(&tracker->link);
    follower_init(&tracker->keys);
    follower_init(&tracker->prefixes);
}

static struct tracked *tracked_of(struct tracking *tracking, struct bytes namespace_name)
{
    struct tracked *tracked = table_get(tracking->namespaces, namespace_name);
    if (tracked)
        return tracked;
    tracked = calloc(1, sizeof *tracked);
    CHECK(tracked);
    tracked->keys = subscription_table_new();
    for (unsigned i = 0; i < GROUPS; i++)
        list_init(&tracked->groups[i]);
    tracked->prefixes = subscription_table_new();
    tracked->changed = table_new();
    table_put(tracking->namespaces, namespace_name, tracked);
    return tracked;
}

static void set_name(struct tracker *tracker, struct bytes name)
{
    free((char *)tracker->name.data);
    tracker->name = (struct bytes){0};
    if (!name.len)
        return;
    char *copy = malloc(name.len);
    CHECK(copy);
    memcpy(copy, name.data, name.len);
    tracker->name = (struct bytes){copy, name.len};
}

void tracking_on(struct session *session, const struct tracker *options,
                 const struct bytes *prefixes, uint32_t count)
{
    struct tracking *tracking = session->partition->watchers.tracking;
    struct tracker *tracker = &session->tracker;
    struct subscription_table *set = tracked_of(tracking, session_namespace(session))->prefixes;
    if (!tracker->is_on) {
        list_push(&tracking->trackers, &tracker->link);
        tracking->count++;
    }
    tracker->is_on = true;
    tracker->is_broken = false;
    tracker->is_bcast = options->is_bcast;
    tracker->is_optin = options->is_optin;
    tracker->is_optout = options->is_optout;
    tracker->is_noloop = options->is_noloop;
    set_name(tracker, options->name);
    tracker->redirect_id = options->redirect_id;
    tracker->redirect = options->redirect;
    list_remove(&tracker->redirect_link);
    if (tracker->redirect)
        list_push(&tracker->redirect->tracker.redirectors, &tracker->redirect_link);
    if (tracker->is_bcast && count == 0)
        (void)subscription_add(set, &tracker->prefixes, BYTES(""));
    for (uint32_t i = 0; i < count; i++)
        (void)subscription_add(set, &tracker->prefixes, prefixes[i]);
}

void tracking_off(struct session *session)
{
    struct tracker *tracker = &session->tracker;
    if (!tracker->is_on)
        return;
    session->partition->watchers.tracking->count--;
    list_remove(&tracker->link);
    list_remove(&tracker->redirect_link);
    subscription_clear(&tracker->keys);
    subscription_clear(&tracker->prefixes);
    set_name(tracker, (struct bytes){0});
    tracker->is_on = tracker->is_bcast = tracker->is_optin = tracker->is_optout = false;
    tracker->is_noloop = tracker->is_caching = tracker->is_broken = false;
    tracker->redirect_id = 0;
    tracker->redirect = NULL;
}

void tracking_leave(struct session *session)
{
    struct list *link;
    tracking_off(session);
    while ((link = list_pop(&session->tracker.redirectors)))
        container_of(link, struct tracker, redirect_link)->redirect = NULL;
}

struct bytes tracking_name(const struct session *session)
{
    return session->tracker.is_noloop ? session->tracker.name : (struct bytes){0};
}

struct session *tracking_find(const struct tracking *tracking, struct bytes name)
{
    const struct list *trackers = &tracking->trackers;
    for (struct list *link = trackers->next; name.len && link != trackers; link = link->next) {
        struct tracker *tracker = container_of(link, struct tracker, link);
        if (bytes_equal(tracker->name, name))
            return container_of(tracker, struct session, tracker);
    }
    return NULL;
}

/* ---- sending invalidations ---- */

static struct block *news_format(const struct news *news, uint8_t resp, uint8_t null_resp)
{
    struct out out;
    struct reply reply = {.out = &out, .resp = resp};
    out_init(&out);
    reply_push(&reply, resp > 2 ? 2 : 3);
    if (resp > 2) {
        reply_bulk_text(&reply, "invalidate");
    } else {
        reply_bulk_text(&reply, "message");
        reply_bulk_text(&reply, "__redis__:invalidate");
    }
    if (news->keys) {
        reply_array(&reply, (int64_t)news->count);
        for (size_t i = 0; i < news->count; i++)
            reply_bulk(&reply, news->keys[i]);
    } else {
        reply.resp = null_resp; /* as in Redis, the null has the protocol of the tracking client */
        reply_null(&reply);
    }
    return message_of(&out);
}

static void tell_broken(struct news *news, struct session *session)
{
    struct out out;
    struct reply reply = {.out = &out, .resp = session->resp};
    session->tracker.is_broken = true;
    if (session->resp < 3)
        return;
    out_init(&out);
    reply_push(&reply, 2);
    reply_bulk_text(&reply, "tracking-redir-broken");
    reply_int(&reply, (int64_t)session->tracker.redirect_id);
    struct block *frames = message_of(&out);
    push_message_send(news->partition->watchers.messages, session, frames,
                      MESSAGE_KEPT | MESSAGE_AFTER);
    block_unref(frames);
}

void tracking_send(struct news *news, struct session *session)
{
    const struct tracker *tracker = &session->tracker;
    struct session *to = session;
    unsigned place = MESSAGE_KEPT | (session == news->current ? MESSAGE_AFTER : MESSAGE_BEFORE);
    if (tracker->redirect_id) {
        to = tracker->redirect;
        if (!to) {
            tell_broken(news, session);
            return;
        }
    }
    if (to->resp < 3 && !(to != session && session_is_subscriber(to)))
        return; /* RESP2: only a redirect target with subscriptions can receive it */
    if (!news->keys) {
        struct block *frames = news_format(news, to->resp, session->resp);
        push_message_send(news->partition->watchers.messages, to, frames, place);
        block_unref(frames);
        return;
    }
    struct block **frames = &news->frames[to->resp > 2];
    if (!*frames)
        *frames = news_format(news, to->resp, to->resp);
    push_message_send(news->partition->watchers.messages, to, *frames, place);
}

void news_fini(struct news *news)
{
    block_unref(news->frames[0]);
    block_unref(news->frames[1]);
}

static struct session *session_of_keys(const struct subscription *subscription)
{
    return container_of(subscription->follower, struct session, tracker.keys);
}

/* Sends the invalidation to all clients that have read the key, and stops tracking the key. */
static void tell_readers(struct news *news, struct topic *topic)
{
    struct subscription *subscription = NULL;
    while ((subscription = topic_subscription_next(topic, subscription))) {
        struct session *session = session_of_keys(subscription);
        if (!session->tracker.is_bcast && !(session->tracker.is_noloop && session == news->current))
            tracking_send(news, session);
    }
    topic_clear(topic);
}

/* ---- keys that were read ---- */

/* Are the client's next reads tracked? */
static bool is_caching(const struct tracker *tracker)
{
    if (!tracker->is_on || tracker->is_bcast)
        return false;
    return !(tracker->is_optin && !tracker->is_caching) &&
           !(tracker->is_optout && tracker->is_caching);
}

/* Does the command read keys? Not scripts: only their commands do. */
static bool is_reading(const struct command *command)
{
    return command->flags & CMD_READONLY && !(command->flags & (CMD_PUBSUB | CMD_SKIP_MONITOR));
}

static void add_read_keys(struct call *call)
{
    struct key_list keys;
    keys_list_init(&keys);
    (void)keys_find(call->command, call->argv, call->argc, &keys);
    for (uint32_t i = 0; i < keys.count; i++) {
        const struct change change = {.kind = CHANGE_READ, .key = call->argv[keys.refs[i].index]};
        call->partition->watchers.changes->add(call, &change);
    }
    keys_list_fini(&keys);
}

void tracking_remember(struct call *call)
{
    if (is_caching(&call->session->tracker) && is_reading(call->command))
        add_read_keys(call);
}

void tracking_remember_script(struct call *script, const struct command *called)
{
    if (is_caching(&script->session->tracker) && is_reading(called))
        add_read_keys(script);
}

static bool is_on_another_shard(const struct session *session, struct bytes key)
{
    const struct slot_set *slots = session_slots(session);
    return slots && !slot_set_has(slots, slot_rule_slot(session->scope.slot_rule, key));
}

/* Sends an invalidation of the key to the call's client. */
static void invalidate_at_once(struct call *call, struct bytes key)
{
    struct news news = {
        .partition = call->partition, .current = call->session, .keys = &key, .count = 1};
    tracking_send(&news, call->session);
    news_fini(&news);
}

/* Adds a key that was not tracked so far to the list of its slot. */
static void group_topic(struct tracked *tracked, struct topic *topic, const struct session *session)
{
    uint16_t slot = slot_rule_slot(session->scope.slot_rule, topic_name(topic));
    if (list_empty(&topic->group))
        list_push(&tracked->groups[slot / GROUP_SLOTS], &topic->group);
}

/* Removes and invalidates the oldest keys above tracking-table-max-keys. */
static void drop_oldest_keys(struct partition *partition, struct tracked *tracked)
{
    size_t limit = (size_t)partition->snapshot->tracking_keys_max;
    while (limit && subscription_topics(tracked->keys) > limit) {
        struct topic *oldest = topic_next(tracked->keys, NULL);
        struct bytes name = topic_name(oldest);
        struct news news = {.partition = partition, .keys = &name, .count = 1};
        tell_readers(&news, oldest);
        news_fini(&news);
    }
}

void tracking_keep(struct call *call, struct bytes key)
{
    struct partition *partition = call->partition;
    if (!call->session->tracker.is_on)
        return;
    if (is_on_another_shard(call->session, key)) {
        invalidate_at_once(call, key);
        return;
    }
    struct tracked *tracked =
        tracked_of(partition->watchers.tracking, session_namespace(call->session));
    struct subscription_table *set = tracked->keys;
    if (subscription_add(set, &call->session->tracker.keys, key))
        group_topic(tracked, subscription_find(set, key), call->session);
    drop_oldest_keys(partition, tracked);
}

void tracking_limit(struct tracking *tracking)
{
    tracking->is_limited = true;
}

static void limit_all(struct partition *partition)
{
    struct tracking *tracking = partition->watchers.tracking;
    size_t cursor = 0;
    struct bytes name;
    void *tracked;
    while (table_next(tracking->namespaces, &cursor, &name, &tracked))
        drop_oldest_keys(partition, tracked);
}

/* ---- keys that were changed ---- */

void tracking_touch(struct partition *partition, const struct change *change, struct session *by)
{
    struct tracking *tracking = partition->watchers.tracking;
    struct bytes namespace_name;
    uint8_t database;
    if (tracking->count == 0)
        return;
    space_place(partition->spaces, change->space, &namespace_name, &database);
    struct tracked *tracked = tracked_of(tracking, namespace_name);
    tracking->is_changed |=
        tracked_note(tracked, change->key, change->by_client && by ? by->id : 0);
    struct topic *topic = subscription_find(tracked->keys, change->key);
    if (!topic)
        return;
    struct news news = {.partition = partition, .current = by, .keys = &change->key, .count = 1};
    tell_readers(&news, topic);
    news_fini(&news);
}

/* Empties the namespace's table and sends an invalidation of all keys. */
static void invalidate_trackers(struct news *news, struct tracked *tracked,
                                struct bytes namespace_name)
{
    struct list *trackers = &news->partition->watchers.tracking->trackers;
    struct topic *topic;
    for (struct list *link = trackers->next; link != trackers; link = link->next) {
        struct tracker *tracker = container_of(link, struct tracker, link);
        struct session *session = container_of(tracker, struct session, tracker);
        if (bytes_equal(session_namespace(session), namespace_name))
            tracking_send(news, session);
    }
    while ((topic = topic_next(tracked->keys, NULL)))
        topic_clear(topic);
}

void tracking_flush(struct call *call, const struct space *space)
{
    struct tracking *tracking = call->partition->watchers.tracking;
    struct bytes name;
    uint8_t database;
    space_place(call->partition->spaces, space, &name, &database);
    struct news news = {.partition = call->partition, .current = call->session};
    if (tracking->count)
        invalidate_trackers(&news, tracked_of(tracking, name), name);
}

/* What has changed in this turn is not told: it was rolled back, and all clients drop what they have. */
void tracking_forget_all(struct partition *partition)
{
    struct tracking *tracking = partition->watchers.tracking;
    struct news news = {.partition = partition};
    size_t cursor = 0;
    struct bytes name;
    void *tracked;
    while (tracking->count && table_next(tracking->namespaces, &cursor, &name, &tracked)) {
        tracked_forget_changes(tracked);
        invalidate_trackers(&news, tracked, name);
    }
    tracking->is_changed = false;
}

/* ---- slots that have moved ---- */

static uint16_t slot_of_topic(const struct topic *topic)
{
    const struct session *session = session_of_keys(topic_subscription_next(topic, NULL));
    return slot_rule_slot(session->scope.slot_rule, topic_name(topic));
}

static void forget_slots_of(struct partition *partition, struct tracked *tracked, uint16_t first,
                            uint16_t last)
{
    for (unsigned i = first / GROUP_SLOTS; i <= last / GROUP_SLOTS; i++) {
        struct list *group = &tracked->groups[i];
        struct list *next;
        for (struct list *link = group->next; link != group; link = next) {
            struct topic *topic = container_of(link, struct topic, group);
            struct bytes name = topic_name(topic);
            uint16_t slot = slot_of_topic(topic);
            struct news news = {.partition = partition, .keys = &name, .count = 1};
            next = link->next;
            if (slot < first || slot > last)
                continue;
            tell_readers(&news, topic);
            news_fini(&news);
        }
    }
}

void tracking_forget_slots(struct partition *partition, uint16_t first, uint16_t last)
{
    struct tracking *tracking = partition->watchers.tracking;
    struct news everything = {.partition = partition};
    size_t cursor = 0;
    struct bytes name;
    void *tracked;
    for (struct list *link = tracking->trackers.next; link != &tracking->trackers;
         link = link->next) {
        struct tracker *tracker = container_of(link, struct tracker, link);
        if (tracker->is_bcast)
            tracking_send(&everything, container_of(tracker, struct session, tracker));
    }
    while (tracking->count && table_next(tracking->namespaces, &cursor, &name, &tracked))
        forget_slots_of(partition, tracked, first, last);
}

/* ---- the end of a turn ---- */

bool tracking_turn_end(struct partition *partition)
{
    struct tracking *tracking = partition->watchers.tracking;
    size_t cursor = 0;
    struct bytes name;
    void *tracked;
    if (!tracking->is_changed && !tracking->is_limited)
        return false;
    if (tracking->is_limited)
        limit_all(partition);
    tracking->is_changed = tracking->is_limited = false;
    while (table_next(tracking->namespaces, &cursor, &name, &tracked))
        if (table_count(((struct tracked *)tracked)->changed))
            tracked_tell(partition, tracked);
    push_messages_deliver(partition->watchers.messages, overlay_pending_ticket(partition->overlay));
    return true;
}

/* ---- figures ---- */

uint32_t tracking_clients(const struct tracking *tracking)
{
    return tracking->count;
}

void tracking_counts(struct tracking *tracking, struct bytes namespace_name, size_t counts[3])
{
    const struct tracked *tracked = tracked_of(tracking, namespace_name);
    counts[0] = subscription_topics(tracked->keys);
    counts[1] = subscription_pairs(tracked->keys);
    counts[2] = subscription_topics(tracked->prefixes);
}

const struct name_lengths *tracking_prefix_lengths(struct tracking *tracking,
                                                   struct bytes namespace_name)
{
    return &tracked_of(tracking, namespace_name)->prefixes->lengths;
}
