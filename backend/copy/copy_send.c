/*
 * copy_send.c - sends items of the file, and handles the replies.
 *
 *   RDB_KEY        SET or RESTORE
 *   RDB_KEY_BEGIN  DEL, or with --existing keep EXISTS, whose reply is awaited │ RDB_KEY_PART │ RDB_KEY_END
 *   RDB_FUNCTION   FUNCTION LOAD REPLACE
 */
#include "backend/copy/commands.h"
#include "backend/copy/copy.h"
#include "backend/copy/selection.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- which keys ---- */

static bool is_past(const struct copy *copy)
{
    uint64_t expire_ms = copy->input.file.expire_ms;
    return expire_ms && (expire_ms > INT64_MAX || expire_ms <= clock_wall_us() / 1000);
}

static bool is_verify(const struct copy *copy)
{
    return copy->options->command == COPY_VERIFY;
}

/* The item's key goes there. False: it is left out. */
static bool find_destination(struct copy *copy, struct destination *to)
{
    int64_t db = selection_db(copy->options, copy->input.file.db);
    if (db < 0 || !selection_key(copy->options, &copy->input.arena, copy->item.key, &to->key))
        return false;
    to->db = (uint64_t)db;
    to->lane = lane_of(copy->lanes, to->key);
    to->replaces = copy->options->existing == EXISTING_REPLACE && !is_verify(copy);
    return true;
}

static struct destination parts_destination(const struct copy *copy)
{
    return (struct destination){.lane = lane_of(copy->lanes, copy->parts_key),
                                .db = copy->parts_db,
                                .key = copy->parts_key,
                                .replaces = copy->options->existing == EXISTING_REPLACE};
}

/* ---- sending ---- */

static void damaged(struct copy *copy)
{
    report_say(&copy->report, "scree-copy: %s, at byte %zu: the value is damaged",
               copy->options->file, (size_t)copy->input.offset);
    copy_stop(copy, EXIT_SOURCE);
}

static void refuse_module(struct copy *copy, const struct destination *to)
{
    char reason[64];
    int len = snprintf(reason, sizeof reason, "a value of module %s, which Scree cannot read",
                       copy->item.module);
    report_refused(&copy->report, to->db, to->key, (struct bytes){reason, (size_t)len});
}

static bool send_whole_key(struct copy *copy)
{
    struct destination to;
    if (!find_destination(copy, &to)) {
        copy->report.left_out++;
        return true;
    }
    if (lane_is_full(to.lane))
        return false;
    if (*copy->item.module && !survey_knows_module(copy->item.module)) {
        refuse_module(copy, &to);
    } else if (is_past(copy)) {
        copy->report.expired++;
        if (to.replaces)
            commands_delete(&to);
    } else if (!(is_verify(copy) ? copy_verify_key(copy, &to)
                                 : commands_key(&to, &copy->input.file, &copy->item))) {
        damaged(copy);
    }
    return true;
}

static void keep_parts_key(struct copy *copy, const struct destination *to)
{
    char *copied = malloc(to->key.len + 1);
    CHECK(copied);
    char *end = copied;
    free((char *)copy->parts_key.data);
    copy->parts_key = bytes_copy_to(&end, to->key);
    copy->parts_db = to->db;
    copy->part_refused = false;
}

static void ask_exists(struct copy *copy, const struct destination *to)
{
    copy->waits_exists = true;
    (void)commands_send(to, REQUEST_EXISTS, (struct bytes[]){BYTES("EXISTS"), to->key}, 2);
}

static bool send_begin(struct copy *copy)
{
    struct destination to;
    copy->skips_parts = true;
    if (!find_destination(copy, &to)) {
        copy->report.left_out++;
        return true;
    }
    if (lane_is_full(to.lane))
        return false;
    if (is_past(copy)) {
        copy->report.expired++;
        if (to.replaces)
            commands_delete(&to);
        return true;
    }
    copy->skips_parts = false;
    keep_parts_key(copy, &to);
    copy->parts_digest = digest_new();
    if (is_verify(copy))
        return true;
    if (to.replaces)
        commands_begin(&to);
    else
        ask_exists(copy, &to);
    return true;
}

