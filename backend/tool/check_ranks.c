/*
 * check_ranks.c - checks the rank tree of a collection (backend/rank/rank.h): each block against what it counts.
 *
 *   blocks of a level   "" 2        "m" 3          a block counts what lies from its separator to the next one:
 *   level below         ""1 "d"1    "m"1 "p"0 "r"2 blocks of the level below, or at level 1 rows of the collection
 */
#include "backend/tool/check.h"

enum { LEVELS_MAX = 10 };

/* The blocks of a level, or (level 0) the rows that the tree counts. */
struct counted {
    struct store_iter *iter;
    size_t prefix_len;
    bool is_rows;
    bool is_there;
    bool is_bad;
    struct bytes sub; /* separator, or key of the row */
    uint64_t rows, blocks;
};

static void counted_read(struct check *check, struct counted *at)
{
    at->is_there = store_iter_valid(at->iter);
    if (!at->is_there) {
        check->has_failed |= store_iter_failed(at->iter);
        return;
    }
    struct bytes key = store_iter_key(at->iter);
    at->sub = (struct bytes){key.data + at->prefix_len, key.len - at->prefix_len};
    at->rows = 1;
    check->rows++;
    if (!at->is_rows && !decode_rank_block(store_iter_value(at->iter), &at->rows, &at->blocks))
        at->is_bad = true;
}

static struct bytes level_prefix(struct check *check, const struct checked *key, uint64_t level)
{
    char byte = (char)level;
    return encode_sub_key(&check->arena, key->prefix, (struct bytes){&byte, 1});
}

static void counted_open(struct check *check, const struct checked *key, uint64_t level,
                         struct counted *at)
{
    enum cf rows = key->meta.type == TYPE_ZSET ? CF_ZSET_SCORE : CF_DATA;
    struct bytes prefix = level ? level_prefix(check, key, level) : key->prefix;
    struct bytes end = encode_prefix_end(&check->arena, prefix);
    *at =
        (struct counted){.iter = store_iter_new(check->store, level ? CF_RANK : rows, prefix, end),
                         .prefix_len = prefix.len,
                         .is_rows = level == 0};
    store_iter_seek_first(at->iter);
    counted_read(check, at);
}

static void counted_next(struct check *check, struct counted *at)
{
    store_iter_next(at->iter);
    counted_read(check, at);
}

/* Compares the block with what lies below it, and goes to the next block. */
static bool block_is_right(struct check *check, struct counted *above, struct counted *below)
{
    const uint64_t want_rows = above->rows;
    const uint64_t want_blocks = above->blocks;
    uint64_t rows = 0;
    uint64_t blocks = 0;
    counted_next(check, above);
    for (; below->is_there && (!above->is_there || bytes_compare(below->sub, above->sub) < 0);
         counted_next(check, below)) {
        rows += below->rows;
        blocks += !below->is_rows;
    }
    return rows == want_rows && blocks == want_blocks && !above->is_bad && !below->is_bad;
}

/* *count: the number of the level's blocks. */
static bool level_is_right(struct check *check, const struct checked *key, uint64_t level,
                           uint64_t *count)
{
    struct counted above;
    struct counted below;
    counted_open(check, key, level, &above);
    counted_open(check, key, level - 1, &below);
    bool is_right = above.is_there && above.sub.len == 0 && !above.is_bad && !below.is_bad;
    for (*count = 0; is_right && above.is_there; ++*count)
        is_right = block_is_right(check, &above, &below);
    store_iter_free(above.iter);
    store_iter_free(below.iter);
    return is_right;
}

static bool has_rank_rows(struct check *check, const struct checked *key)
{
    struct store_iter *iter = store_iter_new(check->store, CF_RANK, key->prefix,
                                             encode_prefix_end(&check->arena, key->prefix));
    store_iter_seek_first(iter);
    bool has = store_iter_valid(iter);
    check->has_failed |= store_iter_failed(iter);
    store_iter_free(iter);
    return has;
}

bool check_ranks_are_right(struct check *check, const struct checked *key)
{
    struct slice root;
    uint64_t levels;
    uint64_t tops;
    uint64_t count = 0;
    bool is_stale;
    int err = store_get(check->store, CF_RANK, level_prefix(check, key, 0), &root);
    if (err == ERR_NOT_FOUND)
        return !has_rank_rows(check, key);
    if (err != OK) {
        check->has_failed = true;
        return true;
    }
    bool is_right = decode_rank_root(slice_bytes(&root), &levels, &tops, &is_stale) && levels > 0 &&
                    levels <= LEVELS_MAX;
    slice_release(&root);
    for (uint64_t level = 1; is_right && level <= levels; level++)
        is_right = level_is_right(check, key, level, &count);
    return is_right && count == tops;
}
