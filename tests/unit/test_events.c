/*
 * test_events.c - the ring of recent events: the newest stay, and a repeated event is counted.
 */
#include "proxy/core/events.h"

#include "shared/check.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, NOTES = 2000 };

static struct event seen[EVENTS_MAX];

static void test_the_newest_come_first(void)
{
    struct events *events = events_new();
    CHECK(events_copy(events, seen) == 0);
    events_note(events, EVENT_STARTED, 1000, "", "");
    events_note(events, EVENT_SHARD_DOWN, 2000, "a", "refused");
    CHECK(events_copy(events, seen) == 2);
    CHECK(seen[0].kind == EVENT_SHARD_DOWN && seen[0].id == 2 && seen[0].first_ms == 2000);
    CHECK(strcmp(seen[0].subject, "a") == 0 && strcmp(seen[0].text, "refused") == 0);
    CHECK(seen[1].kind == EVENT_STARTED && seen[1].id == 1 && seen[1].count == 1);
    events_free(events);
}

static void test_a_repeated_event_is_counted(void)
{
    struct events *events = events_new();
    events_note(events, EVENT_SHARD_DOWN, 1000, "a", "first");
    events_note(events, EVENT_SHARD_DOWN, 1001, "b", "other");
    events_note(events, EVENT_SHARD_DOWN, 1002, "a", "second");
    CHECK(events_copy(events, seen) == 2);
    CHECK(seen[1].count == 2 && seen[1].first_ms == 1000 && seen[1].last_ms == 1002);
    CHECK(strcmp(seen[1].text, "second") == 0);
    events_free(events);
}

static void test_an_event_after_another_one_or_much_later_is_new(void)
{
    struct events *events = events_new();
    events_note(events, EVENT_SHARD_DOWN, 1000, "a", "");
    events_note(events, EVENT_SHARD_UP, 1001, "a", "");
    events_note(events, EVENT_SHARD_DOWN, 1002, "a", "");
    CHECK(events_copy(events, seen) == 3 && seen[0].count == 1);
    events_note(events, EVENT_SHARD_DOWN, 1002 + EVENT_APART_MS, "a", "");
    CHECK(events_copy(events, seen) == 4);
    events_free(events);
}

static void test_the_ring_is_bounded_and_long_texts_are_cut(void)
{
    struct events *events = events_new();
    char text[2 * EVENT_TEXT_MAX];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (uint64_t i = 0; i < 3 * EVENTS_MAX; i++)
        events_note(events, i % 2 ? EVENT_SHARD_UP : EVENT_SHARD_DOWN, i, text, text);
    CHECK(events_copy(events, seen) == EVENTS_MAX);
    CHECK(seen[0].id == 3 * EVENTS_MAX && seen[EVENTS_MAX - 1].id == 2 * EVENTS_MAX + 1);
    CHECK(strlen(seen[0].text) == EVENT_TEXT_MAX - 1 && seen[0].kind == EVENT_SHARD_UP);
    CHECK(strlen(seen[0].subject) == EVENT_SUBJECT_MAX - 1);
    events_free(events);
}

static void *note_many(void *events)
{
    struct event copy[EVENTS_MAX];
    for (uint64_t i = 0; i < NOTES; i++) {
        events_note(events, EVENT_SHARD_DOWN, i, "a", "lost");
        if (i % 100 == 0)
            (void)events_copy(events, copy);
    }
    return NULL;
}

static void test_any_thread_may_note_and_read(void)
{
    struct events *events = events_new();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, note_many, events) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(events_copy(events, seen) == 1 && seen[0].count == THREADS * NOTES);
    events_free(events);
}

int main(void)
{
    test_the_newest_come_first();
    test_a_repeated_event_is_counted();
    test_an_event_after_another_one_or_much_later_is_new();
    test_the_ring_is_bounded_and_long_texts_are_cut();
    test_any_thread_may_note_and_read();
    return 0;
}
