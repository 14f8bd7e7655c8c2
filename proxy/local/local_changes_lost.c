/*
 * local_changes_lost.c - which keys are listed again after changes of some shards were lost.
 *
 *   token: owners 7f3a… ──► all shards at the end of their logs, twice     lost: shard b from its position on, until now
 *   now:   owners 7f3a… ──► no slot has come or gone: only those of b are listed
 *          another sum  ──► b may have had slots that others have now: all are listed
 *
 * The sum is over a hash of each slot and its epoch, which grows with each change of the owner, so equal sums of all slots mean that each has
 * the owner of then. The shards are not asked at one moment: a slot that goes from shard to shard while they are asked may be counted once at
 * one epoch and be elsewhere. So a sum counts only if a second round, which begins when the first has ended, has the same.
 */
#include "proxy/local/local_changes.h"

#include "shared/number.h"
#include "shared/slot_ranges.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT_DIGITS_MAX = 5, SUM_DIGITS = 16 };

bool changes_count_owned(struct changes *changes, struct bytes text)
{
    const char *point = text.len ? memchr(text.data, '.', text.len) : NULL;
    size_t len = point ? (size_t)(point - text.data) : 0;
    char digits[SUM_DIGITS + 1] = "";
    uint64_t count;
    if (len > COUNT_DIGITS_MAX || text.len - len != SUM_DIGITS + 1 ||
        !number_parse_uint64((struct bytes){text.data, len}, &count))
        return false;
    memcpy(digits, point + 1, SUM_DIGITS);
    changes->owned += (uint32_t)count;
    changes->owned_sum += strtoull(digits, NULL, 16);
    return true;
}

void changes_note_owners(struct changes *changes)
{
    struct changes_owners *owners = &changes->token.owners;
    if (changes->owned != SLOT_COUNT)
        return;
    if (changes->owned_sum == owners->seen)
        owners->settled = owners->seen;
    owners->seen = changes->owned_sum;
}

/* Has each slot the owner that it had when the reader was at the end of all logs? */
static bool has_same_owners(const struct changes *changes)
{
    uint64_t settled = changes->token.owners.settled;
    return settled && changes->owned == SLOT_COUNT && changes->owned_sum == settled;
}

/* Restarts the list of keys, with those that an unfinished list had. */
static void begin_list(struct changes *changes, bool is_part)
{
    const struct changes_copy before = changes->token.copy;
    struct changes_copy *copy = &changes->token.copy;
    changes_copy_begin(changes);
    copy->is_part = is_part && (!before.is_on || before.is_part);
    for (unsigned slot = 0; copy->is_part && slot < SLOT_COUNT; slot++)
        copy->is_in[slot] = changes->loss.is_in[slot] || (before.is_on && before.is_in[slot]);
}

/* The event that says which slots' keys come again. None if the reader wants none of these. */
static void write_again(struct changes *changes, struct reply *reply)
{
    bool is_in[SLOT_COUNT];
    struct out text;
    out_init(&text);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        is_in[slot] = changes_copy_wants(changes, slot);
    slot_ranges_write(is_in, ',', &text);
    changes->token.copy.is_on = text.bytes > 0;
    changes->count = text.bytes > 0;
    changes->lag_ms = 1; /* there is more to read */
    if (!text.bytes)
        return;
    reply_array(reply, 5);
    reply_bulk_text(reply, "");
    reply_int(reply, -1);
    reply_bulk_text(reply, "again");
    reply_bulk_text(reply, "");
    reply_bulk_begin(reply, (int64_t)text.bytes);
    out_move(reply->out, &text);
    reply_bulk_end(reply);
}

void changes_settle_loss(struct changes *changes, struct reply *reply)
{
    bool is_same = has_same_owners(changes);
    if (is_same && !changes->loss.is_checked) {
        changes->loss.is_checked = true;
        changes_ask_now(changes->request, reply);
    } else if (is_same || changes->options.copies_lost) {
        if (!is_same)
            changes->token.owners = (struct changes_owners){0};
        begin_list(changes, is_same);
        write_again(changes, reply);
        changes_reply(changes, reply);
    } else {
        reply_errorf(
            reply,
            "CHANGESLOST shard '%s' is not in the shard map any more: changes of keys that "
            "it had may be missing",
            changes->token.removed);
    }
}
