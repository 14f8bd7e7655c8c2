#include "backend/rank/rank.h"

#include "backend/context/partition.h"
#include "backend/rank/rank_rebuild.h"
#include "shared/check.h"

enum {
    LEVEL_ROOT = 0, /* level of the root row, which has height and size of the top level */
    LEAF_FILL = 96,
    FAN_FILL = 24,
    ROWS_AT_ONCE = 4096, /* a stale tree of at most so many rows is replaced by the next change */
};

static const struct bytes NOTHING = {"", 0};

/* The counts are inconsistent: replies the error of an unreadable row. */
static bool broken(struct call *call)
{
    call_error(call, ERR_STORE);
    return false;
}

/* ---- rows ---- */

static struct bytes block_key(struct call *call, unsigned level, struct bytes separator)
{
    char *key = arena_alloc(call->arena, separator.len + 1);
    key[0] = (char)level;
    if (separator.len)
        memcpy(key + 1, separator.data, separator.len);
    return (struct bytes){key, separator.len + 1};
}

static void put_block(struct call *call, struct entry *entry, unsigned level,
                      const struct rank_block *block)
{
    sub_put(call, entry, CF_RANK, block_key(call, level, block->separator),
            encode_rank_block(call->arena, block->count, block->children));
}

/* The block at an iterator over CF_RANK. False: that row is no block of `level`. The separator is borrowed. */
static bool block_read(const struct sub_iter *it, unsigned level, struct rank_block *block)
{
    if (it->sub.len == 0 || (uint8_t)it->sub.data[0] != level)
        return false;
    block->separator = (struct bytes){it->sub.data + 1, it->sub.len - 1};
    return decode_rank_block(it->value, &block->count, &block->children);
}

/* ---- nodes ---- */

/* The node with the children of the block `parent`; the children are on `level`. */
static struct rank_place place_below(const struct rank_edit *edit, unsigned level,
                                     struct bytes parent)
{
    struct entry *entry = edit->entry;
    return (struct rank_place){.collection = entry_prefix(edit->call, entry),
                               .hash = entry_hash(entry),
                               .version = entry->meta.version,
                               .level = level,
                               .parent = parent};
}

/* The node that contains the path's block of `level`. */
static struct rank_place rank_place_of(const struct rank_edit *edit, unsigned level)
{
    return place_below(edit, level, level < edit->height ? edit->path[level].separator : NOTHING);
}

static void root_put(struct rank_edit *edit)
{
    const struct rank_block root = {NOTHING, edit->height, edit->tops};
    struct rank_place place = place_below(edit, LEVEL_ROOT, NOTHING);
    sub_put(edit->call, edit->entry, CF_RANK, block_key(edit->call, LEVEL_ROOT, NOTHING),
            encode_rank_root(edit->call->arena, edit->height, edit->tops));
    rank_cache_put(edit->call->partition->caches.ranks, &place, &root);
}

/* Reads the root row into the cache; that of a stale tree has no levels there. */
static bool root_fetch(struct rank_edit *edit, const struct rank_place *place)
{
    struct call *call = edit->call;
    struct bytes value;
    int err = sub_get(call, edit->entry, CF_RANK, block_key(call, LEVEL_ROOT, NOTHING), &value);
    if (err == ERR_NOT_FOUND)
        return true;
    if (err != OK)
        return false;
    if (!decode_rank_root(value, &edit->height, &edit->tops, &edit->is_stale) || edit->height < 1 ||
        edit->height > RANK_LEVELS_MAX)
        return broken(call);
    if (edit->is_stale)
        edit->height = edit->tops = 0;
    const struct rank_block root = {NOTHING, edit->height, edit->tops};
    (void)rank_cache_add(call->partition->caches.ranks, place, &root, 1);
    return true;
}

/* Reads height and size of the top level; without a tree the height is 0. */
static bool root_read(struct rank_edit *edit)
{
    struct rank_place place = place_below(edit, LEVEL_ROOT, NOTHING);
    const struct rank_node *root = rank_cache_get(edit->call->partition->caches.ranks, &place);
    edit->is_open = true;
    edit->is_stale = false;
    edit->height = edit->tops = 0;
    if (!root)
        return root_fetch(edit, &place);
    edit->height = root->block[0].count;
    edit->tops = root->block[0].children;
    edit->is_stale = edit->height == 0;
    return true;
}

