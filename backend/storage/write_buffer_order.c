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
#include "backend/storage/write_buffer.h"

enum {
    GROUPS_MIN = 64,    /* initial size of the table of groups */
    UNSORTED_MAX = 256, /* more unsorted rows are sorted, so that no iteration has to sort many */
};

/* Rows of one collection. A row that has no collection's key is a group of its own. */
struct row_group {
    struct bytes prefix;  /* of the keys */
    uint64_t hash;        /* of `prefix` */
    struct row *unsorted; /* linked by next[0] */
    size_t unsorted_count;
    struct row_list sorted;
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

/* The links of the last row with key < `key` on each level. Returns the first row with key >= `key`. */
static struct row *list_search(const struct row_list *list, struct bytes key,
                               struct row **before[WRITE_BUFFER_HEIGHT_MAX])
{
    struct row **links = list->head;
    for (int level = list->height - 1; level >= 0; level--) {
        while (links[level] && bytes_compare(links[level]->key, key) < 0)
            links = links[level]->next;
        before[level] = links;
    }
    return list->height ? links[0] : NULL;
}

struct row *rows_at_or_after(const struct row_list *list, struct bytes key)
{
    struct row **before[WRITE_BUFFER_HEIGHT_MAX];
    return list_search(list, key, before);
}

static void list_insert(struct write_buffer *buffer, struct row_list *list, struct row *row)
{
    struct row **before[WRITE_BUFFER_HEIGHT_MAX];
    if (!list->head) {
        size_t size = WRITE_BUFFER_HEIGHT_MAX * sizeof(struct row *);
        list->head = memset(arena_alloc(&buffer->arena, size), 0, size);
    }
    (void)list_search(list, row->key, before);
    for (; list->height < row->height; list->height++)
        before[list->height] = list->head;
    for (int level = 0; level < row->height; level++) {
        row->next[level] = before[level][level];
        before[level][level] = row;
    }
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
    if (rows->groups_count * 2 >= rows->groups_cap)
        groups_grow(buffer, rows);
    uint64_t hash = hash_bytes(prefix);
    struct row_group **slot = group_slot(rows, prefix, hash);
    if (!*slot) {
        *slot = arena_alloc(&buffer->arena, sizeof **slot);
        **slot = (struct row_group){.prefix = prefix, .hash = hash};
        rows->groups_count++;
    }
    return *slot;
}

static void group_sort(struct write_buffer *buffer, struct row_group *group)
{
    struct row *next;
    for (struct row *row = group->unsorted; row; row = next) {
        next = row->next[0];
        list_insert(buffer, &group->sorted, row);
    }
    group->unsorted = NULL;
    group->unsorted_count = 0;
}

/* Adds a row to its group. It is sorted later, with others: that reads the group's rows, which lie in different cache lines, once
 * and not for each new row. */
static void group_add(struct write_buffer *buffer, struct rows *rows, struct row *row)
{
    struct row_group *group = group_open(buffer, rows, row->key);
    row->next[0] = group->unsorted;
    group->unsorted = row;
    if (++group->unsorted_count > UNSORTED_MAX)
        group_sort(buffer, group);
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

void write_buffer_place(struct write_buffer *buffer, enum cf cf)
{
    struct rows *rows = &buffer->rows[cf];
    for (struct row *row = rows->newest; row != rows->placed; row = row->older)
        if (rows->is_whole)
            list_insert(buffer, &rows->all, row);
        else
            group_add(buffer, rows, row);
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
