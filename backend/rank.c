#include "backend/rank.h"

#include "backend/edge.h"
#include "shared/check.h"

enum {
    LEVEL_ROOT = 0, /* its row says height and tops */
    LEAF_FILL = 96,
    FAN_FILL = 24,
};

static const struct bytes NOTHING = {"", 0};

/* The counts cannot be right: as bad as a row that cannot be read. */
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

static void block_put(struct call *call, struct entry *entry, unsigned level,
                      const struct rank_block *block)
{
    sub_put(call, entry, CF_RANK, block_key(call, level, block->separator),
            encode_rank_block(call->arena, block->count, block->children));
}

static void block_delete(struct call *call, struct entry *entry, unsigned level,
                         struct bytes separator)
{
    sub_delete(call, entry, CF_RANK, block_key(call, level, separator));
}

static void root_put(struct rank_edit *edit)
{
    const struct rank_block root = {NOTHING, edit->height, edit->tops};
    block_put(edit->call, edit->entry, LEVEL_ROOT, &root);
}

/* Reads the root; no tree: height 0. */
static bool root_read(struct rank_edit *edit)
{
    struct bytes value;
    edit->is_open = true;
    edit->height = edit->tops = 0;
    int err = sub_get(edit->call, edit->entry, CF_RANK, block_key(edit->call, LEVEL_ROOT, NOTHING),
                      &value);
    if (err == ERR_NOT_FOUND)
        return true;
    return err == OK && ((decode_rank_block(value, &edit->height, &edit->tops) &&
                          edit->height >= 1 && edit->height <= RANK_LEVELS_MAX) ||
                         broken(edit->call));
}

/* The block a walk over CF_RANK stands on; false: it is none of this level. Its separator is borrowed. */
static bool block_read(const struct sub_iter *it, unsigned level, struct rank_block *block)
{
    if (it->sub.len == 0 || (uint8_t)it->sub.data[0] != level)
        return false;
    block->separator = (struct bytes){it->sub.data + 1, it->sub.len - 1};
    return decode_rank_block(it->value, &block->count, &block->children);
}

/* ---- building ---- */

/* Blocks come or go. */
static void trail_forget(struct rank_edit *edit)
{
    edge_trail(edit->call, edit->entry)->height = 0;
}

/* Blocks of one level on their way into the one above. */
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

/* The shortest text that is greater than `before` and not greater than `row`. */
static struct bytes separator_between(struct call *call, struct bytes before, struct bytes row)
{
    size_t same = 0;
    while (same < before.len && same < row.len && before.data[same] == row.data[same])
        same++;
    CHECK(same < row.len);
    return arena_copy(call->arena, (struct bytes){row.data, same + 1});
}

/* Cuts the rows into leaves. */
static bool collect_leaves(struct call *call, struct entry *entry, enum cf cf, struct level *leaves)
{
    struct sub_iter it;
    struct bytes before = NOTHING;
    struct rank_block *leaf = level_add(call, leaves, NOTHING);
    sub_iter_init(call, entry, cf, NOTHING, &it);
    while (sub_iter_next(&it)) {
        if (leaf->count == LEAF_FILL)
            leaf = level_add(call, leaves, separator_between(call, before, it.sub));
        if (++leaf->count == LEAF_FILL)
            before = arena_copy(call->arena, it.sub);
    }
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

static bool build(struct rank_edit *edit)
{
    struct call *call = edit->call;
    struct level level = {0};
    if (!collect_leaves(call, edit->entry, edit->cf, &level))
        return false;
    for (edit->height = 1;; edit->height++) {
        CHECK(edit->height <= RANK_LEVELS_MAX);
        for (size_t i = 0; i < level.count; i++)
            block_put(call, edit->entry, (unsigned)edit->height, &level.blocks[i]);
        if (level.count <= RANK_FAN_MAX)
            break;
        level = collect_blocks(call, &level, FAN_FILL);
    }
    edit->tops = level.count;
    root_put(edit);
    trail_forget(edit);
    return true;
}

bool rank_build(struct call *call, struct entry *entry, enum cf cf)
{
    struct rank_edit edit;
    rank_edit_begin(&edit, call, entry, cf);
    return entry->meta.size <= RANK_LEAF_MAX || build(&edit);
}

/* The collection is small again: the tree's rows go. */
static bool drop(struct rank_edit *edit)
{
    struct sub_iter it;
    struct level keys = {0};
    sub_iter_init(edit->call, edit->entry, CF_RANK, NOTHING, &it);
    while (sub_iter_next(&it))
        (void)level_add(edit->call, &keys, arena_copy(edit->call->arena, it.sub));
    if (!sub_iter_fini(&it))
        return false;
    for (size_t i = 0; i < keys.count; i++)
        sub_delete(edit->call, edit->entry, CF_RANK, keys.blocks[i].separator);
    edit->height = 0;
    edit->has_path = false;
    trail_forget(edit);
    return true;
}

/* ---- splitting ---- */

/* The tops are too many: two blocks of a new level over them. */
static bool grow(struct rank_edit *edit)
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
        block_put(call, edit->entry, (unsigned)edit->height, &level.blocks[i]);
    return true;
}

