/*
 * test_bounce.c - the frame with which a backend sends a request back: what is written is read again, and nothing else is.
 */
#include "shared/bounce.h"

#include "shared/check.h"
#include "shared/resp.h"
#include "tests/unit/guard.h"

#include <stdlib.h>

enum { FRAME_MAX = 4096 };

static char frame[FRAME_MAX];

static const struct bounce example = {.slot = 7,
                                      .first = 5,
                                      .last = 9,
                                      .db = 3,
                                      .epoch = 12,
                                      .shard = {"b-1.x", 5},
                                      .address = {"10.0.0.1:7401", 13},
                                      .space = {"a\nspace", 7},
                                      .count = 3};

/* Writes the bounce with MULTI, SET with a binary value, and EXEC. Returns the length. */
static size_t write_example(const struct bounce *bounce)
{
    const struct bytes set[] = {BYTES("SET"), BYTES("k"), {"\r\n!7\r\n\0", 7}};
    struct out requests;
    struct out out;
    out_init(&requests);
    out_init(&out);
    resp_write_words(&requests, (const struct bytes[]){BYTES("MULTI")}, 1);
    resp_write_words(&requests, set, 3);
    resp_write_words(&requests, (const struct bytes[]){BYTES("EXEC")}, 1);
    bounce_write(&out, bounce, &requests);
    size_t len = out.bytes;
    CHECK(len <= FRAME_MAX && requests.bytes == 0);
    out_copy(&out, frame);
    out_clear(&out);
    return len;
}

static void test_what_is_written_is_read_again(void)
{
    struct bounce got;
    size_t len = write_example(&example);
    CHECK(bounce_is(frame, len));
    CHECK(bounce_read((struct bytes){frame, len}, &got));
    CHECK(got.slot == 7 && got.first == 5 && got.last == 9 && got.db == 3 && got.epoch == 12);
    CHECK(bytes_equal(got.shard, example.shard) && bytes_equal(got.address, example.address));
    CHECK(bytes_equal(got.space, example.space) && got.count == 3);
    CHECK(bytes_equal(got.command, BYTES("*1\r\n$4\r\nEXEC\r\n")) && got.argc == 1);
}

static void test_why_a_request_bounces_is_read_again(void)
{
    for (uint8_t why = BOUNCE_OWNER; why <= BOUNCE_BEHIND + 1; why++) {
        struct bounce got;
        struct bounce bounce = example;
        bounce.why = why;
        size_t len = write_example(&bounce);
        bool is_read = bounce_read((struct bytes){frame, len}, &got);
        CHECK(is_read == (why <= BOUNCE_BEHIND));
        CHECK(!is_read || (got.why == why && bytes_equal(got.space, example.space)));
    }
}

static void test_a_frame_that_is_cut_or_changed_is_refused(void)
{
    struct bounce got;
    size_t len = write_example(&example);
    for (size_t cut = 0; cut < len; cut++) {
        struct guard guard;
        guard_init(&guard, frame, cut);
        CHECK(!bounce_read((struct bytes){guard.data, cut}, &got));
        guard_fini(&guard);
    }
    for (size_t at = 0; at < len; at++) { /* it may still be valid, but must not read too far */
        struct guard guard;
        char before = frame[at];
        frame[at] = (char)(before ^ 0x15);
        guard_init(&guard, frame, len);
        (void)bounce_read((struct bytes){guard.data, len}, &got);
        guard_fini(&guard);
        frame[at] = before;
    }
}

static bool is_refused(struct bounce bounce)
{
    struct bounce got;
    size_t len = write_example(&bounce);
    return !bounce_read((struct bytes){frame, len}, &got);
}

static void test_values_out_of_range_are_refused(void)
{
    struct bounce bounce;
    bounce = example, bounce.slot = 10;
    CHECK(is_refused(bounce)); /* not in first .. last */
    bounce = example, bounce.last = SLOT_COUNT;
    CHECK(is_refused(bounce));
    bounce = example, bounce.epoch = 0;
    CHECK(is_refused(bounce));
    bounce = example, bounce.count = 2;
    CHECK(is_refused(bounce)); /* a request too much */
    bounce = example, bounce.count = 4;
    CHECK(is_refused(bounce));
    bounce = example, bounce.count = 0;
    CHECK(is_refused(bounce));
    bounce = example, bounce.shard = BYTES("a b");
    CHECK(is_refused(bounce));
    bounce = example, bounce.shard = BYTES("");
    CHECK(is_refused(bounce));
    bounce = example, bounce.address = BYTES("h:1\r\n");
    CHECK(is_refused(bounce));
    bounce = example, bounce.space = BYTES("default");
    CHECK(is_refused(bounce));
    bounce = example, bounce.address = BYTES("");
    CHECK(!is_refused(bounce)); /* the backend does not know it */
}

static void test_replies_are_no_bounces(void)
{
    static const char *const replies[] = {
        "+OK\r\n",       "$8\r\nBOUNCE 1\r\n",        "-BOUNCE 1 7 7 7 1 0 1 1 0 0\r\n",
        "!3\r\nERR\r\n", "!8\r\nBOUNCE 1\r\n",        "!9\r\nBOUNCE 1\n\r\n",
        "!-1\r\n",       "!99999999999999999999\r\n", "!29\r\nBOUNCE 1 7 7 7 1 0 1 1 0 0\na\r\n"};
    struct bounce got;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++)
        CHECK(!bounce_read(bytes_of(replies[i]), &got));
}

int main(void)
{
    test_what_is_written_is_read_again();
    test_why_a_request_bounces_is_read_again();
    test_a_frame_that_is_cut_or_changed_is_refused();
    test_values_out_of_range_are_refused();
    test_replies_are_no_bounces();
    return 0;
}
