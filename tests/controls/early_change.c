/* early_change.c - members change before a record of the own term is committed. */
#include "backend/consensus/members.h"
#include "backend/consensus/rules.h"

bool __wrap_rule_may_change(const struct consensus *core, const struct consensus_members *members);

bool __wrap_rule_may_change(const struct consensus *core, const struct consensus_members *members)
{
    return core->committed >= core->members.index && members_differ_by_one(&core->members, members);
}
