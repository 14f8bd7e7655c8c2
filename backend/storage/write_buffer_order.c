/*
 * write_buffer_order.c - sorts the rows of a write buffer by their keys when an iteration needs them, one collection at a time.
 *
 *   prefix of a row's key ─hash─► the group of its collection:  r3 ◄ r8 ◄ r5           new rows, not sorted: a chain
 *                                                               r1 ─► r4 ─► r6 ─► r7   sorted rows: a skip list
 *
 * Nearly all iterations are over one collection, and a buffer has few rows of each. So each collection's rows are a group of
 * their own, which is sorted when it is iterated over: no other row is read. No row of another collection lies between the
 * rows of a collection (encoding.md), so the order within a group is all that such an iteration needs.
 *
 * The first iteration over more than one collection moves all rows of its column family into one skip list, where they stay
 * until the buffer is emptied. Column families without collections have this list from the beginning. Moving rows changes
 * links only, so an iterator over a group goes on in the list.
 */
#include "backend/format/encoding.h"
#include "backend/storage/row_sort.h"
#include "backend/storage/write_buffer.h"
#include "shared/check.h"

#include <stdlib.h>

enum {
    GROUPS_MIN = 64,    /* initial size of the table of groups */
    UNSORTED_MAX = 256, /* more unsorted rows are sorted, so that no iteration has to sort many */
    FEW_ROWS = 64,      /* so many are sorted in memory of the stack */
};

/* Rows of one collection. A row that has no collection's key is a group of its own. */
struct row_group {
    struct bytes prefix;  /* of the keys */
    uint64_t hash;        /* of `prefix` */
    struct row *unsorted; /* linked by next[0] */
    size_t unsorted_count;
    struct row_list sorted;
    struct row_group *next_full; /* while rows are placed: the next one with many unsorted rows */
};

/* ---- skip lists ---- */

struct row *rows_before(const struct row_list *list, struct bytes key, bool or_equal,
                        bool unbounded)
{
    struct row **links = list->head;
    struct row *found = NULL;
    for (int level = list->height - 1; level >= 0; level--)
        while (links[level]) {
            int order = unbounded ? -1 : bytes_compare(links[level]->key, key);
            if (order > 0 || (order == 0 && !or_equal))
                break;
            found = links[level];
            links = found->next;
        }
    return found;
}

struct row *rows_at_or_after(const struct row_list *list, struct bytes key)
{
    struct row **links = list->head;
    for (int level = list->height - 1; level >= 0; level--)
        while (links[level] && bytes_compare(links[level]->key, key) < 0)
            links = links[level]->next;
    return list->height ? links[0] : NULL;
}

/* A position in a skip list: the links of the last row before it, on each level of the list. */
struct finger {
    struct row **before[WRITE_BUFFER_HEIGHT_MAX];
};

/* Moves the finger forwards to the place of the row. It climbs only as far as the rows on the way are higher, so a row that is near costs
 * little, and one behind all others nearly nothing. */
static void finger_move(const struct row_list *list, struct finger *finger, const struct row *row)
{
    int level = 0;
    for (; level < list->height; level++) {
        const struct row *next = finger->before[level][level];
        if (!next || bytes_compare(next->key, row->key) >= 0)
            break;
    }
    struct row **links = level ? finger->before[level - 1] : NULL;
    while (--level >= 0) {
        while (links[level] && bytes_compare(links[level]->key, row->key) < 0)
            links = links[level]->next;
        finger->before[level] = links;
    }
}

/* Adds the row behind the finger, which is then at the row. */
static void list_insert(struct row_list *list, struct finger *finger, struct row *row)
{
    finger_move(list, finger, row);
    for (; list->height < row->height; list->height++)
        finger->before[list->height] = list->head;
    for (int level = 0; level < row->height; level++) {
        row->next[level] = finger->before[level][level];
        finger->before[level][level] = row;
        finger->before[level] = row->next;
    }
}

/* Adds rows, which are sorted. */
static void list_add(struct write_buffer *buffer, struct row_list *list,
                     const struct sorted_row *rows, size_t count)
{
    struct finger finger;
    if (!list->head) {
        size_t size = WRITE_BUFFER_HEIGHT_MAX * sizeof(struct row *);
        list->head = memset(arena_alloc(&buffer->arena, size), 0, size);
    }
    for (int level = 0; level < list->height; level++)
        finger.before[level] = list->head;
    for (size_t i = 0; i < count; i++)
        list_insert(list, &finger, rows[i].row);
}

/* ---- groups ---- */

static struct row_group **group_slot(const struct rows *rows, struct bytes prefix, uint64_t hash)
{
    size_t i = hash & (rows->groups_cap - 1);
    while (rows->groups[i] &&
           (rows->groups[i]->hash != hash || !bytes_equal(rows->groups[i]->prefix, prefix)))
        i = (i + 1) & (rows->groups_cap - 1);
    return &rows->groups[i];
}

