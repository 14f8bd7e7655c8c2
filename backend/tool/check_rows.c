/*
 * check_rows.c - checks the value of one key by its type: format, number of rows, order of a list, both sides of a zset,
 * the rank tree (check_ranks.c).
 */
#include "backend/commands/stream.h"
#include "backend/format/bloom.h"
#include "backend/format/effects.h"
#include "backend/format/json/json_doc.h"
#include "backend/format/sketch.h"
#include "backend/format/tdigest.h"
#include "backend/format/topk.h"
#include "backend/tool/check.h"
#include "shared/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { BITMAP_FRAGMENT = 1024, SCORE_BYTES = 8 };

/* Iterates over the collection's rows of one column family. */
struct rows {
    struct store_iter *iter;
    size_t prefix_len;
    struct bytes sub;
    struct bytes value;
};

static void rows_open(struct check *check, const struct checked *key, enum cf cf, struct rows *rows)
{
    struct bytes end = encode_prefix_end(&check->arena, key->prefix);
    *rows = (struct rows){.iter = store_iter_new(check->store, cf, key->prefix, end),
                          .prefix_len = key->prefix.len};
    store_iter_seek_first(rows->iter);
}

static bool rows_next(struct check *check, struct rows *rows)
{
    if (rows->sub.data)
        store_iter_next(rows->iter);
    if (!store_iter_valid(rows->iter)) {
        check->has_failed |= store_iter_failed(rows->iter);
        store_iter_free(rows->iter);
        return false;
    }
    struct bytes row = store_iter_key(rows->iter);
    rows->sub = (struct bytes){row.data + rows->prefix_len, row.len - rows->prefix_len};
    rows->value = store_iter_value(rows->iter);
    check->rows++;
    return true;
}

/* ---- format of rows ---- */

/* Does a row of CF_DATA have the format of its type? */
typedef bool row_form_fn(const struct checked *key, struct bytes sub, struct bytes value);

static bool is_member(const struct checked *key, struct bytes sub, struct bytes value)
{
    (void)key;
    (void)sub;
    return value.len == 0;
}

static bool is_integer(const struct checked *key, struct bytes sub, struct bytes value)
{
    (void)key;
    return sub.len == 8 && value.len == 0;
}

static bool is_filter_page(const struct checked *key, struct bytes sub, struct bytes value)
{
    struct bloom bloom;
    uint8_t layer;
    uint32_t page;
    return bloom_decode(key->meta.payload, &bloom) &&
           bloom_sub_decode(&bloom, sub, &layer, &page) &&
           value.len == bloom_page_bytes(&bloom.layers[layer]);
}

static bool is_sketch_page(const struct checked *key, struct bytes sub, struct bytes value)
{
    struct sketch sketch;
    uint32_t page;
    return sketch_decode(key->meta.payload, &sketch) && sketch_sub_decode(&sketch, sub, &page) &&
           value.len == sketch_page_bytes(&sketch, page);
}

static bool is_centroids(const struct checked *key, struct bytes sub, struct bytes value)
{
    struct tdigest digest;
    return sub.len == 0 && tdigest_decode(key->meta.payload, &digest) && digest.merged > 0 &&
           tdigest_centroids_ok(&digest, value);
}

static bool is_topk_row(const struct checked *key, struct bytes sub, struct bytes value)
{
    struct topk topk;
    struct bytes item;
    struct topk_spot spot;
    uint32_t number;
    if (!topk_decode(key->meta.payload, &topk))
        return false;
    if (topk_page_decode(&topk, sub, &number))
        return value.len == topk_page_bytes(&topk, number);
    if (topk_order_decode(&topk, sub, &spot, &item))
        return value.len == 0;
    return topk_item_decode(sub, &item) && topk_item_value_decode(&topk, value, &spot);
}

static bool is_list_element(const struct checked *key, struct bytes sub, struct bytes value)
{
    (void)value;
    return sub.len == 8 && get_be64(sub.data) >= key->meta.head &&
           get_be64(sub.data) < key->meta.tail;
}

