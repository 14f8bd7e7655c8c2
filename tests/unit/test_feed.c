/*
 * test_feed.c - feed_batch.h and feed_position.h: which events a batch has, for whom, and in which parts; changes_token.h: tokens of
 * several shards; local_changes_order.c: which shards wait for others.
 */
#include "backend/feed/feed_batch.h"
#include "backend/feed/feed_position.h"
#include "backend/format/effects.h"
#include "backend/format/slot_record.h"
#include "proxy/local/local_changes.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

static struct arena arena;
static struct effects *effects;
static struct feed_filter filter;
static struct feed_page page;
static char shown[4096];

static void setup(void)
{
    arena_init(&arena);
    effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH, .index = 7});
    filter = (struct feed_filter){.database = -1};
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        filter.databases[i] = i;
    page = (struct feed_page){.count_max = 100,
                              .bytes_max = 1 << 20,
                              .past_us = FEED_PAST_ALL,
                              .memory = feed_events_new()};
    out_init(&page.events);
}

static void teardown(void)
{
    out_clear(&page.events);
    feed_events_free(page.memory);
    effects_free(effects);
    arena_fini(&arena);
}

/* The page's events, with spaces for the ends of lines. */
static const char *events(void)
{
    ck_assert_uint_lt(page.events.bytes, sizeof shown);
    out_copy(&page.events, shown);
    shown[page.events.bytes] = 0;
    for (char *c = shown; *c; c++)
        if (*c == '\r' || *c == '\n')
            *c = ' ';
    return shown;
}

static enum feed_read read_batch(uint64_t *number)
{
    out_clear(&page.events);
    page.count = 0;
    return feed_batch_read(effects_bytes(effects), 0xab, &filter, number, &page);
}

static void check_events(const char *expected)
{
    uint64_t number = 0;
    ck_assert_int_eq(read_batch(&number), FEED_WHOLE);
    ck_assert_str_eq(events(), expected);
}

static void put_key(const char *space, const char *key)
{
    effects_put(effects, CF_METADATA,
                encode_metadata_key(&arena, bytes_of(space), 7, bytes_of(key)), BYTES("x"));
}

static void put_row(const char *key, const char *sub)
{
    struct bytes prefix = encode_collection_prefix(&arena, BYTES(""), 7, bytes_of(key), 1);
    effects_put(effects, CF_DATA, encode_sub_key(&arena, prefix, bytes_of(sub)), BYTES("x"));
}

START_TEST(a_key_has_one_event_however_many_rows_change)
{
    put_row("h", "a");
    put_row("g", "a");
    put_row("h", "b");
    put_key("", "h");
    check_events("*4  $20  00000000000000ab.7.0  :0  $7  changed  $1  h  "
                 "*4  $20  00000000000000ab.7.1  :0  $7  changed  $1  g  ");
}
END_TEST

START_TEST(a_batch_of_collections_after_one_of_strings_has_an_event_each)
{
    for (int round = 0; round < 2; round++) { /* the second one uses the memory of the first */
        effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH, .index = 7});
        put_key("", "a");
        put_key("", "h");
        check_events("*4  $20  00000000000000ab.7.0  :0  $7  changed  $1  a  "
                     "*4  $20  00000000000000ab.7.1  :0  $7  changed  $1  h  ");
        put_row("h", "x"); /* of a key that the batch has */
        put_row("g", "x");
        put_key("", "g");
        effects_delete(effects, CF_METADATA, encode_metadata_key(&arena, BYTES(""), 7, BYTES("a")));
        check_events("*4  $20  00000000000000ab.7.0  :0  $3  del  $1  a  "
                     "*4  $20  00000000000000ab.7.1  :0  $7  changed  $1  h  "
                     "*4  $20  00000000000000ab.7.2  :0  $7  changed  $1  g  ");
    }
}
END_TEST

