#include "backend/keyspace/borrow_all.h"

#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/keyspace/foretold.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/storage/view.h"
#include "shared/byte_order.h"
#include "shared/out.h"
#include "shared/table.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOTS_BYTES = SLOT_COUNT / 8,
    ANSWER_BYTES = 1024 * 1024, /* names in an answer; the last name may exceed this */
    PAGE_GROWTH = 3,            /* a page has so many times as many names as all before it */
    PLACES_AHEAD_MAX =
        1023, /* places that are fetched at once, because a script may use them next */
};

/* A shard has fewer keys, and so the sum of all shards is no overflow. */
#define KEYS_MAX ((uint64_t)1 << 48)

static const struct bytes NOTHING = {"", 0};

/* Names of a shard's keys: all metadata rows with from <= row < to; an empty `to`: to the end. */
struct name_page {
    struct name_page *next;
    struct bytes from, to; /* follow the struct, as do … */
    struct bytes rows;     /* … effects that put these rows */
};

/* The metadata row of the key that a shard has answered to PLACE. */
struct named_place {
    uint32_t len; /* 0: there is none */
    char row_key[];
};

/* Another shard that has keys of the database. */
struct borrowed_shard {
    struct borrowed_shard *next;
    uint16_t slot; /* one of its slots */
    uint64_t keys;
    uint32_t names;          /* number of names that it has sent */
    struct name_page *pages; /* oldest first */
    struct name_page **pages_end;
    char slots[SLOTS_BYTES]; /* that it owns; a bit for each */
};

/* A database of which all keys are borrowed. */
struct borrowed_space {
    struct borrowed_space *next;
    struct space *space;
    enum lock_mode mode;  /* 0: it is not locked at all shards */
    enum lock_mode asked; /* the mode of … */
    uint32_t missing;     /* … answers that have not come */
    struct borrowed_shard *shards;
    struct table *places; /* 8 bytes of place → struct named_place; NULL: none */
    struct {
        uint32_t used;      /* in this attempt, and … */
        uint32_t used_then; /* … when the last place was missing; so many further ones … */
        uint32_t ahead;     /* … were drawn then, and … */
        uint32_t asked;     /* … so many of these were fetched */
    } draws;                /* of RANDOMKEY */
    bool is_scanned;        /* names were fetched page by page … */
    bool is_foretold;       /* … and all of them are foretold in this attempt */
    bool is_counted;        /* in this attempt: the keys at other shards (borrow_count_elsewhere) */
};

static struct borrowed_space *find_space(const struct borrow *borrow, const struct space *space)
{
    struct borrowed_space *all = borrow ? borrow->spaces : NULL;
    while (all && all->space != space)
        all = all->next;
    return all;
}

static struct borrowed_space *open_space(struct borrow *borrow, struct space *space)
{
    struct borrowed_space *all = find_space(borrow, space);
    if (all)
        return all;
    all = calloc(1, sizeof *all);
    CHECK(all);
    all->space = space;
    all->next = borrow->spaces;
    borrow->spaces = all;
    return all;
}

static struct borrowed_shard *shard_with_slot(const struct borrowed_space *all, uint16_t slot)
{
    struct borrowed_shard *shard = all->shards;
    while (shard && shard->slot != slot)
        shard = shard->next;
    return shard;
}

static void free_pages(struct borrowed_shard *shard)
{
    while (shard->pages) {
        struct name_page *next = shard->pages->next;
        free(shard->pages);
        shard->pages = next;
    }
}

static void free_shards(struct borrowed_space *all)
{
    while (all->shards) {
        struct borrowed_shard *next = all->shards->next;
        free_pages(all->shards);
        free(all->shards);
        all->shards = next;
    }
    table_free_values(all->places);
    all->places = NULL;
}

void borrow_clear_all(struct borrow *borrow)
{
    while (borrow->spaces) {
        struct borrowed_space *next = borrow->spaces->next;
        free_shards(borrow->spaces);
        free(borrow->spaces);
        borrow->spaces = next;
    }
}

