/*
 * coordinator_figures.c - what an operator sees of the transactions that this partition coordinates, and what a backup waits for.
 */
#include "backend/transaction/coordinator_inner.h"

#include <stdio.h>

/* ---- for a backup ---- */

/* May a record of the transaction be in the log of a shard, or get there? Not of a failed one, which has sent RELEASE to its shards. */
static bool is_open(const struct coordinated *transaction)
{
    switch (transaction->state) {
    case COORDINATED_COLLECTING:
        return !list_empty(&transaction->participants);
    case COORDINATED_FAILED:
    case COORDINATED_HELD:
    case COORDINATED_QUEUED:
        return false;
    default:
        return true;
    }
}

/* A shard that has not applied the decided transaction yet. */
static const char *late_shard(struct coordinated *transaction)
{
    struct list *at = transaction->participants.next;
    while (at->next != &transaction->participants && participation_at(at)->is_applied)
        at = at->next;
    return participation_at(at)->shard;
}

static void describe_open(struct coordinated *transaction, char *why, size_t size)
{
    char id[TRANSACTION_ID_TEXT_MAX];
    transaction_id_print(&transaction->id, id);
    if (transaction->state == COORDINATED_DECIDED)
        (void)snprintf(why, size,
                       "transaction %s is decided, and shard '%s' has not applied it: check that "
                       "shard '%s' runs and accepts writes",
                       id, late_shard(transaction), late_shard(transaction));
    else if (transaction->state == COORDINATED_UNCERTAIN)
        (void)snprintf(why, size,
                       "the decision of transaction %s could not be written: check the disk of "
                       "shard '%s'",
                       id, transaction->id.shard);
    else
        (void)snprintf(why, size, "transaction %s has not ended (SCREE TRANSACTIONS)", id);
}

bool coordinator_is_quiet(const struct coordinator *coordinator, char *why, size_t size)
{
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        if (!is_open(coordinated_at(at)))
            continue;
        describe_open(coordinated_at(at), why, size);
        return false;
    }
    return true;
}

/* ---- figures ---- */

struct coordinator_figures coordinator_figures(const struct coordinator *coordinator)
{
    struct coordinator_figures figures = {0};
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        const struct coordinated *transaction = coordinated_at(at);
        figures.count++;
        figures.decided += transaction->state == COORDINATED_DECIDED;
        figures.uncertain += transaction->state == COORDINATED_UNCERTAIN;
    }
    return figures;
}

void coordinator_list(const struct coordinator *coordinator,
                      void (*on_line)(void *owner, const char *line), void *owner)
{
    char id[TRANSACTION_ID_TEXT_MAX];
    char line[COORDINATED_ERROR_MAX];
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        const struct coordinated *transaction = coordinated_at(at);
        transaction_id_print(&transaction->id, id);
        (void)snprintf(line, sizeof line, "id=%s role=coordinator state=%s outstanding=%u", id,
                       coordinated_states[transaction->state].word, transaction->outstanding);
        on_line(owner, line);
    }
}
