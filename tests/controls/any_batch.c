/* any_batch.c - a leader takes batches and changes of members before its PROBE is committed. */
#include "backend/consensus/rules.h"

bool __wrap_rule_takes_batch(const struct consensus *core, uint64_t term);

bool __wrap_rule_takes_batch(const struct consensus *core, uint64_t term)
{
    return core->role >= CONSENSUS_LEADING && term == core->term;
}