static bool is_scored_member(const struct checked *key, struct bytes sub, struct bytes value)
{
    (void)key;
    (void)sub;
    return value.len == SCORE_BYTES && !isnan(decode_score(get_be64(value.data)));
}

static bool is_fragment(const struct checked *key, struct bytes sub, struct bytes value)
{
    (void)key;
    return sub.len == 4 && value.len > 0 && value.len <= BITMAP_FRAGMENT;
}

static bool is_group_row(const struct checked *key, struct bytes sub, struct bytes value)
{
    (void)key;
    (void)value;
    return sub.len > 0 && memchr("gcpit", sub.data[0], 5) != NULL;
}

/* Counts the rows of CF_DATA and checks their format. */
static uint64_t count_data(struct check *check, const struct checked *key, row_form_fn *has_form)
{
    struct rows rows;
    uint64_t count = 0;
    rows_open(check, key, CF_DATA, &rows);
    while (rows_next(check, &rows)) {
        count++;
        if (has_form && !has_form(key, rows.sub, rows.value))
            check_problem(check, key, false, "a row does not have the format of its type");
    }
    return count;
}

static bool entry_is_whole(struct bytes entry)
{
    struct bytes string;
    uint32_t count = 0;
    if (!stream_entry_count(entry, &count))
        return false;
    while (entry.len && stream_entry_next(&entry, &string))
        continue;
    return entry.len == 0;
}

static uint64_t count_entries(struct check *check, const struct checked *key)
{
    struct rows rows;
    uint64_t count = 0;
    rows_open(check, key, CF_STREAM, &rows);
    while (rows_next(check, &rows)) {
        struct stream_id id;
        count++;
        if (!stream_id_decode(rows.sub, &id) || !entry_is_whole(rows.value))
            check_problem(check, key, false, "an entry cannot be decoded");
    }
    return count;
}

/* ---- the score index ---- */

static struct bytes score_key(struct check *check, const struct checked *key, struct bytes score,
                              struct bytes member)
{
    char *sub = arena_alloc(&check->arena, score.len + member.len);
    memcpy(sub, score.data, score.len);
    if (member.len)
        memcpy(sub + score.len, member.data, member.len);
    return encode_sub_key(&check->arena, key->prefix, (struct bytes){sub, score.len + member.len});
}

static bool has_row(struct check *check, enum cf cf, struct bytes key)
{
    struct slice found;
    int err = store_get(check->store, cf, key, &found);
    check->has_failed |= err != OK && err != ERR_NOT_FOUND;
    if (err == OK)
        slice_release(&found);
    return err == OK;
}

/* Does the member have this score? If the member's row is damaged, any score is accepted, because the row was already
 * reported. */
static bool has_score(struct check *check, const struct checked *key, struct bytes member,
                      struct bytes score)
{
    struct slice found;
    int err = store_get(check->store, CF_DATA, encode_sub_key(&check->arena, key->prefix, member),
                        &found);
    check->has_failed |= err != OK && err != ERR_NOT_FOUND;
    if (err != OK)
        return false;
    bool fits = found.len != SCORE_BYTES || bytes_equal(slice_bytes(&found), score);
    slice_release(&found);
    return fits;
}

static void check_scores(struct check *check, const struct checked *key, uint64_t count)
{
    struct rows rows;
    (void)count;
    rows_open(check, key, CF_DATA, &rows);
    while (rows_next(check, &rows)) {
        if (rows.value.len != SCORE_BYTES)
            continue;
        struct bytes index = score_key(check, key, rows.value, rows.sub);
        if (has_row(check, CF_ZSET_SCORE, index))
            continue;
        check_problem(check, key, true, "a member is not in the score index");
        if (check->repairs)
            effects_put(check->effects, CF_ZSET_SCORE, index, BYTES(""));
    }
    rows_open(check, key, CF_ZSET_SCORE, &rows);
    while (rows_next(check, &rows)) {
        bool good = rows.sub.len >= SCORE_BYTES;
        struct bytes score = {rows.sub.data, SCORE_BYTES};
        struct bytes member = {rows.sub.data + SCORE_BYTES, good ? rows.sub.len - SCORE_BYTES : 0};
        if (good && has_score(check, key, member, score))
            continue;
        check_problem(check, key, true, "the score index has a row without a member");
        if (check->repairs)
            effects_delete(check->effects, CF_ZSET_SCORE, store_iter_key(rows.iter));
    }
}

