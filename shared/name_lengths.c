#include "shared/name_lengths.h"

#include "shared/check.h"

#include <stdlib.h>
#include <string.h>

void name_lengths_free(struct name_lengths *lengths)
{
    free(lengths->items);
    *lengths = (struct name_lengths){0};
}

/* Index of the first length that is not below `len`. */
static size_t find_length(const struct name_lengths *lengths, size_t len)
{
    size_t low = 0;
    size_t high = lengths->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lengths->items[middle].len < len)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct name_lengths *lengths, size_t at, size_t len)
{
    return at < lengths->count && lengths->items[at].len == len;
}

static void insert_length(struct name_lengths *lengths, size_t at, size_t len)
{
    if (lengths->count == lengths->room) {
        lengths->room = lengths->room ? 2 * lengths->room : 4;
        lengths->items = realloc(lengths->items, lengths->room * sizeof *lengths->items);
        CHECK(lengths->items);
    }
    struct name_length *place = lengths->items + at;
    memmove(place + 1, place, (lengths->count - at) * sizeof *place);
    *place = (struct name_length){.len = len};
    lengths->count++;
}

void name_lengths_add(struct name_lengths *lengths, size_t len)
{
    size_t at = find_length(lengths, len);
    if (!is_at(lengths, at, len))
        insert_length(lengths, at, len);
    lengths->items[at].names++;
}

void name_lengths_remove(struct name_lengths *lengths, size_t len)
{
    size_t at = find_length(lengths, len);
    CHECK(is_at(lengths, at, len));
    struct name_length *place = lengths->items + at;
    if (--place->names)
        return;
    lengths->count--;
    memmove(place, place + 1, (lengths->count - at) * sizeof *place);
}

bool name_lengths_have(const struct name_lengths *lengths, size_t len)
{
    return is_at(lengths, find_length(lengths, len), len);
}
