/*
 * test_replica_message.c - what copies send each other: golden bytes, each shorter payload and forged counts and lengths are refused, and how
 * frames become events of the core (replica_receive.h).
 */
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/peer/message.h"
#include "backend/replica/replica_receive.h"
#include "shared/byte_order.h"
#include "shared/out.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

enum { OWN_ID = 2, LEADER_ID = 1, EVENTS_MAX = 8 };

static const struct replica_group group = {3, 0x1122};
static struct arena arena;
static struct out out;

static struct replica_receive *receive;
static struct {
    unsigned count, parts;
    struct {
        struct consensus_message message;
        struct consensus_members members;
        size_t record_bytes;
    } event[EVENTS_MAX];
} heard;

static void on_heard(void *owner, const struct replica_heard *event)
{
    (void)owner;
    ck_assert_uint_lt(heard.count, EVENTS_MAX);
    heard.event[heard.count].message = *event->message;
    if (event->members)
        heard.event[heard.count].members = *event->members;
    heard.event[heard.count++].record_bytes = event->records.len;
    ck_assert_uint_eq(event->time_us, 5);
    ck_assert_uint_eq(event->applied, 6);
}

static void on_part(void *owner, uint64_t from, uint64_t term)
{
    (void)owner;
    ck_assert_uint_eq(from, LEADER_ID);
    ck_assert_uint_eq(term, 4);
    heard.parts++;
}

static void setup(void)
{
    const struct replica_receive_options options = {
        .group = group, .id = OWN_ID, .on_heard = on_heard, .on_part = on_part};
    arena_init(&arena);
    out_init(&out);
    receive = replica_receive_new(&options);
    memset(&heard, 0, sizeof heard);
}

static void teardown(void)
{
    replica_receive_free(receive);
    out_clear(&out);
    arena_fini(&arena);
}

/* What was written, in memory of its own, so that a read behind its end is found. */
static struct bytes written(void)
{
    char *bytes = arena_alloc(&arena, out.bytes);
    size_t len = out.bytes;
    out_copy(&out, bytes);
    out_clear(&out);
    return (struct bytes){bytes, len};
}

/* ---- bytes ------------------------------------------------------------------------------------- */

static const struct replica_hello hello = {
    .group = {3, 0x1122},
    .id = 7,
    .starts = 8,
    .run = 9,
    .number = 14,
    .term = 10,
    .last = 11,
    .last_term = 10,
    .state = REPLICA_STATE_MEMBER,
    .data_format = 6,
    .flags = REPLICA_FLAG_VOTES | REPLICA_FLAG_SERVES,
    .map_epoch = 12,
    .known = {7, 15, 16, 17},
    .address = {"h:1", 3},
};

#define U64(low) low "\0\0\0\0\0\0\0"
#define GROUP    "\3\0\0\0\x22\x11\0\0\0\0\0\0"
#define HELLO                                                                                      \
    GROUP U64("\7") U64("\10") U64("\11") U64("\16") U64("\12") U64("\13")                         \
        U64("\12") "\3\6\5" U64("\14") U64("\7") U64("\17") U64("\20") U64("\21") "\3\0\0\0h:1"

START_TEST(a_hello_has_these_bytes)
{
    struct replica_hello read;
    replica_hello_write(&hello, &out);
    struct bytes bytes = written();
    ck_assert_uint_eq(bytes.len, sizeof HELLO - 1);
    ck_assert_mem_eq(bytes.data, HELLO, bytes.len);
    ck_assert(replica_hello_read(bytes, &read));
    ck_assert_uint_eq(read.run, 9);
    ck_assert_uint_eq(read.last_term, 10);
    ck_assert_int_eq(read.state, REPLICA_STATE_MEMBER);
    ck_assert_uint_eq(read.flags, 5);
    ck_assert_uint_eq(read.number, 14);
    ck_assert_uint_eq(read.known.run, 16);
    ck_assert_uint_eq(read.known.last, 17);
    ck_assert(bytes_equal(read.address, hello.address));
}
END_TEST

