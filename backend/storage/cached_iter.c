#include "backend/storage/cached_iter.h"

#include "backend/format/encoding.h"
#include "backend/storage/read_ahead.h"
#include "backend/storage/reader.h"
#include "shared/check.h"

#include <stdlib.h>

/* True for the bounds of one whole collection, whose rows begin with `lower`. The first row of a collection may have the prefix as its
 * key (an empty field), so an iteration over many collections may begin with the same `lower`. */
static bool is_collection(enum cf cf, struct bytes lower, struct bytes upper)
{
    struct bytes prefix;
    return cf_has_collections(cf) && decode_collection_prefix(lower, &prefix) &&
           prefix.len == lower.len && is_prefix_end(prefix, upper);
}

void cached_iter_init(struct cached_iter *iter, struct overlay *overlay, enum cf cf,
                      struct bytes lower, struct bytes upper)
{
    bool is_nonblocking = overlay->is_nonblocking && overlay_may_be_uncached(cf);
    *iter = (struct cached_iter){
        .overlay = overlay,
        .cf = cf,
        .lower = lower,
        .upper = upper,
        .ranges = overlay->ranges && is_collection(cf, lower, upper) ? overlay->ranges : NULL,
        .retry = is_nonblocking ? overlay->retry : NULL,
    };
}

static void end_draft(struct cached_iter *iter, bool is_end)
{
    if (iter->draft)
        run_draft_end(iter->draft, is_end);
    iter->draft = NULL;
}

static void leave_run(struct cached_iter *iter)
{
    if (iter->run)
        range_cache_release(iter->run);
    iter->run = NULL;
}

void cached_iter_fini(struct cached_iter *iter)
{
    end_draft(iter, false);
    leave_run(iter);
    store_iter_free(iter->engine);
    read_ahead_free(iter->ahead);
    free(iter->course.key);
}

/* ---- iterating in RocksDB ---- */

static void engine_open(struct cached_iter *iter)
{
    struct store *store = iter->overlay->store;
    iter->engine = iter->retry ? store_iter_new_cached(store, iter->cf, iter->lower, iter->upper)
                               : store_iter_new(store, iter->cf, iter->lower, iter->upper);
}

static void course_begin(struct cached_iter *iter, struct bytes key, bool has_from)
{
    iter->course.has_from = has_from;
    iter->course.rows = 0;
    iter->course.key_len = has_from ? key.len : 0;
    if (iter->course.key_len > iter->course.key_cap) {
        free(iter->course.key);
        iter->course.key = malloc(key.len);
        CHECK(iter->course.key);
        iter->course.key_cap = key.len;
    }
    if (iter->course.key_len)
        memcpy(iter->course.key, key.data, key.len);
}

/* Checks whether RocksDB's iterator reached an uncached row. */
static void engine_moved(struct cached_iter *iter)
{
    bool is_valid = store_iter_valid(iter->engine);
    iter->is_uncached = iter->is_stuck =
        iter->retry && !is_valid && store_iter_is_uncached(iter->engine);
    if (iter->draft && is_valid)
        run_draft_add(iter->draft, store_iter_key(iter->engine), store_iter_value(iter->engine));
    else if (iter->draft)
        end_draft(iter, !iter->is_uncached && !store_iter_failed(iter->engine));
}

static void engine_seek(struct cached_iter *iter, struct bytes key, bool has_from)
{
    if (!iter->engine)
        engine_open(iter);
    if (iter->retry)
        course_begin(iter, key, has_from);
    store_iter_begin(iter->engine, iter->is_reverse, key, has_from);
    engine_moved(iter);
}

static void engine_step(struct cached_iter *iter)
{
    store_iter_step(iter->engine, iter->is_reverse);
    engine_moved(iter);
    iter->course.rows++;
}

/* ---- iterating in a run ---- */

static bool run_is_over(const struct cached_iter *iter)
{
    return iter->is_reverse ? iter->run_row == 0 : iter->run_row == iter->run->count;
}

/* The run has no more rows: the iteration has ended, or RocksDB's iterator continues after the run. */
static void run_moved(struct cached_iter *iter)
{
    const struct run *run = iter->run;
    if (!run_is_over(iter) || (iter->is_reverse ? run->has_start : run->has_end))
        return;
    struct bytes edge = iter->is_reverse ? run->low : run->high;
    engine_seek(iter, edge, true);
    if (store_iter_valid(iter->engine) && bytes_equal(store_iter_key(iter->engine), edge))
        engine_step(iter);
    leave_run(iter);
}

/* Positions the iterator in a run of the range cache. False: no run contains the position. */
static bool run_seek(struct cached_iter *iter, const struct run_place *place)
{
    const struct run *run = range_cache_find(iter->ranges, place);
    if (!run)
        return false;
    iter->run = run;
    if (place->has_from)
        iter->run_row = run_before(run, place->from, place->is_reverse);
    else
        iter->run_row = place->is_reverse ? run->count : 0;
    run_moved(iter);
    return true;
}

/* ---- the iterator ---- */