/* ---- TTLs of fields ---- */

/* What the TTL rows of a hash say. */
struct ttl_sums {
    uint64_t count;
    uint64_t soonest_ms;
};

/* Checks the TTLs by name; a TTL of a field that exists is kept. */
static void check_ttls(struct check *check, const struct checked *key, struct ttl_sums *sums)
{
    struct rows rows;
    rows_open(check, key, CF_RANK, &rows);
    while (rows_next(check, &rows)) {
        struct bytes field;
        uint64_t expire_ms;
        if (!decode_field_ttl(rows.sub, &field) || !decode_u64(rows.value, &expire_ms) ||
            !expire_ms) {
            check_problem(check, key, false, "the TTL of a field cannot be decoded");
            continue;
        }
        if (!has_row(check, CF_DATA, encode_sub_key(&check->arena, key->prefix, field))) {
            check_problem(check, key, true, "a field that does not exist has a TTL");
            if (check->repairs)
                effects_delete(check->effects, CF_RANK, store_iter_key(rows.iter));
            continue;
        }
        sums->count++;
        if (!sums->soonest_ms || expire_ms < sums->soonest_ms)
            sums->soonest_ms = expire_ms;
        struct bytes time = encode_sub_key(&check->arena, key->prefix,
                                           encode_field_time(&check->arena, expire_ms, field));
        if (has_row(check, CF_ZSET_SCORE, time))
            continue;
        check_problem(check, key, true, "the TTL of a field is not in the order of times");
        if (check->repairs)
            effects_put(check->effects, CF_ZSET_SCORE, time, BYTES(""));
    }
}

/* Checks that each row of the order of times has a field with this TTL. */
static void check_times(struct check *check, const struct checked *key)
{
    struct rows rows;
    rows_open(check, key, CF_ZSET_SCORE, &rows);
    while (rows_next(check, &rows)) {
        struct bytes field;
        struct slice found;
        uint64_t expire_ms;
        uint64_t ttl_ms;
        bool good = decode_field_time(rows.sub, &expire_ms, &field) && rows.value.len == 0;
        struct bytes ttl =
            encode_sub_key(&check->arena, key->prefix, encode_field_ttl(&check->arena, field));
        int err = good ? store_get(check->store, CF_RANK, ttl, &found) : ERR_NOT_FOUND;
        check->has_failed |= err != OK && err != ERR_NOT_FOUND;
        good = err == OK && decode_u64(slice_bytes(&found), &ttl_ms) && ttl_ms == expire_ms &&
               has_row(check, CF_DATA, encode_sub_key(&check->arena, key->prefix, field));
        if (err == OK)
            slice_release(&found);
        if (good)
            continue;
        check_problem(check, key, true, "the order of times has a row without a TTL");
        if (check->repairs)
            effects_delete(check->effects, CF_ZSET_SCORE, store_iter_key(rows.iter));
    }
}

