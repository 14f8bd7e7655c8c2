#include "backend/stored_walk.h"

#include "backend/reader.h"
#include "shared/check.h"

#include <stdlib.h>

void stored_walk_init(struct stored_walk *walk, struct overlay *overlay, enum cf cf,
                      struct bytes lower, struct bytes upper)
{
    bool may_unwind = overlay->may_unwind && overlay_is_coldable(cf);
    *walk = (struct stored_walk){
        .overlay = overlay,
        .cf = cf,
        .lower = lower,
        .upper = upper,
        .wait = may_unwind ? overlay->wait : NULL,
    };
    walk->iter = walk->wait ? store_iter_new_cached(overlay->store, cf, lower, upper)
                            : store_iter_new(overlay->store, cf, lower, upper);
}

void stored_walk_fini(struct stored_walk *walk)
{
    store_iter_free(walk->iter);
    free(walk->course.key);
}

void stored_walk_reopen(struct stored_walk *walk)
{
    struct store_iter *old = walk->iter;
    CHECK(!walk->is_cold);
    walk->iter = store_iter_new(walk->overlay->store, walk->cf, walk->lower, walk->upper);
    walk->wait = NULL;
    if (store_iter_valid(old) && walk->is_reverse)
        store_iter_seek_for_prev(walk->iter, store_iter_key(old));
    else if (store_iter_valid(old))
        store_iter_seek(walk->iter, store_iter_key(old));
    else
        walk->is_through = true;
    store_iter_free(old);
}

static void course_begin(struct stored_walk *walk, struct bytes key, bool has_from)
{
    walk->course.has_from = has_from;
    walk->course.rows = 0;
    walk->course.key_len = has_from ? key.len : 0;
    if (walk->course.key_len > walk->course.key_cap) {
        free(walk->course.key);
        walk->course.key = malloc(key.len);
        CHECK(walk->course.key);
        walk->course.key_cap = key.len;
    }
    if (walk->course.key_len)
        memcpy(walk->course.key, key.data, key.len);
}

/* Has it come to what is on the disk? */
static void moved(struct stored_walk *walk)
{
    walk->is_cold = walk->wait && !store_iter_valid(walk->iter) && store_iter_is_cold(walk->iter);
}

void stored_walk_seek(struct stored_walk *walk, bool is_reverse, struct bytes key, bool has_from)
{
    walk->is_reverse = is_reverse;
    walk->is_through = false;
    if (walk->wait)
        course_begin(walk, key, has_from);
    if (is_reverse && has_from)
        store_iter_seek_for_prev(walk->iter, key);
    else if (is_reverse)
        store_iter_seek_last(walk->iter);
    else if (has_from)
        store_iter_seek(walk->iter, key);
    else
        store_iter_seek_first(walk->iter);
    moved(walk);
}

void stored_walk_step(struct stored_walk *walk)
{
    if (walk->is_reverse)
        store_iter_prev(walk->iter);
    else
        store_iter_next(walk->iter);
    moved(walk);
    walk->course.rows++;
}

void stored_walk_end(struct stored_walk *walk)
{
    walk->is_through = true;
}

bool stored_walk_valid(const struct stored_walk *walk)
{
    return !walk->is_through && store_iter_valid(walk->iter);
}

struct bytes stored_walk_key(const struct stored_walk *walk)
{
    return store_iter_key(walk->iter);
}

struct bytes stored_walk_value(const struct stored_walk *walk)
{
    return store_iter_value(walk->iter);
}

/* What lies before a cold walk is read into memory. */
static void want(const struct stored_walk *walk)
{
    const struct store_range range = {
        .cf = walk->cf,
        .is_reverse = walk->is_reverse,
        .has_from = walk->course.has_from,
        .lower = walk->lower,
        .upper = walk->upper,
        .from = {walk->course.key, walk->course.key_len},
        .rows = walk->course.rows,
    };
    reader_want_range(walk->overlay->reader, &range, walk->wait);
}

bool stored_walk_failed(const struct stored_walk *walk)
{
    if (walk->is_cold)
        want(walk);
    return walk->is_cold || store_iter_failed(walk->iter);
}
