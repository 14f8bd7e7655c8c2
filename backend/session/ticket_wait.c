#include "backend/session/ticket_wait.h"

#include "backend/context/partition.h"

void ticket_wait_init(struct ticket_wait *wait, void (*on_end)(struct ticket_wait *wait, int err))
{
    list_init(&wait->link);
    wait->ticket = 0;
    wait->on_end = on_end;
}

void ticket_wait_begin_at(struct partition *partition, struct ticket_wait *wait, uint64_t ticket)
{
    overlay_await(partition->overlay, ticket);
    wait->ticket = ticket;
    list_push(&partition->shards.ticket_waits, &wait->link);
}

void ticket_wait_begin_patient(struct partition *partition, struct ticket_wait *wait)
{
    wait->ticket = overlay_observed(partition->overlay);
    if (wait->ticket)
        list_push(&partition->shards.ticket_waits, &wait->link);
    else
        wait->on_end(wait, OK);
}

void ticket_wait_begin(struct partition *partition, struct ticket_wait *wait)
{
    overlay_await(partition->overlay, overlay_observed(partition->overlay));
    ticket_wait_begin_patient(partition, wait);
}

void ticket_wait_cancel(struct ticket_wait *wait)
{
    list_remove(&wait->link);
}

void ticket_waits_end(struct partition *partition, uint64_t ticket, int err)
{
    struct list ended;
    struct list *next;
    struct list *all = &partition->shards.ticket_waits;
    list_init(&ended);
    for (struct list *at = all->next; at != all; at = next) {
        struct ticket_wait *wait = container_of(at, struct ticket_wait, link);
        next = at->next;
        if (err || wait->ticket <= ticket) {
            list_remove(at);
            list_push(&ended, at);
        }
    }
    for (struct list *link; (link = list_pop(&ended));) {
        struct ticket_wait *wait = container_of(link, struct ticket_wait, link);
        wait->on_end(wait, err);
    }
}