/* ---- locking ---- */

/* The name of the shard that owns the slot; NULL: this partition owns it; empty: the owner is not known. */
static const char *foreign_owner(const struct call *call, uint16_t slot)
{
    if (slot_set_has(call->slots, slot))
        return NULL;
    const char *owner = call->partition->shards.slot_owner(call->partition, slot);
    return owner ? owner : "";
}

static bool is_same_owner(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

void borrow_each_run(const struct call *call,
                     void (*on_run)(void *owner, uint16_t first, uint16_t last), void *owner)
{
    unsigned first = 0;
    const char *shard = foreign_owner(call, 0);
    for (unsigned slot = 1; slot <= SLOT_COUNT; slot++) {
        const char *other = slot < SLOT_COUNT ? foreign_owner(call, (uint16_t)slot) : NULL;
        if (slot < SLOT_COUNT && is_same_owner(shard, other))
            continue;
        on_run(owner, (uint16_t)first, (uint16_t)(slot - 1));
        first = slot;
        shard = other;
    }
}

/* The slots of another shard, for the question ALL. */
struct expected {
    struct expected *next;
    const char *shard;
    uint16_t slot; /* the first one */
    char slots[SLOTS_BYTES];
};

/* borrow_each_run's owner */
struct expecting {
    struct call *call;
    struct expected *first;
};

static struct expected *expected_of(struct expecting *expecting, const char *shard, uint16_t slot)
{
    struct expected *expected = expecting->first;
    while (expected && strcmp(expected->shard, shard) != 0)
        expected = expected->next;
    if (expected)
        return expected;
    expected = arena_alloc(expecting->call->arena, sizeof *expected);
    *expected = (struct expected){.next = expecting->first, .shard = shard, .slot = slot};
    expecting->first = expected;
    return expected;
}

static void expect_run(void *owner, uint16_t first, uint16_t last)
{
    struct expecting *expecting = owner;
    const char *shard = foreign_owner(expecting->call, first);
    if (!shard)
        return;
    struct expected *expected = expected_of(expecting, shard, first);
    for (unsigned slot = first; slot <= last; slot++)
        expected->slots[slot / 8] = (char)(expected->slots[slot / 8] | 1 << slot % 8);
}

static struct need need_about(const struct call *call, const struct borrowed_space *all,
                              enum need_kind kind, uint16_t slot)
{
    return (struct need){.kind = kind,
                         .mode = LOCK_READ,
                         .space = all->space,
                         .slot = slot,
                         .row_key = encode_space_prefix(call->arena, all->space->name)};
}

/* If the database is locked for reading, the shard keeps its slots and keys, and its names and the keys at its places are used. */
static void expect_shard(struct borrowed_space *all, const struct expected *expected)
{
    if (shard_with_slot(all, expected->slot))
        return;
    struct borrowed_shard *shard = calloc(1, sizeof *shard);
    CHECK(shard);
    shard->slot = expected->slot;
    memcpy(shard->slots, expected->slots, SLOTS_BYTES);
    shard->pages_end = &shard->pages;
    shard->next = all->shards;
    all->shards = shard;
}

static void ask_owners_for_all(struct call *call, struct borrowed_space *all, enum lock_mode mode)
{
    struct expecting expecting = {.call = call};
    borrow_each_run(call, expect_run, &expecting);
    if (!all->mode)
        free_shards(all);
    all->asked = mode;
    all->missing = 0;
    for (const struct expected *expected = expecting.first; expected; expected = expected->next) {
        expect_shard(all, expected);
        all->missing++;
        struct need need = need_about(call, all, NEED_ALL, expected->slot);
        need.mode = mode;
        need.row = (struct bytes){expected->slots, SLOTS_BYTES};
        borrow_need(call, &need);
    }
    if (!all->missing)
        all->mode = mode;
}

bool borrow_all(struct call *call, struct space *space, enum lock_mode mode)
{
    struct borrow *borrow = call->borrow;
    struct lock_set *locks = call->partition->shards.locks;
    struct bytes prefix = encode_space_prefix(call->arena, space->name);
    if (borrow->is_closed) {
        call_error_text(call,
                        "ERR the command concerns the keys of all shards, and what ran before "
                        "it cannot be rolled back");
        return false;
    }
    /* a slot that is being handed over stays here once its keys are locked */
    if (!lock_is_held(locks, borrow->owner, prefix) && !slots_pass(call))
        return false;
    bool is_own = lock_take(locks, borrow->owner, prefix, mode);
    struct borrowed_space *all = open_space(borrow, space);
    bool is_asked = all->missing && all->asked >= mode; /* by a command before it */
    if (all->mode < mode && !is_asked)
        ask_owners_for_all(call, all, mode);
    bool has_view = overlay_view(call->partition->overlay) != NULL;
    if (is_own && all->mode >= mode && has_view)
        return true;
    borrow_wait(
        call); /* if no other shard has slots, for the next turn: then the attempt has a view */
    call_error(call, ERR_RETRY);
    return false;
}

bool borrow_has_all_keys(const struct call *call, const struct space *space)
{
    const struct borrowed_space *all = find_space(call->borrow, space);
    return all && all->mode;
}

uint64_t borrow_keys_elsewhere(const struct call *call, const struct space *space)
{
    uint64_t keys = 0;
    const struct borrowed_space *all = find_space(call->borrow, space);
    for (const struct borrowed_shard *shard = all->shards; shard; shard = shard->next)
        keys += shard->keys;
    return keys;
}

/* ---- names ---- */

/* From `row` up to the returned row, the shard's names have been fetched; empty: up to the end. */
static struct bytes names_end(const struct borrowed_shard *shard, struct bytes row)
{
    const struct name_page *page = shard->pages;
    while (page && row.len) {
        bool has_row = bytes_compare(page->from, row) <= 0 &&
                       (!page->to.len || bytes_compare(row, page->to) < 0);
        row = has_row ? page->to : row;
        page = has_row ? shard->pages : page->next;
    }
    return row;
}

struct bytes borrow_names_end(const struct call *call, const struct space *space, struct bytes row)
{
    const struct borrowed_space *all = find_space(call->borrow, space);
    struct bytes first = NOTHING;
    for (const struct borrowed_shard *shard = all->shards; shard; shard = shard->next) {
        struct bytes end = names_end(shard, row);
        if (end.len && (!first.len || bytes_compare(end, first) < 0))
            first = end;
    }
    return first;
}

/* A script that goes through many keys runs again for each page of names: so the pages grow. */
static uint32_t page_names(const struct borrowed_space *all, uint32_t count)
{
    uint32_t fetched = 0;
    for (const struct borrowed_shard *shard = all->shards; shard; shard = shard->next)
        fetched += shard->names;
    fetched = fetched < ALL_NAMES / PAGE_GROWTH ? PAGE_GROWTH * fetched : ALL_NAMES - 1;
    return count > fetched ? count : fetched;
}

void borrow_names(struct call *call, const struct space *space, struct bytes row, uint32_t count)
{
    const struct borrowed_space *all = find_space(call->borrow, space);
    struct bytes first = borrow_names_end(call, space, row);
    for (const struct borrowed_shard *shard = all->shards; shard; shard = shard->next) {
        struct bytes end = names_end(shard, row);
        if (!end.len || !bytes_equal(end, first))
            continue;
        struct need need = need_about(call, all, NEED_NAMES, shard->slot);
        char *question = arena_alloc(call->arena, 4 + end.len);
        put_le32(question, page_names(all, count));
        memcpy(question + 4, end.data, end.len);
        need.row = (struct bytes){question, 4 + end.len};
        borrow_need(call, &need);
    }
    call_error(call, ERR_RETRY);
}

static const struct named_place *find_named(const struct borrowed_space *all, uint64_t place)
{
    char question[8];
    put_le64(question, place);
    return all->places ? table_get(all->places, (struct bytes){question, sizeof question}) : NULL;
}

static void need_place(struct call *call, const struct borrowed_space *all, uint64_t place)
{
    uint64_t local = place;
    char question[16];
    const struct borrowed_shard *shard = all->shards;
    for (; local >= shard->keys; shard = shard->next)
        local -= shard->keys;
    struct need need = need_about(call, all, NEED_PLACE, shard->slot);
    put_le64(question, place);
    put_le64(question + 8, local);
    need.row = (struct bytes){question, sizeof question};
    borrow_need(call, &need);
}

bool borrow_key_at(struct call *call, const struct space *space, uint64_t place,
                   struct bytes *row_key)
{
    struct borrowed_space *all = find_space(call->borrow, space);
    const struct named_place *named = find_named(all, place);
    if (named) {
        all->draws.used++;
        *row_key = (struct bytes){named->row_key, named->len};
        return true;
    }
    need_place(call, all, place);
    call_error(call, ERR_RETRY);
    return false;
}

uint32_t borrow_draws_ahead(const struct call *call, const struct space *space)
{
    struct borrowed_space *all = find_space(call->borrow, space);
    bool were_used = all->draws.used > all->draws.used_then + all->draws.asked / 2;
    uint32_t more = 2 * all->draws.ahead + 1;
    all->draws.ahead = !were_used ? 0 : more < PLACES_AHEAD_MAX ? more : PLACES_AHEAD_MAX;
    all->draws.used_then = all->draws.used;
    all->draws.asked = 0;
    return all->draws.ahead;
}

void borrow_key_ahead(struct call *call, const struct space *space, uint64_t place)
{
    struct borrowed_space *all = find_space(call->borrow, space);
    if (place >= borrow_keys_elsewhere(call, space) || find_named(all, place))
        return;
    all->draws.asked++;
    need_place(call, all, place);
}

/* ---- answers: a shard can send rows of its own slots only, or the command would see false rows of other shards ---- */

static bool has_slot(const char *slots, unsigned slot)
{
    return slot < SLOT_COUNT && slots[slot / 8] >> slot % 8 & 1;
}

/* Is it the metadata row of a key in this database, in a slot of the shard? */
static bool is_name_of(const struct borrowed_shard *shard, const struct need *need,
                       struct bytes row_key)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    return decode_metadata_key(row_key, &space, &slot, &key) &&
           bytes_equal(space, need->space->name) && has_slot(shard->slots, slot);
}

