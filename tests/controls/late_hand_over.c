/* late_hand_over.c - a TRANSFER of an earlier term makes a copy stand. */
#include "backend/consensus/rules.h"

bool __wrap_rule_obeys_hand_over(const struct consensus *core,
                                 const struct consensus_message *message);

bool __wrap_rule_obeys_hand_over(const struct consensus *core,
                                 const struct consensus_message *message)
{
    return message->term <= core->term;
}
