/*
 * test_text.c - strings in both forms compared with plain bytes: random writes, reads, iterations and replacements,
 * some of them rolled back, with commits in between; and the rows of a known value, byte by byte.
 *
 *   test_text [seed]      one seed, or SEEDS
 */
#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/text.h"
#include "backend/session/internal_call.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/store_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 30, STEPS = 300, MODEL_BYTES = 40 * 1000 };

static struct sim_partition world;
static char model[MODEL_BYTES];
static size_t model_len;

static void world_begin(uint64_t seed)
{
    model_len = 0;
    sim_partition_init(&world, seed);
    sim_partition_start(&world, false);
}

static void world_end(void)
{
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

static void call_begin(struct call *call, struct entry *entry)
{
    internal_call_begin(world.partition, call);
    call->space = space_open(world.partition->spaces, BYTES(""), 0);
    CHECK(keyspace_open_type(call, BYTES("k"), TYPE_STRING, OPEN_WRITE, entry));
}

/* ---- random changes ---- */

/* An offset near the boundary of a fragment, or a random one. */
static size_t some_offset(void)
{
    size_t at = sim_random(2) ? sim_random(30) * FRAGMENT_BYTES + sim_random(3) : sim_random(30000);
    return at > 0 ? at - 1 : 0;
}

static size_t some_bytes(char *to)
{
    size_t len = sim_random(4) ? 1 + sim_random(12) : 1 + sim_random(5000);
    bool zeros = sim_random(3) == 0;
    for (size_t i = 0; i < len; i++)
        to[i] = zeros ? 0 : (char)sim_random(256);
    return len;
}

static void change(struct call *call, struct entry *entry)
{
    char patch[8192];
    size_t offset = some_offset();
    size_t len = some_bytes(patch);
    if (sim_random(20) == 0) {
        text_replace(call, entry, (struct bytes){patch, len});
        memcpy(model, patch, len);
        model_len = len;
        return;
    }
    CHECK(text_write(call, entry, offset, (struct bytes){patch, len}));
    if (offset > model_len)
        memset(model + model_len, 0, offset - model_len);
    memcpy(model + offset, patch, len);
    if (offset + len > model_len)
        model_len = offset + len;
}

/* A change that is rolled back must have no effect. */
static void change_in_vain(void)
{
    static char saved[MODEL_BYTES];
    size_t saved_len = model_len;
    struct call call;
    struct entry entry;
    memcpy(saved, model, model_len);
    call_begin(&call, &entry);
    change(&call, &entry);
    call.failed = true;
    internal_call_end(world.partition, &call);
    memcpy(model, saved, saved_len);
    model_len = saved_len;
}

/* ---- comparing with the model ---- */

static void compare_range(struct call *call, struct entry *entry, size_t from, size_t len)
{
    static char copy[MODEL_BYTES];
    struct bytes read;
    struct text_iter walk;
    size_t done = from;
    CHECK(text_read(call, entry, from, len, &read));
    CHECK(bytes_equal(read, (struct bytes){model + from, len}));
    CHECK(text_copy(call, entry, from, len, copy) && memcmp(copy, model + from, len) == 0);
    text_iter_init(call, entry, from, from + len, &walk);
    for (; text_iter_next(&walk); done = walk.at + walk.piece.len) {
        CHECK(walk.at >= done && walk.piece.len > 0);
        for (; done < walk.at; done++)
            CHECK(model[done] == 0);
        CHECK(memcmp(walk.piece.data, model + walk.at, walk.piece.len) == 0);
    }
    for (; done < from + len; done++)
        CHECK(model[done] == 0);
    CHECK(text_iter_fini(&walk));
}

static void compare(void)
{
    struct call call;
    struct entry entry;
    call_begin(&call, &entry);
    CHECK(text_len(&entry) == model_len);
    if (model_len) {
        size_t from = sim_random(model_len);
        compare_range(&call, &entry, from, sim_random(model_len - from + 1));
        compare_range(&call, &entry, 0, model_len);
        char behind[4] = "abc";
        CHECK(text_copy(&call, &entry, model_len, sizeof behind, behind));
        CHECK(memcmp(behind, "\0\0\0", sizeof behind) == 0);
    }
    internal_call_end(world.partition, &call);
}

static void run_seed(uint64_t seed)
{
    world_begin(seed);
    for (int step = 0; step < STEPS; step++) {
        struct call call;
        struct entry entry;
        if (sim_random(6) == 0) {
            change_in_vain();
        } else {
            call_begin(&call, &entry);
            change(&call, &entry);
            internal_call_end(world.partition, &call);
        }
        if (sim_random(2))
            sim_run_for(1 + sim_random(5000));
        compare();
    }
    world_end();
}

/* ---- rows ---- */

/* A value of 5000 zeros in which three bytes are set: fragments 0, 2 and 4. */
static void rows_are_as_drawn(void)
{
    static const struct {
        const char *sub;
        size_t len;
    } WANT[] = {{"\0\0\0\0", 4}, {"\0\0\0\2", 1}, {"\0\0\0\4", 904}};
    struct call call;
    struct entry entry;
    struct sub_iter it;
    struct slice row;
    size_t rows = 0;
    world_begin(1);
    call_begin(&call, &entry);
    CHECK(text_write(&call, &entry, 4999, BYTES("c")));
    CHECK(text_write(&call, &entry, 3, BYTES("a")));
    CHECK(text_write(&call, &entry, 2048, BYTES("b")));
    CHECK(text_write(&call, &entry, 3100, BYTES("x")));
    CHECK(text_write(&call, &entry, 3100, BYTES("\0"))); /* the fragment's row is removed */
    CHECK(overlay_get(world.partition->overlay, CF_METADATA, entry.row_key, &row) == OK);
    CHECK(row.len == 25 && memcmp(row.data, "\x86\0\0\0\0\0\0\0\0", 9) == 0);
    CHECK(memcmp(row.data + 17, "\0\0\0\0\0\0\x13\x88", 8) == 0);
    sub_iter_init(&call, &entry, CF_DATA, BYTES(""), &it);
    for (; sub_iter_next(&it); rows++) {
        CHECK(rows < 3 && bytes_equal(it.sub, (struct bytes){WANT[rows].sub, 4}));
        CHECK(it.value.len == WANT[rows].len);
        CHECK(it.value.data[it.value.len - 1] == "abc"[rows]);
        for (size_t i = 0; i + 1 < it.value.len; i++)
            CHECK(it.value.data[i] == 0);
    }
    CHECK(rows == 3 && sub_iter_fini(&it));
    internal_call_end(world.partition, &call);
    world_end();
}

/* A value of up to TEXT_INLINE_MAX bytes, and any value that was set at once, stays in its metadata row; the TTL
 * stays when a value changes its form. */
static void forms_change_where_drawn(void)
{
    static const char BIG[10000];
    struct call call;
    struct entry entry;
    world_begin(1);
    call_begin(&call, &entry);
    CHECK(text_write(&call, &entry, TEXT_INLINE_MAX - 1, BYTES("x")));
    CHECK(entry.meta.type == TYPE_STRING);
    entry_set_expire(&call, &entry, call.now_ms + 1000);
    CHECK(text_write(&call, &entry, TEXT_INLINE_MAX, BYTES("x")));
    CHECK(entry.meta.type == TYPE_BITMAP && entry.meta.expire_ms == call.now_ms + 1000);
    CHECK(text_write(&call, &entry, 0, BYTES("x")) && entry.meta.type == TYPE_BITMAP);
    text_replace(&call, &entry, (struct bytes){BIG, sizeof BIG});
    CHECK(entry.meta.type == TYPE_STRING && entry.meta.expire_ms == call.now_ms + 1000);
    CHECK(text_grow(&call, &entry, sizeof BIG) && entry.meta.type == TYPE_STRING);
    CHECK(text_grow(&call, &entry, sizeof BIG + 1) && entry.meta.type == TYPE_BITMAP);
    CHECK(text_len(&entry) == sizeof BIG + 1);
    internal_call_end(world.partition, &call);
    world_end();
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        command_init();
        rows_are_as_drawn();
        forms_change_where_drawn();
    }
    return sim_run_seeds(argc, argv, sized(SEEDS), run_seed);
}
