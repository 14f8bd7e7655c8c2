/*
 * back_values.c - copies keys, as they are now.
 *
 *   all keys: MEMORY USAGE ─► groups of at most GROUP_BYTES, or one longer key ─► DUMP, PEXPIRETIME ─► one transaction in the target
 *
 * So memory is bounded by a group, or by the longest key. A value that the target does not accept is named, and its key is deleted there:
 * what was there is older.
 */
#include "backend/copy/back.h"
#include "backend/copy/value_reader.h"
#include "shared/error_code.h"
#include "shared/number.h"

#include "shared/check.h"

enum {
    GROUP_BYTES = 8 * 1024 * 1024,
    KEY_BYTES = 64, /* a key and its reply, at least */
    PAYLOAD_MAX =
        512 * 1024 *
        1024, /* proto-max-bulk-len of the target; it ends the connection of longer ones */
};

/* ---- sizes ---- */

static bool take_size(struct back *back, struct back_key *key)
{
    struct bytes frame = wire_next(&back->source);
    size_t at = 0;
    if (!frame.len || *frame.data == '-')
        return wire_refused(&back->source, frame);
    key->size = value_number(frame, &at);
    return true;
}

bool back_ask_sizes(struct back *back, struct back_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        wire_queue(&back->source, keys->all[i].from,
                   (struct bytes[]){BYTES("MEMORY"), BYTES("USAGE"), keys->all[i].key}, 3);
    if (!wire_await(&back->source))
        return false;
    for (size_t i = 0; i < keys->count; i++)
        if (!take_size(back, &keys->all[i]))
            return false;
    return true;
}

/* ---- values ---- */

static void refuse_value(struct back *back, struct back_key *key, struct bytes reason)
{
    report_refused(&back->report, key->from, key->key, reason);
    key->value = BYTES("");
    key->size = -1;
}

/* Takes the replies to DUMP and PEXPIRETIME. False: one of them is an error. */
static bool take_value(struct wire *wire, struct back_key *key)
{
    struct bytes dump = wire_next(wire);
    struct bytes time = wire_next(wire);
    size_t at = 0;
    size_t time_at = 0;
    if (!dump.len || *dump.data == '-' || !time.len || *time.data == '-')
        return wire_refused(wire, dump.len && *dump.data == '-' ? dump : time);
    key->value = value_text(dump, &at);
    key->until_ms = value_number(time, &time_at);
    return true;
}

bool back_read_values(struct wire *wire, struct back_key *keys, size_t count)
{
    bool are_good = true;
    for (size_t i = 0; i < count; i++) {
        if (keys[i].size < 0)
            continue;
        wire_queue(wire, keys[i].from, (struct bytes[]){BYTES("DUMP"), keys[i].key}, 2);
        wire_queue(wire, keys[i].from, (struct bytes[]){BYTES("PEXPIRETIME"), keys[i].key}, 2);
    }
    if (!wire_await(wire))
        return false;
    for (size_t i = 0; i < count && are_good; i++)
        are_good = keys[i].size < 0 || take_value(wire, &keys[i]);
    return are_good;
}

static void refuse_long(struct back *back, struct back_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i].value.len > PAYLOAD_MAX)
            refuse_value(back, &keys[i],
                         BYTES("its value has over 512 MB, which the target does not take"));
}

/* DUMP has failed: is it because of the value? Then the server answers otherwise, and DUMP fails again. */
static bool is_of_value(struct back *back, struct back_key *key)
{
    wire_queue(&back->source, key->from, (struct bytes[]){BYTES("EXISTS"), key->key}, 2);
    wire_queue(&back->source, key->from, (struct bytes[]){BYTES("DUMP"), key->key}, 2);
    if (!wire_await(&back->source))
        return false;
    struct bytes exists = wire_next(&back->source);
    struct bytes error = wire_next(&back->source);
    if (!bytes_is(exists, ":1\r\n") || !error_has_code(error, "ERR"))
        return false;
    refuse_value(back, key, (struct bytes){error.data + 1, error.len - 3});
    return true;
}

/* ---- the target ---- */

