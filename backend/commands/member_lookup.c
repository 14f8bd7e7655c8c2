#include "backend/commands/member_lookup.h"

enum {
    ROWS_PER_LOOKUP = 8, /* steps that cost less than a lookup */
    SOUGHT_MIN = 16,     /* fewer lookups cost less than to open an iterator */
};

void member_lookup_init(struct member_lookup *lookup, struct call *call, struct entry *entry,
                        uint64_t sought)
{
    *lookup = (struct member_lookup){
        .call = call,
        .entry = entry,
        /* all rows of a key of another shard would have to be fetched for an iterator */
        .is_stepping = entry->exists && !entry->is_borrowed && sought >= SOUGHT_MIN &&
                       entry->meta.size / ROWS_PER_LOOKUP <= sought,
    };
}

static void open_rows(struct member_lookup *lookup)
{
    sub_iter_init(lookup->call, lookup->entry, CF_DATA, (struct bytes){"", 0}, &lookup->it);
    lookup->is_begun = lookup->is_open = true;
    lookup->has_row = sub_iter_next(&lookup->it);
}

/* Passes over the rows before the member. */
static int step_to(struct member_lookup *lookup, struct bytes member, struct bytes *value)
{
    int order = -1;
    if (!lookup->is_begun)
        open_rows(lookup);
    while (lookup->has_row && (order = bytes_compare(lookup->it.sub, member)) < 0)
        lookup->has_row = sub_iter_next(&lookup->it);
    if (!lookup->has_row) /* the rows have ended, or could not be read */
        return member_lookup_fini(lookup) ? ERR_NOT_FOUND : ERR_STORE;
    if (order != 0)
        return ERR_NOT_FOUND;
    *value = lookup->it.value;
    return OK;
}

int member_lookup_find(struct member_lookup *lookup, struct bytes member, struct bytes *value)
{
    if (lookup->is_stepping)
        return step_to(lookup, member, value);
    return lookup->entry->exists ? sub_get(lookup->call, lookup->entry, CF_DATA, member, value)
                                 : ERR_NOT_FOUND;
}

bool member_lookup_fini(struct member_lookup *lookup)
{
    bool was_open = lookup->is_open;
    lookup->is_open = false;
    return !was_open || sub_iter_fini(&lookup->it);
}
