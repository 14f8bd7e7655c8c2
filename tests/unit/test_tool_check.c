/*
 * test_tool_check.c - --check-data finds each kind of damage, and --repair mends the damage that can be mended from
 * other rows.
 *
 * A small data directory with a key of several types is made by hand; each test damages one row.
 */
#include "backend/backup/counts.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/format/topk.h"
#include "backend/storage/partition_store.h"
#include "backend/tool/tool.h"
#include "shared/error.h"
#include "shared/path.h"
#include "shared/table.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOT = 77, VERSION = 5, EXPIRE = 1000000 };

static struct backend_config config;
static struct store_env *env;
static struct arena arena;
static struct storage *filled; /* stays open while rows are added: opening is slow */

static struct storage *open_it(void)
{
    char error[512];
    struct storage *storage =
        partition_store_open(env, &config, "partition-0", error, sizeof error);
    ck_assert_msg(storage != NULL, "%s", error);
    return storage;
}

/* Puts one row; deletes it when value.data is NULL. */
static void put_row(enum cf cf, struct bytes key, struct bytes value)
{
    char error[512];
    struct storage *storage = filled ? filled : open_it();
    struct effects *batch = effects_new();
    if (value.data)
        effects_put(batch, cf, key, value);
    else
        effects_delete(batch, cf, key);
    ck_assert_int_eq(storage_write(storage, batch, !filled, error, sizeof error), OK);
    effects_free(batch);
    if (!filled)
        storage_close(storage);
}

static const struct bytes gone = {NULL, 0};

static struct bytes row_of(const char *key)
{
    return encode_metadata_key(&arena, BYTES(""), SLOT, bytes_of(key));
}

static struct bytes sub_of(const char *key, struct bytes sub)
{
    return encode_sub_key(
        &arena, encode_collection_prefix(&arena, BYTES(""), SLOT, bytes_of(key), VERSION), sub);
}

static struct bytes metadata_of(enum type type, uint64_t size, uint64_t expire_ms)
{
    const struct metadata meta = {.type = type,
                                  .version = VERSION,
                                  .size = size,
                                  .head = 10,
                                  .tail = 10 + size,
                                  .expire_ms = expire_ms,
                                  .payload = BYTES("{\"a\":1}")};
    return encode_metadata(&arena, &meta);
}

static struct bytes expiry_row(void)
{
    return encode_expire_key(&arena, EXPIRE, row_of("string"));
}

static struct bytes indexed(const char *member)
{
    char *sub = arena_alloc(&arena, 8 + strlen(member));
    put_be64(sub, encode_score(1.5));
    memcpy(sub + 8, member, strlen(member));
    return sub_of("zset", (struct bytes){sub, 8 + strlen(member)});
}

/* ---- the data ---- */

static void put_rows(void)
{
    static const char *const members[] = {"a", "b", "c"};
    struct bytes score = encode_u64(&arena, encode_score(1.5));
    put_row(CF_METADATA, row_of("string"), metadata_of(TYPE_STRING, 0, EXPIRE));
    put_row(CF_EXPIRE, expiry_row(), BYTES("\x01"));
    put_row(CF_METADATA, row_of("json"), metadata_of(TYPE_JSON, 0, 0));
    put_row(CF_METADATA, row_of("hash"), metadata_of(TYPE_HASH, 3, 0));
    put_row(CF_METADATA, row_of("list"), metadata_of(TYPE_LIST, 3, 0));
    put_row(CF_METADATA, row_of("zset"), metadata_of(TYPE_ZSET, 3, 0));
    put_row(CF_METADATA, row_of("stream"), metadata_of(TYPE_STREAM, 1, 0));
    put_row(CF_STREAM, sub_of("stream", BYTES("\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1")),
            BYTES("\1f\1v"));
    for (uint64_t i = 0; i < 3; i++) {
        put_row(CF_DATA, sub_of("hash", bytes_of(members[i])), BYTES("v"));
        put_row(CF_DATA, sub_of("list", encode_u64(&arena, 10 + i)), BYTES("v"));
        put_row(CF_DATA, sub_of("zset", bytes_of(members[i])), score);
        put_row(CF_ZSET_SCORE, indexed(members[i]), BYTES(""));
    }
}