static void node_forget(struct rank_edit *edit, unsigned level, struct bytes parent)
{
    struct rank_place place = place_below(edit, level, parent);
    rank_cache_forget(edit->call->partition->caches.ranks, &place);
}

/* Drops the cached node that contains the path's block of `level`, which was removed. */
static void siblings_forget(struct rank_edit *edit, unsigned level)
{
    struct rank_place place = rank_place_of(edit, level);
    rank_cache_forget(edit->call->partition->caches.ranks, &place);
}

/* Writes the path's block of `level` to its row and to the cache. */
static void block_put(struct rank_edit *edit, unsigned level)
{
    struct rank_place place = rank_place_of(edit, level);
    put_block(edit->call, edit->entry, level, &edit->path[level - 1]);
    rank_cache_put(edit->call->partition->caches.ranks, &place, &edit->path[level - 1]);
}

static void block_delete(struct rank_edit *edit, unsigned level, struct bytes separator)
{
    sub_delete(edit->call, edit->entry, CF_RANK, block_key(edit->call, level, separator));
    if (level > 1)
        node_forget(edit, level - 1, separator);
}

/* Reads the `count` children of a block. */
static const struct rank_node *node_read(struct rank_edit *edit, const struct rank_place *place,
                                         uint64_t count)
{
    struct rank_block blocks[RANK_FAN_MAX];
    struct sub_iter it;
    struct call *call = edit->call;
    uint32_t found = 0;
    if (count == 0 || count > RANK_FAN_MAX) {
        broken(call);
        return NULL;
    }
    sub_iter_init(call, edit->entry, CF_RANK, block_key(call, place->level, place->parent), &it);
    while (found < count && sub_iter_next(&it) && block_read(&it, place->level, &blocks[found])) {
        blocks[found].separator = arena_copy(call->arena, blocks[found].separator);
        found++;
    }
    if (!sub_iter_fini(&it))
        return NULL;
    if (found < count || !bytes_equal(blocks[0].separator, place->parent)) {
        broken(call);
        return NULL;
    }
    return rank_cache_add(call->partition->caches.ranks, place, blocks, found);
}

/* Reads the `count` children of a block; the children are on `level`. NULL: the store failed (replied). */
static const struct rank_node *node_below(struct rank_edit *edit, unsigned level,
                                          struct bytes parent, uint64_t count)
{
    struct rank_place place = place_below(edit, level, parent);
    const struct rank_node *node = rank_cache_get(edit->call->partition->caches.ranks, &place);
    return node ? node : node_read(edit, &place, count);
}

/* ---- building ---- */

/* Blocks of one level, while the level above is built. */
struct level {
    struct rank_block *blocks;
    size_t count;
    size_t cap;
};

static struct rank_block *level_add(struct call *call, struct level *level, struct bytes separator)
{
    if (level->count == level->cap) {
        size_t cap = level->cap ? level->cap * 2 : 64;
        struct rank_block *blocks = arena_alloc(call->arena, cap * sizeof *blocks);
        if (level->count)
            memcpy(blocks, level->blocks, level->count * sizeof *blocks);
        level->blocks = blocks;
        level->cap = cap;
    }
    struct rank_block *block = &level->blocks[level->count++];
    *block = (struct rank_block){.separator = separator};
    return block;
}

struct bytes rank_separator(struct arena *arena, struct bytes before, struct bytes row)
{
    size_t same = 0;
    while (same < before.len && same < row.len && before.data[same] == row.data[same])
        same++;
    CHECK(same < row.len);
    return arena_copy(arena, (struct bytes){row.data, same + 1});
}

