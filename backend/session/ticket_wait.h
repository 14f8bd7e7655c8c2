/*
 * ticket_wait.h - waits until a batch is durable, for work that belongs to no session.
 */
#pragma once

#include "shared/list.h"

#include <stdint.h>

struct partition;

struct ticket_wait {
    struct list link; /* in partition->shards.ticket_waits; unlinked: nothing is awaited */
    uint64_t ticket;
    /* The batch is durable (OK), or it was rolled back (an error code of the WAL's failure). */
    void (*on_end)(struct ticket_wait *wait, int err);
};

void ticket_wait_init(struct ticket_wait *wait, void (*on_end)(struct ticket_wait *wait, int err));
/* Waits for the newest ticket that was observed since overlay_observe_begin; calls on_end at once if
 * everything observed is durable. */
void ticket_wait_begin(struct partition *partition, struct ticket_wait *wait);
/* As ticket_wait_begin, but secured effects (overlay_secured_begin) are not written any sooner for this wait. */
void ticket_wait_begin_patient(struct partition *partition, struct ticket_wait *wait);
/* Begins to wait until the batch with this ticket, which is not durable yet, is durable. */
void ticket_wait_begin_at(struct partition *partition, struct ticket_wait *wait, uint64_t ticket);
void ticket_wait_cancel(struct ticket_wait *wait);
/* Called when the batch with this ticket is durable; err: this batch and all later ones were rolled back. */
void ticket_waits_end(struct partition *partition, uint64_t ticket, int err);
