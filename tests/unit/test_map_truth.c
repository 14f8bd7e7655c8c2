/*
 * test_map_truth.c - the shards' replies to SCREE OWNERS and SCREE MOVES, and the lines of SCREE MAP STATUS.
 */
#include "proxy/cluster/map_truth.h"

#include "config/shards_file.h"
#include "proxy/core/line_fields.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdlib.h>

static const char wish_text[] = "[map]\nepoch = 7\n[shard a]\nslots = 0-5000\naddress = h:1\n"
                                "[shard b]\nslots = 5001-16383\naddress = h:2\n"
                                "[shard c]\nslots =\naddress = h:3\n";

static struct map_truth *start(void)
{
    char error[256];
    struct shard_map *wish = shards_parse("m.ini", bytes_of(wish_text), error, sizeof error);
    CHECK(wish);
    struct map_truth *truth = map_truth_new(wish);
    shard_map_unref(wish);
    return truth;
}

enum { LINES_MAX = 8, FRAME_MAX_BYTES = 4096 };

/* An array of bulk strings; freed by the caller. */
static struct bytes frame_of(const char *const lines[LINES_MAX])
{
    char *text = calloc(1, FRAME_MAX_BYTES);
    size_t count = 0;
    CHECK(text);
    while (count < LINES_MAX && lines[count])
        count++;
    size_t len = (size_t)snprintf(text, FRAME_MAX_BYTES, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, FRAME_MAX_BYTES - len, "$%zu\r\n%s\r\n",
                                strlen(lines[i]), lines[i]);
    return (struct bytes){text, len};
}

static void owners(struct map_truth *truth, uint32_t shard, const char *const lines[LINES_MAX])
{
    struct bytes frame = frame_of(lines);
    map_truth_add_owners(truth, shard, frame);
    free((char *)frame.data);
}

static void moves(struct map_truth *truth, uint32_t shard, const char *const lines[LINES_MAX])
{
    struct bytes frame = frame_of(lines);
    map_truth_add_moves(truth, shard, frame);
    free((char *)frame.data);
}

static const char *summary(const struct map_truth *truth, const char *rest)
{
    static char lines[4][256];
    static int next;
    char *line = lines[next++ % 4];
    (void)snprintf(line, sizeof lines[0], "partition=0 map_epoch=7 map_hash=%016" PRIx64 " %s",
                   shard_map_slots_hash(truth->wish), rest);
    return line;
}

static bool prints(const struct map_truth *truth, const char *line)
{
    struct out out;
    out_init(&out);
    map_truth_print(truth, truth->wish, &out);
    char *text = calloc(1, out.bytes + 3);
    CHECK(text);
    text[0] = '\n';
    out_copy(&out, text + 1);
    char wanted[512];
    (void)snprintf(wanted, sizeof wanted, "\n%s\r\n", line);
    bool found = strstr(text, wanted);
    if (!found)
        (void)fprintf(stderr, "%s\nis not in%s", line, text);
    free(text);
    out_clear(&out);
    return found;
}

static void test_fields_are_read_by_name(void)
{
    struct bytes line = BYTES("a=1 slots=3-9 aa=2 x= reason=no space a=5");
    unsigned first, last;
    CHECK(field_number(line, "a") == 1 && field_number(line, "aa") == 2);
    CHECK(field_text(line, "x").len == 0 && field_text(line, "none").len == 0);
    CHECK(field_is(line, "reason", "no space a=5") && field_number(line, "space") == 0);
    CHECK(field_slots(line, "slots", &first, &last) && first == 3 && last == 9);
    CHECK(!field_slots(line, "a", &first, &last));
    CHECK(!field_slots(BYTES("slots=9-3"), "slots", &first, &last));
    CHECK(!field_slots(BYTES("slots=0-16384"), "slots", &first, &last));
}

static void test_shards_that_own_what_the_map_wants_are_settled(void)
{
    struct map_truth *truth = start();
    char reason[MAP_REASON_MAX];
    owners(truth, 0,
           (const char *[LINES_MAX]){"slots=0-5000 shard=a epoch=3 here=yes",
                                     "slots=5001-16383 shard=b epoch=2 here=no"});
    owners(truth, 1, (const char *[LINES_MAX]){"slots=5001-16383 shard=b epoch=3 here=yes"});
    owners(truth, 2, (const char *[LINES_MAX]){"slots=0-16383 shard=c epoch=1 here=no"});
    for (uint32_t i = 0; i < 3; i++)
        moves(truth, i, (const char *[LINES_MAX]){summary(truth, "settled=yes paused=no")});
    map_truth_complete(truth);
    CHECK(map_truth_settled(truth, reason) && !*reason);
    CHECK(map_truth_drained(truth, 2) && !map_truth_drained(truth, 0));
    CHECK(truth->epoch[6000] == 3 && truth->twice == 0 && map_truth_silent(truth) == 0);
    CHECK(prints(truth, "settled:1") && prints(truth, "slots_to_move:0"));
    CHECK(prints(truth, "drained:c"));
    map_truth_free(truth);
}

