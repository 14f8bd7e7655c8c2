#include "tests/sim/sim_break.h"

#include <stddef.h>
#include <string.h>

enum sim_break sim_broken = BREAK_NONE;

const char *sim_break_name(enum sim_break broken)
{
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
        [BREAK_NO_OUTCOME] = "no-outcome",
        [BREAK_NO_ALL_LOCKS] = "no-all-locks",
        [BREAK_ALL_ANYWHERE] = "all-anywhere",
        [BREAK_FORCED_UNASKED] = "forced-unasked",
        [BREAK_APPLIED_KEPT] = "applied-kept",
        [BREAK_OWN_KEPT] = "own-kept",
        [BREAK_ROLLBACK_KEPT] = "rollback-kept",
        [BREAK_FIRST_PORTION] = "first-portion",
        [BREAK_WOUNDED_KEPT] = "wounded-kept",
    };
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
