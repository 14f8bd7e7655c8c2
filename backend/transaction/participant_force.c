/*
 * participant_force.c - an operator ends a transaction in doubt (forced.h).
 */
#include "backend/transaction/participant_inner.h"

#include "backend/context/partition.h"
#include "backend/peer/peer_set.h"
#include "backend/transaction/forced.h"
#include "shared/table.h"

static struct part *find_printed(const struct participant *participant, struct bytes text)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    char id[TRANSACTION_ID_TEXT_MAX];
    while (table_next(participant->parts, &cursor, &key, &value)) {
        struct part *part = value;
        transaction_id_print(&part->id, id);
        if (bytes_equal(bytes_of(id), text))
            return part;
    }
    return NULL;
}

/* Why the transaction may not be ended by an operator; NULL: it may. */
static const char *refuse_force(const struct part *part)
{
    const struct partition *partition = part->participant->partition;
    const struct peer_link *link = peer_set_find(partition->shards.peers, bytes_of(part->id.shard));
    if (part->state != PART_PREPARED || !part->owner.is_in_doubt)
        return "ERR the transaction is not in doubt";
    if (link && link->state == PEER_LINK_UP)
        return "ERR the shard that decides the transaction is reachable: it ends by itself";
    if (commit_is_failed(partition->commit, NULL))
        return error_text((enum error)commit_error(partition->commit));
    return NULL;
}

bool participant_force(struct participant *participant, struct bytes id, bool is_commit,
                       const char **why)
{
    struct part *part = find_printed(participant, id);
    struct overlay *overlay = participant->partition->overlay;
    *why = part ? refuse_force(part) : NULL;
    if (!part || *why)
        return false;
    struct transaction_id forced = part->id;
    if (is_commit && !part_apply(part)) {
        *why = error_text(ERR_STORE);
        return false;
    }
    if (!is_commit)
        part_abort(part);
    forced_add(participant->forced, &forced, is_commit);
    commit_sync_next(participant->partition->commit);
    overlay_observe(overlay, overlay_ticket(overlay)); /* the reply leaves when it is durable */
    return true;
}

bool participant_forget(struct participant *participant, struct bytes id)
{
    return forced_forget(participant->forced, id);
}