static void test_a_move_is_shown_once_with_its_time_left(void)
{
    struct map_truth *truth = start();
    owners(truth, 0, (const char *[LINES_MAX]){"slots=0-5063 shard=a epoch=3 here=yes"});
    owners(truth, 1, (const char *[LINES_MAX]){"slots=5064-16383 shard=b epoch=3 here=yes"});
    owners(truth, 2, (const char *[LINES_MAX]){NULL});
    moves(truth, 1,
          (const char *[LINES_MAX]){summary(truth, "to_get=63 settled=no paused=no"),
                                    "move=5 role=target peer=a slots=5001-5063 state=copying",
                                    "move=6 role=target peer=gone slots=9-9 state=staged"});
    moves(truth, 0,
          (const char *[LINES_MAX]){
              summary(truth, "to_send=63 settled=no paused=yes reason=the move is slow"),
              "move=5 role=source peer=b slots=5001-5063 state=copying keys=12 bytes=5000 "
              "done_bytes=1000 tail_bytes=10 rate=1000 since_ms=9 reason="});
    map_truth_complete(truth);
    CHECK(truth->moves_count == 2);
    CHECK(prints(truth, "moves:2") && prints(truth, "shards_paused:1"));
    CHECK(prints(truth, "move_1:id=5,from=a,to=b,slots=5001-5063,state=copying,keys=12,bytes=5000,"
                        "done_bytes=1000,tail_bytes=10,rate=1000,since_ms=9,eta_s=5,reason=\"\""));
    CHECK(prints(truth, "difference_0:from=a,to=b,slots=63"));
    CHECK(prints(truth,
                 "move_0:id=6,from=gone,to=b,slots=9-9,state=staged,keys=0,bytes=0,done_bytes=0,"
                 "tail_bytes=0,rate=0,since_ms=0,eta_s=0,reason=\"\""));
    CHECK(prints(truth, "settled:0") && prints(truth, "reason:shard a: the move is slow"));
    map_truth_free(truth);
}

static void test_silent_removed_and_contradicting_shards_are_named(void)
{
    struct map_truth *truth = start();
    map_truth_add_owners(truth, 0, BYTES("-ERR shard 'a' (h:1): not reachable\r\n"));
    map_truth_add_moves(truth, 0, BYTES("-ERR shard 'a' (h:1): not reachable\r\n"));
    owners(truth, 1,
           (const char *[LINES_MAX]){"slots=5001-16383 shard=b epoch=3 here=yes",
                                     "slots=0-99 shard=old epoch=1 here=no"});
    owners(truth, 2, (const char *[LINES_MAX]){"slots=16383-16383 shard=c epoch=3 here=yes"});
    map_truth_complete(truth);
    CHECK(map_truth_silent(truth) == 1 && truth->twice == 1);
    CHECK(prints(truth, "shards_silent:1") && prints(truth, "slots_unknown:4901"));
    CHECK(prints(truth, "reason:shard a: ERR shard 'a' (h:1): not reachable"));
    CHECK(prints(truth, "shard_old:address=,state=removed,owned=100,wanted=0"));
    CHECK(prints(truth, "difference_0:from=old,to=a,slots=100"));
    map_truth_free(truth);
}

static void test_a_shard_with_another_map_is_not_settled(void)
{
    struct map_truth *truth = start();
    char reason[MAP_REASON_MAX];
    owners(truth, 0, (const char *[LINES_MAX]){"slots=0-5000 shard=a epoch=3 here=yes"});
    owners(truth, 1, (const char *[LINES_MAX]){"slots=5001-16383 shard=b epoch=3 here=yes"});
    owners(truth, 2, (const char *[LINES_MAX]){NULL});
    moves(truth, 0, (const char *[LINES_MAX]){"map_epoch=6 map_hash=12 settled=yes"});
    CHECK(!map_truth_settled(truth, reason));
    CHECK(strcmp(reason, "shard a: its map has another epoch") == 0);
    moves(truth, 0, (const char *[LINES_MAX]){"map_epoch=7 map_hash=12 settled=yes"});
    CHECK(!map_truth_settled(truth, reason));
    CHECK(strcmp(reason, "shard a: its map has other slots") == 0);
    map_truth_free(truth);
}

int main(void)
{
    test_fields_are_read_by_name();
    test_shards_that_own_what_the_map_wants_are_settled();
    test_a_move_is_shown_once_with_its_time_left();
    test_silent_removed_and_contradicting_shards_are_named();
    test_a_shard_with_another_map_is_not_settled();
    return 0;
}