static bool hello_reads(struct replica_hello changed)
{
    struct replica_hello read;
    replica_hello_write(&changed, &out);
    return replica_hello_read(written(), &read);
}

START_TEST(a_hello_that_no_copy_sends_is_refused)
{
    struct replica_hello changed = hello;
    ck_assert(hello_reads(changed));
    changed.state = 0;
    ck_assert(!hello_reads(changed));
    changed.state = (enum replica_state)(REPLICA_STATE_DATA + 1);
    ck_assert(!hello_reads(changed));
    changed = hello;
    changed.flags = REPLICA_FLAGS_ALL + 1;
    ck_assert(!hello_reads(changed));
    changed = hello;
    changed.last_term = 11;
    ck_assert(!hello_reads(changed));
    changed = hello;
    changed.address.len = 0;
    ck_assert(!hello_reads(changed));
}
END_TEST

static struct replica_core core_of(uint64_t index, uint32_t count, struct bytes records)
{
    return (struct replica_core){
        .group = group,
        .time_us = 5,
        .applied = 6,
        .message = {.kind = CONSENSUS_APPEND,
                    .from = LEADER_ID,
                    .to = OWN_ID,
                    .term = 4,
                    .index = index,
                    .index_term = index ? 4 : 0,
                    .commit = 1,
                    .sent_us = 100,
                    .count = count,
                    .records_term = count ? 4 : 0},
        .records = records,
    };
}

static struct bytes core_bytes(uint64_t index, uint32_t count, struct bytes records)
{
    const struct replica_core core = core_of(index, count, records);
    replica_core_write(&core, &out);
    return written();
}

static struct replica_part part_of(uint64_t offset, uint64_t total, struct bytes bytes)
{
    return (struct replica_part){.group = group,
                                 .from = LEADER_ID,
                                 .term = 4,
                                 .index = 9,
                                 .total = total,
                                 .offset = offset,
                                 .bytes = bytes};
}

static struct bytes part_bytes(uint64_t offset, uint64_t total, struct bytes bytes)
{
    const struct replica_part part = part_of(offset, total, bytes);
    replica_part_write(&part, &out);
    return written();
}

START_TEST(a_shorter_payload_is_refused)
{
    struct replica_hello read_hello;
    struct replica_core read_core;
    struct replica_part read_part;
    struct bytes core = core_bytes(8, 2, BYTES("\1\0\0\0a\2\0\0\0bc"));
    struct bytes part = part_bytes(0, 1, BYTES("x"));
    ck_assert(replica_core_read(core, &read_core));
    ck_assert(replica_part_read(part, &read_part));
    for (size_t len = 0; len < sizeof HELLO - 1; len++)
        ck_assert(!replica_hello_read((struct bytes){HELLO, len}, &read_hello));
    for (size_t len = 0; len < core.len; len++)
        ck_assert(!replica_core_read((struct bytes){core.data, len}, &read_core));
    for (size_t len = 0; len < part.len; len++)
        ck_assert(!replica_part_read((struct bytes){part.data, len}, &read_part));
}
END_TEST

START_TEST(forged_counts_and_lengths_are_refused)
{
    struct replica_core core;
    struct replica_part part;
    ck_assert(!replica_core_read(core_bytes(8, 1, BYTES("\2\0\0\0a")), &core));
    ck_assert(!replica_core_read(core_bytes(8, 1, BYTES("\1\0\0\0ab")), &core));
    ck_assert(!replica_core_read(core_bytes(8, 0, BYTES("\1\0\0\0a")), &core));
    ck_assert(!replica_core_read(core_bytes(8, 1, BYTES("\xfe\xff\xff\xff")), &core));
    ck_assert(replica_core_read(core_bytes(8, 1, BYTES("\xff\xff\xff\xff")), &core));
    ck_assert(!replica_core_read(core_bytes(8, 2, BYTES("\xff\xff\xff\xff\1\0\0\0a")), &core));
    ck_assert(!replica_part_read(part_bytes(1, 1, BYTES("x")), &part));
    ck_assert(!replica_part_read(part_bytes(2, 3, BYTES("xy")), &part));
    ck_assert(!replica_part_read(part_bytes(0, MESSAGE_JOINED_MAX + 1, BYTES("x")), &part));
    ck_assert(!replica_part_read(part_bytes(UINT64_MAX, 10, BYTES("x")), &part));
}
END_TEST