static void put_counters(void)
{
    char error[512];
    struct effects *batch = effects_new();
    struct table *table = table_new();
    struct counts *counts = counts_open(table, BYTES(""));
    counts->keys[SLOT] = 6;
    counts->expires[SLOT] = 1;
    counts_write(table, batch);
    ck_assert_int_eq(storage_write(filled, batch, true, error, sizeof error), OK);
    effects_free(batch);
    table_free_values(table);
}

static void set_up(void)
{
    char dir[] = "/tmp/scree-check-XXXXXX";
    char error[OPTION_REASON_MAX];
    const struct store_env_options options = {.block_cache_bytes = 1 << 20,
                                              .background_threads = 1};
    ck_assert(mkdtemp(dir) != NULL);
    config_init_defaults(&config.head, &backend_schema);
    ck_assert(config_set(&config.head, config_find(&config.head, BYTES("data")), bytes_of(dir),
                         error, sizeof error));
    arena_init(&arena);
    env = store_env_new(&options);
    filled = open_it();
    put_rows();
    put_counters();
    storage_close(filled);
    filled = NULL;
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
}

static void tear_down(void)
{
    store_env_free(env);
    arena_fini(&arena);
    (void)path_remove(config.data);
    config_fini(&config.head);
}

/* The check finds the damage; after a repair it finds none. */
static void check_heals(void)
{
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_BAD);
    ck_assert_int_eq(tool_check(&config, CHECK_REPAIR), TOOL_GOOD);
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
}

/* The check finds the damage, and a repair does not change the row. */
static void check_finds(void)
{
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_BAD);
    ck_assert_int_eq(tool_check(&config, CHECK_REPAIR), TOOL_BAD);
}

/* ---- damage ---- */

START_TEST(a_wrong_size_is_counted_again)
{
    put_row(CF_METADATA, row_of("hash"), metadata_of(TYPE_HASH, 30, 0));
    check_heals();
    put_row(CF_DATA, sub_of("hash", BYTES("a")), gone);
    check_heals();
}
END_TEST

START_TEST(a_missing_expiry_row_is_added_to_the_index)
{
    put_row(CF_EXPIRE, expiry_row(), gone);
    check_heals();
}
END_TEST

/* Makes the field `a` of the hash expire at 500, with a metadata row that may say something else. */
static void put_ttl(uint64_t ttls, uint64_t soonest_ms)
{
    const struct metadata meta = {.type = TYPE_HASH,
                                  .version = VERSION,
                                  .size = 3,
                                  .field_ttls = ttls,
                                  .field_expire_ms = soonest_ms};
    put_row(CF_DATA, sub_of("hash", BYTES("a")), BYTES("v"));
    put_row(CF_METADATA, row_of("hash"), encode_metadata(&arena, &meta));
    put_row(CF_RANK, sub_of("hash", encode_field_ttl(&arena, BYTES("a"))), encode_u64(&arena, 500));
    put_row(CF_ZSET_SCORE, sub_of("hash", encode_field_time(&arena, 500, BYTES("a"))), BYTES(""));
    put_row(CF_EXPIRE, encode_expire_key(&arena, soonest_ms, row_of("hash")), BYTES("\x02"));
}

START_TEST(the_ttls_of_fields_agree)
{
    put_ttl(1, 400);
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
    put_row(CF_ZSET_SCORE, sub_of("hash", encode_field_time(&arena, 500, BYTES("a"))), gone);
    check_heals();
    put_row(CF_ZSET_SCORE, sub_of("hash", encode_field_time(&arena, 600, BYTES("a"))), BYTES(""));
    check_heals();
    put_row(CF_RANK, sub_of("hash", encode_field_ttl(&arena, BYTES("a"))), gone);
    check_heals();
    put_ttl(2, 500);
    check_heals();
    put_ttl(1, 501);
    check_heals();
    put_ttl(1, 500);
    put_row(CF_DATA, sub_of("hash", BYTES("a")), gone);
    check_heals();
    put_ttl(1, 500);
    put_row(CF_EXPIRE, encode_expire_key(&arena, 500, row_of("hash")), gone);
    check_heals();
}
END_TEST

