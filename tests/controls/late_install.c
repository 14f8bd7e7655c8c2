/* late_install.c - a snapshot replaces a log that has its last record, in any term. */
#include "backend/consensus/rules.h"

bool __wrap_rule_may_install(const struct consensus *core, uint64_t term, uint64_t index,
                             uint64_t index_term);

bool __wrap_rule_may_install(const struct consensus *core, uint64_t term, uint64_t index,
                             uint64_t index_term)
{
    return term + index_term && core->committed < index;
}