static void groups_grow(struct write_buffer *buffer, struct rows *rows)
{
    struct row_group **old = rows->groups;
    size_t old_cap = rows->groups_cap;
    rows->groups_cap = old_cap ? old_cap * 2 : GROUPS_MIN;
    size_t size = rows->groups_cap * sizeof(struct row_group *);
    rows->groups = memset(arena_alloc(&buffer->arena, size), 0, size);
    for (size_t i = 0; i < old_cap; i++)
        if (old[i])
            *group_slot(rows, old[i]->prefix, old[i]->hash) = old[i];
}

/* The group of a row with this key; made if there is none. */
static struct row_group *group_open(struct write_buffer *buffer, struct rows *rows,
                                    struct bytes key)
{
    struct bytes prefix;
    if (!decode_collection_prefix(key, &prefix))
        prefix = key;
    if (rows->latest && bytes_equal(rows->latest->prefix, prefix))
        return rows->latest;
    if (rows->groups_count * 2 >= rows->groups_cap)
        groups_grow(buffer, rows);
    uint64_t hash = hash_bytes(prefix);
    struct row_group **slot = group_slot(rows, prefix, hash);
    if (!*slot) {
        *slot = arena_alloc(&buffer->arena, sizeof **slot);
        **slot = (struct row_group){.prefix = prefix, .hash = hash};
        rows->groups_count++;
    }
    rows->latest = *slot;
    return *slot;
}

/* Room for sorting `count` rows; `few` is room for FEW_ROWS. To be given back. */
static struct sorted_row *sort_room(struct sorted_row *few, size_t count)
{
    struct sorted_row *room = count <= FEW_ROWS ? few : malloc(2 * count * sizeof *room);
    CHECK(room);
    return room;
}

static void give_room_back(struct sorted_row *room, const struct sorted_row *few)
{
    if (room != few)
        free(room);
}

static void group_sort(struct write_buffer *buffer, struct row_group *group)
{
    struct sorted_row few[2 * FEW_ROWS];
    size_t count = 0;
    if (!group->unsorted)
        return;
    struct sorted_row *room = sort_room(few, group->unsorted_count);
    for (struct row *row = group->unsorted; row; row = row->next[0])
        room[count++].row = row;
    list_add(buffer, &group->sorted, row_sort(room, count), count);
    give_room_back(room, few);
    group->unsorted = NULL;
    group->unsorted_count = 0;
}

/* Adds a row to its group. It is sorted later, with others: that reads the group's rows, which lie in different cache lines, once
 * and not for each new row. True: from now on the group has too many rows that are not sorted. */
static bool group_add(struct row_group *group, struct row *row)
{
    row->next[0] = group->unsorted;
    group->unsorted = row;
    return ++group->unsorted_count == UNSORTED_MAX + 1;
}

/* ---- column families ---- */

/* True and the prefix, if all keys with lower <= key < upper are of one collection. */
static bool is_in_collection(struct bytes lower, struct bytes upper, struct bytes *prefix)
{
    if (!decode_collection_prefix(lower, prefix))
        return false;
    bool is_part = upper.len >= prefix->len && memcmp(upper.data, prefix->data, prefix->len) == 0;
    return is_part || is_prefix_end(*prefix, upper);
}

/* Adds the rows that are newer than rows->placed to the list of all. */
static void place_in_all(struct write_buffer *buffer, struct rows *rows)
{
    struct sorted_row few[2 * FEW_ROWS];
    size_t count = 0;
    for (const struct row *row = rows->newest; row != rows->placed; row = row->older)
        count++;
    struct sorted_row *room = sort_room(few, count);
    count = 0;
    for (struct row *row = rows->newest; row != rows->placed; row = row->older)
        room[count++].row = row;
    list_add(buffer, &rows->all, row_sort(room, count), count);
    give_room_back(room, few);
}

/* Adds them to their groups. */
static void place_in_groups(struct write_buffer *buffer, struct rows *rows)
{
    struct row_group *full = NULL;
    for (struct row *row = rows->newest; row != rows->placed; row = row->older) {
        struct row_group *group = group_open(buffer, rows, row->key);
        if (!group_add(group, row))
            continue;
        group->next_full = full;
        full = group;
    }
    for (; full; full = full->next_full)
        group_sort(buffer, full);
}

void write_buffer_place(struct write_buffer *buffer, enum cf cf)
{
    struct rows *rows = &buffer->rows[cf];
    if (rows->newest == rows->placed)
        return;
    if (rows->is_whole)
        place_in_all(buffer, rows);
    else
        place_in_groups(buffer, rows);
    rows->placed = rows->newest;
}

const struct row_list *write_buffer_order(struct write_buffer *buffer, enum cf cf,
                                          struct bytes lower, struct bytes upper)
{
    struct rows *rows = &buffer->rows[cf];
    struct bytes prefix;
    if (!rows->is_whole && !is_in_collection(lower, upper, &prefix)) {
        rows->is_whole = true;
        rows->placed = NULL;
    }
    write_buffer_place(buffer, cf);
    if (rows->is_whole || rows->groups_count == 0)
        return &rows->all;
    struct row_group *group = *group_slot(rows, prefix, hash_bytes(prefix));
    if (!group)
        return &rows->all; /* it is empty */
    group_sort(buffer, group);
    return &group->sorted;
}