/* Adds the next row to the last leaf or to a new one. *before: the last row of a full leaf. */
static void leaves_add(struct call *call, struct level *leaves, struct bytes *before,
                       struct bytes sub)
{
    struct rank_block *leaf = &leaves->blocks[leaves->count - 1];
    if (leaf->count == LEAF_FILL)
        leaf = level_add(call, leaves, rank_separator(call->arena, *before, sub));
    if (++leaf->count == LEAF_FILL)
        *before = arena_copy(call->arena, sub);
}

/* Divides the rows into leaves. */
static bool collect_leaves(struct call *call, struct entry *entry, enum cf cf, struct level *leaves)
{
    struct sub_iter it;
    struct bytes before = NOTHING;
    (void)level_add(call, leaves, NOTHING);
    sub_iter_init(call, entry, cf, NOTHING, &it);
    while (sub_iter_next(&it))
        leaves_add(call, leaves, &before, it.sub);
    return sub_iter_fini(&it);
}

static struct level collect_blocks(struct call *call, const struct level *below, size_t fill)
{
    struct level level = {0};
    struct rank_block *block = NULL;
    for (size_t i = 0; i < below->count; i++) {
        if (i % fill == 0)
            block = level_add(call, &level, below->blocks[i].separator);
        block->count += below->blocks[i].count;
        block->children++;
    }
    return level;
}

/* Writes a tree with these leaves. */
static void tree_put(struct rank_edit *edit, struct level level)
{
    struct call *call = edit->call;
    for (edit->height = 1;; edit->height++) {
        CHECK(edit->height <= RANK_LEVELS_MAX);
        for (size_t i = 0; i < level.count; i++)
            put_block(call, edit->entry, (unsigned)edit->height, &level.blocks[i]);
        if (level.count <= RANK_FAN_MAX)
            break;
        level = collect_blocks(call, &level, FAN_FILL);
    }
    edit->tops = level.count;
    root_put(edit);
}

static bool build_tree(struct rank_edit *edit)
{
    struct level level = {0};
    if (!collect_leaves(edit->call, edit->entry, edit->cf, &level))
        return false;
    tree_put(edit, level);
    return true;
}

bool rank_build(struct call *call, struct entry *entry, enum cf cf)
{
    struct rank_edit edit;
    rank_edit_begin(&edit, call, entry, cf);
    return entry->meta.size <= RANK_LEAF_MAX || build_tree(&edit);
}

bool rank_build_of(struct call *call, struct entry *entry, enum cf cf, const struct bytes *subs,
                   uint64_t count)
{
    struct rank_edit edit;
    struct level level = {0};
    struct bytes before = NOTHING;
    if (count <= RANK_LEAF_MAX)
        return true;
    rank_edit_begin(&edit, call, entry, cf);
    (void)level_add(call, &level, NOTHING);
    for (uint64_t i = 0; i < count; i++)
        leaves_add(call, &level, &before, subs[i]);
    tree_put(&edit, level);
    return !call->failed;
}

/* The collection is small: deletes the rows of the tree. */
static bool drop_tree(struct rank_edit *edit)
{
    struct sub_iter it;
    struct level keys = {0};
    sub_iter_init(edit->call, edit->entry, CF_RANK, NOTHING, &it);
    while (sub_iter_next(&it))
        (void)level_add(edit->call, &keys, arena_copy(edit->call->arena, it.sub));
    if (!sub_iter_fini(&it))
        return false;
    for (size_t i = 0; i < keys.count; i++) {
        struct bytes key = keys.blocks[i].separator;
        if (!key.len)
            return broken(edit->call);
        block_delete(edit, (uint8_t)key.data[0], (struct bytes){key.data + 1, key.len - 1});
    }
    node_forget(edit, (unsigned)edit->height, NOTHING);
    node_forget(edit, LEVEL_ROOT, NOTHING);
    edit->height = 0;
    edit->has_path = edit->is_stale = false;
    return true;
}

/* ---- stale trees ---- */

bool rank_is_stale(struct call *call, struct entry *entry, bool *is_stale)
{
    struct rank_edit edit;
    rank_edit_begin(&edit, call, entry, CF_DATA);
    bool is_good = root_read(&edit);
    *is_stale = edit.is_stale;
    return is_good;
}