static void put_dump(struct back *back, const struct back_key *key)
{
    char number[INT64_TEXT_MAX];
    int64_t until_ms = key->until_ms > 0 ? key->until_ms : 0;
    struct bytes words[] = {BYTES("RESTORE"),
                            key->name,
                            {number, number_format_int64(number, until_ms)},
                            key->value,
                            BYTES("ABSTTL")};
    back_put(back, key->to, NULL, (struct bytes[]){BYTES("UNLINK"), key->name}, 2);
    if (key->size >= 0 && key->value.len && key->until_ms != -2)
        back_put(back, key->to, key, words, COUNT_OF(words));
}

static bool write_dumps(struct back *back, struct back_key *keys, size_t count)
{
    refuse_long(back, keys, count);
    if (!back_begin(back))
        return false;
    for (size_t i = 0; i < count; i++)
        put_dump(back, &keys[i]);
    return back_commit(back);
}

/* ---- groups ---- */

static bool copy_group(struct back *back, struct back_key *keys, size_t count)
{
    uint64_t refused = back->report.refused;
    if (back_read_values(&back->source, keys, count) ||
        (count == 1 && wire_answers(&back->source) && is_of_value(back, keys)))
        return write_dumps(back, keys, count);
    back->report.refused = refused;
    if (count == 1 || !wire_answers(&back->source))
        return false;
    for (size_t i = 0; i < count; i++) /* one of them cannot be read: which? */
        if (!copy_group(back, &keys[i], 1))
            return false;
    return true;
}

size_t back_group_end(const struct back_keys *keys, size_t first)
{
    uint64_t bytes = 0;
    size_t end = first;
    for (; end < keys->count; end++) {
        int64_t size = keys->all[end].size > 0 ? keys->all[end].size : 0;
        bytes += KEY_BYTES + (uint64_t)size;
        if (end > first && bytes > GROUP_BYTES)
            break;
    }
    return end;
}

/* Has the target this database? In a transaction SELECT would fail after it was queued, and the commands behind it would change another one. */
static bool target_has_db(struct back *back, uint64_t db)
{
    char number[INT64_TEXT_MAX];
    if (db < back->dbs_known)
        return true;
    struct bytes words[] = {BYTES("SELECT"), {number, number_format_int64(number, (int64_t)db)}};
    wire_queue(&back->target, 0, words, COUNT_OF(words));
    wire_queue(&back->target, 0, (struct bytes[]){BYTES("SELECT"), BYTES("0")}, 2);
    if (!wire_await(&back->target))
        return false;
    if (!bytes_is(wire_next(&back->target), "+OK\r\n"))
        return back_fail(back, EXIT_TARGET, back->options->to.address,
                         "it does not have all databases that are copied: raise its option "
                         "databases");
    back->dbs_known = db + 1;
    return true;
}

/* So many keys of the page were copied. If no attempt came so far, errors before no longer count: else a page whose second group
 * always fails would be tried for ever, because its first one succeeds each time. */
static void note_page_reached(struct back *back, size_t count)
{
    if (count <= back->reached)
        return;
    back->reached = count;
    back->failing_ms = 0;
}

bool back_copy_keys(struct back *back, struct back_keys *keys)
{
    size_t end;
    if (keys->count == 0)
        return true;
    /* The last key has the highest database: they are sorted, or all of one. */
    if (!target_has_db(back, keys->all[keys->count - 1].to) || !back_ask_sizes(back, keys))
        return false;
    for (size_t first = 0; first < keys->count; first = end) {
        end = back_group_end(keys, first);
        if (!copy_group(back, &keys->all[first], end - first))
            return false;
        back->report.keys += end - first;
        note_page_reached(back, end);
    }
    return true;
}

/* ---- libraries ---- */

bool back_copy_functions(struct back *back)
{
    struct back_key library = {.key = BYTES("(libraries of functions)")};
    struct bytes words[] = {BYTES("FUNCTION"), BYTES("RESTORE"), BYTES(""), BYTES("FLUSH")};
    struct bytes frame;
    size_t at = 0;
    if (!wire_call(&back->source, (struct bytes[]){BYTES("FUNCTION"), BYTES("DUMP")}, 2, &frame) ||
        !back_begin(back))
        return false;
    words[2] = value_text(frame, &at);
    back_put(back, 0, &library, words, COUNT_OF(words));
    return back_commit(back);
}
