/*
 * test_borrow.c - which rows another shard may send: those of the keys that it was asked for; and which effects it may prepare.
 */
#include "backend/format/effects.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/keyspace/borrow.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static struct arena arena;
static struct effects *effects;
static const struct bytes SPACE = {"", 0};

static void setup(void)
{
    arena_init(&arena);
    effects = effects_new();
    effects_clear(effects);
}

static void teardown(void)
{
    effects_free(effects);
    arena_fini(&arena);
}

static struct bytes row_of(uint16_t slot, const char *key)
{
    return encode_metadata_key(&arena, SPACE, slot, bytes_of(key));
}

static struct bytes prefix_of(uint16_t slot, const char *key, uint64_t version)
{
    return encode_collection_prefix(&arena, SPACE, slot, bytes_of(key), version);
}

static void put_plain(uint16_t slot, const char *key)
{
    effects_put(effects, CF_METADATA, row_of(slot, key), metadata_plain());
}

/* Needs of the keys a and b, of slots 1 and 2. */
static bool are_valid(struct bytes rows)
{
    struct need b = {.kind = NEED_KEY, .row_key = row_of(2, "b")};
    struct need a = {.kind = NEED_KEY, .row_key = row_of(1, "a"), .next = &b};
    return borrow_rows_are_valid(&a, rows);
}

START_TEST(rows_of_the_needed_keys_are_valid)
{
    ck_assert(are_valid(effects_bytes(effects)));
    put_plain(1, "a");
    effects_put(effects, CF_DATA, encode_sub_key(&arena, prefix_of(1, "a", 7), bytes_of("field")),
                bytes_of("value"));
    effects_delete(effects, CF_METADATA, row_of(2, "b"));
    ck_assert(are_valid(effects_bytes(effects)));
}
END_TEST

/* One effect, which no shard may send in reply to these needs. */
static void put_foreign(int number)
{
    switch (number) {
    case 0:
        put_plain(3, "c");
        break;
    case 1:
        put_plain(3, "a");
        break;
    case 2:
        effects_put(effects, CF_DATA, encode_sub_key(&arena, prefix_of(1, "c", 7), bytes_of("f")),
                    bytes_of("value"));
        break;
    case 3:
        effects_put(effects, CF_SYSTEM, bytes_of("a"), bytes_of("value"));
        break;
    case 4:
        effects_put(effects, CF_EXPIRE, encode_expire_key(&arena, 1, row_of(1, "a")), SPACE);
        break;
    case 5:
        effects_put(effects, CF_METADATA, row_of(1, "a"), bytes_of("\x7f"));
        break;
    case 6:
        effects_delete_range(effects, CF_DATA, prefix_of(1, "a", 7), prefix_of(1, "a", 8));
        break;
    default:
        put_plain(2, "b"); /* the other order */
        put_plain(1, "a");
        break;
    }
}

START_TEST(rows_of_other_keys_are_refused)
{
    put_foreign(_i);
    ck_assert(!are_valid(effects_bytes(effects)));
}
END_TEST

START_TEST(damaged_rows_are_refused)
{
    put_plain(1, "a");
    struct bytes whole = effects_bytes(effects);
    for (size_t len = 0; len < whole.len; len++)
        ck_assert(!are_valid((struct bytes){whole.data, len}));
}
END_TEST

static bool may_be_prepared(void)
{
    struct effects_header header;
    struct effects_reader reader;
    struct bytes row_key;
    unsigned keys = 0;
    enum effects_read result = effects_open(effects_bytes(effects), &header, &reader);
    while (result == EFFECTS_READ &&
           (result = effects_next_key(&reader, &arena, &row_key)) == EFFECTS_READ)
        keys++;
    return result == EFFECTS_END && keys;
}

START_TEST(effects_on_keys_may_be_prepared)
{
    struct bytes prefix = prefix_of(1, "a", 7);
    put_plain(1, "a");
    effects_delete(effects, CF_DATA, encode_sub_key(&arena, prefix, bytes_of("f")));
    effects_delete_range(effects, CF_STREAM, encode_sub_key(&arena, prefix, bytes_of("f")),
                         encode_sub_key(&arena, prefix, bytes_of("g")));
    effects_put(effects, CF_EXPIRE, encode_expire_key(&arena, 1, row_of(1, "a")), SPACE);
    effects_delete_range(effects, CF_METADATA, encode_slot_prefix(&arena, SPACE, 1),
                         encode_prefix_end(&arena, encode_slot_prefix(&arena, SPACE, 5)));
    ck_assert(may_be_prepared());
}
END_TEST

/* One effect that no command has. */
static void put_forged(int number)
{
    struct bytes prefix = prefix_of(1, "a", 7);
    switch (number) {
    case 0: /* to the end of the column family */
        effects_delete_range(effects, CF_DATA, prefix, SPACE);
        break;
    case 1: /* with other keys */
        effects_delete_range(effects, CF_DATA, prefix, prefix_of(1, "b", 7));
        break;
    case 2: /* a part of slot 5, whose keys would still be counted */
        effects_delete_range(effects, CF_METADATA, encode_slot_prefix(&arena, SPACE, 1),
                             row_of(5, "a"));
        break;
    case 3:
        effects_delete_range(effects, CF_EXPIRE, encode_expire_key(&arena, 1, row_of(1, "a")),
                             encode_expire_key(&arena, 9, row_of(1, "a")));
        break;
    case 4:
        effects_put(effects, CF_METADATA, row_of(1, "a"), bytes_of("\x7f"));
        break;
    default:
        effects_put(effects, CF_METADATA, bytes_of("\x01"), metadata_plain());
        break;
    }
}

START_TEST(effects_that_no_command_has_are_refused)
{
    put_forged(_i);
    ck_assert(!may_be_prepared());
}
END_TEST

START_TEST(a_row_at_the_place_of_another_slot_is_refused)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    put_plain(0x0101, "a");
    char *forged = (char *)effects_bytes(effects).data;
    ck_assert_int_eq(forged[EFFECTS_HEADER_BYTES + 2], 1);
    forged[EFFECTS_HEADER_BYTES + 2] = 2; /* the place's slot becomes 0x0102 */
    ck_assert_int_eq(effects_open(effects_bytes(effects), &header, &reader), EFFECTS_READ);
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_READ);
    ck_assert(!effect_is_at_place(&effect));
    ck_assert(!may_be_prepared());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("borrow");
    TCase *rows = tcase_create("rows of other shards");
    tcase_add_checked_fixture(rows, setup, teardown);
    tcase_add_test(rows, rows_of_the_needed_keys_are_valid);
    tcase_add_loop_test(rows, rows_of_other_keys_are_refused, 0, 8);
    tcase_add_test(rows, damaged_rows_are_refused);
    tcase_add_test(rows, effects_on_keys_may_be_prepared);
    tcase_add_loop_test(rows, effects_that_no_command_has_are_refused, 0, 6);
    tcase_add_test(rows, a_row_at_the_place_of_another_slot_is_refused);
    suite_add_tcase(suite, rows);
    return suite_run(suite);
}