/* ---- events ------------------------------------------------------------------------------------ */

/* Appends a record with the length before it, as a message has it. */
static void put_record(struct out *to, uint64_t index, uint64_t term, bool is_of_members,
                       size_t len)
{
    struct effects *effects = effects_new();
    char *value = calloc(len + 1, 1);
    const struct effects_header header = {.type = is_of_members ? EFFECTS_MEMBERS : EFFECTS_BATCH};
    const struct members members = {
        .generation = 3,
        .group = 0x1122,
        .epoch = 77,
        .count = 1,
        .list = {{.id = LEADER_ID, .kind = MEMBER_VOTER, .address = {"h:1", 3}}}};
    effects_begin(effects, &header);
    effects_put(effects, CF_SYSTEM, BYTES("x"), (struct bytes){value, len});
    if (is_of_members)
        effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row_write(&arena, &members));
    effects_set_numbers(effects, index, term, 1);
    message_put_bytes(to, effects_bytes(effects));
    effects_free(effects);
    free(value);
}

static struct bytes records_of(uint64_t first, unsigned count, uint64_t term, uint64_t of_members)
{
    for (unsigned i = 0; i < count; i++)
        put_record(&out, first + i, term, first + i == of_members, 10);
    return written();
}

START_TEST(a_record_of_the_members_ends_its_event)
{
    struct bytes records = records_of(9, 4, 4, 10);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 4, records)), REPLICA_RECEIVED);
    ck_assert_uint_eq(heard.count, 2);
    ck_assert_uint_eq(heard.event[0].message.index, 8);
    ck_assert_uint_eq(heard.event[0].message.count, 2);
    ck_assert_uint_eq(heard.event[0].members.index, 10);
    ck_assert_uint_eq(heard.event[0].members.epoch, 77);
    ck_assert_uint_eq(heard.event[0].members.list[0].id, LEADER_ID);
    ck_assert_uint_eq(heard.event[1].message.index, 10);
    ck_assert_uint_eq(heard.event[1].message.index_term, 4);
    ck_assert_uint_eq(heard.event[1].message.count, 2);
    ck_assert_uint_eq(heard.event[1].members.count, 0);
    ck_assert_uint_eq(heard.event[0].record_bytes + heard.event[1].record_bytes, records.len);
}
END_TEST

START_TEST(a_heartbeat_is_one_event)
{
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 0, (struct bytes){0})),
                     REPLICA_RECEIVED);
    ck_assert_uint_eq(heard.count, 1);
    ck_assert_uint_eq(heard.event[0].message.commit, 1);
}
END_TEST

START_TEST(a_record_with_another_index_or_term_ends_the_connection)
{
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 2, records_of(10, 2, 4, 0))),
                     REPLICA_NONSENSE);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 2, records_of(9, 2, 3, 0))),
                     REPLICA_NONSENSE);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 1, BYTES("\1\0\0\0a"))),
                     REPLICA_NONSENSE);
    ck_assert_uint_eq(heard.count, 0);
}
END_TEST

START_TEST(a_record_of_a_newer_release_is_told_from_nonsense)
{
    struct bytes records = records_of(9, 1, 4, 0);
    char copy[200];
    ck_assert(records.len < sizeof copy);
    memcpy(copy, records.data, records.len);
    copy[4] = EFFECTS_FORMAT + 1;
    ck_assert_int_eq(
        replica_receive_core(receive, core_bytes(8, 1, (struct bytes){copy, records.len})),
        REPLICA_NEWER_DATA);
    ck_assert_uint_eq(heard.count, 0);
}
END_TEST

