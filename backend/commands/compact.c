/*
 * compact.c - SCREE COMPACT at a partition: START, STATUS, CANCEL.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/storage/compaction.h"
#include "backend/storage/maintenance.h"

static void reply_view(struct reply *reply, const struct compaction_view *view)
{
    reply_map(reply, 10);
    reply_pair_text(reply, "state", view->state);
    reply_pair_text(reply, "column-family", view->family);
    reply_progress(reply, view->bytes_done, view->bytes_total);
    reply_pair_int(reply, "seconds", view->seconds);
    reply_pair_text(reply, "last-status", view->last);
    reply_pair_int(reply, "last-ended-ms", view->ended_ms);
    reply_pair_int(reply, "last-disk-bytes-before", view->disk_bytes);
    reply_pair_int(reply, "last-disk-bytes-after", view->disk_bytes_after);
}

void cmd_scree_compact(struct call *call)
{
    struct compaction *compaction = maintenance_compaction(call->partition->saves.maintenance);
    struct bytes what = call->argv[2];
    if (bytes_is(what, "START")) {
        /* applies the write buffer first, so that its rows are compacted too */
        (void)commit_apply(call->partition->commit);
        if (compaction_start(compaction))
            reply_ok(&call->reply);
        else
            call_error_text(call, "INPROG a compaction is already running: wait until it ends, or "
                                  "stop it with SCREE COMPACT CANCEL");
    } else if (bytes_is(what, "STATUS")) {
        const struct compaction_view view = compaction_look(compaction);
        reply_view(&call->reply, &view);
    } else if (bytes_is(what, "CANCEL")) {
        reply_int(&call->reply, compaction_cancel(compaction));
    } else {
        call_error(call, ERR_SYNTAX);
    }
}