/* Checks TTL rows, and what the metadata row says about them. `count`: fields of the hash. */
static void check_field_ttls(struct check *check, const struct checked *key, uint64_t count)
{
    struct ttl_sums sums = {0};
    struct metadata meta = key->meta;
    check_ttls(check, key, &sums);
    check_times(check, key);
    if (sums.count == meta.field_ttls && (!sums.count || meta.field_expire_ms <= sums.soonest_ms))
        return;
    check_problem(check, key, true,
                  "the number of its fields with a TTL, or when they expire, is wrong");
    if (!check->repairs || !count)
        return;
    meta.size = count;
    meta.field_ttls = sums.count;
    meta.field_expire_ms = sums.soonest_ms;
    effects_put(check->effects, CF_METADATA, key->row, encode_metadata(&check->arena, &meta));
    uint64_t due_ms = metadata_due_ms(&meta);
    char type = (char)meta.type;
    if (due_ms)
        effects_put(check->effects, CF_EXPIRE, encode_expire_key(&check->arena, due_ms, key->row),
                    (struct bytes){&type, 1});
}

/* ---- top-k lists ---- */

/* What the rows of a top-k list say. */
struct topk_sums {
    uint32_t listed;
    struct topk_spot last;
    uint32_t deleted; /* rows that do not match */
};

static bool spots_equal(struct topk_spot a, struct topk_spot b)
{
    return a.count == b.count && a.change == b.change;
}

/* Is the item's row by item there, with this place in the order? */
static bool has_item(struct check *check, const struct checked *key, const struct topk *topk,
                     struct bytes item, struct topk_spot spot)
{
    struct slice found;
    struct topk_spot have;
    struct bytes row =
        encode_sub_key(&check->arena, key->prefix, topk_item_sub(&check->arena, item));
    int err = store_get(check->store, CF_DATA, row, &found);
    check->has_failed |= err != OK && err != ERR_NOT_FOUND;
    if (err != OK)
        return false;
    bool is_same =
        topk_item_value_decode(topk, slice_bytes(&found), &have) && spots_equal(have, spot);
    slice_release(&found);
    return is_same;
}

/* Checks the list's order against its rows by item, and back. A row that is in one of them only is deleted. */
static void check_topk_rows(struct check *check, const struct checked *key, const struct topk *topk,
                            struct topk_sums *sums)
{
    struct rows rows;
    rows_open(check, key, CF_DATA, &rows);
    while (rows_next(check, &rows)) {
        struct bytes item;
        struct topk_spot spot;
        bool good = true;
        if (topk_order_decode(topk, rows.sub, &spot, &item)) {
            good = has_item(check, key, topk, item, spot);
            sums->listed += good;
            if (good)
                sums->last = spot;
        } else if (topk_item_decode(rows.sub, &item) &&
                   topk_item_value_decode(topk, rows.value, &spot)) {
            good = has_row(check, CF_DATA,
                           encode_sub_key(&check->arena, key->prefix,
                                          topk_order_sub(&check->arena, topk, spot, item)));
        }
        if (good)
            continue;
        sums->deleted++;
        check_problem(check, key, true, "the order of its list and the list by item differ");
        if (check->repairs)
            effects_delete(check->effects, CF_DATA, store_iter_key(rows.iter));
    }
}

static void check_topk(struct check *check, const struct checked *key, uint64_t count)
{
    struct topk topk;
    struct topk_sums sums = {0};
    struct metadata meta = key->meta;
    CHECK(topk_decode(meta.payload, &topk)); /* decode_metadata checks it */
    check_topk_rows(check, key, &topk, &sums);
    bool is_full = sums.listed >= topk.k;
    struct topk_spot last = is_full ? sums.last : (struct topk_spot){0};
    bool is_right = topk.listed == sums.listed && spots_equal(topk.last, last);
    if (!is_right)
        check_problem(check, key, sums.listed <= topk.k,
                      "the number of items in its list, or its last item, is wrong");
    if (is_right && !sums.deleted)
        return;
    if (!check->repairs || sums.listed > topk.k)
        return;
    topk.listed = sums.listed;
    topk.last = last;
    meta.size = count - sums.deleted;
    meta.payload = topk_encode(&check->arena, &topk);
    effects_put(check->effects, CF_METADATA, key->row, encode_metadata(&check->arena, &meta));
}

/* ---- ranks ---- */