static const struct topk top_form = {.changes = 100};

static struct bytes order_row(uint32_t count, uint64_t change, const char *item)
{
    return sub_of("top", topk_order_sub(&arena, &top_form, (struct topk_spot){count, change},
                                        bytes_of(item)));
}

static struct bytes item_row(const char *item)
{
    return sub_of("top", topk_item_sub(&arena, bytes_of(item)));
}

static struct bytes item_value(uint32_t count, uint64_t change)
{
    return topk_item_value(&arena, &top_form, (struct topk_spot){count, change});
}

/* A full list of two items, with a metadata row that may say something else. */
static void put_top(uint32_t k, uint32_t last_count, uint64_t last_change)
{
    const struct topk topk = {.k = k,
                              .width = 8,
                              .depth = 7,
                              .decay = 0.9,
                              .listed = 2,
                              .last = {last_count, last_change},
                              .changes = 100};
    const struct metadata meta = {
        .type = TYPE_TOPK, .version = VERSION, .size = 4, .payload = topk_encode(&arena, &topk)};
    put_row(CF_METADATA, row_of("top"), encode_metadata(&arena, &meta));
    put_row(CF_DATA, order_row(9, 1, "a"), BYTES(""));
    put_row(CF_DATA, order_row(4, 2, "b"), BYTES(""));
    put_row(CF_DATA, item_row("a"), item_value(9, 1));
    put_row(CF_DATA, item_row("b"), item_value(4, 2));
}

START_TEST(both_sides_of_a_top_k_list_agree)
{
    put_top(2, 4, 2);
    ck_assert_int_eq(tool_check(&config, CHECK_REPAIR), TOOL_GOOD); /* counters of keys */
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
    put_row(CF_DATA, order_row(4, 2, "b"), gone);
    check_heals();
    put_top(2, 4, 2);
    put_row(CF_DATA, item_row("a"), gone);
    check_heals();
    put_top(2, 4, 2);
    put_row(CF_DATA, item_row("a"), item_value(8, 1));
    check_heals();
    put_top(2, 4, 2);
    put_row(CF_DATA, item_row("a"), item_value(9, 3));
    check_heals();
    put_top(2, 4, 2);
    put_row(CF_DATA, order_row(3, 3, "c"), BYTES(""));
    check_heals();
    put_top(2, 5, 2);
    check_heals();
    put_top(2, 4, 1);
    check_heals();
    put_top(3, 0, 0);
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
}
END_TEST

START_TEST(a_top_k_list_with_too_many_items_is_found)
{
    put_top(2, 4, 2);
    put_row(CF_DATA, order_row(3, 3, "c"), BYTES(""));
    put_row(CF_DATA, item_row("c"), item_value(3, 3));
    check_finds();
}
END_TEST

START_TEST(the_score_index_follows_the_members)
{
    put_row(CF_ZSET_SCORE, indexed("b"), gone);
    check_heals();
    put_row(CF_ZSET_SCORE, indexed("no member"), BYTES(""));
    check_heals();
}
END_TEST

START_TEST(counters_follow_the_keys)
{
    put_row(CF_SYSTEM, encode_counter_key(&arena, BYTES(""), 0), gone);
    check_heals();
    put_row(CF_SYSTEM, encode_counter_key(&arena, BYTES("nobody"), 0), BYTES("\0\7\1\0"));
    check_heals();
    put_row(CF_SYSTEM, encode_journal_key(&arena, 3), BYTES("no journal row"));
    check_heals();
}
END_TEST

START_TEST(a_rank_tree_with_wrong_counts_is_removed)
{
    put_row(CF_RANK, sub_of("zset", BYTES("\0")), BYTES("\1\1"));
    put_row(CF_RANK, sub_of("zset", BYTES("\1")), BYTES("\11\0"));
    check_heals();
}
END_TEST

