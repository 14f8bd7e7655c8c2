/*
 * moves.c - SCREE MOVES: slots that move between this partition and others, and what the shard map still wishes. With PAUSE,
 * RESUME and CANCEL the operator controls the moves.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/slots/slot_moves.h"

#include <stdio.h>

static void skip_move_line(void *owner, const char *line)
{
    (void)owner;
    (void)line;
}

static void reply_move_line(void *owner, const char *line)
{
    reply_bulk_text(owner, line);
}

static void reply_action(struct call *call, const char *action, uint32_t count)
{
    char line[64];
    (void)snprintf(line, sizeof line, "partition=%u %s=%u", call->partition->index, action, count);
    reply_array(&call->reply, 1);
    reply_bulk_text(&call->reply, line);
}

/* SCREE MOVES: a line for the partition, and one for each move. */
static void list_moves(struct call *call)
{
    struct slot_moves *moves = call->partition->shards.moves;
    reply_array(&call->reply, slot_moves_list(moves, skip_move_line, NULL));
    (void)slot_moves_list(moves, reply_move_line, &call->reply);
}

/* Can a row be written now? PAUSE and RESUME are stored in a row, to be in force after a restart. False: an error was replied. */
static bool may_write_wish(struct call *call)
{
    const struct commit *commit = call->partition->commit;
    if (commit_is_failed(commit, NULL))
        call_error(call, (enum error)commit_error(commit));
    return !call->failed;
}

void cmd_scree_moves(struct call *call)
{
    struct slot_moves *moves = call->partition->shards.moves;
    if (call->argc == 2) {
        list_moves(call);
    } else if (!may_write_wish(call)) {
        return;
    } else if (call->argc == 3 && bytes_is(call->argv[2], "pause")) {
        slot_moves_pause(moves, true);
        reply_action(call, "paused", 1);
    } else if (call->argc == 3 && bytes_is(call->argv[2], "resume")) {
        slot_moves_pause(moves, false);
        reply_action(call, "paused", 0);
    } else if (call->argc == 3 && bytes_is(call->argv[2], "cancel")) {
        reply_action(call, "cancelled", slot_moves_cancel(moves));
    } else {
        call_error_text(call, "ERR expected SCREE MOVES [PAUSE|RESUME|CANCEL]");
    }
}
