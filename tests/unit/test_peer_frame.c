/*
 * test_peer_frame.c - peer/frame.h: golden bytes written out by hand, reading back what was written, and refusal of all
 * other bytes.
 */
#include "backend/peer/frame.h"
#include "shared/out.h"
#include "tests/unit/suite.h"

static const char GOLDEN_FRAME[] = "\3\0\0\0\2\0\0\0\x8\7\6\5\4\3\2\1\x90\1\0\0\0\0\0\0abc";
static const char GOLDEN_IDENTITY[] = "\1"
                                      "\7\0\0\0\0\0\0\0"
                                      "\x8\7\6\5\4\3\2\1"
                                      "\x2a\0\0\0\0\0\0\0"
                                      "\4beef"
                                      "\1a"
                                      "\6h:7401"
                                      "\5"
                                      "0.1.0"
                                      "\xe9\x1c\x4d\x1d" /* 7401, 7501 */
                                      "\1"
                                      "\1\0\0\0\0\0\0\x80"
                                      "\3\0\0\x90"
                                      "\x5\0\0\0\0\0\0\xf0"
                                      "\2"
                                      "\1\0\0\0\0\0\0\xc0\1\x29\0\0\0\0\0\0\0"
                                      "\2\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0\0\0"
                                      "\7\0\0\0\0\0\0\xb0";
enum {
    GOLDEN_COPIES_LEN = sizeof GOLDEN_IDENTITY - 1 - 8, /* without the log's name */
    GOLDEN_OLD_LEN = GOLDEN_COPIES_LEN - 25 - 35,       /* without ports */
    GOLDEN_PORTS_LEN = GOLDEN_OLD_LEN + 4,
    GOLDEN_CLOCK_LEN = GOLDEN_PORTS_LEN + 9,
};

static const struct peer_identity IDENTITY = {
    .run_id = "beef",
    .shard = "a",
    .address = "h:7401",
    .version = "0.1.0",
    .port = 7401,
    .tls_port = 7501,
    .map_epoch = 7,
    .map_hash = 0x0102030405060708,
    .log_index = 42,
    .listens = true,
    .wall_us = 0x8000000000000001,
    .leadership = {0x90000003, 0xf000000000000005},
    .copies = {2, {{0xc000000000000001, true, 41}, {0xc000000000000002, false, 0}}},
    .log_id = 0xb000000000000007,
};

START_TEST(a_frame_has_these_bytes)
{
    struct out out;
    char bytes[sizeof GOLDEN_FRAME - 1];
    out_init(&out);
    peer_frame_write(&out, &(struct peer_frame){.kind = PEER_ECHO,
                                                .id = 0x0102030405060708,
                                                .hybrid = 0x0190,
                                                .payload = BYTES("abc")});
    ck_assert_uint_eq(out.bytes, sizeof bytes);
    out_copy(&out, bytes);
    ck_assert_mem_eq(bytes, GOLDEN_FRAME, sizeof bytes);
    out_clear(&out);
}
END_TEST

START_TEST(a_frame_is_read_when_it_is_whole)
{
    struct peer_frame frame;
    size_t size;
    for (size_t len = 0; len < sizeof GOLDEN_FRAME - 1; len++) {
        ck_assert_int_eq(peer_frame_read(GOLDEN_FRAME, len, &frame, &size), PEER_FRAME_MORE);
        ck_assert_uint_eq(size, len < PEER_FRAME_HEADER_BYTES ? 0 : sizeof GOLDEN_FRAME - 1);
    }
    ck_assert_int_eq(peer_frame_read(GOLDEN_FRAME, sizeof GOLDEN_FRAME, &frame, &size),
                     PEER_FRAME_WHOLE);
    ck_assert_uint_eq(size, sizeof GOLDEN_FRAME - 1);
    ck_assert_uint_eq(frame.kind, PEER_ECHO);
    ck_assert_uint_eq(frame.id, 0x0102030405060708);
    ck_assert_uint_eq(frame.hybrid, 0x0190);
    ck_assert(bytes_equal(frame.payload, BYTES("abc")));
}
END_TEST