START_TEST(only_the_metadata_row_says_that_a_key_is_gone)
{
    struct bytes prefix = encode_collection_prefix(&arena, BYTES(""), 7, BYTES("h"), 1);
    effects_delete(effects, CF_DATA, encode_sub_key(&arena, prefix, BYTES("a")));
    effects_delete(effects, CF_METADATA, encode_metadata_key(&arena, BYTES(""), 7, BYTES("d")));
    put_row("d", "a");
    check_events("*4  $20  00000000000000ab.7.0  :0  $7  changed  $1  h  "
                 "*4  $20  00000000000000ab.7.1  :0  $3  del  $1  d  ");
}
END_TEST

START_TEST(a_deleted_range_of_slots_is_a_flush)
{
    effects_delete_range(effects, CF_METADATA, encode_slot_prefix(&arena, BYTES(""), 7),
                         encode_slot_prefix(&arena, BYTES(""), 10));
    effects_delete_range(effects, CF_DATA, encode_slot_prefix(&arena, BYTES(""), 7),
                         encode_slot_prefix(&arena, BYTES(""), 10));
    check_events("*5  $20  00000000000000ab.7.0  :0  $5  flush  $0    $3  7-9  ");
}
END_TEST

START_TEST(a_deleted_range_of_a_collection_is_a_change)
{
    struct bytes prefix = encode_collection_prefix(&arena, BYTES(""), 7, BYTES("l"), 1);
    effects_delete_range(effects, CF_DATA, encode_sub_key(&arena, prefix, BYTES("a")),
                         encode_sub_key(&arena, prefix, BYTES("b")));
    check_events("*4  $20  00000000000000ab.7.0  :0  $7  changed  $1  l  ");
}
END_TEST

START_TEST(swapped_databases_and_libraries_are_told)
{
    effects_put(effects, CF_SYSTEM, encode_database_map_key(&arena, BYTES("")), BYTES("x"));
    effects_put(effects, CF_SYSTEM, encode_function_key(&arena, BYTES(""), BYTES("lib")),
                BYTES("x"));
    effects_put(effects, CF_SYSTEM, encode_function_key(&arena, BYTES("shop"), BYTES("other")),
                BYTES("x"));
    effects_put(effects, CF_SYSTEM, BYTES("h"), BYTES("x"));
    check_events("*4  $20  00000000000000ab.7.0  :-1  $6  swapdb  $0    "
                 "*4  $20  00000000000000ab.7.1  :-1  $8  function  $3  lib  ");
}
END_TEST

START_TEST(rows_that_come_with_a_slot_are_no_changes)
{
    effects_set_internal(effects, true);
    put_key("", "moved");
    put_row("h", "a");
    effects_delete_range(effects, CF_METADATA, encode_slot_prefix(&arena, BYTES(""), 7),
                         encode_slot_prefix(&arena, BYTES(""), 10));
    effects_set_internal(effects, false);
    put_key("", "k");
    check_events("*4  $20  00000000000000ab.7.0  :0  $7  changed  $1  k  ");
}
END_TEST

START_TEST(a_reader_gets_its_namespace_only)
{
    effects_put(effects, CF_METADATA, encode_metadata_key(&arena, BYTES("shop"), 7, BYTES("a")),
                BYTES("x"));
    effects_put(effects, CF_METADATA,
                encode_metadata_key(&arena, (struct bytes){"shop\0\3", 6}, 7, BYTES("b")),
                BYTES("x"));
    effects_put(effects, CF_METADATA,
                encode_metadata_key(&arena, (struct bytes){"shopping", 8}, 7, BYTES("c")),
                BYTES("x"));
    put_key("", "d");
    check_events("*4  $20  00000000000000ab.7.3  :0  $7  changed  $1  d  ");
    memcpy(filter.name, "shop", 4);
    filter.name_len = 4;
    filter.databases[3] = 5;
    check_events("*4  $20  00000000000000ab.7.0  :0  $7  changed  $1  a  "
                 "*4  $20  00000000000000ab.7.1  :5  $7  changed  $1  b  ");
    filter.database = 5;
    check_events("*4  $20  00000000000000ab.7.1  :5  $7  changed  $1  b  ");
}
END_TEST

