#include "backend/keyspace/count_rows.h"

struct reader {
    stored_count_fn *tell;
    void *owner;
    struct arena arena;                 /* of the journal */
    struct bytes journal[JOURNAL_ROWS]; /* rows without serials; data NULL: no row */
    uint64_t serials[JOURNAL_ROWS];
    uint64_t newest;
};

static bool read_counter_row(struct reader *reader, struct bytes key, struct bytes value)
{
    struct bytes space;
    struct slot_count count;
    uint16_t first_slot;
    if (!decode_counter_key(key, &space, &first_slot))
        return false;
    while (value.len)
        if (!decode_next_slot_count(&value, &count) ||
            !reader->tell(reader->owner, space, &count, 0))
            return false;
    return true;
}

static bool keep_journal_row(struct reader *reader, struct bytes key, struct bytes value)
{
    uint8_t position;
    if (!decode_journal_key(key, &position) || value.len < sizeof reader->newest)
        return false;
    struct bytes row = arena_copy(&reader->arena, value);
    uint64_t serial = get_be64(row.data);
    reader->journal[position] = (struct bytes){row.data + sizeof serial, row.len - sizeof serial};
    reader->serials[position] = serial;
    if (serial > reader->newest)
        reader->newest = serial;
    return serial % JOURNAL_ROWS == position;
}

static bool read_journal_row(struct reader *reader, struct bytes row, uint64_t serial)
{
    struct bytes space;
    struct slot_count count;
    uint16_t counts;
    while (row.len) {
        if (!decode_next_journal_space(&row, &space, &counts))
            return false;
        while (counts--)
            if (!decode_next_slot_count(&row, &count) ||
                !reader->tell(reader->owner, space, &count, serial))
                return false;
    }
    return true;
}

/* Reads the journal rows, oldest first. Serials have no gaps, so a row with an unexpected serial is damaged. */
static bool read_journal(struct reader *reader)
{
    uint64_t newest = reader->newest;
    uint64_t serial = newest < JOURNAL_ROWS ? 1 : newest - JOURNAL_ROWS + 1;
    for (; serial <= newest; serial++) {
        size_t position = serial % JOURNAL_ROWS;
        if (reader->serials[position] != serial ||
            !read_journal_row(reader, reader->journal[position], serial))
            return false;
    }
    return true;
}

/* Reads all system rows that begin with `kind`. */
static bool read_counter_rows(struct reader *reader, struct overlay *overlay, char kind,
                              bool (*read)(struct reader *, struct bytes key, struct bytes value))
{
    char end = (char)(kind + 1);
    struct overlay_iter *iter =
        overlay_iter_new(overlay, CF_SYSTEM, (struct bytes){&kind, 1}, (struct bytes){&end, 1});
    bool fine = true;
    for (overlay_iter_seek_first(iter); fine && overlay_iter_valid(iter); overlay_iter_next(iter))
        fine = read(reader, overlay_iter_key(iter), overlay_iter_value(iter));
    fine = fine && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return fine;
}

bool count_rows_read(struct overlay *overlay, stored_count_fn *tell, void *owner, uint64_t *serial)
{
    struct reader reader = {.tell = tell, .owner = owner};
    arena_init(&reader.arena);
    bool fine = read_counter_rows(&reader, overlay, 'c', read_counter_row) &&
                read_counter_rows(&reader, overlay, 'j', keep_journal_row) && read_journal(&reader);
    arena_fini(&reader.arena);
    *serial = reader.newest;
    return fine;
}
