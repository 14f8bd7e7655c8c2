#include "proxy/core/events.h"

#include "shared/check.h"
#include "shared/version.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct events {
    pthread_mutex_t mutex;
    uint64_t next_id;
    uint32_t count;
    uint32_t next; /* index in `ring` of the next event to write */
    struct event ring[EVENTS_MAX];
};

struct events *events_new(void)
{
    struct events *events = calloc(1, sizeof *events);
    CHECK(events);
    CHECK(pthread_mutex_init(&events->mutex, NULL) == 0);
    events->next_id = 1;
    return events;
}

void events_free(struct events *events)
{
    (void)pthread_mutex_destroy(&events->mutex);
    free(events);
}

/* The event `back` events before the newest. */
static struct event *event_at(struct events *events, uint32_t back)
{
    return &events->ring[(events->next + EVENTS_MAX - 1 - back) % EVENTS_MAX];
}

/* The newest event of the subject; NULL: none. */
static struct event *newest_about(struct events *events, const char *subject)
{
    for (uint32_t back = 0; back < events->count; back++) {
        struct event *event = event_at(events, back);
        if (strncmp(event->subject, subject, EVENT_SUBJECT_MAX - 1) == 0)
            return event;
    }
    return NULL;
}

void events_note(struct events *events, enum event_kind kind, uint64_t now_ms, const char *subject,
                 const char *text)
{
    CHECK(pthread_mutex_lock(&events->mutex) == 0);
    struct event *event = newest_about(events, subject);
    bool goes_on = event && event->kind == kind && now_ms < event->last_ms + EVENT_APART_MS;
    if (!goes_on) {
        event = &events->ring[events->next];
        events->next = (events->next + 1) % EVENTS_MAX;
        events->count += events->count < EVENTS_MAX;
        *event = (struct event){.kind = kind, .id = events->next_id++, .first_ms = now_ms};
        (void)snprintf(event->subject, sizeof event->subject, "%s", subject);
    }
    event->count++;
    event->last_ms = now_ms;
    (void)snprintf(event->text, sizeof event->text, "%s", text);
    CHECK(pthread_mutex_unlock(&events->mutex) == 0);
}

void events_note_start(struct events *events, uint64_t now_ms)
{
    events_note(events, EVENT_STARTED, now_ms, "", "version " SCREE_VERSION);
}

uint32_t events_copy(struct events *events, struct event to[EVENTS_MAX])
{
    CHECK(pthread_mutex_lock(&events->mutex) == 0);
    uint32_t count = events->count;
    for (uint32_t back = 0; back < count; back++)
        to[back] = *event_at(events, back);
    CHECK(pthread_mutex_unlock(&events->mutex) == 0);
    return count;
}

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[] = {
        [EVENT_STARTED] = "started",
        [EVENT_RELOADED] = "reloaded",
        [EVENT_RELOAD_REFUSED] = "reload-refused",
        [EVENT_MAP_CHANGED] = "map-changed",
        [EVENT_ROUTES_LEARNED] = "routes-learned",
        [EVENT_LEADER_FOUND] = "leader-found",
        [EVENT_SHARD_DOWN] = "shard-down",
        [EVENT_SHARD_UP] = "shard-up",
        [EVENT_MEMORY_FULL] = "memory-full",
        [EVENT_STOPPING] = "stopping",
    };
    return names[kind];
}