START_TEST(filters_of_slots_and_keys_keep_the_numbers)
{
    put_key("", "a");
    put_key("", "b");
    filter.pattern = BYTES("b*");
    check_events("*4  $20  00000000000000ab.7.1  :0  $7  changed  $1  b  ");
    filter.has_slots = true;
    check_events("");
    filter.slots[7] = true;
    check_events("*4  $20  00000000000000ab.7.1  :0  $7  changed  $1  b  ");
}
END_TEST

START_TEST(a_full_page_goes_on_with_the_next_event)
{
    uint64_t number = 0;
    put_key("", "a");
    put_key("", "b");
    put_key("", "c");
    page.count_max = 2;
    ck_assert_int_eq(read_batch(&number), FEED_FULL);
    ck_assert_uint_eq(number, 2);
    ck_assert_int_eq(read_batch(&number), FEED_WHOLE);
    ck_assert_uint_eq(number, 0);
    ck_assert_str_eq(events(), "*4  $20  00000000000000ab.7.2  :0  $7  changed  $1  c  ");
    page.count_max = 100;
    page.bytes_max = 1; /* the first event always fits */
    ck_assert_int_eq(read_batch(&number), FEED_FULL);
    ck_assert_uint_eq(number, 1);
}
END_TEST

START_TEST(many_keys_have_an_event_each)
{
    char key[16];
    uint64_t number = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5000; i++) {
            (void)snprintf(key, sizeof key, "k%d", i);
            put_row(key, round ? "a" : "b");
        }
    page.count_max = 10000;
    ck_assert_int_eq(read_batch(&number), FEED_WHOLE);
    ck_assert_uint_eq(page.count, 5000);
}
END_TEST

START_TEST(what_is_no_batch_is_not_read)
{
    uint64_t number = 0;
    put_key("", "a");
    struct bytes record = effects_bytes(effects);
    for (size_t len = 0; len < record.len; len++)
        ck_assert_int_eq(
            feed_batch_read((struct bytes){record.data, len}, 1, &filter, &number, &page),
            FEED_UNREADABLE);
}
END_TEST

/* Reads a batch of the time 100 that writes slot 300 with this record; the other logs were read up to past_us. */
static enum feed_read read_slots(const struct slot_record *record, uint64_t past_us)
{
    struct slot_record records[SLOT_PAGE_SLOTS] = {{0}};
    uint64_t number = 0;
    records[300 % SLOT_PAGE_SLOTS] = *record;
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH, .hybrid = 100});
    effects_put(effects, CF_SYSTEM, encode_slot_page_key(&arena, 300 / SLOT_PAGE_SLOTS),
                encode_slot_page(&arena, records));
    put_key("", "k");
    page.past_us = past_us;
    return read_batch(&number);
}

START_TEST(a_batch_that_takes_slots_over_waits_until_the_other_logs_were_read)
{
    const struct slot_record taken = {.state = SLOT_OWNED, .epoch = 2, .migration = 7};
    const struct slot_record kept = {.state = SLOT_OWNED, .epoch = 2};
    const struct slot_record given = {.state = SLOT_RELEASED, .epoch = 2, .migration = 7};
    ck_assert_int_eq(read_slots(&taken, 0), FEED_EARLY);
    ck_assert_int_eq(read_slots(&taken, 98), FEED_EARLY);
    ck_assert_uint_eq(page.count, 0);
    ck_assert_uint_eq(page.time_us, 100);
    ck_assert_int_eq(read_slots(&taken, 99),
                     FEED_WHOLE); /* what came before the hand-over is in 99 or earlier */
    ck_assert_uint_eq(page.count, 1);
    ck_assert_int_eq(read_slots(&taken, FEED_PAST_ALL), FEED_WHOLE);
    ck_assert_int_eq(read_slots(&kept, 0), FEED_WHOLE);
    ck_assert_int_eq(read_slots(&given, 0), FEED_WHOLE);
}
END_TEST

