/*
 * test_lock.c - locks of transactions over shards, and keys that clients who watch them have reserved.
 */
#include "backend/keyspace/lock.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/tally.h"
#include "backend/format/encoding.h"
#include "shared/arena.h"
#include "tests/unit/suite.h"

#include <time.h>

static struct arena arena;
static struct backend_metrics metrics;
static struct lock_set *set;
static struct lock_owner old;
static struct lock_owner young;
static struct lock_reserver client;
static struct bytes key;
static unsigned granted;
static unsigned wounded;

static void on_granted(struct lock_owner *owner)
{
    (void)owner;
    granted++;
}

static void on_wounded(struct lock_owner *owner)
{
    (void)owner;
    wounded++;
}

static void init_owner(struct lock_owner *owner, uint64_t begun_us)
{
    lock_owner_init(owner);
    owner->begun_us = begun_us;
    owner->on_granted = on_granted;
    owner->on_wounded = on_wounded;
}

static void setup(void)
{
    arena_init(&arena);
    backend_metrics_init(&metrics);
    set = lock_set_new(backend_metrics_partition(&metrics, 0));
    init_owner(&old, 1);
    init_owner(&young, 2);
    lock_reserver_init(&client);
    key = encode_metadata_key(&arena, BYTES("space"), 7, BYTES("key"));
    granted = wounded = 0;
}

static void end_turns(void)
{
    for (int i = 0; i < 4; i++)
        (void)lock_set_turn_end(set);
}

static void teardown(void)
{
    lock_release(set, &old);
    lock_release(set, &young);
    lock_unreserve(set, &client);
    end_turns();
    lock_set_free(set);
    backend_metrics_fini(&metrics);
    arena_fini(&arena);
}

/* A transaction that may change the key releases it while another one requests it. */
static void release_requested_key(void)
{
    ck_assert(lock_take(set, &young, key, LOCK_WRITE));
    ck_assert(!lock_take(set, &old, key, LOCK_WRITE));
    lock_release(set, &young);
}

/* Lets reservations end that have begun. */
static void let_reservations_lapse(void)
{
    const struct timespec pause = {.tv_nsec = 30000000};
    (void)nanosleep(&pause, NULL);
    lock_end_reservations(set);
}

START_TEST(a_requested_key_is_granted_after_the_reservation)
{
    release_requested_key();
    lock_reserve(set, &client, key);
    end_turns();
    ck_assert_uint_eq(granted, 0);
    lock_unreserve(set, &client);
    end_turns();
    ck_assert_uint_eq(granted, 1);
    ck_assert(lock_is_held(set, &old, key));
}
END_TEST

START_TEST(a_reservation_ends_by_itself)
{
    release_requested_key();
    lock_reserve(set, &client, key);
    let_reservations_lapse();
    end_turns();
    ck_assert_uint_eq(granted, 1);
}
END_TEST

START_TEST(after_a_reservation_a_request_is_granted_before_the_next_one)
{
    release_requested_key();
    lock_reserve(set, &client, key);
    lock_unreserve(set, &client);
    lock_reserve(set, &client, key);
    end_turns();
    ck_assert_uint_eq(granted, 1);
}
END_TEST

START_TEST(the_client_and_readers_pass_its_reservation_and_wound_no_other)
{
    struct lock_owner own;
    struct lock_owner reader;
    init_owner(&own, 3);
    init_owner(&reader, 4);
    own.reserver = &client;
    release_requested_key();
    lock_reserve(set, &client, key);
    ck_assert(lock_take(set, &reader, key, LOCK_READ));
    lock_release(set, &reader);
    ck_assert(lock_take(set, &own, key, LOCK_WRITE));
    ck_assert(!lock_take(set, &old, key, LOCK_WRITE));
    end_turns();
    ck_assert_uint_eq(wounded + granted, 0);
    lock_unreserve(set, &client);
    lock_release(set, &own);
    end_turns();
    ck_assert_uint_eq(granted, 1);
}
END_TEST

/* Else they, who begin again at once and pass its request, and the command would take turns without end. */
START_TEST(a_command_wounds_neither_the_client_nor_readers_before_the_reservation_ends)
{
    struct lock_owner own;
    struct lock_owner reader;
    init_owner(&own, 3);
    init_owner(&reader, 4);
    own.reserver = &client;
    old.is_command = true;
    release_requested_key();
    lock_reserve(set, &client, key);
    ck_assert(lock_take(set, &reader, key, LOCK_READ));
    end_turns();
    ck_assert_uint_eq(wounded + granted, 0);
    lock_release(set, &reader);
    ck_assert(lock_take(set, &own, key, LOCK_WRITE));
    end_turns();
    ck_assert_uint_eq(wounded, 0);
    lock_unreserve(set, &client);
    end_turns();
    ck_assert_uint_eq(wounded, 1);
    lock_release(set, &own);
    end_turns();
    ck_assert_uint_eq(granted, 1);
}
END_TEST

