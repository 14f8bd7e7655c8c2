/*
 * back_verify.c - compares every key of Scree and the target.
 *
 *   SCAN of the source: its keys          ─┐                        ┌─ equal: counted
 *   SCAN of the target: keys that only it  ├─► DUMP, PEXPIRETIME ───┤
 *   has                                   ─┘   of both              └─ not: looked at again LOOKS times, a second apart; then named
 *
 * Values are compared by digest.h, because both servers have encodings of their own. Keys are looked at again because a change may be on
 * its way from one to the other.
 */
#include "backend/copy/back.h"
#include "backend/copy/digest.h"
#include "backend/copy/value_reader.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

/* Instead of a value that is there, and is not read. */
#define UNREAD_VALUE BYTES("unread")

enum { LOOKS = 3, LOOK_MS = 1000, SUSPECTS_MAX = 10000 };

struct comparing {
    struct back_scan scan;
    struct back_keys copies;   /* the keys of a group, as the target has them */
    struct back_keys suspects; /* keys that were different */
    struct arena arena;        /* of their names */
};

/* ---- two values ---- */

static bool sum_value(struct digest *digest, struct bytes payload)
{
    struct rdb_reader reader;
    struct arena arena;
    uint8_t type;
    arena_init(&arena);
    bool is_good = rdb_open(&reader, &arena, payload) && rdb_read_byte(&reader, &type) &&
                   digest_value(digest, type, &reader);
    arena_fini(&arena);
    return is_good;
}

static bool is_same_value(struct bytes a, struct bytes b)
{
    struct digest left = digest_new();
    struct digest right = left;
    return bytes_equal(a, b) ||
           (sum_value(&left, a) && sum_value(&right, b) && left.sum == right.sum);
}

/* NULL: they are equal. */
static const char *difference_of(const struct back_key *here, const struct back_key *there)
{
    if (!here->value.len && !there->value.len)
        return NULL;
    if (!there->value.len)
        return "it is missing in the target";
    if (!here->value.len)
        return "only the target has it";
    if (!is_same_value(here->value, there->value))
        return "its value differs";
    return here->until_ms == there->until_ms ? NULL : "its time to live differs";
}

/* ---- groups ---- */

static void append_key(struct back_keys *keys, const struct back_key *key)
{
    if (keys->count == keys->room) {
        keys->room = keys->room * 2 + 64;
        keys->all = realloc(keys->all, keys->room * sizeof *keys->all);
        CHECK(keys->all);
    }
    keys->all[keys->count++] = *key;
}

/* Of keys that the source does not have, which values the target has: their lengths are not known, so all at once might be too much to read. */
static bool look_for_copies(struct back *back, struct back_key *copies, size_t count)
{
    struct wire *wire = &back->target;
    for (size_t i = 0; i < count; i++)
        if (copies[i].size < 0)
            wire_queue(wire, copies[i].from, (struct bytes[]){BYTES("PEXPIRETIME"), copies[i].key},
                       2);
    if (!wire_await(wire))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct bytes frame = copies[i].size < 0 ? wire_next(wire) : BYTES(":-2\r\n");
        if (!frame.len || *frame.data == '-')
            return wire_refused(wire, frame);
        if (!bytes_is(frame, ":-2\r\n"))
            copies[i].value = UNREAD_VALUE;
    }
    return true;
}

static bool read_both(struct back *back, struct comparing *comparing, struct back_key *keys,
                      size_t count)
{
    comparing->copies.count = 0;
    for (size_t i = 0; i < count; i++) {
        struct back_key there = {.from = keys[i].to, .key = keys[i].name, .size = keys[i].size};
        append_key(&comparing->copies, &there);
    }
    return back_read_values(&back->source, keys, count) &&
           back_read_values(&back->target, comparing->copies.all, count) &&
           look_for_copies(back, comparing->copies.all, count);
}

typedef void different_fn(struct back *back, struct comparing *comparing,
                          const struct back_key *key, const char *reason);

