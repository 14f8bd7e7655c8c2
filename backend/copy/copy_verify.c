/*
 * copy_verify.c - compares keys of the file with those of the target.
 *
 *   file:    value ─► digest ─┐                      one request after the other in one lane, so the second one
 *   target:  DUMP ──► digest ─┴─ equal?              knows what the first one has found; in parts: copy_pages.c
 *            PEXPIRETIME ─────── the file's time?  ─► counted as equal, or named as different
 */
#include "backend/copy/commands.h"
#include "backend/copy/copy.h"
#include "backend/copy/digest.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- questions ---- */

static void ask_time(struct copy *copy, const struct destination *to)
{
    struct bytes time[] = {BYTES("PEXPIRETIME"), to->key};
    commands_send(to, REQUEST_TIME, time, 2)->expire_ms = copy->input.file.expire_ms;
}

static void ask_key(struct copy *copy, const struct destination *to, const struct digest *digest)
{
    struct bytes dump[] = {BYTES("DUMP"), to->key};
    struct request *request = commands_send(to, REQUEST_DUMP, dump, 2);
    request->digest = digest->sum;
    request->cut_ms = digest->cut_ms;
    request->may_be_gone = digest->fields_cut && digest->sum == 0;
    request->is_old_stream = digest->is_old_stream;
    ask_time(copy, to);
}

static struct rdb_reader item_reader(const struct copy *copy)
{
    return (struct rdb_reader){.arena = copy->input.file.arena,
                               .rest = copy->item.value,
                               .version = copy->input.file.version};
}

static bool digest_item(struct copy *copy, struct digest *digest)
{
    struct rdb_reader reader = item_reader(copy);
    return digest_value(digest, copy->input.file.type, &reader);
}

static bool digest_string_part(struct copy *copy, struct rdb_reader *reader)
{
    struct bytes text = copy->item.value;
    if (copy->item.is_packed && !rdb_read_string(reader, &text))
        return false;
    digest_text(&copy->parts.digest, copy->item.offset, text);
    return true;
}

static bool digest_part(struct copy *copy)
{
    const struct rdb_file *file = &copy->input.file;
    struct rdb_reader reader = item_reader(copy);
    struct rdb_elements elements;
    if (file->parts.form->type == TYPE_STRING)
        return digest_string_part(copy, &reader);
    if (copy->item.is_tail)
        return digest_tail(&copy->parts.digest, file->type, &reader);
    if (file->parts.form->type == TYPE_STREAM)
        return digest_nodes(&copy->parts.digest, &reader, copy->item.units);
    rdb_elements_part(&elements, &reader, &file->parts, copy->item.units);
    return digest_elements(&copy->parts.digest, &elements);
}

bool copy_verify_key(struct copy *copy, const struct destination *to)
{
    struct digest digest = digest_new();
    if (!digest_item(copy, &digest))
        return false;
    ask_key(copy, to, &digest);
    return true;
}

bool copy_verify_part(struct copy *copy)
{
    if (copy->item.kind != RDB_KEY_END)
        return digest_part(copy);
    copy_pages_begin(copy, copy->input.file.parts.form->type);
    return true;
}

/* ---- answers ---- */

static void name_different(struct copy *copy, const struct request *request, const char *reason)
{
    report_different(&copy->report, request->db, (struct bytes){request->key, request->key_len},
                     reason);
}

/* Is the dumped value equal to the file's? */
static bool is_equal_dump(const struct request *request, struct bytes payload, struct arena *arena)
{
    struct rdb_reader reader;
    struct digest digest = {.is_old_stream = request->is_old_stream, .cut_ms = request->cut_ms};
    uint8_t type;
    return rdb_open(&reader, arena, payload) && rdb_read_byte(&reader, &type) &&
           digest_value(&digest, type, &reader) && digest.sum == request->digest;
}

/* What is wrong with the answer to DUMP; NULL: nothing. */
static const char *dump_difference(const struct request *request, struct bytes frame,
                                   struct arena *arena)
{
    struct resp_value value;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &value) || value.is_null)
        return MISSING_IN_TARGET;
    return is_equal_dump(request, value.text, arena) ? NULL : "its value differs";
}

void copy_verify_pages(struct copy *copy, const char *reason)
{
    const struct copy_parts *parts = &copy->parts;
    struct destination to = {
        .lane = lane_of(copy->lanes, parts->key), .db = parts->db, .key = parts->key};
    copy->parts.state = PARTS_ENDED;
    if (!reason)
        ask_time(copy, &to);
    else if (strcmp(reason, MISSING_IN_TARGET) == 0 && parts->digest.fields_cut > 0 &&
             parts->digest.sum == 0)
        copy->report.expired++; /* a hash, with its last field */
    else
        report_different(&copy->report, parts->db, parts->key, reason);
}

/* A hash is deleted with its last field. */
static bool is_gone(const struct request *request, struct bytes frame)
{
    struct resp_value value;
    size_t pos = 0;
    return request->may_be_gone && resp_value_next(frame, &pos, &value) && value.is_null;
}

static void handle_dump(struct copy *copy, const struct request *request, struct bytes frame)
{
    struct arena arena;
    arena_init(&arena);
    const char *reason = dump_difference(request, frame, &arena);
    arena_fini(&arena);
    if (is_gone(request, frame)) {
        request->next->is_different = true; /* its time is not compared */
        copy->report.expired++;
        return;
    }
    request->next->is_different = reason != NULL;
    if (reason)
        name_different(copy, request, reason);
}

static void handle_time(struct copy *copy, const struct request *request, struct bytes frame)
{
    struct resp_value value;
    char reason[128];
    size_t pos = 0;
    int64_t wanted = request->expire_ms ? (int64_t)request->expire_ms : -1;
    if (request->is_different)
        return;
    if (resp_value_next(frame, &pos, &value) && value.count == wanted) {
        copy->report.keys++;
        return;
    }
    (void)snprintf(reason, sizeof reason, "it expires at %" PRId64 " ms, in the file at %" PRId64,
                   value.count, wanted);
    name_different(copy, request, reason);
}

static void handle_verify_error(struct copy *copy, const struct request *request,
                                struct bytes frame)
{
    if (request->is_different)
        return;
    if (request->kind == REQUEST_PAGE)
        copy->parts.state = PARTS_SKIPPED;
    if (request->kind == REQUEST_DUMP)
        request->next->is_different = true;
    copy_error(copy, request, (struct bytes){frame.data + 1, frame.len - 3});
}

void copy_verify_reply(struct copy *copy, const struct request *request, struct bytes frame)
{
    if (frame.data[0] == '-') {
        handle_verify_error(copy, request, frame);
    } else if (request->kind == REQUEST_DUMP) {
        handle_dump(copy, request, frame);
    } else if (request->kind == REQUEST_PAGE) {
        copy_pages_reply(copy, frame);
    } else {
        handle_time(copy, request, frame);
    }
}