START_TEST(a_rank_tree_whose_leaves_are_wrong_and_sums_right_is_removed)
{
    put_row(CF_RANK, sub_of("zset", BYTES("\0")), BYTES("\1\2\1"));
    put_row(CF_RANK, sub_of("zset", BYTES("\1")), BYTES("\2\0"));
    put_row(CF_RANK, sub_of("zset", BYTES("\1\xff")), BYTES("\1\0"));
    check_heals();
}
END_TEST

START_TEST(rows_that_cannot_be_decoded_are_found)
{
    put_row(CF_METADATA, row_of("hash"), BYTES("\x8f nonsense"));
    check_finds();
    ck_assert_int_eq(tool_check(&config, CHECK_DROP), TOOL_GOOD);
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
}
END_TEST

START_TEST(rows_of_another_form_are_found)
{
    put_row(CF_DATA, sub_of("zset", BYTES("a")), BYTES("short"));
    check_finds();
}
END_TEST

START_TEST(a_list_with_a_gap_is_found)
{
    put_row(CF_DATA, sub_of("list", encode_u64(&arena, 11)), gone);
    check_finds();
}
END_TEST

START_TEST(a_cut_stream_entry_is_found)
{
    put_row(CF_STREAM, sub_of("stream", BYTES("\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1")), BYTES("\x7f"));
    check_finds();
}
END_TEST

START_TEST(an_invalid_document_is_found)
{
    const struct metadata meta = {.type = TYPE_JSON, .payload = BYTES("{\"a\":")};
    put_row(CF_METADATA, row_of("json"), encode_metadata(&arena, &meta));
    check_finds();
}
END_TEST

START_TEST(orphans_and_stale_times_are_no_damage)
{
    put_row(CF_DATA, sub_of("nobody", BYTES("a")), BYTES("v"));
    put_row(CF_EXPIRE, encode_expire_key(&arena, 7, row_of("nobody")), BYTES("\x01"));
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
}
END_TEST

START_TEST(a_copy_is_not_repaired_alone)
{
    put_row(CF_SYSTEM, BYTES("g"), BYTES("members"));
    ck_assert_int_eq(tool_check(&config, CHECK_ONLY), TOOL_GOOD);
    ck_assert_int_eq(tool_check(&config, CHECK_REPAIR), TOOL_BAD);
}
END_TEST

START_TEST(a_newer_format_is_refused)
{
    put_row(CF_SYSTEM, BYTES(SYSTEM_FORMAT), encode_u64(&arena, DATA_FORMAT + 1));
    check_finds();
    char error[512];
    ck_assert_ptr_null(partition_store_open(env, &config, "partition-0", error, sizeof error));
    ck_assert_msg(strstr(error, "newer than this program") != NULL, "%s", error);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tool_check");
    TCase *tests = tcase_create("tool_check");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_wrong_size_is_counted_again);
    tcase_add_test(tests, a_missing_expiry_row_is_added_to_the_index);
    tcase_add_test(tests, the_ttls_of_fields_agree);
    tcase_add_test(tests, both_sides_of_a_top_k_list_agree);
    tcase_add_test(tests, a_top_k_list_with_too_many_items_is_found);
    tcase_add_test(tests, the_score_index_follows_the_members);
    tcase_add_test(tests, counters_follow_the_keys);
    tcase_add_test(tests, a_rank_tree_with_wrong_counts_is_removed);
    tcase_add_test(tests, a_rank_tree_whose_leaves_are_wrong_and_sums_right_is_removed);
    tcase_add_test(tests, rows_that_cannot_be_decoded_are_found);
    tcase_add_test(tests, rows_of_another_form_are_found);
    tcase_add_test(tests, a_list_with_a_gap_is_found);
    tcase_add_test(tests, a_cut_stream_entry_is_found);
    tcase_add_test(tests, an_invalid_document_is_found);
    tcase_add_test(tests, orphans_and_stale_times_are_no_damage);
    tcase_add_test(tests, a_copy_is_not_repaired_alone);
    tcase_add_test(tests, a_newer_format_is_refused);
    return suite_run(suite);
}
