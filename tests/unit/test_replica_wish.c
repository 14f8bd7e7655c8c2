/*
 * test_replica_wish.c - which change of a group's members follows from a map and from what its copies say (replica_wish.h), and what copies
 * know of each other's disks (replica_known.h).
 */
#include "backend/replica/replica_known.h"
#include "backend/replica/replica_wish.h"
#include "tests/unit/suite.h"

#include <string.h>

enum { EPOCH = 5, GROUP = 7 };

/* A world is written as "a1V b2L": member 1 at address a, a voter; member 2 at address b, a learner. */
static struct replica_members members;
static struct replica_hello hellos[REPLICA_ADDRESSES_MAX];
static struct replica_wish wish;
static struct members next;
static const char *const addresses[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

static void set_members(const char *text)
{
    struct members named = {.generation = 1, .group = GROUP, .epoch = EPOCH};
    for (; *text; text += text[3] ? 4 : 3)
        named.list[named.count++] = (struct member){
            (uint64_t)(text[1] - '0'), text[2] == 'V' ? MEMBER_VOTER : MEMBER_LEARNER, {text, 1}};
    replica_members_set(&members, &named);
}

/* Addresses of the map, and what the copy there says: "a1M" member 1, "b2E" an empty copy of the id 2, "c" nothing. */
static void set_map(const char *text)
{
    for (wish.count = 0; *text; wish.count++) {
        struct replica_hello *hello = &hellos[wish.count];
        bool has_said = text[1] && text[1] != ' ';
        *hello = (struct replica_hello){.id = (uint64_t)(has_said ? text[1] - '0' : 0),
                                        .address = {text, 1},
                                        .flags = REPLICA_FLAG_VOTES};
        if (has_said && text[2] == 'M')
            hello->group = (struct replica_group){1, GROUP};
        hello->state = hello->group.group ? REPLICA_STATE_MEMBER : REPLICA_STATE_EMPTY;
        wish.places[wish.count] =
            (struct replica_wished){addresses[*text - 'a'], has_said ? hello : NULL};
        text += has_said ? 3 : 1;
        text += *text == ' ';
    }
}

/* Member 1 leads, and all are caught up. */
static void set_world(const char *map, const char *of)
{
    memset(&wish, 0, sizeof wish);
    set_members(of);
    wish = (struct replica_wish){.members = &members, .own = 1, .has_voters = true, .epoch = EPOCH};
    memset(wish.is_caught_up, true, sizeof wish.is_caught_up);
    set_map(map);
}

/* The members after the next change; empty: there is none. */
static const char *after(void)
{
    static char text[8 * MEMBERS_MAX];
    char *at = text;
    *at = '\0';
    if (!replica_wish_next(&wish, &next))
        return text;
    for (unsigned i = 0; i < next.count; i++) {
        const struct member *member = &next.list[i];
        *at++ = member->address.data[0];
        *at++ = (char)('0' + member->id);
        *at++ = member->kind == MEMBER_VOTER ? 'V' : 'L';
        *at++ = ' ';
    }
    at[at > text ? -1 : 0] = '\0';
    ck_assert_uint_eq(next.epoch, wish.epoch);
    return text;
}

static const char *wished(const char *map, const char *of)
{
    set_world(map, of);
    return after();
}

/* ---- the wish ---------------------------------------------------------------------------------- */

START_TEST(three_copies_become_voters_one_after_the_other)
{
    ck_assert_str_eq(wished("a1M b2E c3E", "a1V"), "a1V b2L");
    ck_assert_str_eq(wished("a1M b2E c3E", "a1V b2L"), "a1V b2L c3L");
    ck_assert_str_eq(wished("a1M b2M c3M", "a1V b2L c3L"), "a1V b2V c3L");
    ck_assert_str_eq(wished("a1M b2M c3M", "a1V b2V c3L"), "a1V b2V c3V");
    ck_assert_str_eq(wished("a1M b2M c3M", "a1V b2V c3V"), "");
}
END_TEST

START_TEST(the_first_becomes_a_voter_when_the_second_is_caught_up_too)
{
    set_world("a1M b2M c3M", "a1V b2L c3L");
    wish.is_caught_up[2] = false;
    ck_assert_str_eq(after(), "");
    wish.is_caught_up[1] = false;
    wish.is_caught_up[2] = true;
    ck_assert_str_eq(after(), "");
    ck_assert_str_eq(wished("a1M b2M c", "a1V b2L"), "");
    ck_assert_str_eq(wished("a1M b2M", "a1V b2L"), "a1V b2V"); /* the map asks for one only */
}
END_TEST

START_TEST(with_one_voter_no_learner_becomes_another)
{
    set_world("a1M b2M c3M", "a1V b2L c3L");
    wish.has_voters = false;
    ck_assert_str_eq(after(), "");
    set_world("a1M b2M", "a1V b2L");
    hellos[1].flags = 0; /* its process cannot vote */
    ck_assert_str_eq(after(), "");
}
END_TEST

START_TEST(a_lost_disk_leaves_and_the_new_one_becomes_a_voter)
{
    ck_assert_str_eq(wished("a1M b4E c3M", "a1V b2V c3V"), "a1V c3V");
    ck_assert_str_eq(wished("a1M b4E c3M", "a1V c3V"), "a1V c3V b4L");
    ck_assert_str_eq(wished("a1M b4M c3M", "a1V c3V b4L"), "a1V c3V b4V");
    set_world("a1M b4E c3M", "a1V b2V c3V");
    wish.has_voters = false;
    ck_assert_str_eq(after(), "");
}
END_TEST

START_TEST(a_voter_whose_address_is_gone_leaves_behind_its_successor)
{
    ck_assert_str_eq(wished("a1M c3M d4E", "a1V b2V c3V"), "a1V b2V c3V d4L");
    ck_assert_str_eq(wished("a1M c3M d4M", "a1V b2V c3V d4L"), "a1V b2V c3V d4V");
    ck_assert_str_eq(wished("a1M c3M d4M", "a1V b2V c3V d4V"), "a1V c3V d4V");
    ck_assert_str_eq(wished("a1M c3M d", "a1V b2V c3V"), "");
    ck_assert_str_eq(wished("a1M", "a1V b2V c3V"), "a1V c3V");
    ck_assert_str_eq(wished("a1M", "a1V c3V"), "a1V");
    ck_assert_str_eq(wished("a1M c3M", "a1V b2L c3V"), "a1V c3V");
}
END_TEST

START_TEST(a_copy_of_the_group_that_is_no_member_becomes_one_again)
{
    ck_assert_str_eq(wished("a1M b2M", "a1V"), "a1V b2L");
    set_world("a1M b2M", "a1V");
    hellos[1].group.generation = 0;
    ck_assert_str_eq(after(), "");
}
END_TEST

START_TEST(a_map_that_replaces_four_of_five_is_reached_though_members_are_few)
{
    ck_assert_str_eq(wished("a1M f6M g7M h8M i9E", "a1V b2V c3V d4V e5V f6V g7L h8L"),
                     "a1V b2V c3V d4V e5V f6V g7V h8L");
    ck_assert_str_eq(wished("a1M f6M g7M h8M i9E", "a1V b2V c3V d4V e5V f6V g7V h8V"),
                     "a1V c3V d4V e5V f6V g7V h8V");
    ck_assert_str_eq(wished("a1M f6M g7M h8M i9E", "a1V c3V d4V e5V f6V g7V h8V"),
                     "a1V c3V d4V e5V f6V g7V h8V i9L");
}
END_TEST

START_TEST(the_case_of_addresses_does_not_count)
{
    ck_assert_str_eq(wished("a1M b2M c3M", "A1V B2L C3L"), "A1V B2V C3L");
    ck_assert_str_eq(wished("a1M b2E c3M", "A1V C3V"), "A1V C3V b2L");
    ck_assert_str_eq(wished("a1M b2M c3M", "A1V B2V C3V"), "");
    ck_assert_uint_eq(replica_wish_successor(&wish), 0);
    ck_assert(replica_wish_has_most(&wish));
    ck_assert_str_eq(wished("a1M b4E c3M", "A1V c3V B2V"), "A1V c3V");
}
END_TEST

START_TEST(an_older_map_or_one_without_the_shard_changes_nothing)
{
    set_world("a1M b2E", "a1V c3L");
    wish.epoch = EPOCH - 1;
    ck_assert_str_eq(after(), "");
    ck_assert_str_eq(wished("", "a1V c3L"), "");
}
END_TEST

START_TEST(a_leader_whose_address_is_gone_names_a_voter_of_the_map)
{
    set_world("b2M c3M d4E", "a1V b2V c3V");
    ck_assert_uint_eq(replica_wish_successor(&wish), 2);
    wish.is_caught_up[1] = false;
    ck_assert_uint_eq(replica_wish_successor(&wish), 3);
    set_world("a1M b2M c3M", "a1V b2V c3V");
    ck_assert_uint_eq(replica_wish_successor(&wish), 0);
    set_world("d4E", "a1V b2V c3V");
    ck_assert_uint_eq(replica_wish_successor(&wish), 0);
}
END_TEST

START_TEST(most_addresses_are_those_of_voters)
{
    set_world("a1M b2M c3M", "a1V b2L c3L");
    ck_assert(!replica_wish_has_most(&wish));
    set_world("a1M b2M c3M", "a1V b2V c3L");
    ck_assert(replica_wish_has_most(&wish));
    set_world("a1M b2M c3M d4M", "a1V b2V");
    ck_assert(!replica_wish_has_most(&wish));
}
END_TEST

/* ---- what copies know of each other ------------------------------------------------------------ */

START_TEST(a_disk_that_went_back_is_noticed)
{
    struct replica_known known = {0};
    (void)replica_known_add(&known, &(struct replica_known_copy){.id = 2, .starts = 4, .run = 44});
    (void)replica_known_add(&known, &(struct replica_known_copy){.id = 2, .last = 70});
    (void)replica_known_add(
        &known, &(struct replica_known_copy){.id = 2, .starts = 3, .run = 33, .last = 60});
    struct replica_known_copy copy = replica_known_of(&known, 2);
    ck_assert(replica_known_is_newer(&copy, 3, 55, 80)); /* fewer starts */
    ck_assert(replica_known_is_newer(&copy, 4, 55, 80)); /* another process with that start */
    ck_assert(
        replica_known_is_newer(&copy, 5, 55, 69)); /* a log that lacks what it had acknowledged */
    ck_assert(!replica_known_is_newer(&copy, 5, 55, 70));
    ck_assert(
        !replica_known_is_newer(&copy, 4, 44, 10)); /* the same process: its disk did not go back */
    copy = replica_known_of(&known, 3);
    ck_assert(!replica_known_is_newer(&copy, 0, 55, 0));
}
END_TEST

START_TEST(copies_that_are_no_members_are_forgotten)
{
    struct replica_known known = {0};
    for (uint64_t id = 1; id <= REPLICA_KNOWN_MAX + 2; id++)
        (void)replica_known_add(&known, &(struct replica_known_copy){.id = id, .last = id});
    ck_assert_uint_eq(replica_known_of(&known, REPLICA_KNOWN_MAX).last, REPLICA_KNOWN_MAX);
    ck_assert_uint_eq(replica_known_of(&known, REPLICA_KNOWN_MAX + 1).last, 0);
    replica_known_keep(&known, (const uint64_t[]){2, 9}, 2);
    ck_assert_uint_eq(replica_known_of(&known, 2).last, 2);
    ck_assert_uint_eq(replica_known_of(&known, 1).last, 0);
    ck_assert_uint_eq(known.count, 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("replica_wish");
    tcase_add_test(tests, three_copies_become_voters_one_after_the_other);
    tcase_add_test(tests, the_first_becomes_a_voter_when_the_second_is_caught_up_too);
    tcase_add_test(tests, with_one_voter_no_learner_becomes_another);
    tcase_add_test(tests, a_lost_disk_leaves_and_the_new_one_becomes_a_voter);
    tcase_add_test(tests, a_voter_whose_address_is_gone_leaves_behind_its_successor);
    tcase_add_test(tests, a_copy_of_the_group_that_is_no_member_becomes_one_again);
    tcase_add_test(tests, a_map_that_replaces_four_of_five_is_reached_though_members_are_few);
    tcase_add_test(tests, the_case_of_addresses_does_not_count);
    tcase_add_test(tests, an_older_map_or_one_without_the_shard_changes_nothing);
    tcase_add_test(tests, a_leader_whose_address_is_gone_names_a_voter_of_the_map);
    tcase_add_test(tests, most_addresses_are_those_of_voters);
    tcase_add_test(tests, a_disk_that_went_back_is_noticed);
    tcase_add_test(tests, copies_that_are_no_members_are_forgotten);
    Suite *suite = suite_create("replica_wish");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