/* Finds where the second half of a leaf begins. */
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
            half->separator = separator_between(edit->call, before, it.sub);
    }
    block->count = kept;
    return sub_iter_fini(&it) && (half->separator.len || broken(edit->call));
}

/* The same of a block of blocks of `level`. */
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

/* Cuts the path's blocks that are too big in two, from the leaf up; their rows are put already. */
static bool split(struct rank_edit *edit)
{
    trail_forget(edit);
    edit->has_path = false;
    for (unsigned level = 1; level <= edit->height; level++) {
        struct rank_block *block = &edit->path[level - 1];
        struct rank_block half = {0};
        if (level == 1 ? block->count <= RANK_LEAF_MAX : block->children <= RANK_FAN_MAX) {
            block_put(edit->call, edit->entry, level, block);
            return true;
        }
        if (!(level == 1 ? halve_leaf(edit, block, &half) : halve_block(edit, level, block, &half)))
            return false;
        block_put(edit->call, edit->entry, level, block);
        block_put(edit->call, edit->entry, level, &half);
        if (level < edit->height)
            edit->path[level].children++;
    }
    edit->tops++;
    if (edit->tops > RANK_FAN_MAX && !grow(edit))
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
    edit->is_open = edit->has_path = edit->has_end = false;
}

static void path_put(struct rank_edit *edit)
{
    for (unsigned level = 1; edit->has_path && level <= edit->height; level++)
        block_put(edit->call, edit->entry, level, &edit->path[level - 1]);
    edit->has_path = false;
}

/* Finds the blocks that `sub` belongs to. */
static bool path_find(struct rank_edit *edit, struct bytes sub)
{
    struct call *call = edit->call;
    struct sub_iter it;
    unsigned found = 0;
    sub_iter_init_reverse(call, edit->entry, CF_RANK, block_key(call, 1, sub), &it);
    while (found < edit->height) {
        struct rank_block *block = &edit->path[found];
        if (found)
            sub_iter_seek(&it, block_key(call, found + 1, sub));
        if (!sub_iter_next(&it) || !block_read(&it, found + 1, block))
            break;
        block->separator = arena_copy(call->arena, block->separator);
        found++;
    }
    edit->has_end = false;
    edit->has_path = found == edit->height;
    return sub_iter_fini(&it) && (edit->has_path || broken(call));
}

/* Does `sub` belong to the path's leaf? */
static bool path_has(struct rank_edit *edit, struct bytes sub, bool *has)
{
    struct call *call = edit->call;
    *has = false;
    if (!edit->has_path || bytes_compare(sub, edit->path[0].separator) < 0)
        return true;
    if (!edit->has_end) {
        struct sub_iter it;
        struct rank_block next;
        sub_iter_init(call, edit->entry, CF_RANK, block_key(call, 1, edit->path[0].separator), &it);
        bool is_there = sub_iter_next(&it) && sub_iter_next(&it) && block_read(&it, 1, &next);
        edit->end = is_there ? arena_copy(call->arena, next.separator) : (struct bytes){NULL, 0};
        edit->has_end = true;
        if (!sub_iter_fini(&it))
            return false;
    }
    *has = !edit->end.data || bytes_compare(sub, edit->end) < 0;
    return true;
}

