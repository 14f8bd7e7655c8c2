/*
 * compact.c - SCREE COMPACT at a partition: START, STATUS, CANCEL.
 */
#include "backend/compaction.h"
#include "backend/handlers.h"
#include "backend/partition.h"
#include "backend/upkeep.h"

static void reply_field(struct reply *reply, const char *name, uint64_t value)
{
    reply_bulk_text(reply, name);
    reply_int(reply, (int64_t)value);
}

static void reply_word(struct reply *reply, const char *name, const char *value)
{
    reply_bulk_text(reply, name);
    reply_bulk_text(reply, value);
}

static void reply_view(struct reply *reply, const struct compaction_view *view)
{
    reply_map(reply, 10);
    reply_word(reply, "state", view->state);
    reply_word(reply, "column-family", view->family);
    reply_field(reply, "bytes-done", view->bytes_done);
    reply_field(reply, "bytes-total", view->bytes_total);
    reply_field(reply, "percent", view->percent);
    reply_field(reply, "seconds", view->seconds);
    reply_word(reply, "last-status", view->last);
    reply_field(reply, "last-ended-ms", view->ended_ms);
    reply_field(reply, "last-disk-bytes-before", view->disk_bytes);
    reply_field(reply, "last-disk-bytes-after", view->disk_bytes_after);
}

void cmd_scree_compact(struct call *call)
{
    struct compaction *compaction = upkeep_compaction(call->partition->upkeep);
    struct bytes what = call->argv[2];
    if (bytes_is(what, "START")) {
        if (compaction_start(compaction))
            reply_ok(&call->reply);
        else
            call_error_text(call, "ERR a compaction is in progress");
    } else if (bytes_is(what, "STATUS")) {
        const struct compaction_view view = compaction_look(compaction);
        reply_view(&call->reply, &view);
    } else if (bytes_is(what, "CANCEL")) {
        reply_int(&call->reply, compaction_cancel(compaction));
    } else {
        call_error(call, ERR_SYNTAX);
    }
}
