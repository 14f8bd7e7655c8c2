/*
 * back_sweep.c - finds keys of the target that the source does not have.
 *
 *   SCAN of the target ─► names ─► their keys at the source, if they are selected ─► EXISTS ─► UNLINK of those that are not there
 *
 * What is created at the source after EXISTS has an event in a later page.
 */
#include "backend/copy/back.h"
#include "backend/copy/selection.h"
#include "backend/copy/value_reader.h"

#include <stdlib.h>

/* The database of the source that is copied into this one; -1: none. */
static int64_t db_at_source(const struct copy_options *options, uint64_t db)
{
    for (unsigned i = 0; i < options->dbs.count; i++)
        if (options->dbs.to[i] == db)
            return (int64_t)options->dbs.from[i];
    return options->dbs.count ? -1 : (int64_t)db;
}

/* The key of the source that would have this name in the target. False: there is none. */
static bool key_at_source(const struct copy_options *options, struct arena *arena,
                          struct bytes name, struct bytes *key)
{
    size_t prefix = options->add.len;
    if (name.len < prefix || (prefix && memcmp(name.data, options->add.data, prefix) != 0))
        return false;
    char *end = arena_alloc(arena, options->strip.len + name.len);
    key->data = end;
    (void)bytes_copy_to(&end, options->strip);
    (void)bytes_copy_to(&end, (struct bytes){name.data + prefix, name.len - prefix});
    key->len = options->strip.len + name.len - prefix;
    return true;
}

/* ---- one reply to SCAN ---- */

typedef void take_names_fn(struct back *back, struct back_scan *scan, struct bytes name);

static void take_source_name(struct back *back, struct back_scan *scan, struct bytes name)
{
    char *end = arena_alloc(&scan->arena, name.len);
    back_add_key(back, &scan->keys, &scan->arena, scan->db, bytes_copy_to(&end, name));
}

static void take_target_name(struct back *back, struct back_scan *scan, struct bytes name)
{
    int64_t db = db_at_source(back->options, scan->db);
    struct bytes key;
    if (db >= 0 && key_at_source(back->options, &scan->arena, name, &key))
        back_add_key(back, &scan->keys, &scan->arena, (uint64_t)db, key);
}

static bool scan_on(struct back *back, struct wire *wire, struct back_scan *scan,
                    take_names_fn *take)
{
    struct bytes words[] = {BYTES("SCAN"), scan->cursor, BYTES("COUNT"), BYTES("1000")};
    size_t at = 0;
    wire_queue(wire, scan->db, words, COUNT_OF(words));
    if (!wire_await(wire))
        return false;
    struct bytes frame = wire_next(wire);
    if (values_count(frame, &at) != 2)
        return wire_refused(wire, frame);
    struct bytes cursor = value_text(frame, &at);
    arena_reset(&scan->arena);
    scan->keys.count = 0;
    char *end = arena_alloc(&scan->arena, cursor.len);
    scan->cursor = bytes_copy_to(&end, cursor);
    for (uint64_t count = values_count(frame, &at); count > 0; count--)
        take(back, scan, value_text(frame, &at));
    return true;
}

bool back_scan_source(struct back *back, struct back_scan *scan)
{
    return scan_on(back, &back->source, scan, take_source_name);
}

bool back_scan_target(struct back *back, struct back_scan *scan)
{
    return scan_on(back, &back->target, scan, take_target_name);
}

bool back_keep_missing(struct back *back, struct back_keys *keys)
{
    size_t kept = 0;
    for (size_t i = 0; i < keys->count; i++)
        wire_queue(&back->source, keys->all[i].from,
                   (struct bytes[]){BYTES("EXISTS"), keys->all[i].key}, 2);
    if (!wire_await(&back->source))
        return false;
    for (size_t i = 0; i < keys->count; i++) {
        struct bytes frame = wire_next(&back->source);
        if (!frame.len || *frame.data != ':')
            return wire_refused(&back->source, frame);
        if (bytes_is(frame, ":0\r\n"))
            keys->all[kept++] = keys->all[i];
    }
    keys->count = kept;
    return true;
}

static bool unlink_all(struct back *back, const struct back_keys *keys)
{
    if (keys->count == 0)
        return true;
    if (!back_begin(back))
        return false;
    for (size_t i = 0; i < keys->count; i++)
        back_put(back, keys->all[i].to, NULL, (struct bytes[]){BYTES("UNLINK"), keys->all[i].name},
                 2);
    return back_commit(back);
}

/* ---- all of them ---- */

static bool sweep_db(struct back *back, uint64_t db, void *owner)
{
    struct back_scan *scan = owner;
    scan->db = db;
    scan->cursor = BYTES("0");
    do {
        if (!back_scan_target(back, scan) || !back_keep_missing(back, &scan->keys) ||
            !unlink_all(back, &scan->keys))
            return false;
    } while (!bytes_is(scan->cursor, "0"));
    return true;
}

void back_scan_init(struct back_scan *scan)
{
    *scan = (struct back_scan){.db = 0};
    arena_init(&scan->arena);
}

void back_scan_fini(struct back_scan *scan)
{
    arena_fini(&scan->arena);
    free(scan->keys.all);
}

bool back_sweep(struct back *back)
{
    struct back_scan scan;
    back_scan_init(&scan);
    bool is_done = back_each_db(back, sweep_db, &scan);
    back_scan_fini(&scan);
    return is_done;
}