/* Remembers the path; its end is looked for when the same leaf is met again. */
static bool trail_keep(struct rank_edit *edit, struct bytes sub)
{
    struct trail *trail = edge_trail(edit->call, edit->entry);
    struct bytes leaf = edit->path[0].separator;
    bool is_same = trail->height == edit->height && leaf.len == trail->len[0] &&
                   (!leaf.len || memcmp(leaf.data, trail->separator[0], leaf.len) == 0);
    bool has;
    if (is_same && !trail->has_end) {
        if (!path_has(edit, sub, &has))
            return false;
        if (edit->end.data && edit->end.len > TRAIL_BYTES)
            return true;
        trail->has_end = true;
        trail->is_last = !edit->end.data;
        trail->end_len = (uint8_t)edit->end.len;
        if (edit->end.len)
            memcpy(trail->end, edit->end.data, edit->end.len);
        return true;
    }
    trail->height = 0;
    for (unsigned i = 0; i < edit->height; i++)
        if (i == TRAIL_LEVELS || edit->path[i].separator.len > TRAIL_BYTES)
            return true;
    for (unsigned i = 0; i < edit->height; i++) {
        trail->len[i] = (uint8_t)edit->path[i].separator.len;
        if (trail->len[i])
            memcpy(trail->separator[i], edit->path[i].separator.data, trail->len[i]);
    }
    trail->height = (uint32_t)edit->height;
    trail->has_end = false;
    return true;
}

/* Puts the path on remembered blocks, by point reads, when `sub` belongs to them. */
static bool trail_follow(struct rank_edit *edit, struct bytes sub)
{
    struct call *call = edit->call;
    const struct trail *trail = edge_trail(call, edit->entry);
    struct bytes end = {trail->end, trail->end_len};
    if (trail->height != edit->height || !trail->has_end ||
        bytes_compare(sub, (struct bytes){trail->separator[0], trail->len[0]}) < 0 ||
        (!trail->is_last && bytes_compare(sub, end) >= 0))
        return true;
    for (unsigned i = 0; i < edit->height; i++) {
        struct rank_block *block = &edit->path[i];
        struct bytes value;
        block->separator =
            arena_copy(call->arena, (struct bytes){trail->separator[i], trail->len[i]});
        int err =
            sub_get(call, edit->entry, CF_RANK, block_key(call, i + 1, block->separator), &value);
        if (err != OK || !decode_rank_block(value, &block->count, &block->children))
            return err == ERR_STORE ? false : broken(call);
    }
    edit->end = trail->is_last ? (struct bytes){NULL, 0} : arena_copy(call->arena, end);
    edit->has_end = edit->has_path = true;
    return true;
}

/* Puts the path on the blocks of `sub`; no tree: nothing to do. */
static bool path_move(struct rank_edit *edit, struct bytes sub)
{
    bool has;
    if (!path_has(edit, sub, &has))
        return false;
    if (has)
        return true;
    path_put(edit);
    if (!trail_follow(edit, sub))
        return false;
    return edit->has_path || (path_find(edit, sub) && trail_keep(edit, sub));
}

bool rank_edit_add(struct rank_edit *edit, struct bytes sub)
{
    if (edit->entry->meta.size <= RANK_SIZE_MIN)
        return true;
    if (!edit->is_open && !root_read(edit))
        return false;
    if (edit->height == 0)
        return edit->entry->meta.size <= RANK_LEAF_MAX || build(edit);
    if (!path_move(edit, sub))
        return false;
    for (unsigned i = 0; i < edit->height; i++)
        edit->path[i].count++;
    if (edit->path[0].count <= RANK_LEAF_MAX)
        return true;
    path_put(edit);
    return split(edit);
}

/* The leaf of the path is empty: takes out the highest empty block that is not its parent's first, and what is
 * below it. */
