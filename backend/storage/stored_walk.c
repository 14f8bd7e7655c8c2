#include "backend/storage/stored_walk.h"

#include "backend/format/encoding.h"
#include "backend/storage/reader.h"
#include "backend/storage/row_feed.h"
#include "shared/check.h"

#include <stdlib.h>

/* Are these the bounds of a whole collection, whose rows begin with `lower`? */
static bool is_collection(enum cf cf, struct bytes lower, struct bytes upper)
{
    struct bytes prefix;
    bool ends_within = upper.len >= lower.len && memcmp(upper.data, lower.data, lower.len) == 0;
    return overlay_keeps_ranges(cf) && !ends_within && decode_collection_prefix(lower, &prefix) &&
           prefix.len == lower.len;
}

void stored_walk_init(struct stored_walk *walk, struct overlay *overlay, enum cf cf,
                      struct bytes lower, struct bytes upper)
{
    bool is_nonblocking = overlay->is_nonblocking && overlay_may_be_uncached(cf);
    *walk = (struct stored_walk){
        .overlay = overlay,
        .cf = cf,
        .lower = lower,
        .upper = upper,
        .ranges = overlay->ranges && is_collection(cf, lower, upper) ? overlay->ranges : NULL,
        .wait = is_nonblocking ? overlay->wait : NULL,
    };
}

static void end_draft(struct stored_walk *walk, bool is_end)
{
    if (walk->draft)
        run_draft_end(walk->draft, is_end);
    walk->draft = NULL;
}

static void leave_run(struct stored_walk *walk)
{
    if (walk->run)
        range_cache_release(walk->run);
    walk->run = NULL;
}

void stored_walk_fini(struct stored_walk *walk)
{
    end_draft(walk, false);
    leave_run(walk);
    store_iter_free(walk->iter);
    row_feed_free(walk->feed);
    free(walk->course.key);
}

/* ---- in the engine ---- */