START_TEST(frames_that_are_too_long_or_have_other_bytes_are_refused)
{
    struct peer_frame frame;
    size_t size;
    char bytes[sizeof GOLDEN_FRAME];
    for (int at = 3; at < 8; at++) {
        memcpy(bytes, GOLDEN_FRAME, sizeof bytes);
        bytes[at] = at == 4 ? 0 : 5; /* at byte 3: a length of 83 MB */
        ck_assert_int_eq(peer_frame_read(bytes, sizeof bytes, &frame, &size), PEER_FRAME_BAD);
    }
    memcpy(bytes, GOLDEN_FRAME, sizeof bytes);
    bytes[23] = 0x40; /* the latest time that there is */
    memset(bytes + 16, 0, 7);
    ck_assert_int_eq(peer_frame_read(bytes, sizeof bytes, &frame, &size), PEER_FRAME_WHOLE);
    bytes[16] = 1;
    ck_assert_int_eq(peer_frame_read(bytes, sizeof bytes, &frame, &size), PEER_FRAME_BAD);
}
END_TEST

START_TEST(an_identity_has_these_bytes)
{
    char bytes[PEER_IDENTITY_MAX];
    ck_assert_uint_eq(peer_identity_write(&IDENTITY, bytes), sizeof GOLDEN_IDENTITY - 1);
    ck_assert_mem_eq(bytes, GOLDEN_IDENTITY, sizeof GOLDEN_IDENTITY - 1);
}
END_TEST

START_TEST(an_identity_is_read_back_also_when_a_newer_version_adds_to_it)
{
    struct peer_identity identity;
    ck_assert(
        peer_identity_read((struct bytes){GOLDEN_IDENTITY, sizeof GOLDEN_IDENTITY}, &identity));
    ck_assert_str_eq(identity.run_id, IDENTITY.run_id);
    ck_assert_str_eq(identity.shard, IDENTITY.shard);
    ck_assert_str_eq(identity.address, IDENTITY.address);
    ck_assert_str_eq(identity.version, IDENTITY.version);
    ck_assert_uint_eq(identity.map_epoch, IDENTITY.map_epoch);
    ck_assert_uint_eq(identity.map_hash, IDENTITY.map_hash);
    ck_assert_uint_eq(identity.log_index, IDENTITY.log_index);
    ck_assert_uint_eq(identity.port, IDENTITY.port);
    ck_assert_uint_eq(identity.tls_port, IDENTITY.tls_port);
    ck_assert(identity.listens);
    ck_assert(identity.wall_us == IDENTITY.wall_us);
    ck_assert_uint_eq(identity.leadership.generation, IDENTITY.leadership.generation);
    ck_assert(identity.leadership.term == IDENTITY.leadership.term);
    ck_assert(identity.log_id == IDENTITY.log_id);
}
END_TEST

START_TEST(an_identity_of_an_older_version_has_no_ports)
{
    struct peer_identity identity;
    memset(&identity, 0xff, sizeof identity);
    ck_assert(peer_identity_read((struct bytes){GOLDEN_IDENTITY, GOLDEN_OLD_LEN}, &identity));
    ck_assert_str_eq(identity.version, IDENTITY.version);
    ck_assert_uint_eq(identity.port, 0);
    ck_assert_uint_eq(identity.tls_port, 0);
    ck_assert(!identity.listens);
    ck_assert(peer_identity_read((struct bytes){GOLDEN_IDENTITY, GOLDEN_PORTS_LEN}, &identity));
    ck_assert_uint_eq(identity.tls_port, IDENTITY.tls_port);
    ck_assert(!identity.listens);
    ck_assert_uint_eq(identity.wall_us, 0);
    ck_assert(peer_identity_read((struct bytes){GOLDEN_IDENTITY, GOLDEN_CLOCK_LEN}, &identity));
    ck_assert(identity.wall_us == IDENTITY.wall_us);
    ck_assert_uint_eq(identity.leadership.generation, 0);
    ck_assert(identity.leadership.term == 0);
    ck_assert_uint_eq(identity.copies.count, 0);
    ck_assert(!identity.log_id);
    for (size_t len = GOLDEN_COPIES_LEN; len < sizeof GOLDEN_IDENTITY - 1; len++) {
        ck_assert(peer_identity_read((struct bytes){GOLDEN_IDENTITY, len}, &identity));
        ck_assert(identity.copies.count == 2 && !identity.log_id);
    }
}
END_TEST

