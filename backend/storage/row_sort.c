#include "backend/storage/row_sort.h"

#include <stdlib.h>

enum {
    HEAD_BYTES = 8,
    PLACES_MAX = 64, /* bytes of a key that are examined */
    DIGITS = 256,
    RADIX_MIN = 128, /* fewer rows are sorted by comparison */
};

static int compare_rows(const void *a, const void *b)
{
    const struct sorted_row *one = a;
    const struct sorted_row *other = b;
    if (one->head != other->head)
        return one->head < other->head ? -1 : 1;
    return bytes_compare(one->row->key, other->row->key);
}

static size_t digit_of(uint64_t head, int byte)
{
    return head >> (8 * byte) & (DIGITS - 1);
}

/* Radix sort by head, from the lowest byte on; bytes that are equal in all heads are skipped. Both arrays have `count`
 * entries; returns the one with the result. */
static struct sorted_row *sort_by_head(struct sorted_row *from, struct sorted_row *to, size_t count)
{
    size_t places[HEAD_BYTES][DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
        for (int byte = 0; byte < HEAD_BYTES; byte++)
            places[byte][digit_of(from[i].head, byte)]++;
    for (int byte = 0; byte < HEAD_BYTES; byte++) {
        size_t *place = places[byte];
        if (place[digit_of(from[0].head, byte)] == count)
            continue;
        for (size_t digit = 0, begin = 0; digit < DIGITS; digit++) {
            size_t has = place[digit];
            place[digit] = begin;
            begin += has;
        }
        for (size_t i = 0; i < count; i++)
            to[place[digit_of(from[i].head, byte)]++] = from[i];
        struct sorted_row *next = from;
        from = to;
        to = next;
    }
    return from;
}

/* Sorts rows with equal heads by their keys. */
static void sort_equal_heads(struct sorted_row *sorted, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && sorted[end].head == sorted[i].head)
            end++;
        if (end - i > 1)
            qsort(sorted + i, end - i, sizeof *sorted, compare_rows);
    }
}

/* Positions at which keys differ. */
struct places {
    uint8_t at[HEAD_BYTES]; /* the first positions that differ */
    int count;
};

/* Adds the positions at which two keys differ. Keys of different lengths differ at the positions after the shorter
 * one. */
static void note_differences(uint8_t differs[PLACES_MAX], struct bytes a, struct bytes b)
{
    size_t both = a.len < b.len ? a.len : b.len;
    size_t either = a.len < b.len ? b.len : a.len;
    for (size_t i = 0; i < both && i < PLACES_MAX; i++)
        differs[i] |= (uint8_t)(a.data[i] ^ b.data[i]);
    for (size_t i = both; i < either && i < PLACES_MAX; i++)
        differs[i] = 1;
}

static struct places places_of(const struct sorted_row *rows, size_t count)
{
    uint8_t differs[PLACES_MAX] = {0};
    struct places places = {.count = 0};
    for (size_t i = 1; i < count; i++)
        note_differences(differs, rows[0].row->key, rows[i].row->key);
    for (int i = 0; i < PLACES_MAX && places.count < HEAD_BYTES; i++)
        if (differs[i])
            places.at[places.count++] = (uint8_t)i;
    return places;
}

/* A number with the order of the keys; different keys may have equal heads. */
static uint64_t head_of(struct bytes key, const struct places *places)
{
    uint64_t head = 0;
    for (int i = 0; i < places->count; i++) {
        size_t at = places->at[i];
        head = head << 8 | (at < key.len ? (uint8_t)key.data[at] : 0);
    }
    return head;
}

/* Do heads only rise from each row to the next one? */
static bool rises(const struct sorted_row *rows, size_t count)
{
    size_t i = 1;
    while (i < count && rows[i - 1].head < rows[i].head)
        i++;
    return i >= count;
}

/* Do they only fall? */
static bool falls(const struct sorted_row *rows, size_t count)
{
    size_t i = 1;
    while (i < count && rows[i - 1].head > rows[i].head)
        i++;
    return i >= count;
}

static struct sorted_row *turn_round(struct sorted_row *rows, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        struct sorted_row row = rows[i];
        rows[i] = rows[count - 1 - i];
        rows[count - 1 - i] = row;
    }
    return rows;
}

struct sorted_row *row_sort(struct sorted_row *room, size_t count)
{
    const struct places places = places_of(room, count);
    for (size_t i = 0; i < count; i++)
        room[i].head = head_of(room[i].row->key, &places);
    if (rises(room, count))
        return room;
    if (falls(room, count)) /* rows that were written in order, newest first */
        return turn_round(room, count);
    if (count < RADIX_MIN) {
        qsort(room, count, sizeof *room, compare_rows);
        return room;
    }
    struct sorted_row *sorted = sort_by_head(room, room + count, count);
    sort_equal_heads(sorted, count);
    return sorted;
}
