/*
 * test_slowlog.c - the slow log keeps the newest entries, cuts long arguments, and shows each namespace only its own
 * entries.
 */
#include "shared/command/slowlog.h"

#include "shared/check.h"

static void push(struct slowlog *log, const struct bytes *argv, uint32_t argc, uint64_t len_max)
{
    const struct slow_command slow = {.at_s = 100,
                                      .usec = 7,
                                      .peer = BYTES("1.2.3.4:5"),
                                      .name = BYTES("me"),
                                      .argv = argv,
                                      .argc = argc};
    slowlog_push(log, &slow, len_max);
}

static void test_the_slow_log_keeps_the_newest(void)
{
    struct slowlog log = {0};
    const struct bytes argv[] = {BYTES("GET"), BYTES("k")};
    for (int i = 0; i < 5; i++)
        push(&log, argv, 2, 3);
    CHECK(log.count == 3 && log.newest->id == 4 && log.newest->next->next->id == 2);
    CHECK(!log.newest->next->next->next);
    CHECK(bytes_equal(log.newest->peer, BYTES("1.2.3.4:5")) &&
          bytes_equal(log.newest->name, BYTES("me")));
    CHECK(bytes_equal(log.newest->argv[1], BYTES("k")));
    push(&log, argv, 2, 0);
    CHECK(log.count == 0 && !log.newest);
    slowlog_reset(&log, NULL);
    push(&log, argv, 2, 3);
    CHECK(log.newest->id == 6);
    slowlog_reset(&log, NULL);
}

static void test_long_commands_are_cut_with_a_note(void)
{
    struct slowlog log = {0};
    char big[200];
    struct bytes argv[40];
    memset(big, 'x', sizeof big);
    for (int i = 0; i < 40; i++)
        argv[i] = BYTES("a");
    argv[1] = (struct bytes){big, sizeof big};
    argv[2] = (struct bytes){big, 128};
    push(&log, argv, 40, 1);
    const struct slow_entry *slow = log.newest;
    CHECK(slow->argc == 32);
    CHECK(slow->argv[1].len == 128 + strlen("... (72 more bytes)"));
    CHECK(memcmp(slow->argv[1].data + 128, "... (72 more bytes)", 19) == 0);
    CHECK(slow->argv[2].len == 128);
    CHECK(bytes_equal(slow->argv[31], BYTES("... (9 more arguments)")));
    push(&log, argv, 32, 1);
    CHECK(log.newest->argc == 32 && bytes_equal(log.newest->argv[31], BYTES("a")));
    slowlog_reset(&log, NULL);
}

static void test_arguments_no_longer_kept_are_counted_in_the_notes(void)
{
    struct slowlog log = {0};
    const struct bytes argv[] = {BYTES("MSET"), BYTES("key")};
    const struct slow_command slow = {.argv = argv, .argc = 2, .missing = 3, .last_cut = 7};
    slowlog_push(&log, &slow, 9);
    CHECK(log.newest->argc == 3);
    CHECK(bytes_equal(log.newest->argv[1], BYTES("key... (7 more bytes)")));
    CHECK(bytes_equal(log.newest->argv[2], BYTES("... (3 more arguments)")));
    const struct slow_command one = {.argv = argv, .argc = 2, .missing = 1};
    slowlog_push(&log, &one, 9);
    CHECK(log.newest->argc == 3);
    CHECK(bytes_equal(log.newest->argv[2], BYTES("... (1 more arguments)")));
    slowlog_reset(&log, NULL);
}

static void test_entries_that_are_taken_have_the_numbers_of_pushed_ones(void)
{
    struct slowlog log = {0};
    struct slowlog held = {0};
    const struct bytes argv[] = {BYTES("GET"), BYTES("k")};
    for (int i = 0; i < 2; i++)
        push(&log, argv, 1, 3);
    for (int i = 0; i < 4; i++)
        push(&held, argv, 2, 2);
    slowlog_take(&log, &held, 3);
    CHECK(held.count == 0 && !held.newest && !held.oldest && held.next_id == 0);
    CHECK(log.count == 3 && log.next_id == 6);
    CHECK(log.newest->id == 5 && log.newest->next->id == 4 && log.oldest->id == 1);
    CHECK(log.newest->argc == 2 && log.oldest->argc == 1);
    CHECK(!log.newest->newer && log.newest->next->newer == log.newest);
    slowlog_take(&log, &held, 3);
    CHECK(log.count == 3 && log.next_id == 6);
    slowlog_reset(&log, NULL);
}

static void test_a_namespace_sees_and_resets_its_own_entries(void)
{
    struct slowlog log = {0};
    const struct bytes argv[] = {BYTES("GET")};
    const struct bytes mine = BYTES("a");
    for (int i = 0; i < 6; i++) {
        struct slow_command slow = {.argv = argv, .argc = 1};
        slow.space = i % 2 ? mine : BYTES("b");
        slowlog_push(&log, &slow, 9);
    }
    CHECK(slowlog_count(&log, &mine) == 3 && slowlog_count(&log, NULL) == 6);
    CHECK(slowlog_next(log.newest->next, &mine)->id == 3);
    slowlog_reset(&log, &mine);
    CHECK(slowlog_count(&log, &mine) == 0 && log.count == 3);
    slowlog_reset(&log, NULL);
    CHECK(log.count == 0 && !log.newest);
}

static void test_the_oldest_is_dropped_after_a_namespace_was_reset(void)
{
    const struct bytes argv[] = {BYTES("GET")};
    const struct bytes names[] = {BYTES("a"), BYTES("b")};
    for (int reset = 0; reset < 2; reset++) {
        struct slowlog log = {0};
        for (int i = 0; i < 6; i++) {
            const struct slow_command slow = {.argv = argv, .argc = 1, .space = names[i % 2]};
            slowlog_push(&log, &slow, 9);
        }
        slowlog_reset(&log, &names[reset]); /* the oldest entry, or the newest */
        push(&log, argv, 1, 3);
        uint64_t oldest = reset ? 2 : 3;
        CHECK(log.count == 3 && log.newest->id == 6 && log.newest->next->id == oldest + 2);
        CHECK(log.newest->next->next->id == oldest && !log.newest->next->next->next);
        slowlog_reset(&log, NULL);
        CHECK(log.count == 0 && !log.newest && !log.oldest);
    }
}

int main(void)
{
    test_the_slow_log_keeps_the_newest();
    test_long_commands_are_cut_with_a_note();
    test_arguments_no_longer_kept_are_counted_in_the_notes();
    test_entries_that_are_taken_have_the_numbers_of_pushed_ones();
    test_a_namespace_sees_and_resets_its_own_entries();
    test_the_oldest_is_dropped_after_a_namespace_was_reset();
    return 0;
}
