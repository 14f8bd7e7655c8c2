/*
 * participant_slice.c - work on all keys of a transaction is done in slices: however many these are, other clients wait for one slice.
 */
#include "backend/transaction/participant_inner.h"

#include "backend/context/partition.h"
#include "shared/clock.h"

enum {
    SLICE_US = 4000,
    SLICE_BYTES = 1 << 20,
};

struct part_slice part_slice_begin(const struct part *part)
{
    const struct partition *partition = part->participant->partition;
    return (struct part_slice){.left = partition->shards.steps.apply_effects,
                               .bytes = SLICE_BYTES,
                               .end_us = clock_mono_us() + SLICE_US};
}

bool part_slice_goes_on(const struct part_slice *slice)
{
    return slice->left && slice->bytes && clock_mono_us() < slice->end_us;
}

void part_slice_spend(struct part_slice *slice, size_t bytes)
{
    slice->left--;
    slice->bytes -= bytes < slice->bytes ? bytes : slice->bytes;
}

/* timer_fn */
static void on_slice(void *owner)
{
    struct part *part = owner;
    if (part->participant->partition->running.busy_error)
        part_go_on_later(part, SLICE_RETRY_MS);
    else if (part->state == PART_CHECKING)
        part_prepare_some(part);
    else
        part_apply_some(part);
}

void part_go_on_later(struct part *part, uint64_t after_ms)
{
    if (!part->progress.next_slice)
        part->progress.next_slice = timer_new(part->participant->partition->loop, on_slice, part);
    timer_start(part->progress.next_slice, after_ms, 0);
}