START_TEST(the_copies_of_an_identity_are_found_by_their_addresses)
{
    struct peer_identity identity;
    ck_assert(
        peer_identity_read((struct bytes){GOLDEN_IDENTITY, sizeof GOLDEN_IDENTITY}, &identity));
    ck_assert_uint_eq(identity.copies.count, 2);
    ck_assert(identity.copies.of[0].is_up && !identity.copies.of[1].is_up);
    ck_assert_uint_eq(identity.copies.of[0].applied, 41);
    ck_assert_ptr_null(peer_copies_find(&identity.copies, "h:7402"));
    identity.copies.of[1].address = peer_address_hash("Host:7402");
    ck_assert_ptr_eq(peer_copies_find(&identity.copies, "hOST:7402"), &identity.copies.of[1]);
}
END_TEST

START_TEST(copies_that_are_cut_or_too_many_are_left_out)
{
    struct peer_identity identity;
    char bytes[sizeof GOLDEN_IDENTITY];
    size_t whole = GOLDEN_COPIES_LEN;
    for (size_t len = whole - 35; len < whole; len++) {
        ck_assert(peer_identity_read((struct bytes){GOLDEN_IDENTITY, len}, &identity));
        ck_assert_uint_eq(identity.copies.count, 0);
    }
    memcpy(bytes, GOLDEN_IDENTITY, sizeof bytes);
    bytes[whole - 35] = PEER_COPIES_MAX + 1;
    ck_assert(peer_identity_read((struct bytes){bytes, sizeof bytes}, &identity));
    ck_assert_uint_eq(identity.copies.count, 0);
}
END_TEST

START_TEST(a_later_generation_is_newer_than_any_term_of_an_earlier_one)
{
    const struct peer_leadership ordered[] = {
        {0, 0}, {0, 1}, {1, 0}, {1, UINT64_MAX}, {UINT32_MAX, 0}, {UINT32_MAX, UINT64_MAX}};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            int order = peer_leadership_compare(&ordered[i], &ordered[j]);
            ck_assert_int_eq((order > 0) - (order < 0), (i > j) - (i < j));
        }
}
END_TEST

START_TEST(cut_identities_and_unprintable_texts_are_refused)
{
    struct peer_identity identity;
    char bytes[sizeof GOLDEN_IDENTITY];
    for (size_t len = 0; len < GOLDEN_OLD_LEN; len++)
        ck_assert(!peer_identity_read((struct bytes){GOLDEN_IDENTITY, len}, &identity));
    const char bad[] = "\r\n ,=\"\\\x7f\xc3";
    for (size_t i = 0; i < sizeof bad; i++) {
        memcpy(bytes, GOLDEN_IDENTITY, sizeof bytes);
        bytes[26] = bad[i]; /* inside the run id */
        ck_assert(!peer_identity_read((struct bytes){bytes, sizeof bytes}, &identity));
    }
    memcpy(bytes, GOLDEN_IDENTITY, sizeof bytes);
    bytes[0] = 2;
    ck_assert(!peer_identity_read((struct bytes){bytes, sizeof bytes}, &identity));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer_frame");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, a_frame_has_these_bytes);
    tcase_add_test(tests, a_frame_is_read_when_it_is_whole);
    tcase_add_test(tests, frames_that_are_too_long_or_have_other_bytes_are_refused);
    tcase_add_test(tests, an_identity_has_these_bytes);
    tcase_add_test(tests, an_identity_is_read_back_also_when_a_newer_version_adds_to_it);
    tcase_add_test(tests, an_identity_of_an_older_version_has_no_ports);
    tcase_add_test(tests, the_copies_of_an_identity_are_found_by_their_addresses);
    tcase_add_test(tests, copies_that_are_cut_or_too_many_are_left_out);
    tcase_add_test(tests, a_later_generation_is_newer_than_any_term_of_an_earlier_one);
    tcase_add_test(tests, cut_identities_and_unprintable_texts_are_refused);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
