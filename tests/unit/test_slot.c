#include "guard.h"
#include "shared/slot.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static uint16_t crc_bitwise(struct bytes data)
{
    unsigned crc = 0;
    for (size_t i = 0; i < data.len; i++) {
        crc ^= (unsigned)(unsigned char)data.data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return (uint16_t)crc;
}

START_TEST(known_vectors_come_out)
{
    ck_assert_uint_eq(slot_crc16(BYTES("123456789")), 0x31c3);
    ck_assert_uint_eq(slot_of(BYTES("")), 0);
    ck_assert_uint_eq(slot_of(BYTES("foo{}{bar}")), 8363);
    ck_assert_uint_eq(slot_of(BYTES("foo{{bar}}zap")), 4015);
    ck_assert_uint_eq(slot_of(BYTES("foo")), 12182);
    ck_assert_uint_eq(slot_of(BYTES("{user1000}.following")),
                      slot_of(BYTES("{user1000}.followers")));
}
END_TEST

START_TEST(every_single_byte_at_every_distance_from_the_end_is_right)
{
    char data[17];
    for (size_t len = 1; len <= sizeof(data); len++)
        for (size_t at = 0; at < len; at++)
            for (int byte = 0; byte < 256; byte++) {
                memset(data, 0, sizeof(data));
                data[at] = (char)byte;
                struct bytes bytes = {data, len};
                ck_assert_uint_eq(slot_crc16(bytes), crc_bitwise(bytes));
            }
}
END_TEST

START_TEST(random_bytes_of_every_length_agree_with_the_bitwise_crc)
{
    char data[100];
    unsigned state = 1;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)((state = state * 1103515245 + 12345) >> 16);
    for (size_t len = 0; len <= sizeof(data); len++) {
        struct guard guard;
        guard_init(&guard, data, len);
        struct bytes bytes = {guard.data, len};
        ck_assert_uint_eq(slot_crc16(bytes), crc_bitwise(bytes));
        guard_fini(&guard);
    }
}
END_TEST

static void expect_tag(const char *key, const char *tag)
{
    struct guard guard;
    guard_init(&guard, key, strlen(key));
    ck_assert_msg(bytes_equal(slot_tag((struct bytes){guard.data, guard.len}), bytes_of(tag)), "%s",
                  key);
    guard_fini(&guard);
}

START_TEST(the_tag_is_the_first_braces_when_they_hold_something)
{
    expect_tag("{a}", "a");
    expect_tag("x{a}y{b}", "a");
    expect_tag("x{a{b}c}", "a{b");
    expect_tag("}{a}", "a");
    expect_tag("{}{a}", "{}{a}");
    expect_tag("{", "{");
    expect_tag("a{b", "a{b");
    expect_tag("a}b", "a}b");
    expect_tag("", "");
}
END_TEST

START_TEST(the_sum_of_all_slots_is_the_known_one)
{
    uint64_t sum = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        ck_assert((sum & SLOT_SUM_MASK) != SLOT_SUM_ALL);
        sum += slot_term((uint16_t)slot);
    }
    ck_assert_uint_eq(sum & SLOT_SUM_MASK, SLOT_SUM_ALL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slot");
    TCase *tests = tcase_create("slot");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, known_vectors_come_out);
    tcase_add_test(tests, every_single_byte_at_every_distance_from_the_end_is_right);
    tcase_add_test(tests, random_bytes_of_every_length_agree_with_the_bitwise_crc);
    tcase_add_test(tests, the_tag_is_the_first_braces_when_they_hold_something);
    tcase_add_test(tests, the_sum_of_all_slots_is_the_known_one);
    return suite_run(suite);
}