START_TEST(a_key_that_is_not_locked_is_not_reserved)
{
    lock_reserve(set, &client, key);
    ck_assert(list_empty(&client.reservations));
    ck_assert_uint_eq(lock_set_count(set), 0);
}
END_TEST

START_TEST(a_key_that_a_transaction_may_change_is_not_reserved)
{
    ck_assert(lock_take(set, &old, key, LOCK_WRITE));
    ck_assert_ptr_eq(lock_writer(set, key), &old);
    lock_reserve(set, &client, key);
    ck_assert(list_empty(&client.reservations));
}
END_TEST

START_TEST(a_key_at_which_a_client_has_lost_can_be_reserved_when_it_is_free)
{
    ck_assert(lock_take(set, &young, key, LOCK_WRITE));
    lock_contest(set, key);
    lock_release(set, &young);
    end_turns();
    lock_reserve(set, &client, key);
    ck_assert(!list_empty(&client.reservations));
    ck_assert(!lock_take(set, &old, key, LOCK_WRITE));
}
END_TEST

START_TEST(reserved_keys_do_not_count_as_locked_for_moves_of_slots)
{
    ck_assert(lock_take(set, &young, key, LOCK_WRITE));
    lock_contest(set, key);
    lock_release(set, &young);
    lock_reserve(set, &client, key);
    ck_assert(!lock_is_any_in(set, 0, 16383));
}
END_TEST

START_TEST(locks_and_requests_count_in_the_tally_of_their_owner)
{
    struct tally tally = {.max = SIZE_MAX};
    young.tally = &tally;
    ck_assert(lock_take(set, &old, key, LOCK_WRITE));
    ck_assert_uint_eq(tally.bytes, 0);
    ck_assert(!lock_take(set, &young, key, LOCK_READ));
    size_t one = tally.bytes;
    ck_assert_uint_gt(one, key.len);
    lock_release(set, &old);
    end_turns();
    ck_assert(lock_is_held(set, &young, key));
    ck_assert_uint_eq(tally.bytes, one);
    tally.max = one;
    ck_assert(lock_take(set, &young, encode_metadata_key(&arena, BYTES("space"), 7, BYTES("b")),
                        LOCK_READ));
    ck_assert(tally.is_over);
    lock_release(set, &young);
    ck_assert_uint_eq(tally.bytes, 0);
    young.tally = NULL;
}
END_TEST

START_TEST(keys_are_released_in_steps)
{
    enum { KEYS = 5 };
    struct bytes keys[KEYS];
    char name = 'a';
    for (int i = 0; i < KEYS; i++, name++) {
        keys[i] = encode_metadata_key(&arena, BYTES("space"), 7, (struct bytes){&name, 1});
        ck_assert(lock_take(set, &old, keys[i], LOCK_WRITE));
    }
    ck_assert(!lock_take(set, &young, keys[KEYS - 1], LOCK_WRITE));
    ck_assert(!lock_release_some(set, &old, 2));
    ck_assert(!lock_is_held(set, &old, keys[1]) && lock_is_held(set, &old, keys[2]));
    ck_assert(!lock_release_some(set, &old, 2));
    end_turns();
    ck_assert_uint_eq(granted, 0);
    ck_assert(lock_release_some(set, &old, 2));
    end_turns();
    ck_assert_uint_eq(granted, 1);
    lock_release(set, &young);
    end_turns();
    ck_assert_uint_eq(lock_set_count(set), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("lock");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_requested_key_is_granted_after_the_reservation);
    tcase_add_test(tests, a_reservation_ends_by_itself);
    tcase_add_test(tests, after_a_reservation_a_request_is_granted_before_the_next_one);
    tcase_add_test(tests, the_client_and_readers_pass_its_reservation_and_wound_no_other);
    tcase_add_test(tests,
                   a_command_wounds_neither_the_client_nor_readers_before_the_reservation_ends);
    tcase_add_test(tests, a_key_that_is_not_locked_is_not_reserved);
    tcase_add_test(tests, a_key_that_a_transaction_may_change_is_not_reserved);
    tcase_add_test(tests, a_key_at_which_a_client_has_lost_can_be_reserved_when_it_is_free);
    tcase_add_test(tests, reserved_keys_do_not_count_as_locked_for_moves_of_slots);
    tcase_add_test(tests, locks_and_requests_count_in_the_tally_of_their_owner);
    tcase_add_test(tests, keys_are_released_in_steps);
    Suite *suite = suite_create("lock");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