bool rank_replace(struct call *call, struct entry *entry, enum cf cf,
                  const struct rank_block *leaves, size_t count)
{
    struct rank_edit edit;
    struct level level = {0};
    rank_edit_begin(&edit, call, entry, cf);
    if (!drop_tree(&edit))
        return false;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || leaves[i].count) /* an empty leaf belongs to the one before it */
            level_add(call, &level, leaves[i].separator)->count = leaves[i].count;
    if (entry->meta.size > RANK_SIZE_MIN)
        tree_put(&edit, level);
    return !call->failed;
}

/* A row of a collection with a stale tree was added or deleted. */
static bool stale_changed(struct rank_edit *edit, struct bytes sub, int change)
{
    if (edit->entry->meta.size <= ROWS_AT_ONCE && !edit->entry->is_borrowed)
        return drop_tree(edit) && build_tree(edit);
    rank_rebuild_note(edit->call, edit->entry, sub, change);
    return true;
}

/* ---- splitting ---- */

/* The top level has too many blocks: adds a level of two blocks above it. */
static bool add_level(struct rank_edit *edit)
{
    struct call *call = edit->call;
    struct rank_block block;
    struct sub_iter it;
    struct level tops = {0};
    sub_iter_init(call, edit->entry, CF_RANK, block_key(call, (unsigned)edit->height, NOTHING),
                  &it);
    while (sub_iter_next(&it) && block_read(&it, (unsigned)edit->height, &block))
        level_add(call, &tops, arena_copy(call->arena, block.separator))->count = block.count;
    if (!sub_iter_fini(&it))
        return false;
    if (tops.count != edit->tops || edit->height == RANK_LEVELS_MAX)
        return broken(call);
    struct level level = collect_blocks(call, &tops, (tops.count + 1) / 2);
    edit->height++;
    edit->tops = level.count;
    for (size_t i = 0; i < level.count; i++)
        put_block(call, edit->entry, (unsigned)edit->height, &level.blocks[i]);
    return true;
}

/* Finds the middle of a leaf, where it is split. */
static bool halve_leaf(struct rank_edit *edit, struct rank_block *block, struct rank_block *half)
{
    struct sub_iter it;
    struct bytes before = NOTHING;
    uint64_t kept = block->count / 2;
    half->count = block->count - kept;
    half->separator = NOTHING;
    sub_iter_init(edit->call, edit->entry, edit->cf, block->separator, &it);
    for (uint64_t row = 0; row <= kept && sub_iter_next(&it); row++) {
        if (row == kept - 1)
            before = arena_copy(edit->call->arena, it.sub);
        else if (row == kept)
            half->separator = rank_separator(edit->call->arena, before, it.sub);
    }
    block->count = kept;
    return sub_iter_fini(&it) && (half->separator.len || broken(edit->call));
}

/* Finds the middle of a block of `level`. */
static bool halve_block(struct rank_edit *edit, unsigned level, struct rank_block *block,
                        struct rank_block *half)
{
    struct sub_iter it;
    struct rank_block child;
    uint64_t kept = block->children / 2;
    uint64_t rows = 0;
    half->separator = NOTHING;
    sub_iter_init(edit->call, edit->entry, CF_RANK,
                  block_key(edit->call, level - 1, block->separator), &it);
    for (uint64_t i = 0; i <= kept && sub_iter_next(&it) && block_read(&it, level - 1, &child);
         i++) {
        if (i == kept)
            half->separator = arena_copy(edit->call->arena, child.separator);
        else
            rows += child.count;
    }
    half->count = block->count - rows;
    half->children = block->children - kept;
    block->count = rows;
    block->children = kept;
    return sub_iter_fini(&it) && (half->separator.len || broken(edit->call));
}