void cached_iter_seek(struct cached_iter *iter, bool is_reverse, struct bytes key, bool has_from)
{
    iter->is_reverse = is_reverse;
    iter->is_through = iter->is_uncached = iter->is_stuck = false;
    if (iter->ahead) {
        read_ahead_seek(iter->ahead, &(struct read_ahead_place){key, has_from, true, is_reverse});
        cached_iter_look(iter);
        return;
    }
    end_draft(iter, false);
    leave_run(iter);
    if (iter->ranges) {
        bool is_start = !is_reverse && bytes_equal(key, iter->lower);
        const struct run_place place = {
            .cf = iter->cf,
            .collection = iter->lower,
            .has_from = has_from && !is_start,
            .is_reverse = is_reverse,
            .from = has_from && !is_start ? key : (struct bytes){NULL, 0},
        };
        if (run_seek(iter, &place))
            return;
        iter->draft = range_cache_draft(iter->ranges, &place);
    }
    engine_seek(iter, key, has_from);
}

void cached_iter_step(struct cached_iter *iter)
{
    if (iter->ahead) {
        read_ahead_next(iter->ahead);
        cached_iter_look(iter);
        return;
    }
    if (!iter->run) {
        engine_step(iter);
        return;
    }
    if (iter->is_reverse)
        iter->run_row--;
    else
        iter->run_row++;
    run_moved(iter);
}

void cached_iter_skip(struct cached_iter *iter, struct bytes end)
{
    bool is_reverse = iter->is_reverse;
    if (iter->ahead) {
        read_ahead_skip(iter->ahead,
                        &(struct read_ahead_place){end, true, !is_reverse, is_reverse});
        cached_iter_look(iter);
        return;
    }
    cached_iter_seek(iter, is_reverse, end, true);
    if (is_reverse && cached_iter_valid(iter) && bytes_equal(cached_iter_key(iter), end))
        cached_iter_step(iter);
}

void cached_iter_end(struct cached_iter *iter)
{
    iter->is_through = true;
}

bool cached_iter_is_pending(const struct cached_iter *iter)
{
    return iter->ahead && !iter->is_through && read_ahead_is_pending(iter->ahead);
}

void cached_iter_look(struct cached_iter *iter)
{
    iter->is_stuck = iter->is_uncached || cached_iter_is_pending(iter);
}

/* Makes `engine` deliver the rows after the iterator's position. */
static void detach_to(struct cached_iter *iter, struct store_iter *engine)
{
    bool is_on_row = cached_iter_valid(iter);
    struct bytes at = is_on_row ? cached_iter_key(iter) : (struct bytes){NULL, 0};
    iter->engine = engine;
    if (is_on_row)
        engine_seek(iter, at, true);
    else
        iter->is_through = true;
}

static void ahead_from(struct cached_iter *iter, struct read_ahead *ahead)
{
    if (cached_iter_valid(iter))
        read_ahead_stand(ahead, cached_iter_key(iter), cached_iter_value(iter), iter->is_reverse);
    iter->engine = NULL;
    iter->ahead = ahead;
}

void cached_iter_detach(struct cached_iter *iter, uint64_t rows, void (*on_rows)(void *owner),
                        void *owner)
{
    struct overlay *overlay = iter->overlay;
    struct store_iter *old = iter->engine;
    bool is_whole = old && !iter->retry && !iter->run;
    CHECK(!iter->is_uncached);
    end_draft(iter, false);
    iter->retry = NULL;
    iter->ranges = NULL;
    if (!cached_iter_valid(iter) && cached_iter_error(iter))
        return;
    struct store_iter *engine = old;
    if (!is_whole)
        engine = store_iter_new(overlay->store, iter->cf, iter->lower, iter->upper);
    if (overlay->reader)
        ahead_from(iter, read_ahead_new(overlay->reader, engine, rows, on_rows, owner));
    else if (!is_whole)
        detach_to(iter, engine);
    if (!is_whole)
        store_iter_free(old);
    leave_run(iter);
}

bool cached_iter_valid(const struct cached_iter *iter)
{
    if (iter->is_through)
        return false;
    if (iter->ahead)
        return read_ahead_valid(iter->ahead);
    return iter->run ? !run_is_over(iter) : store_iter_valid(iter->engine);
}

struct bytes cached_iter_key(const struct cached_iter *iter)
{
    if (iter->ahead)
        return read_ahead_key(iter->ahead);
    return iter->run ? run_key(iter->run, iter->run_row - iter->is_reverse)
                     : store_iter_key(iter->engine);
}

struct bytes cached_iter_value(const struct cached_iter *iter)
{
    if (iter->ahead)
        return read_ahead_value(iter->ahead);
    return iter->run ? run_value(iter->run, iter->run_row - iter->is_reverse)
                     : store_iter_value(iter->engine);
}

/* Requests the rows that an uncached iterator needs. */
static void want(const struct cached_iter *iter)
{
    const struct store_range range = {
        .cf = iter->cf,
        .is_reverse = iter->is_reverse,
        .has_from = iter->course.has_from,
        .lower = iter->lower,
        .upper = iter->upper,
        .from = {iter->course.key, iter->course.key_len},
        .rows = iter->course.rows,
    };
    reader_want_range(iter->overlay->reader, &range, iter->retry);
}

/* While the iterator is in a run, RocksDB's iterator is where a seek before this one has left it, perhaps at an uncached row. */
static bool engine_has_failed(const struct cached_iter *iter)
{
    return iter->engine && !iter->run && store_iter_failed(iter->engine);
}

int cached_iter_error(const struct cached_iter *iter)
{
    bool is_failed = iter->ahead ? read_ahead_failed(iter->ahead) : engine_has_failed(iter);
    if (iter->is_uncached) {
        want(iter);
        return ERR_RETRY;
    }
    return is_failed ? ERR_STORE : OK;
}
