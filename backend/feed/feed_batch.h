/*
 * feed_batch.h - the changes of keys that a batch of the log has, as events for a reader.
 *
 *   effects of a batch                       events, RESP arrays
 *   put      metadata row of k          ──►  [id, 0, "changed", "k"]
 *   put, put rows of hash h             ──►  [id, 0, "changed", "h"]            one event for a key
 *   delete   metadata row of m          ──►  [id, 0, "del", "m"]
 *   range    metadata rows of slots     ──►  [id, 0, "flush", "", "0-16383"]
 *   put      map of databases           ──►  [id, -1, "swapdb", ""]
 *   put      code of a library          ──►  [id, -1, "function", "library"]
 *
 * Rows that come and go with a slot, and those that only serve the shard (indexes, ranks, counters), change no key: no event. A number
 * counts all events of the batch, whatever the filter passes, so an event has the same id for every reader.
 */
#pragma once

#include "backend/format/encoding.h"
#include "shared/out.h"
#include "shared/slot.h"

#include <stdbool.h>
#include <stdint.h>

/* Which events a reader wants: those of its namespace, and of these … */
struct feed_filter {
    char name[NAMESPACE_BYTES_MAX]; /* of the namespace */
    size_t name_len;
    uint8_t databases[DATABASES_MAX]; /* by database in storage: its number for clients (SWAPDB) */
    int database;                     /* of this database; negative: of all */
    bool has_slots;
    bool slots[SLOT_COUNT]; /* if has_slots: of these slots */
    struct bytes pattern;   /* of keys that match, heap; data NULL: of all */
};

/* Any batch may be in the page, also one that takes slots over (feed_page.past_us). */
#define FEED_PAST_ALL UINT64_MAX

/* Memory for the events of one batch after the other. */
struct feed_events;
struct feed_events *feed_events_new(void);
void feed_events_free(struct feed_events *events); /* NULL is allowed */

/* Events of one reply. */
struct feed_page {
    struct feed_events *memory;
    struct out events;
    uint32_t count;
    uint32_t count_max;
    size_t bytes_max; /* the last event may go beyond */
    /* The logs of all other shards were read up to this time. So a batch by which slots come from them may be in the page if its time is at
     * most the next one: what happened to these slots at the other shards has an earlier time (hybrid_clock.h). */
    uint64_t past_us;
    /* Of the batch that was read last; 0: an older program wrote it, which has no such times. */
    uint64_t time_us;
    uint64_t origin_ms; /* its wall clock */
};

enum feed_read {
    FEED_WHOLE,      /* all events of the batch are in the page */
    FEED_FULL,       /* the page is full */
    FEED_EARLY,      /* other logs must be read first (feed_page.past_us) */
    FEED_UNREADABLE, /* the batch is damaged, or a newer program wrote it */
};

/* Adds the events from *number on. When the page is full, *number is that of the next one; else it becomes 0. */
enum feed_read feed_batch_read(struct bytes record, uint64_t log_id,
                               const struct feed_filter *filter, uint64_t *number,
                               struct feed_page *page);