/* Splits the path's blocks that are too big, from the leaf up. The rows of all blocks in the path have been written. */
static bool split_blocks(struct rank_edit *edit)
{
    edit->has_path = false;
    for (unsigned level = 1; level <= edit->height; level++) {
        struct rank_block *block = &edit->path[level - 1];
        struct rank_block half = {0};
        if (level == 1 ? block->count <= RANK_LEAF_MAX : block->children <= RANK_FAN_MAX) {
            block_put(edit, level);
            return true;
        }
        if (!(level == 1 ? halve_leaf(edit, block, &half) : halve_block(edit, level, block, &half)))
            return false;
        struct rank_place place = rank_place_of(edit, level);
        rank_cache_divide(edit->call->partition->caches.ranks, &place, block, &half);
        put_block(edit->call, edit->entry, level, block);
        put_block(edit->call, edit->entry, level, &half);
        if (level < edit->height)
            edit->path[level].children++;
    }
    edit->tops++;
    if (edit->tops > RANK_FAN_MAX && !add_level(edit))
        return false;
    root_put(edit);
    return true;
}

/* ---- editing ---- */

void rank_edit_begin(struct rank_edit *edit, struct call *call, struct entry *entry, enum cf cf)
{
    edit->call = call;
    edit->entry = entry;
    edit->cf = cf;
    edit->height = edit->tops = 0;
    edit->is_open = edit->has_path = edit->is_stale = false;
}

static void path_put(struct rank_edit *edit)
{
    for (unsigned level = 1; edit->has_path && level <= edit->height; level++)
        block_put(edit, level);
    edit->has_path = false;
}

/* Reads the blocks that contain `sub` into the path, from the top level down. */
static bool path_find(struct rank_edit *edit, struct bytes sub)
{
    struct arena *arena = edit->call->arena;
    struct bytes parent = NOTHING;
    uint64_t count = edit->tops;
    edit->end = (struct bytes){NULL, 0};
    for (unsigned level = (unsigned)edit->height; level > 0; level--) {
        const struct rank_node *node = node_below(edit, level, parent, count);
        if (!node)
            return false;
        uint32_t at = rank_node_find(node, sub);
        edit->path[level - 1] = node->block[at];
        parent = arena_copy(arena, node->block[at].separator);
        edit->path[level - 1].separator = parent;
        if (at + 1 < node->count)
            edit->end = arena_copy(arena, node->block[at + 1].separator);
        count = node->block[at].children;
    }
    edit->has_path = true;
    return true;
}

/* Moves the path to the blocks that contain `sub`, if it is elsewhere. */
static bool path_move(struct rank_edit *edit, struct bytes sub)
{
    if (edit->has_path && bytes_compare(sub, edit->path[0].separator) >= 0 &&
        (!edit->end.data || bytes_compare(sub, edit->end) < 0))
        return true;
    path_put(edit);
    return path_find(edit, sub);
}

bool rank_edit_add(struct rank_edit *edit, struct bytes sub)
{
    if (edit->entry->meta.size <= RANK_SIZE_MIN)
        return true;
    if (!edit->is_open && !root_read(edit))
        return false;
    if (edit->is_stale)
        return stale_changed(edit, sub, 1);
    if (edit->height == 0)
        return edit->entry->meta.size <= RANK_LEAF_MAX || build_tree(edit);
    if (!path_move(edit, sub))
        return false;
    for (unsigned i = 0; i < edit->height; i++)
        edit->path[i].count++;
    if (edit->path[0].count <= RANK_LEAF_MAX)
        return true;
    path_put(edit);
    return split_blocks(edit);
}

/* The leaf of the path is empty: removes the highest empty block that is not its parent's first child, and all blocks
 * below it. These are first children, so each has the separator of a block above it. */
static void path_prune(struct rank_edit *edit)
{
    unsigned top = 0;
    for (unsigned level = 1; level <= edit->height && edit->path[level - 1].count == 0; level++) {
        struct bytes separator = edit->path[level - 1].separator;
        if (separator.len &&
            (level == edit->height || bytes_compare(separator, edit->path[level].separator) != 0))
            top = level;
    }
    path_put(edit);
    for (unsigned level = 1; level <= top; level++)
        for (unsigned above = level; above <= top; above++)
            block_delete(edit, level, edit->path[above - 1].separator);
    if (top == 0)
        return;
    siblings_forget(edit, top);
    if (top == edit->height) {
        edit->tops--;
        root_put(edit);
    } else {
        edit->path[top].children--;
        block_put(edit, top + 1);
    }
}

