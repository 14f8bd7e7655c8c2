#include "backend/keyspace/borrow.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/foretold.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/storage/retry.h"
#include "backend/storage/view.h"
#include "shared/namespace.h"
#include "shared/table.h"

#include <stdlib.h>

/* A key that was fetched, or is needed. */
struct borrowed {
    enum lock_mode mode; /* 0: it is not here yet */
    unsigned whole;      /* bit 1 << cf: all rows of the column family are here */
    unsigned watch;      /* bit 1 << NEED_WATCH or NEED_CHECK: it was met */
    unsigned rows;       /* single rows that were needed */
    bool may_write;      /* declared by a script, which may write it */
    bool is_used;        /* a command has opened it */
    uint32_t guess;      /* it was guessed by this pattern (script_keys.h); 0: it was not */
};

enum {
    ROWS_MAX =
        16, /* single rows of a collection, each for an attempt of its own; then it is borrowed whole … */
    ROW_BYTES =
        128, /* … if its elements, estimated to have so many bytes, are within borrow-limit */
};

enum {
    KEY_BYTES = sizeof(struct borrowed) + TABLE_ENTRY_BYTES + 32, /* of a key, besides its name */
    /* of a row in the write buffer, besides key and value: the row, its place in the index, and how to undo it */
    ROW_MEMORY = 192,
    FORETOLD_BYTES = 1024, /* of a key that is foretold, with its need and a small row */
};

struct borrow *borrow_new(struct lock_owner *owner, struct call_budget *budget, size_t memory_max)
{
    struct borrow *borrow = calloc(1, sizeof *borrow);
    CHECK(borrow);
    borrow->owner = owner;
    list_init(&borrow->wants);
    borrow->tally = (struct tally){.max = memory_max, .budget = budget};
    borrow->needs.tally = owner->tally = &borrow->tally;
    return borrow;
}

void borrow_hold(struct borrow *borrow, size_t bytes)
{
    borrow->held += bytes;
    tally_add(&borrow->tally, bytes);
}

size_t borrow_memory(size_t rows, size_t bytes)
{
    return rows * ROW_MEMORY + bytes;
}

/* The memory of what is foretold has changed. */
static void count_foretold(struct borrow *borrow)
{
    size_t bytes = borrow->foretold ? foretold_memory(borrow->foretold) : 0;
    tally_remove(&borrow->tally, borrow->foretold_held);
    tally_add(&borrow->tally, bytes);
    borrow->foretold_held = bytes;
}

void borrow_begin(struct borrow *borrow)
{
    if (borrow->foretold)
        foretold_begin(borrow->foretold);
    borrow_begin_all(borrow);
    count_foretold(borrow);
}

void borrow_clear(struct borrow *borrow)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (borrow->keys && table_next(borrow->keys, &cursor, &key, &value))
        free(value);
    table_free(borrow->keys);
    borrow->keys = NULL;
    need_set_clear(&borrow->needs);
    borrow_begin(borrow); /* what is foretold is in the pages of names */
    borrow_clear_all(borrow);
    if (borrow->view)
        view_clear(borrow->view);
    borrow->bytes = borrow->row_bytes = 0;
    tally_remove(&borrow->tally, borrow->held);
    borrow->held = 0;
    borrow->is_dirty = borrow->has_declared = borrow->has_guessed = false;
    borrow->ahead = (struct slice_ahead){0};
}

void borrow_free(struct borrow *borrow)
{
    if (!borrow)
        return;
    borrow_clear(borrow);
    view_free(borrow->view);
    foretold_free(borrow->foretold);
    borrow->owner->tally = NULL;
    free(borrow);
}

static struct foretold *foretold_of(struct borrow *borrow)
{
    if (!borrow->foretold)
        borrow->foretold = foretold_new();
    return borrow->foretold;
}

void borrow_note_reply(struct borrow *borrow, struct bytes frame)
{
    foretold_add_reply(foretold_of(borrow), frame);
    count_foretold(borrow);
}

void borrow_note_words(struct borrow *borrow, const struct bytes *words, uint32_t count)
{
    foretold_add_words(foretold_of(borrow), words, count);
    count_foretold(borrow);
}

void borrow_close(struct borrow *borrow)
{
    borrow->is_closed = true;
}

/* ---- needs ---- */

void borrow_wait(struct call *call)
{
    if (list_empty(&call->borrow->wants))
        retry_wait(call_wait(call), &call->borrow->wants);
}

void borrow_need(struct call *call, const struct need *wanted)
{
    borrow_wait(call);
    need_set_add(&call->borrow->needs, wanted);
}

