#include "backend/consensus/term_runs.h"

#include "shared/check.h"

#include <string.h>

void term_runs_init(struct term_runs *runs, uint64_t base, uint64_t term)
{
    memset(runs, 0, sizeof *runs);
    runs->count = 1;
    runs->run[0] = (struct term_run){base, term};
}

uint64_t term_runs_base(const struct term_runs *runs)
{
    return runs->run[0].first;
}

/* The run of a record that is not before the base. Searches from the end of the log, where most records that are looked up are. */
static unsigned run_with(const struct term_runs *runs, uint64_t index)
{
    unsigned at = runs->count - 1;
    while (at > 0 && runs->run[at].first > index)
        at--;
    return at;
}

uint64_t term_runs_at(const struct term_runs *runs, uint64_t index)
{
    return index < term_runs_base(runs) ? 0 : runs->run[run_with(runs, index)].term;
}

uint64_t term_runs_last(const struct term_runs *runs)
{
    return runs->run[runs->count - 1].term;
}

uint64_t term_runs_first_of(const struct term_runs *runs, uint64_t index)
{
    return runs->run[run_with(runs, index)].first;
}

uint64_t term_runs_last_of(const struct term_runs *runs, uint64_t index, uint64_t last)
{
    unsigned at = run_with(runs, index);
    return at + 1 < runs->count ? runs->run[at + 1].first - 1 : last;
}

bool term_runs_has_room(const struct term_runs *runs, uint64_t term, uint64_t committed)
{
    return term_runs_last(runs) == term || runs->count < TERM_RUNS_MAX ||
           runs->run[1].first <= committed;
}

static void drop_first(struct term_runs *runs, unsigned count)
{
    runs->count -= count;
    memmove(runs->run, runs->run + count, runs->count * sizeof *runs->run);
    memset(runs->run + runs->count, 0, count * sizeof *runs->run);
}

void term_runs_append(struct term_runs *runs, uint64_t first, uint64_t term)
{
    CHECK(term >= term_runs_last(runs));
    if (term == term_runs_last(runs))
        return;
    if (runs->count == TERM_RUNS_MAX)
        drop_first(runs, 1);
    runs->run[runs->count++] = (struct term_run){first, term};
}

void term_runs_cut(struct term_runs *runs, uint64_t after)
{
    CHECK(after >= term_runs_base(runs));
    while (runs->count > 1 && runs->run[runs->count - 1].first > after)
        runs->run[--runs->count] = (struct term_run){0, 0};
}

void term_runs_trim(struct term_runs *runs, uint64_t base)
{
    if (base <= term_runs_base(runs))
        return;
    drop_first(runs, run_with(runs, base));
    runs->run[0].first = base;
}