static void path_prune(struct rank_edit *edit)
{
    unsigned top = 0;
    trail_forget(edit);
    for (unsigned level = 1; level <= edit->height && edit->path[level - 1].count == 0; level++) {
        struct bytes separator = edit->path[level - 1].separator;
        if (separator.len &&
            (level == edit->height || bytes_compare(separator, edit->path[level].separator) != 0))
            top = level;
    }
    path_put(edit);
    for (unsigned level = 1; level <= top; level++)
        for (unsigned above = level; above <= top; above++) /* and the first, empty children */
            block_delete(edit->call, edit->entry, level, edit->path[above - 1].separator);
    if (top == 0)
        return;
    if (top == edit->height) {
        edit->tops--;
        root_put(edit);
    } else {
        edit->path[top].children--;
        block_put(edit->call, edit->entry, top + 1, &edit->path[top]);
    }
}

bool rank_edit_remove(struct rank_edit *edit, struct bytes sub)
{
    uint64_t size = edit->entry->meta.size;
    if (size < RANK_SIZE_MIN)
        return true; /* dropped before */
    if (!edit->is_open && !root_read(edit))
        return false;
    if (edit->height == 0)
        return true;
    if (size == RANK_SIZE_MIN)
        return drop(edit);
    if (!path_move(edit, sub))
        return false;
    if (edit->path[0].count == 0)
        return broken(edit->call);
    for (unsigned i = 0; i < edit->height; i++)
        edit->path[i].count--;
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

/* ---- asking ---- */

/* From block to block of one level, from *from on, as long as go_on says the wanted row lies behind the block. */
struct descent {
    struct rank_edit tree;
    struct bytes from; /* the block the row is in, of the level last walked */
    uint64_t before;   /* rows before that block */
};

static bool descent_begin(struct descent *descent, struct call *call, struct entry *entry,
                          enum cf cf)
{
    descent->from = NOTHING;
    descent->before = 0;
    rank_edit_begin(&descent->tree, call, entry, cf);
    return entry->meta.size <= RANK_SIZE_MIN || root_read(&descent->tree);
}

/* Walks down. `sub` NULL: to the block with row number `rank`; else to the block that `sub` belongs to. */
static bool descend(struct descent *descent, const struct bytes *sub, uint64_t rank)
{
    struct rank_edit *tree = &descent->tree;
    struct call *call = tree->call;
    struct rank_block block;
    struct sub_iter it;
    if (tree->height == 0)
        return true;
    unsigned level = (unsigned)tree->height;
    sub_iter_init(call, tree->entry, CF_RANK, block_key(call, level, NOTHING), &it);
    for (;;) {
        uint64_t count = 0; /* of the block before the one looked at */
        struct bytes from = descent->from;
        bool is_first = true;
        while (sub_iter_next(&it) && block_read(&it, level, &block)) {
            if (!is_first &&
                (sub ? bytes_compare(block.separator, *sub) > 0 : descent->before + count > rank))
                break;
            descent->before += count;
            count = block.count;
            if (!is_first)
                from = arena_copy(call->arena, block.separator);
            is_first = false;
        }
        descent->from = from;
        if (--level == 0 || is_first)
            break;
        sub_iter_seek(&it, block_key(call, level, descent->from));
    }
    return sub_iter_fini(&it) && (level == 0 || broken(call));
}

bool rank_of(struct call *call, struct entry *entry, enum cf cf, struct bytes sub, uint64_t *rank)
{
    struct descent descent;
    struct sub_iter it;
    if (!descent_begin(&descent, call, entry, cf) || !descend(&descent, &sub, 0))
        return false;
    *rank = descent.before;
    sub_iter_init(call, entry, cf, descent.from, &it);
    while (sub_iter_next(&it) && bytes_compare(it.sub, sub) < 0)
        ++*rank;
    return sub_iter_fini(&it);
}

bool rank_seek(struct call *call, struct entry *entry, enum cf cf, uint64_t rank,
               struct bytes *from, uint64_t *skip)
{
    struct descent descent;
    CHECK(rank < entry->meta.size);
    if (!descent_begin(&descent, call, entry, cf) || !descend(&descent, NULL, rank))
        return false;
    *from = descent.from;
    *skip = rank - descent.before;
    return true;
}
