/*
 * refusals.c - what shards say when they refuse requests of each other is "x" in every second world: only the code may count.
 */
#include "backend/context/refusal.h"
#include "tests/sim/sim.h"

size_t __real_refusal_write(struct refusal refusal, char to[REFUSAL_BYTES_MAX]);
size_t __wrap_refusal_write(struct refusal refusal, char to[REFUSAL_BYTES_MAX]);

size_t __wrap_refusal_write(struct refusal refusal, char to[REFUSAL_BYTES_MAX])
{
    if (sim_seed() % 2 == 0)
        refusal.text = "x";
    return __real_refusal_write(refusal, to);
}