START_TEST(frames_of_another_group_or_for_another_copy_are_dropped)
{
    struct replica_core core = core_of(8, 0, (struct bytes){0});
    core.group.generation++;
    replica_core_write(&core, &out);
    ck_assert_int_eq(replica_receive_core(receive, written()), REPLICA_RECEIVED);
    core.group.generation--;
    core.message.to = OWN_ID + 1;
    replica_core_write(&core, &out);
    ck_assert_int_eq(replica_receive_core(receive, written()), REPLICA_RECEIVED);
    struct replica_part part = part_of(0, 1, BYTES("x"));
    part.group.group++;
    replica_part_write(&part, &out);
    ck_assert_int_eq(replica_receive_part(receive, written()), REPLICA_RECEIVED);
    ck_assert_uint_eq(heard.count + heard.parts, 0);
}
END_TEST

/* A record without its length. */
static struct bytes long_record(size_t len)
{
    put_record(&out, 9, 4, false, len);
    struct bytes record = written();
    return (struct bytes){record.data + 4, record.len - 4};
}

static enum replica_received send_part(struct bytes record, size_t from, size_t to)
{
    return replica_receive_part(
        receive, part_bytes(from, record.len, (struct bytes){record.data + from, to - from}));
}

#define IN_PARTS BYTES("\xff\xff\xff\xff")

START_TEST(parts_are_joined)
{
    struct bytes record = long_record(10000);
    ck_assert_int_eq(send_part(record, 0, 50), REPLICA_RECEIVED); /* the leader begins again */
    ck_assert_int_eq(send_part(record, 0, 4000), REPLICA_RECEIVED);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 0, (struct bytes){0})),
                     REPLICA_RECEIVED);
    ck_assert_int_eq(send_part(record, 4000, record.len), REPLICA_RECEIVED);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 1, IN_PARTS)), REPLICA_RECEIVED);
    ck_assert_uint_eq(heard.parts, 3);
    ck_assert_uint_eq(heard.count, 2);
    ck_assert_uint_eq(heard.event[1].record_bytes, 4 + record.len);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 1, IN_PARTS)), REPLICA_NONSENSE);
}
END_TEST

START_TEST(parts_with_a_gap_end_the_connection)
{
    struct bytes record = long_record(10000);
    ck_assert_int_eq(send_part(record, 50, 100), REPLICA_NONSENSE);
    ck_assert_int_eq(send_part(record, 0, 50), REPLICA_RECEIVED);
    ck_assert_int_eq(send_part(record, 51, 100), REPLICA_NONSENSE);
    ck_assert_int_eq(send_part(record, 50, 100), REPLICA_RECEIVED);
    ck_assert_int_eq(send_part(record, 50, 100), REPLICA_NONSENSE);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 1, IN_PARTS)),
                     REPLICA_NONSENSE); /* not whole */
    ck_assert_uint_eq(heard.count, 0);
}
END_TEST

START_TEST(parts_of_another_record_end_the_connection)
{
    struct bytes record = long_record(1000);
    ck_assert_int_eq(send_part(record, 0, record.len), REPLICA_RECEIVED);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(7, 1, IN_PARTS)), REPLICA_NONSENSE);
    ck_assert_int_eq(replica_receive_core(receive, core_bytes(8, 1, IN_PARTS)), REPLICA_RECEIVED);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("replica_message");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_hello_has_these_bytes);
    tcase_add_test(tests, a_hello_that_no_copy_sends_is_refused);
    tcase_add_test(tests, a_shorter_payload_is_refused);
    tcase_add_test(tests, forged_counts_and_lengths_are_refused);
    tcase_add_test(tests, a_record_of_the_members_ends_its_event);
    tcase_add_test(tests, a_heartbeat_is_one_event);
    tcase_add_test(tests, a_record_with_another_index_or_term_ends_the_connection);
    tcase_add_test(tests, a_record_of_a_newer_release_is_told_from_nonsense);
    tcase_add_test(tests, frames_of_another_group_or_for_another_copy_are_dropped);
    tcase_add_test(tests, parts_are_joined);
    tcase_add_test(tests, parts_with_a_gap_end_the_connection);
    tcase_add_test(tests, parts_of_another_record_end_the_connection);
    Suite *suite = suite_create("replica_message");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