static bool take_count(struct borrowed_space *all, struct borrowed_shard *shard,
                       struct bytes answer)
{
    if (answer.len != 8 || !all->missing || get_le64(answer.data) > KEYS_MAX)
        return false;
    shard->keys = get_le64(answer.data);
    if (--all->missing == 0)
        all->mode = all->asked;
    return true;
}

static bool add_place(struct borrow *borrow, struct borrowed_space *all,
                      const struct borrowed_shard *shard, const struct need *need,
                      struct bytes answer)
{
    if (answer.len && !is_name_of(shard, need, answer))
        return false;
    struct named_place *named = malloc(sizeof *named + answer.len);
    CHECK(named);
    named->len = (uint32_t)answer.len;
    if (answer.len)
        memcpy(named->row_key, answer.data, answer.len);
    if (!all->places)
        all->places = table_new();
    free(table_put(all->places, (struct bytes){need->row.data, sizeof(uint64_t)}, named));
    borrow_hold(borrow, sizeof *named + answer.len + TABLE_ENTRY_BYTES);
    return true;
}

/* Are these `count` metadata rows of the shard, ascending from `from` on, and below `to` unless this is empty? */
static bool are_names(const struct borrowed_shard *shard, const struct need *need,
                      const struct name_page *page, uint32_t count)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    struct metadata meta;
    struct bytes last = page->from;
    enum effects_read result = effects_open(page->rows, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ) {
        bool is_ascending = count == header.count && bytes_compare(last, effect.key) <= 0;
        if (!is_ascending || effect.kind != EFFECT_PUT || effect.cf != CF_METADATA ||
            !is_name_of(shard, need, effect.key) || !decode_metadata(effect.value, &meta))
            return false;
        last = effect.key;
    }
    return result == EFFECTS_END && (!page->to.len || (is_name_of(shard, need, page->to) &&
                                                       bytes_compare(last, page->to) < 0));
}

