#include "backend/storage/layer.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>

enum {
    INDEX_MIN = 64,     /* entries of a layer's index, at first */
    INDEX_KEPT = 65536, /* a bigger one is given back when a layer ends that had little in it */
    INDEX_DENSE =
        8, /* entries for each row: with fewer the index is cleared as a whole, and kept */
};

/* ---- one column family's rows ---- */

/* The last row with key < `key` on every level (NULL: the head). Returns the first row with key >= `key`. */
static struct row *rows_search(struct rows *rows, struct bytes key,
                               struct row **before[LAYER_HEIGHT_MAX])
{
    struct row **links = rows->head;
    for (int level = rows->height - 1; level >= 0; level--) {
        while (links[level] && bytes_compare(links[level]->key, key) < 0)
            links = links[level]->next;
        before[level] = links;
    }
    return rows->height ? links[0] : NULL;
}

struct row *rows_at_or_after(struct rows *rows, struct bytes key)
{
    struct row **before[LAYER_HEIGHT_MAX];
    return rows_search(rows, key, before);
}

struct row *rows_before(struct rows *rows, struct bytes key, bool or_equal, bool unbounded)
{
    struct row **links = rows->head;
    struct row *found = NULL;
    for (int level = rows->height - 1; level >= 0; level--)
        while (links[level]) {
            int order = unbounded ? -1 : bytes_compare(links[level]->key, key);
            if (order > 0 || (order == 0 && !or_equal))
                break;
            found = links[level];
            links = found->next;
        }
    return found;
}

/* ---- layers ---- */

static void index_add(struct layer *layer, struct row *row)
{
    size_t mask = layer->index_cap - 1;
    size_t i = row->hash & mask;
    while (layer->index[i].row)
        i = (i + 1) & mask;
    layer->index[i] = (struct index_entry){row->hash, row};
}

static void index_grow(struct layer *layer)
{
    free(layer->index);
    layer->index_cap = layer->index_cap ? layer->index_cap * 2 : INDEX_MIN;
    layer->index = calloc(layer->index_cap, sizeof *layer->index);
    CHECK(layer->index);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (struct row *row = layer->rows[cf].newest; row; row = row->older)
            index_add(layer, row);
}

static int random_height(struct layer *layer)
{
    layer->random ^= layer->random << 13;
    layer->random ^= layer->random >> 7;
    layer->random ^= layer->random << 17;
    int height = 1 + __builtin_ctzll(layer->random | (1ULL << 62)) / 2; /* a quarter per level */
    return height < LAYER_HEIGHT_MAX ? height : LAYER_HEIGHT_MAX;
}

struct row *layer_append(struct layer *layer, enum cf cf, struct bytes key)
{
    struct rows *rows = &layer->rows[cf];
    int height = random_height(layer);
    struct row *row =
        arena_alloc(&layer->arena, sizeof *row + (size_t)height * sizeof row->next[0]);
    *row = (struct row){
        .key = arena_copy(&layer->arena, key),
        .older = rows->newest,
        .state = ROW_ABSENT,
        .cf = (uint8_t)cf,
        .height = (uint8_t)height,
    };
    rows->newest = row;
    rows->count++;
    layer->rows_count++;
    return row;
}

struct row *layer_get_or_add(struct layer *layer, enum cf cf, struct bytes key)
{
    uint64_t hash = hash_row(cf, key);
    struct row *row = layer_find(layer, cf, key, hash);
    if (row)
        return row;
    if (layer->rows_count * 2 >= layer->index_cap)
        index_grow(layer);
    row = layer_append(layer, cf, key);
    row->hash = hash;
    index_add(layer, row);
    return row;
}

static void rows_insert(struct rows *rows, struct row *row)
{
    struct row **before[LAYER_HEIGHT_MAX];
    (void)rows_search(rows, row->key, before);
    for (; rows->height < row->height; rows->height++)
        before[rows->height] = rows->head;
    for (int level = 0; level < row->height; level++) {
        row->next[level] = before[level][level];
        before[level][level] = row;
    }
}

struct rows *layer_order(struct layer *layer, enum cf cf)
{
    struct rows *rows = &layer->rows[cf];
    for (struct row *row = rows->newest; row != rows->ordered; row = row->older)
        rows_insert(rows, row);
    rows->ordered = rows->newest;
    return rows;
}

void layer_init(struct layer *layer)
{
    memset(layer, 0, sizeof *layer);
    arena_init(&layer->arena);
    layer->random = clock_random() | 1;
}

/* Empty again, for the next layer, which will need as much: growing means to add every row anew. The index may be much
 * bigger than what is in it, a small layer after a big one. Every entry lies in an unbroken run that begins at its row's
 * place. */
static void index_clear(struct layer *layer)
{
    size_t mask = layer->index_cap - 1;
    if (layer->rows_count * INDEX_DENSE >= layer->index_cap) {
        if (layer->index_cap)
            memset(layer->index, 0, layer->index_cap * sizeof *layer->index);
        return;
    }
    if (layer->index_cap > INDEX_KEPT) {
        free(layer->index);
        layer->index = NULL;
        layer->index_cap = 0;
        return;
    }
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = layer->rows[cf].newest; row; row = row->older)
            for (size_t i = row->hash & mask; layer->index[i].row; i = (i + 1) & mask)
                layer->index[i].row = NULL;
}

void layer_reset(struct layer *layer)
{
    index_clear(layer);
    arena_reset(&layer->arena);
    memset(layer->rows, 0, sizeof layer->rows);
    layer->rows_count = 0;
    layer->ranges_count = 0;
}

void layer_fini(struct layer *layer)
{
    arena_fini(&layer->arena);
    free(layer->index);
    free(layer->ranges);
}

bool range_has(const struct range *range, enum cf cf, struct bytes key)
{
    return range->cf == cf && bytes_compare(key, range->from) >= 0 &&
           (range->to.len == 0 || bytes_compare(key, range->to) < 0);
}

void layer_add_range(struct layer *layer, const struct range *range)
{
    if (layer->ranges_count == layer->ranges_cap) {
        layer->ranges_cap = layer->ranges_cap ? layer->ranges_cap * 2 : 8;
        layer->ranges = realloc(layer->ranges, layer->ranges_cap * sizeof *layer->ranges);
        CHECK(layer->ranges);
    }
    struct range *added = &layer->ranges[layer->ranges_count++];
    *added = *range;
    added->from = arena_copy(&layer->arena, range->from);
    added->to = arena_copy(&layer->arena, range->to);
}

const struct range *layer_range_of(const struct layer *layer, enum cf cf, struct bytes key)
{
    for (size_t i = layer->ranges_count; i > 0; i--)
        if (range_has(&layer->ranges[i - 1], cf, key))
            return &layer->ranges[i - 1];
    return NULL;
}
