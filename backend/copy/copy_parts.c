/*
 * copy_parts.c - a key that goes in parts, from its first item to its last reply.
 *
 *   --existing replace:  DEL k ─► OPEN
 *   keep, refuse:        EXISTS k ─┬─ no ──► HSET scree-copy:half k ─► OPEN
 *        (ASKED)                   └─ yes ─► HEXISTS scree-copy:half k ─┬─ yes: half of a run that was stopped ─► DEL k ─► OPEN
 *                                                                       └─ no ──► kept: SKIPPED
 *   OPEN ─ parts … ─► ENDING ─ EXISTS k is answered, so all parts are ─► HDEL scree-copy:half k ─► ENDED
 *     └─ an error ─► SKIPPED: named once, and gets no more parts
 *
 * The hash scree-copy:half names keys that are incomplete. Each step waits for the reply of the one before, so its place among the slots
 * does not matter. RENAME from a temporary name would be no way: it rewrites the value, and the longest are over batch-limit.
 */
#include "backend/copy/commands.h"
#include "backend/copy/copy.h"
#include "shared/check.h"

#include <stdlib.h>

#define HALF_KEYS "scree-copy:half"

static bool replaces_keys(const struct copy *copy)
{
    return copy->options->existing == EXISTING_REPLACE;
}

static struct destination parts_destination(const struct copy *copy)
{
    return (struct destination){.lane = lane_of(copy->lanes, copy->parts.key),
                                .db = copy->parts.db,
                                .key = copy->parts.key,
                                .replaces = replaces_keys(copy)};
}

/* ---- start ---- */

static void keep_key(struct copy_parts *parts, const struct destination *to)
{
    char *copied = malloc(to->key.len + 1);
    CHECK(copied);
    char *end = copied;
    free((char *)parts->key.data);
    parts->key = bytes_copy_to(&end, to->key);
    parts->db = to->db;
}

static void ask_parts(struct copy *copy, enum request_kind kind, const struct bytes *words,
                      uint32_t count)
{
    struct destination to = parts_destination(copy);
    (void)commands_send(&to, kind, words, count);
}

static void ask_half(struct copy *copy, enum request_kind kind, const char *command)
{
    struct bytes words[] = {bytes_of(command), BYTES(HALF_KEYS), copy->parts.key, BYTES("1")};
    ask_parts(copy, kind, words, kind == REQUEST_MARK ? 4 : 3);
}

void copy_parts_begin(struct copy *copy, const struct destination *to)
{
    struct copy_parts *parts = &copy->parts;
    keep_key(parts, to);
    parts->digest = digest_new();
    parts->digest.is_paged = true;
    parts->state = PARTS_OPEN;
    if (copy_is_verify(copy))
        return;
    if (to->replaces) {
        commands_delete(to);
        return;
    }
    parts->state = PARTS_ASKED;
    ask_parts(copy, REQUEST_EXISTS, (struct bytes[]){BYTES("EXISTS"), parts->key}, 2);
}

/* ---- parts ---- */

static void send_part_item(struct copy *copy, const struct destination *to)
{
    bool is_good = true;
    if (copy_is_verify(copy))
        is_good = copy_verify_part(copy);
    else if (copy->item.kind == RDB_KEY_END)
        commands_end(to, &copy->input.file);
    else
        is_good = commands_part(to, &copy->input.file, &copy->item);
    if (!is_good)
        copy_damaged(copy);
}

bool copy_parts_send(struct copy *copy)
{
    struct destination to = parts_destination(copy);
    if (copy->parts.state != PARTS_OPEN)
        return copy->parts.state == PARTS_SKIPPED || copy->parts.state == PARTS_ENDED;
    if (lane_is_full(to.lane))
        return false;
    send_part_item(copy, &to);
    if (copy->item.kind != RDB_KEY_END)
        return true;
    if (!copy_is_verify(copy))
        copy->parts.state = PARTS_ENDING;
    return false;
}

/* ---- replies ---- */

bool copy_parts_has(const struct copy *copy, const struct request *request)
{
    struct bytes key = {request->key, request->key_len};
    return request->kind != REQUEST_FUNCTION && copy->parts.key.data &&
           request->db == copy->parts.db && bytes_equal(key, copy->parts.key);
}

bool copy_parts_fail(struct copy *copy)
{
    bool is_first = copy->parts.state != PARTS_SKIPPED;
    copy->parts.state = PARTS_SKIPPED;
    return is_first;
}

static void handle_exists(struct copy *copy, bool exists)
{
    if (exists)
        ask_half(copy, REQUEST_HALF, "HEXISTS");
    else
        ask_half(copy, REQUEST_MARK, "HSET");
}

static void handle_half(struct copy *copy, bool is_half)
{
    struct destination to = parts_destination(copy);
    copy->parts.state = is_half ? PARTS_OPEN : PARTS_SKIPPED;
    if (is_half)
        commands_delete(&to);
    else
        copy->report.kept++;
}

static void handle_last(struct copy *copy)
{
    copy->parts.state = PARTS_ENDED;
    copy->report.keys++;
    if (!replaces_keys(copy))
        ask_half(copy, REQUEST_PART, "HDEL");
}

void copy_parts_reply(struct copy *copy, const struct request *request, struct bytes frame)
{
    bool is_one = !bytes_equal(frame, BYTES(":0\r\n"));
    if (copy->parts.state == PARTS_SKIPPED)
        return;
    if (request->kind == REQUEST_EXISTS)
        handle_exists(copy, is_one);
    else if (request->kind == REQUEST_HALF)
        handle_half(copy, is_one);
    else if (request->kind == REQUEST_MARK)
        copy->parts.state = PARTS_OPEN;
    else if (request->kind == REQUEST_LAST)
        handle_last(copy);
}
