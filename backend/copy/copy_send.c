/*
 * copy_send.c - sends items of the file, and handles the replies.
 *
 *   RDB_KEY        SET or RESTORE
 *   RDB_KEY_BEGIN  copy_parts.c; so also RDB_KEY_PART and RDB_KEY_END
 *   RDB_FUNCTION   FUNCTION LOAD REPLACE
 */
#include "backend/copy/commands.h"
#include "backend/copy/copy.h"
#include "backend/copy/kvrocks.h"
#include "backend/copy/selection.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error_code.h"

#include <stdio.h>

/* ---- which keys ---- */

static bool is_past(const struct copy *copy)
{
    uint64_t expire_ms = copy->input.file.expire_ms;
    return expire_ms && (expire_ms > INT64_MAX || expire_ms <= clock_wall_us() / 1000);
}

/* The item's key goes there. False: it is left out. */
static bool find_destination(struct copy *copy, struct destination *to)
{
    int64_t db = selection_db(copy->options, copy->input.file.db);
    if (db < 0 || !selection_key(copy->options, &copy->input.arena, copy->item.key, &to->key))
        return false;
    to->db = (uint64_t)db;
    to->lane = lane_of(copy->lanes, to->key);
    to->replaces = copy->options->existing == EXISTING_REPLACE && !copy_is_verify(copy);
    return true;
}

/* ---- sending ---- */

void copy_damaged(struct copy *copy)
{
    report_say(&copy->report, "scree-copy: %s, at byte %zu: the value is damaged",
               copy->options->file, (size_t)copy->input.offset);
    copy_stop(copy, EXIT_SOURCE);
}

static void refuse_module(struct copy *copy, const struct destination *to)
{
    char reason[64];
    const char *known = kvrocks_refusal(copy->item.module);
    (void)snprintf(reason, sizeof reason, "a value of module %s, which Scree cannot read",
                   copy->item.module);
    report_refused(&copy->report, to->db, to->key, bytes_of(known ? known : reason));
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
    } else if (!(copy_is_verify(copy) ? copy_verify_key(copy, &to)
                                      : commands_key(&to, &copy->input.file, &copy->item))) {
        copy_damaged(copy);
    }
    return true;
}

static bool send_begin(struct copy *copy)
{
    struct destination to;
    copy->parts.state = PARTS_SKIPPED;
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
    copy_parts_begin(copy, &to);
    return true;
}

static bool send_function(struct copy *copy)
{
    struct destination to = {.lane = lane_of(copy->lanes, BYTES(""))};
    struct bytes words[] = {BYTES("FUNCTION"), BYTES("LOAD"), BYTES("REPLACE"), copy->item.value};
    if (!copy->options->has_functions || copy_is_verify(copy))
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
        return copy_parts_send(copy);
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

static void handle_error(struct copy *copy, const struct request *request, struct bytes text)
{
    if (request->kind == REQUEST_KEY && error_has_code(text, "BUSYKEY"))
        copy->report.kept++;
    else if (!copy_parts_has(copy, request) || copy_parts_fail(copy))
        copy_error(copy, request, text);
}

static void handle_key(struct copy *copy, struct bytes frame)
{
    if (frame.data[0] == '$' || frame.data[0] == '_') /* SET NX: null */
        copy->report.kept++;
    else
        copy->report.keys++;
}

void copy_reply(struct copy *copy, const struct request *request, struct bytes frame)
{
    if (is_error(frame))
        handle_error(copy, request, error_line_of(frame));
    else if (request->kind == REQUEST_KEY)
        handle_key(copy, frame);
    else if (request->kind == REQUEST_FUNCTION)
        copy->report.functions++;
    else if (request->kind == REQUEST_CLAIM)
        copy->report.lost_pending += bytes_equal(frame, BYTES("*0\r\n"));
    else
        copy_parts_reply(copy, request, frame);
}