static void check_ranks(struct check *check, const struct checked *key)
{
    if (check_ranks_are_right(check, key))
        return;
    check_problem(check, key, true, "the counts of its rank tree are wrong");
    if (check->repairs)
        effects_delete_range(check->effects, CF_RANK, key->prefix,
                             encode_prefix_end(&check->arena, key->prefix));
}

/* ---- size of a key ---- */

static void check_size(struct check *check, const struct checked *key, uint64_t count,
                       bool is_numbered)
{
    char what[128];
    if (count == key->meta.size && (!is_numbered || count == key->meta.tail - key->meta.head))
        return;
    (void)snprintf(what, sizeof what, "its size is %" PRIu64 ", it has %" PRIu64 " elements",
                   key->meta.size, count);
    check_problem(check, key, !is_numbered, what);
    if (!check->repairs || is_numbered)
        return;
    struct metadata meta = key->meta;
    meta.size = count;
    if (count)
        effects_put(check->effects, CF_METADATA, key->row, encode_metadata(&check->arena, &meta));
    else if (!type_rows[meta.type].exists_empty)
        effects_delete(check->effects, CF_METADATA, key->row);
}

/* ---- the types ---- */

/* Checks of a type's keys. NULL: none. */
struct type_check {
    void (*value)(struct check *check, const struct checked *key); /* of an inline type */
    row_form_fn *form;
    uint64_t (*count)(struct check *check,
                      const struct checked *key); /* elements outside CF_DATA */
    void (*indexes)(struct check *check, const struct checked *key, uint64_t count);
    bool is_numbered; /* rows are numbered from head to tail, so a wrong size cannot be repaired */
    bool has_no_ranks;
    bool is_sized_in_bytes; /* the size is in bytes, not in rows, and there are no ranks */
};

static void check_document(struct check *check, const struct checked *key)
{
    char error[JSON_ERROR_MAX];
    json_use(&check->arena);
    if (!json_parse(key->meta.payload, error))
        check_problem(check, key, false, "its document cannot be parsed");
}

static const struct type_check check_STRING = {0};
static const struct type_check check_HASH = {.indexes = check_field_ttls, .has_no_ranks = true};
static const struct type_check check_LIST = {.form = is_list_element, .is_numbered = true};
static const struct type_check check_SET = {.form = is_member};
static const struct type_check check_ZSET = {.form = is_scored_member, .indexes = check_scores};
static const struct type_check check_BITMAP = {.form = is_fragment, .is_sized_in_bytes = true};
static const struct type_check check_SORTEDINT = {.form = is_integer};
static const struct type_check check_STREAM = {.form = is_group_row, .count = count_entries};
static const struct type_check check_JSON = {.value = check_document};
static const struct type_check check_BLOOM = {.form = is_filter_page, .has_no_ranks = true};
static const struct type_check check_CMS = {.form = is_sketch_page, .has_no_ranks = true};
static const struct type_check check_TDIGEST = {.form = is_centroids, .has_no_ranks = true};

static const struct type_check check_TOPK = {
    .form = is_topk_row, .indexes = check_topk, .has_no_ranks = true};

static const struct type_check *const type_checks[TYPE_COUNT] = {
#define TYPE(id, number, ...) [number] = &check_##id,
#include "backend/format/types.def"
#undef TYPE
};

static void check_rows(struct check *check, const struct checked *key,
                       const struct type_check *type)
{
    uint64_t count = count_data(check, key, type->form);
    if (type->is_sized_in_bytes)
        return;
    if (type->count)
        count = type->count(check, key);
    check_size(check, key, count, type->is_numbered);
    if (type->indexes)
        type->indexes(check, key, count);
    if (!type->has_no_ranks)
        check_ranks(check, key);
}

void check_value(struct check *check, const struct checked *key)
{
    const struct type_check *type = type_checks[key->meta.type];
    if (type->value)
        type->value(check, key);
    if (!type_is_inline(key->meta.type))
        check_rows(check, key, type);
}
