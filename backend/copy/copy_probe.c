/*
 * copy_probe.c - asks the target what would go wrong, before anything is written.
 *
 *   in each database     DBSIZE                       is it there? is it empty, for --existing refuse?
 *   for the first key    RESTORE k 0 x, SET k v EX x  wrong on purpose: NOPERM says that the user may not write;
 *                                                     ERR or BUSYKEY, of a wrong command, say that it may
 */
#include "backend/copy/commands.h"
#include "backend/copy/copy.h"
#include "shared/check.h"
#include "shared/error_code.h"
#include "shared/resp.h"

#include <inttypes.h>

static void send_probe(struct copy *copy, enum request_kind kind, const struct bytes *words,
                       uint32_t count, uint64_t db)
{
    struct destination to = {.lane = lane_of(copy->lanes, BYTES("")), .db = db};
    (void)commands_send(&to, kind, words, count);
}

static void probe_rights(struct copy *copy)
{
    struct bytes key = copy->survey.first_key;
    struct bytes restore[] = {BYTES("RESTORE"), key, BYTES("0"), BYTES("x")};
    struct bytes set[] = {BYTES("SET"), key, BYTES("v"), BYTES("EX"), BYTES("x")};
    uint64_t db = copy->survey.dbs[0];
    if (copy->options->command == COPY_VERIFY || !key.data)
        return;
    send_probe(copy, REQUEST_RIGHT, restore, COUNT_OF(restore), db);
    send_probe(copy, REQUEST_RIGHT, set, COUNT_OF(set), db);
}

void copy_probe(struct copy *copy)
{
    struct bytes ping[] = {BYTES("PING")};
    struct bytes size[] = {BYTES("DBSIZE")};
    bool counts =
        copy->options->existing == EXISTING_REFUSE && copy->options->command != COPY_VERIFY;
    send_probe(copy, REQUEST_PROBE, ping, 1, 0);
    for (unsigned i = 0; i < copy->survey.db_count; i++)
        send_probe(copy, counts ? REQUEST_COUNT : REQUEST_PROBE, counts ? size : ping, 1,
                   copy->survey.dbs[i]);
    probe_rights(copy);
}

static void probe_failed(struct copy *copy, const struct request *request, struct bytes text)
{
    copy->wrong = true;
    report_say(&copy->report, "scree-copy: %s, database %" PRIu64 ": %.*s",
               copy->options->to.address, request->db, (int)text.len, text.data);
}

/* A command that is wrong on purpose has one of these codes if the user may write. */
static bool is_wanted_refusal(const struct request *request, struct bytes frame)
{
    return request->kind == REQUEST_RIGHT &&
           (error_has_code(frame, "ERR") || error_has_code(frame, "BUSYKEY"));
}

void copy_probe_reply(struct copy *copy, const struct request *request, struct bytes frame)
{
    if (frame.data[0] == '-') {
        if (!is_wanted_refusal(request, frame))
            probe_failed(copy, request, (struct bytes){frame.data + 1, frame.len - 3});
    } else if (request->kind == REQUEST_COUNT && !bytes_equal(frame, BYTES(":0\r\n")))
        probe_failed(copy, request, BYTES("it has keys, and --existing refuse was given"));
}