/* The shards that may be read on, as a number in which shard 0 is the lowest bit. */
static unsigned late_shards(struct changes_reach *reach)
{
    uint32_t late[3];
    unsigned set = 0;
    struct changes changes = {.reach = reach, .late = late, .token.count = 3};
    changes_find_late(&changes);
    for (uint32_t i = 0; i < changes.late_count; i++)
        set |= 1U << late[i];
    return set;
}

START_TEST(a_shard_waits_for_all_others_and_the_earliest_may_go_on)
{
    ck_assert_uint_eq(late_shards((struct changes_reach[]){{500, 0, 0}, {700, 0, 0}, {9, 0, 0}}),
                      0);
    ck_assert_uint_eq(late_shards((struct changes_reach[]){{99, 100, 0}, {99, 0, 0}, {700, 0, 0}}),
                      1);
    ck_assert_uint_eq(late_shards((struct changes_reach[]){{99, 100, 0}, {98, 0, 0}, {700, 0, 0}}),
                      0);
    ck_assert_uint_eq(
        late_shards((struct changes_reach[]){{99, 100, 0}, {100, 101, 0}, {98, 99, 0}}), 4);
    ck_assert_uint_eq(
        late_shards((struct changes_reach[]){{99, 100, 0}, {99, 100, 0}, {99, 100, 0}}), 7);
    struct changes_reach alone = {99, 100, 0};
    struct changes changes = {.reach = &alone, .late = (uint32_t[1]){0}, .token.count = 1};
    changes_find_late(&changes);
    ck_assert_uint_eq(changes.late_count, 1);
}
END_TEST

START_TEST(a_position_is_read_as_it_was_written)
{
    const struct feed_position position = {0xfedcba9876543210, 812, 0x0f, 4};
    struct feed_position read;
    char text[FEED_POSITION_MAX];
    struct bytes written = feed_position_write(&position, text);
    ck_assert_mem_eq(written.data, "fedcba9876543210.812.000000000000000f.4", written.len);
    ck_assert(feed_position_read(written, &read));
    ck_assert_mem_eq(&read, &position, sizeof read);
    for (size_t len = 0; len < written.len; len++)
        ck_assert(!feed_position_read((struct bytes){written.data, len}, &read));
    ck_assert(!feed_position_read(BYTES("fedcba987654321g.812.000000000000000f.4"), &read));
    ck_assert(!feed_position_read(BYTES("fedcba9876543210.-1.000000000000000f.4"), &read));
    ck_assert(!feed_position_read(BYTES("fedcba9876543210.1.000000000000000f.4.5"), &read));
}
END_TEST

static struct changes_part parts[3];

static struct changes_token new_token(void)
{
    struct changes_token token = {.count = 3, .parts = parts};
    memset(parts, 0, sizeof parts);
    for (int i = 0; i < 3; i++)
        parts[i].name[0] = (char)('a' + i);
    return token;
}

START_TEST(a_token_is_read_as_it_was_written)
{
    static const char text[] = "1,a=12.x,c=34,?00000000000000ab,#fedcba9876543210,"
                               "*3.9007199254740994.77.0-99+300-300";
    struct changes_token token = new_token();
    struct out out;
    ck_assert(changes_token_read(bytes_of(text), &token));
    ck_assert_str_eq(parts[0].position, "12.x");
    ck_assert_str_eq(parts[1].position, "");
    ck_assert_str_eq(parts[2].position, "34");
    ck_assert(token.copy.is_on && token.copy.is_part);
    ck_assert(token.copy.is_in[99] && !token.copy.is_in[100] && token.copy.is_in[300]);
    ck_assert_uint_eq(token.owners.seen, 0xab);
    ck_assert_uint_eq(token.owners.settled, 0xfedcba9876543210);
    out_init(&out);
    changes_token_write(&token, &out);
    ck_assert_uint_eq(out.bytes, strlen(text));
    out_copy(&out, shown);
    ck_assert_mem_eq(shown, text, strlen(text));
    out_clear(&out);
}
END_TEST