/* The rows of keys that were fetched with all their rows are in the view already. */
static void lend_names(struct borrow *borrow, struct bytes rows)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    CHECK(effects_open(rows, &header, &reader) == EFFECTS_READ); /* are_names */
    while (effects_next(&reader, &effect) == EFFECTS_READ)
        if (!borrow_has_key(borrow, effect.key))
            view_lend(borrow_view(borrow), CF_METADATA, effect.key, &effect.value);
}

/* Answer to NAMES: u32 number of names, u32 length of the row that follows them, this row, effects. */
static bool add_names(struct borrow *borrow, struct borrowed_space *all,
                      struct borrowed_shard *shard, const struct need *need, struct bytes answer,
                      struct bytes *next)
{
    if (answer.len < 8 || answer.len - 8 < get_le32(answer.data + 4))
        return false;
    struct bytes to = {answer.data + 8, get_le32(answer.data + 4)};
    struct bytes rows = {to.data + to.len, answer.len - 8 - to.len};
    struct bytes from = {need->row.data + 4, need->row.len - 4};
    struct name_page *page = malloc(sizeof *page + from.len + to.len + rows.len);
    CHECK(page);
    char *text = (char *)(page + 1);
    page->from = bytes_copy_to(&text, from);
    page->to = bytes_copy_to(&text, to);
    page->rows = bytes_copy_to(&text, rows);
    page->next = NULL;
    *shard->pages_end = page;
    shard->pages_end = &page->next;
    shard->names += get_le32(answer.data);
    borrow_hold(borrow, sizeof *page + from.len + to.len + rows.len +
                            borrow_memory(get_le32(answer.data), rows.len));
    if (get_le32(need->row.data) == ALL_NAMES)
        *next = page->to;
    else
        all->is_scanned = true;
    all->is_foretold = false;
    bool is_good = are_names(shard, need, page, get_le32(answer.data));
    if (is_good)
        lend_names(borrow, page->rows);
    return is_good;
}