static bool compare_values_of(struct back *back, struct comparing *comparing, struct back_key *keys,
                              size_t count, different_fn *on_different)
{
    if (!read_both(back, comparing, keys, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *reason = difference_of(&keys[i], &comparing->copies.all[i]);
        if (reason)
            on_different(back, comparing, &keys[i], reason);
        else if (keys[i].value.len)
            back->report.keys++;
    }
    return true;
}

static bool compare_all(struct back *back, struct comparing *comparing, struct back_keys *keys,
                        different_fn *on_different)
{
    size_t end;
    if (keys->count > 0 && !back_ask_sizes(back, keys))
        return false;
    for (size_t first = 0; first < keys->count; first = end) {
        end = back_group_end(keys, first);
        if (!compare_values_of(back, comparing, &keys->all[first], end - first, on_different))
            return false;
    }
    report_progress(&back->report, "verify");
    return true;
}

/* ---- keys that were different ---- */

static struct bytes keep_suspect_name(struct arena *arena, struct bytes text)
{
    char *end = arena_alloc(arena, text.len);
    return bytes_copy_to(&end, text);
}

/* different_fn */
static void suspect(struct back *back, struct comparing *comparing, const struct back_key *key,
                    const char *reason)
{
    struct back_key kept = {.from = key->from, .to = key->to};
    (void)back;
    (void)reason;
    kept.key = keep_suspect_name(&comparing->arena, key->key);
    kept.name = keep_suspect_name(&comparing->arena, key->name);
    append_key(&comparing->suspects, &kept);
}

/* different_fn */
static void name_different_key(struct back *back, struct comparing *comparing,
                               const struct back_key *key, const char *reason)
{
    (void)comparing;
    report_different(&back->report, key->from, key->key, reason);
}

/* Looks at them again. */
static bool settle_suspects(struct back *back, struct comparing *comparing)
{
    struct back_keys keys;
    bool is_good = true;
    for (unsigned look = 1; is_good && comparing->suspects.count > 0 && look <= LOOKS; look++) {
        wire_rest(&back->source, LOOK_MS);
        keys = comparing->suspects;
        comparing->suspects = (struct back_keys){.count = 0};
        is_good = compare_all(back, comparing, &keys, look < LOOKS ? suspect : name_different_key);
        free(keys.all);
    }
    arena_reset(&comparing->arena);
    return is_good;
}

static bool compare_page(struct back *back, struct comparing *comparing)
{
    return compare_all(back, comparing, &comparing->scan.keys, suspect) &&
           (comparing->suspects.count < SUSPECTS_MAX || settle_suspects(back, comparing));
}

/* ---- all keys ---- */

static bool compare_source_db(struct back *back, uint64_t db, void *owner)
{
    struct comparing *comparing = owner;
    comparing->scan.db = db;
    comparing->scan.cursor = BYTES("0");
    do {
        if (!back_scan_source(back, &comparing->scan) || !compare_page(back, comparing))
            return false;
    } while (!bytes_is(comparing->scan.cursor, "0"));
    return true;
}

static bool compare_target_db(struct back *back, uint64_t db, void *owner)
{
    struct comparing *comparing = owner;
    comparing->scan.db = db;
    comparing->scan.cursor = BYTES("0");
    do {
        if (!back_scan_target(back, &comparing->scan) ||
            !back_keep_missing(back, &comparing->scan.keys) || !compare_page(back, comparing))
            return false;
    } while (!bytes_is(comparing->scan.cursor, "0"));
    return true;
}

bool back_verify(struct back *back)
{
    struct comparing comparing = {.copies = {.count = 0}};
    back_scan_init(&comparing.scan);
    arena_init(&comparing.arena);
    bool is_done = back_each_source_db(back, compare_source_db, &comparing) &&
                   back_each_db(back, compare_target_db, &comparing) &&
                   settle_suspects(back, &comparing);
    back_scan_fini(&comparing.scan);
    arena_fini(&comparing.arena);
    free(comparing.copies.all);
    free(comparing.suspects.all);
    return is_done;
}
