/* mark_twice.c - a candidate that has failed stands again with the mark of a leader that gave up its lease. */
#include "backend/consensus/rules.h"

bool __wrap_rule_may_mark(const struct consensus *core);

bool __wrap_rule_may_mark(const struct consensus *core)
{
    return core->may_mark || core->role == CONSENSUS_CANDIDATE;
}