bool borrow_add_answer(struct borrow *borrow, const struct need *need, struct bytes answer,
                       struct bytes *next)
{
    struct borrowed_space *all = find_space(borrow, need->space);
    struct borrowed_shard *shard = all ? shard_with_slot(all, need->slot) : NULL;
    *next = NOTHING;
    if (!shard)
        return false;
    borrow->bytes += answer.len;
    if (need->kind == NEED_ALL)
        return take_count(all, shard, answer);
    return need->kind == NEED_PLACE ? add_place(borrow, all, shard, need, answer)
                                    : add_names(borrow, all, shard, need, answer, next);
}

void borrow_begin_all(const struct borrow *borrow)
{
    for (struct borrowed_space *all = borrow->spaces; all; all = all->next) {
        all->draws.used = 0;
        all->is_counted = all->is_foretold = false;
    }
}

void borrow_count_elsewhere(const struct borrow *borrow, struct partition *partition)
{
    for (struct borrowed_space *all = borrow->spaces; all; all = all->next) {
        const struct borrowed_shard *shard = all->mode && !all->is_counted ? all->shards : NULL;
        for (; shard; shard = shard->next)
            space_count_elsewhere(partition->spaces, all->space, (int64_t)shard->keys);
        all->is_counted = all->mode != 0;
    }
}

/* ---- foretelling ---- */

static void foretell_page(struct foretold *foretold, struct bytes rows)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result = effects_open(rows, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ) {
        struct bytes space;
        struct bytes key;
        uint16_t slot;
        if (decode_metadata_key(effect.key, &space, &slot, &key))
            foretold_add_item(foretold, key);
    }
}