static struct borrowed *find_borrowed(const struct borrow *borrow, struct bytes row_key)
{
    return borrow->keys ? table_get(borrow->keys, row_key) : NULL;
}

static struct borrowed *borrowed_of(struct borrow *borrow, struct bytes row_key)
{
    struct borrowed *borrowed = find_borrowed(borrow, row_key);
    if (borrowed)
        return borrowed;
    if (!borrow->keys)
        borrow->keys = table_new();
    borrowed = calloc(1, sizeof *borrowed);
    CHECK(borrowed);
    (void)table_put(borrow->keys, row_key, borrowed);
    borrow_hold(borrow, KEY_BYTES + row_key.len);
    return borrowed;
}

/* A need of the entry's key. */
static struct need need_of(const struct entry *entry, enum need_kind kind)
{
    return (struct need){
        .kind = kind, .space = entry->space, .slot = entry->slot, .row_key = entry->row_key};
}

/* A script writes one of the keys that it declares, and so far all of them are locked for reading: locks all for writing,
 * because the script probably writes the others too, and would run again for each. */
static void need_declared(struct call *call)
{
    size_t cursor = 0;
    struct need need = {.kind = NEED_MODE, .mode = LOCK_WRITE};
    void *value;
    call->borrow->has_declared = true;
    while (table_next(call->borrow->keys, &cursor, &need.row_key, &value)) {
        const struct borrowed *borrowed = value;
        struct bytes space;
        struct bytes key;
        if (!borrowed->may_write || borrowed->mode != LOCK_READ)
            continue;
        CHECK(decode_metadata_key(need.row_key, &space, &need.slot, &key));
        need.space = space_find(call->partition->spaces, space);
        borrow_need(call, &need);
    }
}

/* foretold_fn's owner: the key that is needed, of whose kind others are foretold */
struct foretelling {
    struct call *call;
    const struct entry *entry;
    enum lock_mode mode;
};

/* foretold_fn */
static bool need_foretold(void *owner, struct bytes key)
{
    const struct foretelling *like = owner;
    struct call *call = like->call;
    uint16_t slot = slot_rule_slot(call->slot_rule, key);
    if (!call->slots || slot_set_has(call->slots, slot))
        return false;
    struct bytes row_key = encode_metadata_key(call->arena, like->entry->space->name, slot, key);
    const struct borrowed *borrowed = find_borrowed(call->borrow, row_key);
    if (borrowed && borrowed->mode >= like->mode)
        return false;
    borrow_need(call, &(struct need){.kind = borrowed && borrowed->mode ? NEED_MODE : NEED_KEY,
                                     .mode = like->mode,
                                     .space = like->entry->space,
                                     .slot = slot,
                                     .row_key = row_key});
    return true;
}

/* So many keys, as big as those that are borrowed, fit in half of what borrow-limit and command-memory leave. The names of keys, of
 * which a script may have got more than it borrows, say nothing about how big a key is. */
static uint32_t room_for_keys(const struct call *call)
{
    const struct borrow *borrow = call->borrow;
    size_t limit = call->partition->snapshot->config.borrow_limit_bytes;
    size_t left = borrow->bytes < limit ? limit - borrow->bytes : 0;
    size_t each = borrow->row_bytes / table_count(borrow->keys) + 1;
    size_t room = left / 2 / each;
    size_t in_memory = tally_room(&borrow->tally) / FORETOLD_BYTES;
    room = in_memory < room ? in_memory : room;
    return room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
}

/* A script needs a key that it does not declare: needs those that it will probably use next too, as far as there is room. */
static void need_next_keys(struct call *call, const struct entry *entry, enum lock_mode mode)
{
    struct borrow *borrow = call->borrow;
    struct foretelling like = {.call = call, .entry = entry, .mode = mode};
    if (!borrow->foretold)
        return;
    borrow_foretell_scanned(borrow, borrow->foretold);
    foretold_next(borrow->foretold, entry->key, room_for_keys(call), need_foretold, &like);
    count_foretold(borrow);
}

/* A script had to wait for the key: in its next run it is guessed. */
static void learn_key(struct call *call, const struct entry *entry, enum lock_mode mode)
{
    const struct call *script = call->borrow->script;
    if (!script)
        return;
    struct script_words words = borrow_script_words(script->space, script->argv, script->argc);
    script_keys_learn(call->borrow->script_keys, &words, entry->key, mode == LOCK_WRITE);
}

