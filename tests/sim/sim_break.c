#include "tests/sim/sim_break.h"

#include <stddef.h>
#include <string.h>

enum sim_break sim_broken = BREAK_NONE;

static const char *const names[BREAK_COUNT] = {
    [BREAK_NONE] = "none",
    [BREAK_LOST_SYNC] = "lost-sync",
    [BREAK_TORN_BATCH] = "torn-batch",
    [BREAK_EARLY_ACK] = "early-ack",
    [BREAK_LOST_DONE] = "lost-done",
    [BREAK_SWAPPED_REPLY] = "swapped-reply",
    [BREAK_LOST_REPLY] = "lost-reply",
    [BREAK_DOUBLE_SEND] = "double-send",
    [BREAK_WRONG_BACKEND] = "wrong-backend",
    [BREAK_LOCKS_NOT_REBUILT] = "locks-not-rebuilt",
    [BREAK_EARLY_REPLY] = "early-reply",
    [BREAK_UNSYNCED_DECISION] = "unsynced-decision",
    [BREAK_TOLD_AT_PREPARE] = "told-at-prepare",
    [BREAK_EARLY_PREPARED] = "early-prepared",
    [BREAK_UNKNOWN_APPLIED] = "unknown-applied",
    [BREAK_EARLY_APPLIED] = "early-applied",
    [BREAK_NO_READ_LOCKS] = "no-read-locks",
    [BREAK_TAIL_DROPPED] = "tail-dropped",
    [BREAK_NOT_FROZEN] = "not-frozen",
    [BREAK_EARLY_OWNED] = "early-owned",
    [BREAK_LONG_FROZEN] = "long-frozen",
    [BREAK_NO_ASK] = "no-ask",
    [BREAK_ASK_ENDED] = "ask-ended",
    [BREAK_LATE_BEGIN] = "late-begin",
    [BREAK_OLD_MAP] = "old-map",
    [BREAK_RANGE_REFUSED] = "range-refused",
    [BREAK_RANGE_NOT_CLIPPED] = "range-not-clipped",
    [BREAK_PUT_FROZEN] = "put-frozen",
    [BREAK_EARLY_PUT] = "early-put",
    [BREAK_NO_RECEIPT] = "no-receipt",
    [BREAK_NO_OUTCOME] = "no-outcome",
    [BREAK_NO_ALL_LOCKS] = "no-all-locks",
    [BREAK_ALL_ANYWHERE] = "all-anywhere",
    [BREAK_FORCED_UNASKED] = "forced-unasked",
    [BREAK_APPLIED_KEPT] = "applied-kept",
    [BREAK_OWN_KEPT] = "own-kept",
    [BREAK_ROLLBACK_KEPT] = "rollback-kept",
    [BREAK_FIRST_PORTION] = "first-portion",
    [BREAK_WOUNDED_KEPT] = "wounded-kept",
    [BREAK_GRANT_KEPT] = "grant-kept",
    [BREAK_HALF_SHOWN] = "half-shown",
    [BREAK_PEERS_NOT_CUT] = "peers-not-cut",
    [BREAK_HALT_UNLOCKED] = "halt-unlocked",
    [BREAK_HALT_UNCOUNTED] = "halt-uncounted",
    [BREAK_VOTE_UNSAVED] = "vote-unsaved",
    [BREAK_MESSAGE_BEFORE_SAVE] = "message-before-save",
    [BREAK_CACHE_COUNTS] = "cache-counts",
    [BREAK_LOG_TAIL_DROPPED] = "log-tail-dropped",
    [BREAK_EMPTY_KEEPS_ID] = "empty-keeps-id",
    [BREAK_OLD_DISK_KEEPS_ID] = "old-disk-keeps-id",
    [BREAK_OLD_TERM_COUNTS] = "old-term-counts",
    [BREAK_ACK_UNSYNCED] = "ack-unsynced",
    [BREAK_OWN_UNSYNCED] = "own-unsynced",
    [BREAK_ONE_COPY] = "one-copy",
    [BREAK_UNMATCHED_COMMIT] = "unmatched-commit",
    [BREAK_TWO_VOTES] = "two-votes",
    [BREAK_SHORT_LOG] = "short-log",
    [BREAK_LEASE_OF_REPLY] = "lease-of-reply",
    [BREAK_LONG_LEASE] = "long-lease",
    [BREAK_START_FORGETS] = "start-forgets",
    [BREAK_NO_PROMISE] = "no-promise",
    [BREAK_LEADER_VOTES] = "leader-votes",
    [BREAK_EARLY_SERVING] = "early-serving",
    [BREAK_LEASE_UNSERVED] = "lease-unserved",
    [BREAK_OLD_BATCH] = "old-batch",
    [BREAK_TWO_CHANGES] = "two-changes",
    [BREAK_BIG_CHANGE] = "big-change",
    [BREAK_OLD_MAP_MEMBERS] = "old-map-members",
    [BREAK_PROMOTED_SILENT] = "promoted-silent",
    [BREAK_REFUSAL_NO_TERM] = "refusal-no-term",
    [BREAK_SPLIT_WAITS] = "split-waits",
    [BREAK_WENT_BACK] = "went-back",
    [BREAK_SERVES_ALONE] = "serves-alone",
    [BREAK_LEADS_HUNG] = "leads-hung",
    [BREAK_LEADS_BEHIND] = "leads-behind",
    [BREAK_TIME_FORGOTTEN] = "time-forgotten",
    [BREAK_ROOM_UNHEARD] = "room-unheard",
    [BREAK_NO_SPARE] = "no-spare",
    [BREAK_UNNAMED_UNHEARD] = "unnamed-unheard",
    [BREAK_LEASE_ENDLESS] = "lease-endless",
    [BREAK_BATCH_KEPT] = "batch-kept",
    [BREAK_BATCH_REPLIED] = "batch-replied",
    [BREAK_TAIL_APPLIED] = "tail-applied",
    [BREAK_BEHIND_SERVES] = "behind-serves",
    [BREAK_LOG_TIME_FORGOTTEN] = "log-time-forgotten",
    [BREAK_INDEX_UNLEASED] = "index-unleased",
    [BREAK_INDEX_OLD] = "index-old",
    [BREAK_INDEX_EARLY] = "index-early",
    [BREAK_INDEX_UNAPPLIED] = "index-unapplied",
    [BREAK_BEHIND_RUNS] = "behind-runs",
    [BREAK_SLOTS_END_LINE] = "slots-end-line",
    [BREAK_OVERTAKEN] = "overtaken",
    [BREAK_REFUSED_UNSEEN] = "refused-unseen",
    [BREAK_BEHIND_UNSEEN] = "behind-unseen",
};

const char *sim_break_name(enum sim_break broken)
{
    return broken < BREAK_COUNT ? names[broken] : NULL;
}

bool sim_break_find(const char *name, enum sim_break *broken)
{
    for (int i = 0; i < BREAK_COUNT; i++) {
        if (strcmp(sim_break_name((enum sim_break)i), name) == 0) {
            *broken = (enum sim_break)i;
            return true;
        }
    }
    return false;
}
