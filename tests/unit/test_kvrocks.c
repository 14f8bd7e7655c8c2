/*
 * test_kvrocks.c - rows of Kvrocks 2.10.1, as a server has written them, are decoded; rows that are cut or longer anywhere are refused; CBOR
 * becomes the JSON text of RFC 8949, appendix A.
 */
#include "backend/format/cbor.h"
#include "backend/format/kvrocks.h"
#include "shared/check.h"
#include "tests/unit/guard.h"
#include "tests/unit/suite.h"

#include <math.h>

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

static unsigned nibble(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* "82 00 ff" */
static struct bytes hex(const char *text)
{
    char *data = arena_alloc(&arena, strlen(text));
    size_t len = 0;
    for (; *text; text++) {
        if (*text == ' ')
            continue;
        data[len++] = (char)(nibble(text[0]) << 4 | nibble(text[1]));
        text++;
    }
    return (struct bytes){data, len};
}

static struct kvrocks_value decoded(const char *row)
{
    struct kvrocks_value value;
    ck_assert_msg(kvrocks_value_read(hex(row), &value), "%s", row);
    return value;
}

static const char *const WHOLE_ROWS[] = {
    "82 0000000000000000 330a70ab6b3b1935 0000000000000001",
    "83 000003bb2cc3d800 330a70ab64bf6fed 0000000000000004 7ffffffffffffffb 7fffffffffffffff",
    "8b 0000000000000000 330a70ab64bf6fed 0000000000000000 00",
    "02 00000000 330a71876bc42d42 00000001",
};

START_TEST(metadata_rows_of_both_encodings_are_decoded)
{
    struct kvrocks_value list = decoded(WHOLE_ROWS[1]);
    ck_assert_uint_eq(list.type, KVROCKS_LIST);
    ck_assert_uint_eq(list.expire_ms, UINT64_C(0x3bb2cc3d800));
    ck_assert_uint_eq(list.tail - list.head, list.size);
    struct kvrocks_value old = decoded("01 65dc0000 6869");
    ck_assert_uint_eq(old.expire_ms, UINT64_C(1000) * 0x65dc0000);
    ck_assert(bytes_is(old.payload, "hi"));
    ck_assert_uint_eq(decoded(WHOLE_ROWS[3]).version, UINT64_C(0x330a71876bc42d42));
    ck_assert(decoded("8a 0000000000000000 01 f5").is_cbor);
}
END_TEST

START_TEST(a_metadata_row_that_is_cut_or_longer_is_refused)
{
    struct kvrocks_value value;
    for (unsigned i = 0; i < COUNT_OF(WHOLE_ROWS); i++) {
        struct bytes row = hex(WHOLE_ROWS[i]);
        struct guard guard;
        (void)decoded(WHOLE_ROWS[i]);
        for (size_t len = 0; len < row.len; len++) {
            guard_init(&guard, row.data, len);
            ck_assert(!kvrocks_value_read((struct bytes){guard.data, len}, &value));
            guard_fini(&guard);
        }
        ((char *)row.data)[row.len] = 0; /* the arena's text is longer than its bytes */
        ck_assert(!kvrocks_value_read((struct bytes){row.data, row.len + 1}, &value));
    }
    ck_assert(!kvrocks_value_read(hex("c1 0000000000000000"), &value)); /* an unknown flag */
    ck_assert(
        !kvrocks_value_read(hex("89 0000000000000000 330a70ab64bf6fed 0000000000000000"), &value));
    ck_assert_uint_eq(value.type, KVROCKS_BLOOM);
}
END_TEST

START_TEST(slots_in_keys_are_found_and_cut_off)
{
    struct kvrocks_key key;
    struct bytes row =
        hex("0b 5f5f6e616d657370616365 2e3e 666f6f 62"); /* CRC16("foob") is another one */
    ck_assert(!kvrocks_key_fits_slot(row));
    row = hex("0b 5f5f6e616d657370616365 2f96 666f6f");
    ck_assert(kvrocks_key_fits_slot(row));
    ck_assert(kvrocks_key_read(row, true, &key));
    ck_assert(bytes_is(key.key, "foo"));
    ck_assert(bytes_is(key.space, "__namespace"));
    struct bytes prefix = kvrocks_rows_prefix(&arena, &key, 1);
    ck_assert(bytes_equal(prefix,
                          hex("0b 5f5f6e616d657370616365 2f96 00000003 666f6f 0000000000000001")));
    ck_assert(kvrocks_key_read(hex("01 61"), false, &key)); /* the empty key */
    ck_assert(!kvrocks_key_read(hex("02 61"), false, &key));
}
END_TEST

START_TEST(elements_are_decoded)
{
    double score = 1;
    uint64_t offset;
    ck_assert(kvrocks_score_read(hex("400fffffffffffff"), &score));
    ck_assert_double_eq(score, -1);
    ck_assert(kvrocks_score_read(hex("7fffffffffffffff"), &score));
    ck_assert(score >= 0 && !signbit(score));                        /* -0 */
    ck_assert(!kvrocks_score_read(hex("ffffffffffffffff"), &score)); /* NaN */
    ck_assert(kvrocks_part_read(BYTES("536869888"), &offset) && offset == 536869888);
    ck_assert(!kvrocks_part_read(BYTES("1025"), &offset));
    ck_assert_uint_eq(kvrocks_reverse_bits(0x01), 0x80);
    ck_assert_uint_eq(kvrocks_reverse_bits(0x12), 0x48);
    ck_assert(kvrocks_entry_is_good(hex("02 6631 04 c44816b9 04 0062696e 00")));
    ck_assert(!kvrocks_entry_is_good(hex("02 6631 04 c44816b9 04 0062696e")));
}
END_TEST

START_TEST(rows_of_groups_are_decoded)
{
    struct kvrocks_group group;
    struct kvrocks_consumer consumer;
    struct kvrocks_pending pending;
    struct bytes sub = hex("ffffffffffffffff 01 0000000000000001 67");
    ck_assert(kvrocks_group_read(
        sub,
        hex("0000000000000002 0000000000000003 0000000000000005 0000000000000006 "
            "ffffffffffffffff 0000000000000000"),
        &group));
    ck_assert(group.last.ms == 5 && group.last.seq == 6 && group.entries_read == UINT64_MAX);
    ck_assert(kvrocks_consumer_read(
        hex("ffffffffffffffff 02 0000000000000001 67 0000000000000002 6331"),
        hex("0000000000000002 0000000000000007 0000000000000008"), &consumer));
    ck_assert(bytes_is(consumer.name, "c1") && consumer.seen_ms == 7 && consumer.active_ms == 8);
    ck_assert(kvrocks_pending_read(
        hex("ffffffffffffffff 03 0000000000000001 67 0000000000000005 0000000000000006"),
        hex("0000000000000009 0000000000000001 0000000000000002 6331"), &pending));
    ck_assert(bytes_is(pending.consumer, "c1") && pending.id.ms == 5 && pending.delivered_ms == 9);
    ck_assert(!kvrocks_consumer_read(sub, hex(""), &consumer));
}
END_TEST

static void check_json(const char *cbor, const char *expected)
{
    struct bytes json;
    bool is_good = cbor_to_json(&arena, hex(cbor), &json);
    ck_assert_msg(is_good == !!expected, "%s", cbor);
    if (is_good)
        ck_assert_msg(bytes_is(json, expected), "%s: %.*s", cbor, (int)json.len, json.data);
}

START_TEST(cbor_becomes_json)
{
    check_json("00", "0");
    check_json("1903e8", "1000");
    check_json("1bffffffffffffffff", "18446744073709551615");
    check_json("3903e7", "-1000");
    check_json("c249010000000000000000", "\"18446744073709551616\"");
    check_json("c349010000000000000000", "\"-18446744073709551617\"");
    check_json("f98000", "0.0"); /* -0 */
    check_json("f93c00", "1.0");
    check_json("fb3ff199999999999a", "1.1");
    check_json("fa7f7fffff", "3.4028234663852886e+38");
    check_json("f90001", "5.9604644775390625e-08");
    check_json("fb7e37e43c8800759c", "1e+300");
    check_json("f4", "false");
    check_json("f6", "null");
    check_json("62225c", "\"\\\"\\\\\"");
    check_json("63610a62", "\"a\\u000ab\"");
    check_json("826161a161626163", "[\"a\",{\"b\":\"c\"}]");
    check_json("9f018202039f0405ffff", "[1,[2,3],[4,5]]");
    check_json("bf61610161629f0203ffff", "{\"a\":1,\"b\":[2,3]}");
    check_json("7f657374726561646d696e67ff", "\"streaming\"");
}
END_TEST

START_TEST(cbor_that_json_does_not_have_is_refused)
{
    static const char *const REFUSED[] = {
        "",           "f7",
        "f97e00",     "f97c00",
        "4401020304", "c074323031332d30332d32315432303a30343a30305a",
        "a10102",     "3bffffffffffffffff",
        "0000",       "8201",
        "62 61",      "1c",
        "ff",         "9f01",
        "bf6161ff",
    };
    for (unsigned i = 0; i < COUNT_OF(REFUSED); i++)
        check_json(REFUSED[i], NULL);
}
END_TEST

START_TEST(cbor_that_is_nested_too_deeply_is_refused)
{
    static char deep[CBOR_DEPTH_MAX + 2];
    struct bytes json;
    memset(deep, '\x81', sizeof deep);
    deep[CBOR_DEPTH_MAX] = '\x00';
    ck_assert(cbor_to_json(&arena, (struct bytes){deep, CBOR_DEPTH_MAX + 1}, &json));
    deep[CBOR_DEPTH_MAX] = '\x81';
    deep[CBOR_DEPTH_MAX + 1] = '\x00';
    ck_assert(!cbor_to_json(&arena, (struct bytes){deep, CBOR_DEPTH_MAX + 2}, &json));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kvrocks");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, metadata_rows_of_both_encodings_are_decoded);
    tcase_add_test(tcase, a_metadata_row_that_is_cut_or_longer_is_refused);
    tcase_add_test(tcase, slots_in_keys_are_found_and_cut_off);
    tcase_add_test(tcase, elements_are_decoded);
    tcase_add_test(tcase, rows_of_groups_are_decoded);
    tcase_add_test(tcase, cbor_becomes_json);
    tcase_add_test(tcase, cbor_that_json_does_not_have_is_refused);
    tcase_add_test(tcase, cbor_that_is_nested_too_deeply_is_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