bool rank_edit_remove(struct rank_edit *edit, struct bytes sub)
{
    uint64_t size = edit->entry->meta.size;
    if (size < RANK_SIZE_MIN)
        return true; /* the tree has been deleted */
    if (!edit->is_open && !root_read(edit))
        return false;
    if (size == RANK_SIZE_MIN && (edit->height || edit->is_stale))
        return drop_tree(edit);
    if (edit->is_stale)
        return stale_changed(edit, sub, -1);
    if (edit->height == 0)
        return true;
    if (!path_move(edit, sub))
        return false;
    for (unsigned i = 0; i < edit->height; i++)
        if (edit->path[i].count-- == 0)
            return broken(edit->call);
    if (edit->path[0].count == 0)
        path_prune(edit);
    return true;
}

bool rank_edit_end(struct rank_edit *edit)
{
    path_put(edit);
    return !edit->call->failed;
}

bool rank_add(struct call *call, struct entry *entry, enum cf cf, struct bytes sub)
{
    struct rank_edit edit;
    rank_edit_begin(&edit, call, entry, cf);
    return rank_edit_add(&edit, sub) && rank_edit_end(&edit);
}

bool rank_remove(struct call *call, struct entry *entry, enum cf cf, struct bytes sub)
{
    struct rank_edit edit;
    rank_edit_begin(&edit, call, entry, cf);
    return rank_edit_remove(&edit, sub) && rank_edit_end(&edit);
}

/* ---- queries ---- */

/* The leaf of a row. */
struct leaf {
    struct bytes separator;
    uint64_t before; /* rows before the leaf */
};

/* Finds the leaf with row number `rank`, or (`sub` not NULL) the leaf of `sub`. */
static bool leaf_find(struct call *call, struct entry *entry, enum cf cf, const struct bytes *sub,
                      uint64_t rank, struct leaf *leaf)
{
    struct rank_edit tree;
    *leaf = (struct leaf){NOTHING, 0};
    rank_edit_begin(&tree, call, entry, cf);
    if (entry->meta.size > RANK_SIZE_MIN && !root_read(&tree))
        return false;
    if (tree.is_stale)
        return rank_rebuild_find(call, entry, cf, sub, rank, &leaf->separator, &leaf->before);
    uint64_t count = tree.tops;
    for (unsigned level = (unsigned)tree.height; level > 0; level--) {
        const struct rank_node *node = node_below(&tree, level, leaf->separator, count);
        if (!node)
            return false;
        uint32_t last = sub ? rank_node_find(node, *sub) : node->count - 1;
        uint32_t at = 0;
        while (at < last && (sub || leaf->before + node->block[at].count <= rank))
            leaf->before += node->block[at++].count;
        leaf->separator = arena_copy(call->arena, node->block[at].separator);
        count = node->block[at].children;
    }
    return leaf->before <= entry->meta.size || broken(call);
}

bool rank_of(struct call *call, struct entry *entry, enum cf cf, struct bytes sub, uint64_t *rank)
{
    struct leaf leaf;
    struct sub_iter it;
    if (!leaf_find(call, entry, cf, &sub, 0, &leaf))
        return false;
    *rank = leaf.before;
    if (bytes_compare(sub, leaf.separator) <= 0)
        return true;
    sub_iter_init(call, entry, cf, leaf.separator, &it);
    while (sub_iter_next(&it) && bytes_compare(it.sub, sub) < 0)
        ++*rank;
    return sub_iter_fini(&it);
}

bool rank_seek(struct call *call, struct entry *entry, enum cf cf, uint64_t rank,
               struct bytes *from, uint64_t *skip)
{
    struct leaf leaf;
    if (rank >= entry->meta.size)
        return broken(call);
    if (!leaf_find(call, entry, cf, NULL, rank, &leaf))
        return false;
    *from = leaf.separator;
    *skip = rank - leaf.before;
    return true;
}
