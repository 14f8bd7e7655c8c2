/*
 * participant_figures.c - what an operator sees of transactions that other shards coordinate, and what a backup waits for.
 */
#include "backend/transaction/participant_inner.h"

#include "backend/transaction/forced.h"
#include "shared/table.h"

#include <stdio.h>

/* ---- figures ---- */

bool participant_is_applying(const struct participant *participant)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (table_next(participant->parts, &cursor, &key, &value)) {
        const struct part *part = value;
        if (part->state == PART_APPLYING && !part->progress.apply.is_applied)
            return true;
    }
    return false;
}

bool participant_is_quiet(const struct participant *participant, char *why, size_t size)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    char id[TRANSACTION_ID_TEXT_MAX];
    if (!table_next(participant->parts, &cursor, &key, &value))
        return true;
    const struct part *part = value;
    transaction_id_print(&part->id, id);
    if (part->owner.is_in_doubt)
        (void)snprintf(why, size,
                       "transaction %s is %s, and shard '%s', which decides it, does not answer: "
                       "check that shard '%s' runs",
                       id, part_states[part->state].word, part->id.shard, part->id.shard);
    else
        (void)snprintf(why, size, "transaction %s is %s (SCREE TRANSACTIONS)", id,
                       part_states[part->state].word);
    return false;
}

struct participant_figures participant_figures(const struct participant *participant)
{
    struct participant_figures figures = {.count = (uint32_t)table_count(participant->parts),
                                          .forced = forced_count(participant->forced)};
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (table_next(participant->parts, &cursor, &key, &value)) {
        const struct part *part = value;
        figures.prepared += part->owner.is_prepared;
        figures.in_doubt += part->owner.is_in_doubt;
    }
    return figures;
}

static const char *what_it_waits_for(const struct part *part)
{
    if (!list_empty(&part->owner.requests))
        return "locks";
    if (part->rows.pending)
        return "rows";
    if (!list_empty(&part->ticket.link))
        return "log";
    bool has_slices = part->state == PART_CHECKING || part->state == PART_APPLYING;
    return has_slices ? "its_turn" : "coordinator";
}

void participant_list(const struct participant *participant,
                      void (*on_line)(void *owner, const char *line), void *owner)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    char line[512];
    char id[TRANSACTION_ID_TEXT_MAX];
    while (table_next(participant->parts, &cursor, &key, &value)) {
        const struct part *part = value;
        transaction_id_print(&part->id, id);
        (void)snprintf(line, sizeof line,
                       "id=%s role=participant state=%s waits_for=%s in_doubt=%s", id,
                       part_states[part->state].word, what_it_waits_for(part),
                       part->owner.is_in_doubt ? "yes" : "no");
        on_line(owner, line);
    }
    forced_list(participant->forced, on_line, owner);
}
