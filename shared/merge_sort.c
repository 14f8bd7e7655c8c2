#include "shared/merge_sort.h"

enum { COMPARE_WORK = 4 };

struct sorting {
    merge_compare_fn *compare;
    void *owner;
    size_t size; /* bytes of an element */
};

/* Merges the sorted runs [from, middle) and [middle, end) of `in` to the same place of `out`. */
static void merge_runs(const struct sorting *sorting, const char *in, char *out, size_t from,
                       size_t middle, size_t end)
{
    size_t size = sorting->size;
    size_t a = from;
    size_t b = middle;
    for (size_t to = from; to < end; to++) {
        bool is_a = a < middle && (b == end || sorting->compare(in + a * size, in + b * size,
                                                                sorting->owner) <= 0);
        memcpy(out + to * size, in + (is_a ? a++ : b++) * size, size);
    }
}

bool merge_sort(struct arena *arena, void *elements, size_t count, size_t size,
                merge_compare_fn *compare, void *owner)
{
    const struct sorting sorting = {compare, owner, size};
    struct arena_mark mark = arena_mark(arena);
    char *in = elements;
    char *out = count > 1 ? arena_alloc(arena, count * size) : NULL;
    bool goes_on = true;
    for (size_t width = 1; width < count && goes_on; width *= 2) {
        size_t from = 0;
        for (; from < count && goes_on; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t end = middle + width < count ? middle + width : count;
            merge_runs(&sorting, in, out, from, middle, end);
            if (end - from > 1024 || from % 1024 == 0)
                goes_on = arena_goes_on(arena, (end - from) * COMPARE_WORK);
        }
        if (from < count) /* ended: the elements that are left stay where they are */
            memcpy(out + from * size, in + from * size, (count - from) * size);
        char *merged = out;
        out = in;
        in = merged;
    }
    if (count > 1 && in != elements)
        memcpy(elements, in, count * size);
    arena_release(arena, &mark);
    return goes_on;
}
