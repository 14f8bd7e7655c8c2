/* old_reply.c - a leader counts replies of earlier terms. */
#include "backend/consensus/rules.h"

bool __wrap_rule_reply_counts(const struct consensus *core, const struct consensus_message *reply);

bool __wrap_rule_reply_counts(const struct consensus *core, const struct consensus_message *reply)
{
    return reply->term <= core->term;
}
