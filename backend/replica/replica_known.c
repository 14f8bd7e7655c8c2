#include "backend/replica/replica_known.h"

static struct replica_known_copy *place_of_copy(struct replica_known *known, uint64_t id)
{
    for (unsigned i = 0; i < known->count; i++)
        if (known->copies[i].id == id)
            return &known->copies[i];
    if (known->count == REPLICA_KNOWN_MAX)
        return NULL;
    known->copies[known->count] = (struct replica_known_copy){.id = id};
    return &known->copies[known->count++];
}

bool replica_known_add(struct replica_known *known, const struct replica_known_copy *heard)
{
    struct replica_known_copy *copy = heard->id ? place_of_copy(known, heard->id) : NULL;
    bool is_new = copy && (heard->starts > copy->starts || heard->last > copy->last);
    if (!is_new)
        return false;
    if (heard->starts > copy->starts) {
        copy->starts = heard->starts;
        copy->run = heard->run;
    }
    if (heard->last > copy->last)
        copy->last = heard->last;
    return true;
}

void replica_known_keep(struct replica_known *known, const uint64_t *ids, unsigned count)
{
    struct replica_known kept = {0};
    for (unsigned i = 0; i < count; i++) {
        struct replica_known_copy copy = replica_known_of(known, ids[i]);
        (void)replica_known_add(&kept, &copy);
    }
    *known = kept;
}

struct replica_known_copy replica_known_of(const struct replica_known *known, uint64_t id)
{
    for (unsigned i = 0; i < known->count; i++)
        if (id && known->copies[i].id == id)
            return known->copies[i];
    return (struct replica_known_copy){0};
}

/* The present process' log may be cut, and its disk cannot go back: that counts for a later one. */
bool replica_known_is_newer(const struct replica_known_copy *known, uint64_t starts, uint64_t run,
                            uint64_t last)
{
    return known->starts > starts ||
           (known->run != run && ((starts && known->starts == starts) || known->last > last));
}
