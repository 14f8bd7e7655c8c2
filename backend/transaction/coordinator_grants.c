/*
 * coordinator_grants.c - bounds the bytes that all transactions of a partition borrow at a time (borrow-memory).
 *
 *   LOCK's replies ─► few bytes: goes on
 *                  ─► more ─┬─ a grant is free: keeps it to its end, and may borrow up to borrow-limit
 *                           └─ none is free: forgets its rows, releases its locks ─► QUEUED ─► a grant ─► begins again
 *
 * Grants are given out fairly between namespaces, and in the order of arrival within each (fair_queue.h). What waits for a grant has
 * neither locks nor rows, so nothing waits for it.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/session/session.h"

enum {
    FEW_SHARE =
        64, /* a transaction that has borrowed less than this part of borrow-limit needs no grant */
    NAMESPACE_SHARE =
        50, /* percent of the grants that one namespace has, when another one needs some */
};

static struct fair_limit limit_of_grants(const struct coordinator *coordinator)
{
    const struct backend_config *config = &coordinator->partition->snapshot->config;
    uint64_t count = config->borrow_memory_bytes / config->borrow_limit_bytes;
    return (struct fair_limit){.count = !count               ? 1
                                        : count < UINT32_MAX ? (uint32_t)count
                                                             : UINT32_MAX,
                               .percent = NAMESPACE_SHARE};
}

bool coordinated_may_borrow(struct coordinated *transaction)
{
    struct coordinator *coordinator = transaction->coordinator;
    struct fair_queue *grants = &coordinator->grants;
    uint64_t limit = coordinator->partition->snapshot->config.borrow_limit_bytes;
    if (transaction->grant || transaction->borrow->bytes < limit / FEW_SHARE)
        return true;
    struct fair_group *group = fair_queue_group(grants, session_namespace(transaction->session));
    if (!fair_group_waits(group) &&
        fair_queue_has_room(grants, group, limit_of_grants(coordinator))) {
        fair_queue_take(grants, group);
        transaction->grant = group;
        return true;
    }
    fair_queue_wait(grants, group, &transaction->turn, false);
    coordinated_forget_attempts(transaction);
    coordinated_set_state(transaction, COORDINATED_QUEUED);
    return false;
}

/* Gives free grants to transactions that wait for one. */
static void grant_next(struct coordinator *coordinator)
{
    struct list *turn;
    while ((turn = fair_queue_next(&coordinator->grants, limit_of_grants(coordinator)))) {
        struct coordinated *transaction = container_of(turn, struct coordinated, turn);
        struct bytes name = session_namespace(transaction->session);
        transaction->grant = fair_queue_group(&coordinator->grants, name);
        fair_queue_take(&coordinator->grants, transaction->grant);
        coordinated_set_state(transaction, COORDINATED_COLLECTING);
        coordinated_resume(transaction);
    }
}

void coordinated_end_grant(struct coordinated *transaction)
{
    struct coordinator *coordinator = transaction->coordinator;
    list_remove(&transaction->turn);
    if (!transaction->grant)
        return;
    fair_queue_give_back(&coordinator->grants, transaction->grant);
    transaction->grant = NULL;
    grant_next(coordinator);
}