int borrow_key(struct call *call, const struct entry *entry, bool writes)
{
    struct need need = need_of(entry, NEED_KEY);
    need.mode = writes ? LOCK_WRITE : LOCK_READ;
    if (call->borrow->is_closed) {
        call_errorf(call,
                    "ERR the key '%.*s' is on another shard, and what ran before it cannot be "
                    "rolled back: declare the keys that the script uses",
                    (int)(entry->key.len < 128 ? entry->key.len : 128), entry->key.data);
        return ERR_STORE;
    }
    struct borrowed *borrowed = borrowed_of(call->borrow, entry->row_key);
    borrowed->is_used = true;
    if (borrowed->mode >= need.mode)
        return OK;
    if (borrowed->mode)
        need.kind = NEED_MODE;
    borrow_need(call, &need);
    if (borrowed->may_write && borrowed->mode) {
        need_declared(call);
    } else {
        learn_key(call, entry, need.mode);
        need_next_keys(call, entry, need.mode);
    }
    return ERR_RETRY;
}

void borrow_change(struct call *call, const struct entry *entry)
{
    struct need need = need_of(entry, NEED_MODE);
    const struct borrowed *borrowed = find_borrowed(call->borrow, entry->row_key);
    need.mode = LOCK_WRITE;
    if (borrowed->mode == LOCK_WRITE)
        return;
    borrow_need(call, &need);
    if (!borrowed->may_write)
        learn_key(call, entry, LOCK_WRITE);
}

void borrow_ahead(struct call *call, const struct entry *entry, const struct borrow_use *use)
{
    struct need need = need_of(entry, use->is_bare ? NEED_BARE : NEED_KEY);
    need.mode = use->writes ? LOCK_WRITE : LOCK_READ;
    borrowed_of(call->borrow, entry->row_key)->may_write |= use->may_write;
    borrow_need(call, &need);
}

void borrow_guess(struct call *call, const struct entry *entry, bool writes, uint32_t pattern)
{
    struct need need = need_of(entry, NEED_KEY);
    need.mode = writes ? LOCK_WRITE : LOCK_READ;
    if (find_borrowed(call->borrow, entry->row_key))
        return; /* the command names it */
    borrowed_of(call->borrow, entry->row_key)->guess = pattern;
    call->borrow->has_guessed = true;
    borrow_need(call, &need);
}

struct script_words borrow_script_words(const struct space *space, const struct bytes *argv,
                                        uint32_t argc)
{
    return (struct script_words){.space = space->name,
                                 .script = argv[1],
                                 .words = argv + 3,
                                 .count = argc > 3 ? argc - 3 : 0};
}

void borrow_judge_guesses(const struct borrow *borrow)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (borrow->has_guessed && table_next(borrow->keys, &cursor, &key, &value)) {
        const struct borrowed *borrowed = value;
        if (borrowed->guess)
            script_keys_judge(borrow->script_keys, borrowed->guess, borrowed->is_used);
    }
}

/* Was the key guessed, and has not come? */
static bool is_missing_guess(const struct borrowed *borrowed)
{
    return borrowed->guess && !borrowed->is_used && !borrowed->mode;
}

bool borrow_misses_guesses(const struct borrow *borrow)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (borrow->has_guessed && table_next(borrow->keys, &cursor, &key, &value))
        if (is_missing_guess(value))
            return true;
    return false;
}

void borrow_blame_guesses(const struct borrow *borrow)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (borrow->has_guessed && table_next(borrow->keys, &cursor, &key, &value)) {
        const struct borrowed *borrowed = value;
        bool is_too_much = borrowed->guess && !borrowed->is_used && borrow->tally.is_over;
        if (is_too_much || is_missing_guess(borrowed))
            script_keys_judge(borrow->script_keys, borrowed->guess, false);
    }
}

void borrow_member(struct call *call, const struct entry *entry, struct bytes member)
{
    struct need need = need_of(entry, NEED_MEMBER);
    need.row = member;
    borrow_need(call, &need);
}

/* A collection that the command itself has created has no rows elsewhere. */
static bool is_whole(const struct call *call, const struct entry *entry, enum cf cf)
{
    const struct borrowed *borrowed = find_borrowed(call->borrow, entry->row_key);
    return entry->fresh || (borrowed && borrowed->whole & 1u << cf);
}

/* Is it better to borrow the rest of the collection? SINTER, for example, reads a row for each member of another set. */
static bool wants_all(const struct call *call, const struct entry *entry)
{
    struct borrowed *borrowed = find_borrowed(call->borrow, entry->row_key);
    uint64_t limit = call->partition->snapshot->config.borrow_limit_bytes;
    return borrowed && ++borrowed->rows > ROWS_MAX && entry->meta.size < limit / ROW_BYTES;
}

