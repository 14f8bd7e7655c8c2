#include "backend/keyspace/write_history.h"

#include <stdlib.h>

/* A row takes so many bytes in memory besides its key and value, and a mark is made after so many bytes at least. */
enum { ROW_BYTES = 100, MARK_BYTES = 256 * 1024, MARKS_IN_MEMORY = SPACE_MARKS * 3 / 4 };

struct write_history {
    uint64_t written;            /* bytes in memory that all rows have taken since the start */
    uint64_t marks[SPACE_MARKS]; /* `written` at the last marks */
    uint64_t count;              /* of marks, since the start */
    struct space_set *spaces;    /* while rows are counted */
    struct space *last;          /* the space of the last row */
};

struct write_history *write_history_new(void)
{
    struct write_history *history = calloc(1, sizeof *history);
    CHECK(history);
    return history;
}

void write_history_free(struct write_history *history)
{
    free(history);
}

/* The storage namespace's name, with which keys of the families with rows of namespaces begin. */
static bool name_of_row(enum cf cf, struct bytes key, struct bytes *name)
{
    if (cf == CF_SYSTEM || cf == CF_EXPIRE || !key.len || (uint8_t)key.data[0] >= key.len)
        return false;
    *name = (struct bytes){key.data + 1, (uint8_t)key.data[0]};
    return true;
}

/* Its keys were all deleted: what it wrote before is gone. */
static void forget_flushed(struct space *space)
{
    struct space_written *written = &space->written;
    if (written->flushes == space->flushes)
        return;
    written->flushes = space->flushes;
    written->bytes = 0;
    memset(written->marks, 0, sizeof written->marks);
}

/* overlay_each_put */
static void count_put(void *owner, enum cf cf, struct bytes key, size_t value_len)
{
    struct write_history *history = owner;
    struct bytes name;
    history->written += key.len + value_len + ROW_BYTES;
    if (!name_of_row(cf, key, &name))
        return;
    if (!history->last || !bytes_equal(history->last->name, name))
        history->last = space_find(history->spaces, name);
    forget_flushed(history->last);
    history->last->written.bytes += key.len + value_len;
}

static void make_mark(struct write_history *history)
{
    size_t place = history->count++ % SPACE_MARKS;
    size_t cursor = 0;
    struct space *space;
    history->marks[place] = history->written;
    while ((space = space_next(history->spaces, &cursor)))
        space->written.marks[place] = space->written.bytes;
}

void write_history_note(struct write_history *history, const struct overlay *overlay,
                        struct space_set *spaces, uint64_t memory)
{
    uint64_t last = history->count ? history->marks[(history->count - 1) % SPACE_MARKS] : 0;
    uint64_t step = memory / MARKS_IN_MEMORY > MARK_BYTES ? memory / MARKS_IN_MEMORY : MARK_BYTES;
    history->spaces = spaces;
    history->last = NULL;
    if (history->written - last >= step)
        make_mark(history);
    overlay_each_put(overlay, count_put, history);
}

uint64_t write_history_bytes(const struct write_history *history, const struct space *space,
                             uint64_t memory)
{
    const struct space_written *written = &space->written;
    uint64_t oldest = history->count > SPACE_MARKS ? history->count - SPACE_MARKS : 0;
    if (written->flushes != space->flushes)
        return 0;
    if (history->written <= memory && !oldest)
        return written->bytes; /* nothing has left memory */
    for (uint64_t i = oldest; i < history->count; i++)
        if (history->written - history->marks[i % SPACE_MARKS] <= memory)
            return written->bytes - written->marks[i % SPACE_MARKS];
    return 0;
}
