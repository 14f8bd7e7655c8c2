#include "backend/context/tally.h"

#include "backend/context/budget.h"

void tally_end(struct tally *tally)
{
    tally->is_over = true;
    if (tally->budget)
        budget_end_transaction(tally->budget, tally);
}