int borrow_get(struct call *call, const struct entry *entry, enum cf cf, struct bytes row,
               struct slice *value)
{
    struct need need = need_of(entry, NEED_ROW);
    int err = overlay_get_borrowed(call->partition->overlay, cf, row, value);
    if (err != ERR_RETRY)
        return err;
    if (is_whole(call, entry, cf))
        return ERR_NOT_FOUND;
    need.cf = cf;
    need.row = row;
    if (wants_all(call, entry)) {
        need.kind = NEED_RANGE;
        need.row = encode_collection_prefix(call->arena, entry->space->name, entry->slot,
                                            entry->key, entry->meta.version);
    }
    borrow_need(call, &need);
    return ERR_RETRY;
}

bool borrow_has_all(struct call *call, const struct entry *entry, enum cf cf, struct bytes prefix)
{
    struct need need = need_of(entry, NEED_RANGE);
    if (is_whole(call, entry, cf))
        return true;
    need.cf = cf;
    need.row = prefix;
    borrow_need(call, &need);
    return false;
}

int borrow_watch(struct call *call, enum need_kind kind, struct space *space, uint16_t slot,
                 struct bytes row_key, struct bytes watcher)
{
    if (borrowed_of(call->borrow, row_key)->watch & 1u << kind)
        return OK;
    borrow_need(
        call, &(struct need){
                  .kind = kind, .space = space, .slot = slot, .row_key = row_key, .row = watcher});
    return ERR_RETRY;
}

/* ---- arrivals ---- */

/* Is it a row of the key that is needed? */
static bool is_row_of(const struct need *need, const struct effect *effect)
{
    struct bytes space, other_space, key, other_key, sub;
    uint16_t slot, other_slot;
    uint64_t version;
    if (need_is_question(need->kind))
        return false;
    if (effect->cf == CF_METADATA)
        return bytes_equal(effect->key, need->row_key);
    return cf_has_collections(effect->cf) &&
           decode_metadata_key(need->row_key, &space, &slot, &key) &&
           decode_collection_key(effect->key, &other_space, &other_slot, &other_key, &version,
                                 &sub) &&
           slot == other_slot && bytes_equal(space, other_space) && bytes_equal(key, other_key);
}

bool borrow_rows_are_valid(const struct need *needs, struct bytes rows)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    struct metadata meta;
    enum effects_read result = effects_open(rows, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ) {
        bool is_put = effect.kind == EFFECT_PUT;
        if (!is_put && effect.kind != EFFECT_DELETE)
            return false;
        if (is_put && effect.cf == CF_METADATA && !decode_metadata(effect.value, &meta))
            return false;
        while (needs && !is_row_of(needs, &effect))
            needs = needs->next;
        if (!needs)
            return false;
    }
    return result == EFFECTS_END;
}

struct view *borrow_view(struct borrow *borrow)
{
    if (!borrow->view)
        borrow->view = view_new();
    return borrow->view;
}

void borrow_add_rows(struct borrow *borrow, struct bytes effects)
{
    struct view *view = borrow_view(borrow);
    struct effects_header header = {.count = 0};
    struct effects_reader reader;
    struct effect effect;
    CHECK(effects_open(effects, &header, &reader) == EFFECTS_READ); /* borrow_rows_are_valid */
    borrow_hold(borrow, borrow_memory(header.count, effects.len));
    borrow->bytes += effects.len;
    borrow->row_bytes += effects.len;
    while (effects_next(&reader, &effect) == EFFECTS_READ)
        view_lend(view, effect.cf, effect.key, effect.kind == EFFECT_PUT ? &effect.value : NULL);
}

void borrow_add_key(struct borrow *borrow, struct bytes row_key, enum lock_mode mode,
                    unsigned whole)
{
    struct borrowed *borrowed = borrowed_of(borrow, row_key);
    if (mode > borrowed->mode)
        borrowed->mode = mode;
    borrowed->whole |= whole;
}

void borrow_add_watch(struct borrow *borrow, struct bytes row_key, enum need_kind kind)
{
    borrowed_of(borrow, row_key)->watch |= 1u << kind;
}

void borrow_add_range(struct borrow *borrow, struct bytes row_key, enum cf cf)
{
    borrowed_of(borrow, row_key)->whole |= 1u << cf;
}

bool borrow_has_key(const struct borrow *borrow, struct bytes row_key)
{
    const struct borrowed *borrowed = find_borrowed(borrow, row_key);
    return borrowed && borrowed->mode;
}