void borrow_foretell_scanned(const struct borrow *borrow, struct foretold *foretold)
{
    for (struct borrowed_space *all = borrow->spaces; all; all = all->next) {
        const struct borrowed_shard *shard =
            all->is_scanned && !all->is_foretold ? all->shards : NULL;
        for (; shard; shard = shard->next)
            for (const struct name_page *page = shard->pages; page; page = page->next)
                foretell_page(foretold, page->rows);
        all->is_foretold = true;
    }
}

/* ---- at the other shard ---- */

/* Does the partition own exactly these slots? */
static bool owns_exactly(const struct partition *partition, const char *slots)
{
    const struct slot_set *here = slots_served(partition);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (slot_set_has(here, (uint16_t)slot) != has_slot(slots, slot))
            return false;
    return true;
}

struct refusal borrow_refuse_all(const struct partition *partition, enum need_kind kind,
                                 struct bytes question)
{
    size_t least = kind == NEED_ALL ? SLOTS_BYTES : kind == NEED_NAMES ? 4 : 16;
    bool is_valid = kind == NEED_NAMES ? question.len > least : question.len == least;
    if (!is_valid)
        return REQUEST_IS_NOT_VALID;
    if (kind == NEED_ALL && !owns_exactly(partition, question.data))
        return SLOT_IS_ELSEWHERE;
    return kind == NEED_ALL && slots_are_frozen(partition) ? SLOT_IS_LEAVING : NO_REFUSAL;
}

/* The metadata row without the value, if the row has one. */
static struct bytes without_value(struct call *call, const struct key_iter *it)
{
    struct metadata meta = it->meta;
    if (!type_is_inline(meta.type))
        return overlay_iter_value(it->iter);
    meta.payload = NOTHING;
    return encode_metadata(call->arena, &meta);
}

static bool answer_names(struct call *call, struct space *space, struct bytes question,
                         struct out *answer)
{
    struct key_iter it;
    char head[8];
    struct bytes next = NOTHING;
    struct effects *rows = effects_new();
    uint32_t limit = get_le32(question.data);
    uint32_t count = 0;
    key_iter_init(call, space, 0, (struct bytes){NULL, 0}, &it);
    overlay_iter_seek(it.iter, (struct bytes){question.data + 4, question.len - 4});
    while (key_iter_next(&it)) {
        if ((limit != ALL_NAMES && count == limit) || effects_bytes(rows).len > ANSWER_BYTES) {
            next = arena_copy(call->arena, overlay_iter_key(it.iter));
            break;
        }
        effects_put(rows, CF_METADATA, overlay_iter_key(it.iter), without_value(call, &it));
        count++;
    }
    put_le32(head, count);
    put_le32(head + 4, (uint32_t)next.len);
    out_write(answer, head, sizeof head);
    out_write(answer, next.data, next.len);
    struct bytes bytes = effects_bytes(rows);
    out_write(answer, bytes.data, bytes.len);
    effects_free(rows);
    return key_iter_fini(&it);
}

static bool answer_place(struct call *call, struct space *space, struct bytes question,
                         struct out *answer)
{
    struct bytes row_key = NOTHING;
    bool is_found = false;
    uint64_t place = get_le64(question.data + 8);
    if (place < space->keys)
        is_found = keyspace_key_at(call, space, place, &row_key);
    if (is_found)
        out_write(answer, row_key.data, row_key.len);
    return !call->failed;
}

bool borrow_answer_all(struct call *call, struct space *space, enum need_kind kind,
                       struct bytes question, struct out *answer)
{
    char count[8];
    if (kind == NEED_NAMES)
        return answer_names(call, space, question, answer);
    if (kind == NEED_PLACE)
        return answer_place(call, space, question, answer);
    put_le64(count, space->keys);
    out_write(answer, count, sizeof count);
    return true;
}