static void send_part_to(struct copy *copy, const struct destination *to)
{
    bool is_good = true;
    if (is_verify(copy))
        is_good = copy_verify_part(copy, to);
    else if (copy->item.kind == RDB_KEY_END)
        commands_end(to, &copy->input.file);
    else
        is_good = commands_part(to, &copy->input.file, &copy->item);
    if (!is_good)
        damaged(copy);
}

static bool send_key_part(struct copy *copy)
{
    if (copy->waits_exists)
        return false;
    if (copy->skips_parts)
        return true;
    struct destination to = parts_destination(copy);
    if (lane_is_full(to.lane))
        return false;
    send_part_to(copy, &to);
    return true;
}

static bool send_function(struct copy *copy)
{
    struct destination to = {.lane = lane_of(copy->lanes, BYTES(""))};
    struct bytes words[] = {BYTES("FUNCTION"), BYTES("LOAD"), BYTES("REPLACE"), copy->item.value};
    if (!copy->options->has_functions || is_verify(copy))
        return true;
    if (lane_is_full(to.lane))
        return false;
    if (copy->options->to.db > 0)
        to.db = (uint64_t)copy->options->to.db;
    (void)commands_send(&to, REQUEST_FUNCTION, words, COUNT_OF(words));
    return true;
}

static void name_module_data(struct copy *copy)
{
    report_say(&copy->report, "scree-copy: data of module %s that belong to no key are left out",
               copy->item.module);
    copy->report.module_data++;
}

bool copy_send(struct copy *copy)
{
    switch (copy->item.kind) {
    case RDB_KEY:
        return send_whole_key(copy);
    case RDB_KEY_BEGIN:
        return send_begin(copy);
    case RDB_KEY_PART:
    case RDB_KEY_END:
        return send_key_part(copy);
    case RDB_FUNCTION:
        return send_function(copy);
    case RDB_MODULE:
        name_module_data(copy);
        return true;
    default:
        return true;
    }
}

/* ---- replies ---- */

static bool is_error(struct bytes frame)
{
    return frame.data[0] == '-';
}

static struct bytes error_line_of(struct bytes frame)
{
    return (struct bytes){frame.data + 1, frame.len - 3};
}

/* Is the request one of the key in parts? */
static bool is_of_parts(const struct copy *copy, const struct request *request)
{
    struct bytes key = {request->key, request->key_len};
    return request->kind != REQUEST_FUNCTION && copy->parts_key.data &&
           request->db == copy->parts_db && bytes_equal(key, copy->parts_key);
}

/* Names the key, once. What is left of a key in parts is not sent. */
static void refuse_key(struct copy *copy, const struct request *request, struct bytes text)
{
    struct bytes key = {request->key, request->key_len};
    if (is_of_parts(copy, request)) {
        bool was_named = copy->part_refused;
        copy->waits_exists = false;
        copy->skips_parts = copy->part_refused = true;
        if (was_named)
            return;
    }
    report_refused(&copy->report, request->db, key, text);
}

static void handle_error(struct copy *copy, const struct request *request, struct bytes text)
{
    if (copy_error_ends(request, text))
        copy_end_on_error(copy, request, text);
    else if (request->kind == REQUEST_KEY && text.len > 7 && memcmp(text.data, "BUSYKEY", 7) == 0)
        copy->report.kept++;
    else
        refuse_key(copy, request, text);
}

static void handle_key(struct copy *copy, const struct request *request, struct bytes frame)
{
    if (frame.data[0] == '$' || frame.data[0] == '_') /* SET NX: null */
        copy->report.kept++;
    else if (!copy->part_refused || !is_of_parts(copy, request))
        copy->report.keys++;
}

void copy_reply(struct copy *copy, const struct request *request, struct bytes frame)
{
    if (is_error(frame)) {
        handle_error(copy, request, error_line_of(frame));
        return;
    }
    if (request->kind == REQUEST_KEY) {
        handle_key(copy, request, frame);
    } else if (request->kind == REQUEST_FUNCTION) {
        copy->report.functions++;
    } else if (request->kind == REQUEST_CLAIM) {
        copy->report.lost_pending += bytes_equal(frame, BYTES("*0\r\n"));
    } else if (request->kind == REQUEST_EXISTS) {
        copy->waits_exists = false;
        copy->skips_parts = !bytes_equal(frame, BYTES(":0\r\n"));
        copy->report.kept += copy->skips_parts;
    }
}
