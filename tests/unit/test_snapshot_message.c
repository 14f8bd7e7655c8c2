#include "backend/replica/snapshot_message.h"
#include "shared/byte_order.h"
#include "shared/out.h"
#include "tests/unit/guard.h"
#include "tests/unit/suite.h"

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

static struct bytes payload_of(struct snapshot_file *files, uint32_t count)
{
    struct snapshot_list list = {
        .origin = 1, .index = 2, .term = 3, .whole_at = 4, .count = count, .files = files};
    struct out out;
    out_init(&out);
    snapshot_list_write(&list, &out);
    char *payload = arena_alloc(&arena, out.bytes);
    out_copy(&out, payload);
    struct bytes bytes = {payload, out.bytes};
    out_clear(&out);
    return bytes;
}

static struct bytes payload_of_two(void)
{
    struct snapshot_file files[] = {{BYTES("000007.sst"), 5}, {BYTES("CURRENT"), UINT64_MAX - 5}};
    return payload_of(files, 2);
}

/* Reads a copy that ends before an unreadable page. */
static bool is_read(struct bytes payload)
{
    struct snapshot_list list;
    struct guard guard;
    guard_init(&guard, payload.data, payload.len);
    bool is_good = snapshot_list_read((struct bytes){guard.data, guard.len}, &arena, &list);
    guard_fini(&guard);
    return is_good;
}

START_TEST(a_list_that_was_written_is_read)
{
    struct snapshot_list list;
    ck_assert(snapshot_list_read(payload_of_two(), &arena, &list));
    ck_assert_uint_eq(list.origin, 1);
    ck_assert_uint_eq(list.index, 2);
    ck_assert_uint_eq(list.term, 3);
    ck_assert_uint_eq(list.whole_at, 4);
    ck_assert_uint_eq(list.count, 2);
    ck_assert(bytes_equal(list.files[1].name, BYTES("CURRENT")));
    ck_assert_uint_eq(list.files[1].size, UINT64_MAX - 5);
    ck_assert_uint_eq(snapshot_list_bytes(&list), UINT64_MAX);
    ck_assert(is_read(payload_of(NULL, 0)));
}
END_TEST

START_TEST(a_list_that_is_cut_or_longer_is_refused)
{
    struct bytes payload = payload_of_two();
    for (size_t len = 0; len < payload.len; len++)
        ck_assert(!is_read((struct bytes){payload.data, len}));
    char *longer = arena_alloc(&arena, payload.len + 1);
    memcpy(longer, payload.data, payload.len);
    longer[payload.len] = 0;
    ck_assert(!is_read((struct bytes){longer, payload.len + 1}));
}
END_TEST

START_TEST(a_count_beyond_the_payload_is_refused)
{
    struct bytes payload = payload_of_two();
    char *copy = arena_alloc(&arena, payload.len);
    for (uint32_t count = 1; count; count <<= 1) {
        memcpy(copy, payload.data, payload.len);
        put_le32(copy + 32, count);
        ck_assert(is_read((struct bytes){copy, payload.len}) == (count == 2));
    }
}
END_TEST

START_TEST(no_name_leads_out_of_the_directory)
{
    static const char *const names[] = {"",     ".",    "..",  ".origin", "a/b", "/a",
                                        "../a", "a\\b", "a b", "a.part",  "a\n"};
    char longest[SNAPSHOT_NAME_MAX + 1];
    memset(longest, 'a', sizeof longest);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert(!is_snapshot_name(bytes_of(names[i])));
    ck_assert(!is_snapshot_name((struct bytes){"a\0b", 3}));
    ck_assert(is_snapshot_name((struct bytes){longest, SNAPSHOT_NAME_MAX}));
    ck_assert(!is_snapshot_name((struct bytes){longest, SNAPSHOT_NAME_MAX + 1}));
}
END_TEST

/* A hostile copy writes what snapshot_list_write does not. */
START_TEST(a_list_with_a_bad_name_is_refused)
{
    struct bytes payload = payload_of_two();
    char *copy = arena_alloc(&arena, payload.len);
    memcpy(copy, payload.data, payload.len);
    char *name = memmem(copy, payload.len, "CURRENT", 7);
    memcpy(name, "../../x", 7);
    ck_assert(!is_read((struct bytes){copy, payload.len}));
}
END_TEST

START_TEST(names_that_are_not_in_order_are_refused)
{
    struct snapshot_file twice[] = {{BYTES("a"), 1}, {BYTES("a"), 2}};
    struct snapshot_file back[] = {{BYTES("b"), 1}, {BYTES("a"), 2}};
    ck_assert(!is_read(payload_of(twice, 2)));
    ck_assert(!is_read(payload_of(back, 2)));
}
END_TEST

START_TEST(a_piece_has_a_length_within_bounds)
{
    static const uint32_t lengths[] = {0, 1, SNAPSHOT_PIECE_MAX, SNAPSHOT_PIECE_MAX + 1,
                                       UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char payload[SNAPSHOT_READ_BYTES];
        struct snapshot_piece piece = {.file = 1, .len = lengths[i], .offset = 1ULL << 40}, read;
        bool is_good = lengths[i] > 0 && lengths[i] <= SNAPSHOT_PIECE_MAX;
        snapshot_piece_write(&piece, payload);
        ck_assert(snapshot_piece_read((struct bytes){payload, sizeof payload}, &read) == is_good);
        ck_assert(!is_good ||
                  (read.file == 1 && read.len == lengths[i] && read.offset == 1ULL << 40));
        ck_assert(!snapshot_piece_read((struct bytes){payload, sizeof payload - 1}, &read));
    }
}
END_TEST

START_TEST(damaged_data_is_noticed)
{
    char payload[SNAPSHOT_DATA_HEADER_BYTES + 300];
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (char)i;
    snapshot_data_seal(payload, 300);
    for (size_t i = 0; i < sizeof payload; i++) {
        ck_assert(snapshot_data_is_good((struct bytes){payload, sizeof payload}));
        payload[i] ^= 16;
        ck_assert(!snapshot_data_is_good((struct bytes){payload, sizeof payload}));
        payload[i] ^= 16;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("snapshot_message");
    TCase *tests = tcase_create("snapshot_message");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_list_that_was_written_is_read);
    tcase_add_test(tests, a_list_that_is_cut_or_longer_is_refused);
    tcase_add_test(tests, a_count_beyond_the_payload_is_refused);
    tcase_add_test(tests, no_name_leads_out_of_the_directory);
    tcase_add_test(tests, a_list_with_a_bad_name_is_refused);
    tcase_add_test(tests, names_that_are_not_in_order_are_refused);
    tcase_add_test(tests, a_piece_has_a_length_within_bounds);
    tcase_add_test(tests, damaged_data_is_noticed);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