START_TEST(a_token_of_other_shards_names_one_that_is_gone)
{
    struct changes_token token = new_token();
    ck_assert(changes_token_read(BYTES("1,c=3,gone=5,a=1"), &token));
    ck_assert_str_eq(token.removed, "gone");
    ck_assert_str_eq(parts[0].position, "1");
    ck_assert_str_eq(parts[2].position, "3");
}
END_TEST

START_TEST(a_token_with_a_mark_twice_or_with_more_parts_than_shards_is_refused)
{
    static const char *const texts[] = {"1,a=1,*0.0.0,*0.0.0",
                                        "1,?00000000000000ab,a=1,?00000000000000ab",
                                        "1,#00000000000000ab,#00000000000000ac"};
    static const char part[] = ",gone=1";
    static char text[2 + (SHARD_COUNT_MAX + 4) * sizeof part] = "1";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct changes_token token = new_token();
        ck_assert_msg(!changes_token_read(bytes_of(texts[i]), &token), "%s", texts[i]);
    }
    for (int i = 0; i < SHARD_COUNT_MAX + 4; i++) {
        struct changes_token token = new_token();
        strcat(text, part);
        ck_assert_int_eq(changes_token_read(bytes_of(text), &token), i < SHARD_COUNT_MAX + 3);
    }
}
END_TEST

START_TEST(what_is_no_token_is_refused)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "2,a=1",
                                        "1,a",
                                        "1,=1",
                                        "1,a=1,*",
                                        "1,*1.2",
                                        "1,*-1.2.3",
                                        "1,*999.2.3",
                                        "$",
                                        "1,*1.2.3.x",
                                        "1,*1.2.3.0-5+4-9",
                                        "1,*1.2.3.5-4",
                                        "1,*1.2.3.+",
                                        "1,*1.2.3.0-5++7-9",
                                        "1,#12",
                                        "1,?000000000000000g",
                                        "1,#-00000000000000a"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct changes_token token = new_token();
        ck_assert_msg(!changes_token_read(bytes_of(texts[i]), &token), "%s", texts[i]);
    }
}
END_TEST

int main(void)
{
    TCase *feed = tcase_create("feed");
    tcase_add_checked_fixture(feed, setup, teardown);
    tcase_add_test(feed, a_key_has_one_event_however_many_rows_change);
    tcase_add_test(feed, a_batch_of_collections_after_one_of_strings_has_an_event_each);
    tcase_add_test(feed, only_the_metadata_row_says_that_a_key_is_gone);
    tcase_add_test(feed, a_deleted_range_of_slots_is_a_flush);
    tcase_add_test(feed, a_deleted_range_of_a_collection_is_a_change);
    tcase_add_test(feed, swapped_databases_and_libraries_are_told);
    tcase_add_test(feed, rows_that_come_with_a_slot_are_no_changes);
    tcase_add_test(feed, a_reader_gets_its_namespace_only);
    tcase_add_test(feed, filters_of_slots_and_keys_keep_the_numbers);
    tcase_add_test(feed, a_full_page_goes_on_with_the_next_event);
    tcase_add_test(feed, many_keys_have_an_event_each);
    tcase_add_test(feed, what_is_no_batch_is_not_read);
    tcase_add_test(feed, a_batch_that_takes_slots_over_waits_until_the_other_logs_were_read);
    tcase_add_test(feed, a_shard_waits_for_all_others_and_the_earliest_may_go_on);
    tcase_add_test(feed, a_position_is_read_as_it_was_written);
    tcase_add_test(feed, a_token_is_read_as_it_was_written);
    tcase_add_test(feed, a_token_of_other_shards_names_one_that_is_gone);
    tcase_add_test(feed, a_token_with_a_mark_twice_or_with_more_parts_than_shards_is_refused);
    tcase_add_test(feed, what_is_no_token_is_refused);
    Suite *suite = suite_create("feed");
    suite_add_tcase(suite, feed);
    return suite_run(suite);
}
