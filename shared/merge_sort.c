#include "shared/merge_sort.h"

#include <stdbool.h>

enum {
    COMPARE_WORK = 4,
    RUNS_MAX = 64, /* an array of more runs is sorted as if none of its elements were in order */
};

struct sorting {
    struct arena *arena;
    merge_compare_fn *compare;
    void *owner;
    size_t size; /* bytes of an element */
    char *in;
    char *out;
};

/* Parts of the array that are in order; the first one begins at 0. */
struct runs {
    size_t end[RUNS_MAX];
    size_t count;
};

static bool is_not_behind(const struct sorting *sorting, const char *a, const char *b)
{
    return sorting->compare(a, b, sorting->owner) <= 0;
}

/* Merges the sorted runs [from, middle) and [middle, end) of `in` to the same place of `out`. */
static void merge_runs(const struct sorting *sorting, size_t from, size_t middle, size_t end)
{
    size_t size = sorting->size;
    const char *in = sorting->in;
    size_t a = from;
    size_t b = middle;
    for (size_t to = from; to < end; to++) {
        bool is_a =
            a < middle && (b == end || is_not_behind(sorting, in + a * size, in + b * size));
        memcpy(sorting->out + to * size, in + (is_a ? a++ : b++) * size, size);
    }
}

/* A pass has ended: it has merged the elements before `from`, and the others stay where they are. */
static void turn(struct sorting *sorting, size_t from, size_t count)
{
    size_t size = sorting->size;
    char *merged = sorting->out;
    if (from < count)
        memcpy(merged + from * size, sorting->in + from * size, (count - from) * size);
    sorting->out = sorting->in;
    sorting->in = merged;
}

/* False: there are more than RUNS_MAX. */
static bool find_runs(const struct sorting *sorting, size_t count, struct runs *runs)
{
    const char *at = sorting->in;
    runs->count = 0;
    for (size_t i = 1; i < count; i++, at += sorting->size) {
        if (is_not_behind(sorting, at, at + sorting->size))
            continue;
        if (runs->count == RUNS_MAX - 1)
            return false;
        runs->end[runs->count++] = i;
    }
    runs->end[runs->count++] = count;
    return true;
}

/* Merges each two neighbours, until one run is left. False: ended. */
static bool sort_runs(struct sorting *sorting, size_t count, struct runs *runs)
{
    bool goes_on = true;
    while (runs->count > 1 && goes_on) {
        size_t from = 0;
        size_t merged = 0;
        for (size_t i = 0; i + 1 < runs->count && goes_on; i += 2) {
            merge_runs(sorting, from, runs->end[i], runs->end[i + 1]);
            goes_on = arena_goes_on(sorting->arena, (runs->end[i + 1] - from) * COMPARE_WORK);
            from = runs->end[merged++] = runs->end[i + 1];
        }
        if (runs->count % 2)
            runs->end[merged++] = count;
        runs->count = merged;
        turn(sorting, from, count);
    }
    return goes_on;
}

/* Merges runs of 1, 2, 4 … elements. False: ended. */
static bool sort_all(struct sorting *sorting, size_t count)
{
    bool goes_on = true;
    for (size_t width = 1; width < count && goes_on; width *= 2) {
        size_t from = 0;
        for (; from < count && goes_on; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t end = middle + width < count ? middle + width : count;
            merge_runs(sorting, from, middle, end);
            if (end - from > 1024 || from % 1024 == 0)
                goes_on = arena_goes_on(sorting->arena, (end - from) * COMPARE_WORK);
        }
        turn(sorting, from, count);
    }
    return goes_on;
}

bool merge_sort(struct arena *arena, void *elements, size_t count, size_t size,
                merge_compare_fn *compare, void *owner)
{
    struct sorting sorting = {
        .arena = arena, .compare = compare, .owner = owner, .size = size, .in = elements};
    struct arena_mark mark = arena_mark(arena);
    struct runs runs;
    bool has_few = find_runs(&sorting, count, &runs);
    if (has_few && runs.count == 1)
        return true;
    sorting.out = arena_alloc(arena, count * size);
    bool goes_on = has_few ? sort_runs(&sorting, count, &runs) : sort_all(&sorting, count);
    if (sorting.in != elements)
        memcpy(elements, sorting.in, count * size);
    arena_release(arena, &mark);
    return goes_on;
}