static void engine_open(struct stored_walk *walk)
{
    struct store *store = walk->overlay->store;
    walk->iter = walk->wait ? store_iter_new_cached(store, walk->cf, walk->lower, walk->upper)
                            : store_iter_new(store, walk->cf, walk->lower, walk->upper);
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
static void engine_moved(struct stored_walk *walk)
{
    bool is_valid = store_iter_valid(walk->iter);
    walk->is_uncached = walk->is_stuck =
        walk->wait && !is_valid && store_iter_is_uncached(walk->iter);
    if (walk->draft && is_valid)
        run_draft_add(walk->draft, store_iter_key(walk->iter), store_iter_value(walk->iter));
    else if (walk->draft)
        end_draft(walk, !walk->is_uncached && !store_iter_failed(walk->iter));
}

static void engine_seek(struct stored_walk *walk, struct bytes key, bool has_from)
{
    if (!walk->iter)
        engine_open(walk);
    if (walk->wait)
        course_begin(walk, key, has_from);
    store_iter_begin(walk->iter, walk->is_reverse, key, has_from);
    engine_moved(walk);
}

static void engine_step(struct stored_walk *walk)
{
    store_iter_step(walk->iter, walk->is_reverse);
    engine_moved(walk);
    walk->course.rows++;
}

/* ---- in a run ---- */

static bool run_is_over(const struct stored_walk *walk)
{
    return walk->is_reverse ? walk->run_row == 0 : walk->run_row == walk->run->count;
}

/* No row is left in the run: that was all, or the engine goes on from its edge. */
static void run_moved(struct stored_walk *walk)
{
    const struct run *run = walk->run;
    if (!run_is_over(walk) || (walk->is_reverse ? run->has_start : run->has_end))
        return;
    struct bytes edge = walk->is_reverse ? run->low : run->high;
    engine_seek(walk, edge, true);
    if (store_iter_valid(walk->iter) && bytes_equal(store_iter_key(walk->iter), edge))
        engine_step(walk);
    leave_run(walk);
}

/* False: no run has the place. */
static bool run_seek(struct stored_walk *walk, const struct run_place *place)
{
    const struct run *run = range_cache_find(walk->ranges, place);
    if (!run)
        return false;
    walk->run = run;
    if (place->has_from)
        walk->run_row = run_before(run, place->from, place->is_reverse);
    else
        walk->run_row = place->is_reverse ? run->count : 0;
    run_moved(walk);
    return true;
}

/* ---- the walk ---- */

void stored_walk_seek(struct stored_walk *walk, bool is_reverse, struct bytes key, bool has_from)
{
    walk->is_reverse = is_reverse;
    walk->is_through = walk->is_uncached = walk->is_stuck = false;
    if (walk->feed) {
        row_feed_seek(walk->feed, &(struct row_feed_place){key, has_from, true, is_reverse});
        stored_walk_look(walk);
        return;
    }
    end_draft(walk, false);
    leave_run(walk);
    if (walk->ranges) {
        bool is_start = !is_reverse && bytes_equal(key, walk->lower);
        const struct run_place place = {
            .cf = walk->cf,
            .collection = walk->lower,
            .has_from = has_from && !is_start,
            .is_reverse = is_reverse,
            .from = has_from && !is_start ? key : (struct bytes){NULL, 0},
        };
        if (run_seek(walk, &place))
            return;
        walk->draft = range_cache_draft(walk->ranges, &place);
    }
    engine_seek(walk, key, has_from);
}

void stored_walk_step(struct stored_walk *walk)
{
    if (walk->feed) {
        row_feed_next(walk->feed);
        stored_walk_look(walk);
        return;
    }
    if (!walk->run) {
        engine_step(walk);
        return;
    }
    if (walk->is_reverse)
        walk->run_row--;
    else
        walk->run_row++;
    run_moved(walk);
}

void stored_walk_skip(struct stored_walk *walk, struct bytes end)
{
    bool is_reverse = walk->is_reverse;
    if (walk->feed) {
        row_feed_skip(walk->feed, &(struct row_feed_place){end, true, !is_reverse, is_reverse});
        stored_walk_look(walk);
        return;
    }
    stored_walk_seek(walk, is_reverse, end, true);
    if (is_reverse && stored_walk_valid(walk) && bytes_equal(stored_walk_key(walk), end))
        stored_walk_step(walk);
}

void stored_walk_end(struct stored_walk *walk)
{
    walk->is_through = true;
}

bool stored_walk_is_dry(const struct stored_walk *walk)
{
    return walk->feed && !walk->is_through && row_feed_is_dry(walk->feed);
}

void stored_walk_look(struct stored_walk *walk)
{
    walk->is_stuck = walk->is_uncached || stored_walk_is_dry(walk);
}

/* The iterator brings what lies behind where the walk stands. */
static void detach_to(struct stored_walk *walk, struct store_iter *iter)
{
    bool is_on_row = stored_walk_valid(walk);
    struct bytes at = is_on_row ? stored_walk_key(walk) : (struct bytes){NULL, 0};
    walk->iter = iter;
    if (is_on_row)
        engine_seek(walk, at, true);
    else
        walk->is_through = true;
}

static void feed_from(struct stored_walk *walk, struct row_feed *feed)
{
    if (stored_walk_valid(walk))
        row_feed_stand(feed, stored_walk_key(walk), stored_walk_value(walk), walk->is_reverse);
    walk->iter = NULL;
    walk->feed = feed;
}

void stored_walk_detach(struct stored_walk *walk, uint64_t rows, void (*on_rows)(void *owner),
                        void *owner)
{
    struct overlay *overlay = walk->overlay;
    struct store_iter *old = walk->iter;
    bool is_whole = old && !walk->wait && !walk->run;
    CHECK(!walk->is_uncached);
    end_draft(walk, false);
    walk->wait = NULL;
    walk->ranges = NULL;
    if (!stored_walk_valid(walk) && stored_walk_failed(walk))
        return;
    struct store_iter *iter = old;
    if (!is_whole)
        iter = store_iter_new(overlay->store, walk->cf, walk->lower, walk->upper);
    if (overlay->reader)
        feed_from(walk, row_feed_new(overlay->reader, iter, rows, on_rows, owner));
    else if (!is_whole)
        detach_to(walk, iter);
    if (!is_whole)
        store_iter_free(old);
    leave_run(walk);
}

bool stored_walk_valid(const struct stored_walk *walk)
{
    if (walk->is_through)
        return false;
    if (walk->feed)
        return row_feed_valid(walk->feed);
    return walk->run ? !run_is_over(walk) : store_iter_valid(walk->iter);
}

struct bytes stored_walk_key(const struct stored_walk *walk)
{
    if (walk->feed)
        return row_feed_key(walk->feed);
    return walk->run ? run_key(walk->run, walk->run_row - walk->is_reverse)
                     : store_iter_key(walk->iter);
}

struct bytes stored_walk_value(const struct stored_walk *walk)
{
    if (walk->feed)
        return row_feed_value(walk->feed);
    return walk->run ? run_value(walk->run, walk->run_row - walk->is_reverse)
                     : store_iter_value(walk->iter);
}

/* What lies before an uncached walk is read into memory. */
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
    if (walk->is_uncached)
        want(walk);
    if (walk->feed)
        return row_feed_failed(walk->feed);
    return walk->is_uncached || (walk->iter && store_iter_failed(walk->iter));
}
