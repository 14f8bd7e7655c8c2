#include "backend/commands/stream_references.h"

#include "backend/commands/stream_node.h"

bool stream_references_read(struct call *call, struct entry *entry,
                            struct stream_references *references)
{
    references->groups = groups_read(call, entry, &references->count);
    if (!references->groups)
        return false;
    size_t size = (references->count + 1) * sizeof *references->is_changed;
    references->is_changed = arena_alloc(call->arena, size);
    memset(references->is_changed, 0, size);
    return true;
}

int64_t stream_references_find(const struct stream_references *references, struct bytes name)
{
    for (uint64_t i = 0; i < references->count; i++)
        if (bytes_equal(references->groups[i].name, name))
            return (int64_t)i;
    return -1;
}

int stream_references_has(struct call *call, struct entry *entry,
                          const struct stream_references *references, struct stream_id id)
{
    for (uint64_t i = 0; i < references->count; i++) {
        const struct stream_group *group = &references->groups[i];
        struct stream_pending pending;
        if (stream_id_compare(id, group->last) > 0)
            return 1;
        if (group->pending == 0)
            continue;
        int err = pending_find(call, entry, group->name, id, &pending);
        if (err != ERR_NOT_FOUND)
            return err == OK ? 1 : -1;
    }
    return 0;
}

int stream_references_ack(struct call *call, struct entry *entry,
                          struct stream_references *references, uint64_t group, struct stream_id id)
{
    struct stream_group *owner = &references->groups[group];
    struct stream_pending pending;
    if (owner->pending == 0)
        return ERR_NOT_FOUND;
    int err = pending_find(call, entry, owner->name, id, &pending);
    if (err)
        return err;
    references->is_changed[group] = true;
    return pending_drop(call, entry, owner, NULL, id, &pending) ? OK : ERR_STORE;
}

bool stream_references_drop(struct call *call, struct entry *entry,
                            struct stream_references *references, struct stream_id id)
{
    for (uint64_t i = 0; i < references->count; i++)
        if (is_read_failure(stream_references_ack(call, entry, references, i, id)))
            return false;
    return true;
}

void stream_references_save(struct call *call, struct entry *entry,
                            const struct stream_references *references)
{
    for (uint64_t i = 0; i < references->count; i++)
        if (references->is_changed[i])
            group_put(call, entry, &references->groups[i]);
}

/* ---- XTRIM and XADD with ACKED ---- */

enum { READ_FIRST = 16, READ_AT_ONCE = 1024 };

/* An entry, read before any is removed. */
struct candidate {
    struct stream_id id;
    bool begins_node; /* of Redis' nodes (stream_node.h) */
};

/* State of a trim with ACKED, which visits the entries from the first on. */
struct acked_trim {
    struct call *call;
    struct entry *entry;
    const struct trim *trim;
    const struct stream_references *references;
    struct stream_id read_by_all; /* every group has delivered the entries up to this id */
    struct stream_removal removal;
    bool is_over;
    uint64_t passed;       /* with "~": number of entries in the nodes visited */
    bool is_front_gone;    /* with "~": at least the first node was removed completely */
    struct stream_id next; /* where the next candidates begin */
    struct stream_node node;
    struct candidate candidates[READ_AT_ONCE];
    uint32_t candidates_count;
    uint32_t reads;        /* entries to read next: few at first, because often few are removed */
    bool is_last;          /* no entries follow the candidates */
    struct stream_id *ids; /* with "~": entries of the current node */
    uint64_t ids_count;
    uint64_t ids_cap;
};

/* Reads the next candidates; false: the store failed. */
static bool read_candidates(struct acked_trim *acked)
{
    struct stream_node_limits limits = stream_node_limits(acked->call);
    struct sub_iter it;
    char from[STREAM_ID_BYTES];
    struct stream_id id = acked->next;
    acked->candidates_count = 0;
    sub_iter_init(acked->call, acked->entry, CF_STREAM, stream_id_encode(from, acked->next), &it);
    while (acked->candidates_count < acked->reads && sub_iter_next(&it) &&
           stream_id_decode(it.sub, &id))
        acked->candidates[acked->candidates_count++] = (struct candidate){
            id, acked->trim->is_rough && stream_node_add(&acked->node, &limits, id, it.value)};
    if (!sub_iter_fini(&it))
        return false;
    acked->is_last = acked->candidates_count < acked->reads;
    if (acked->reads < READ_AT_ONCE)
        acked->reads *= 2;
    if (!acked->is_last)
        acked->is_last = !stream_id_next(&id);
    acked->next = id;
    return true;
}

/* Does the trim end before this entry? With "~", which removes only whole nodes: before the node of `count` entries whose last one is
 * `id`. */
static bool is_enough(const struct acked_trim *acked, uint64_t count, struct stream_id id)
{
    const struct trim *trim = acked->trim;
    int64_t limit = trim->is_rough ? stream_trim_limit(acked->call, trim) : 0;
    uint64_t size = acked->entry->meta.size;
    if (limit && acked->removal.count + count > (uint64_t)limit)
        return true;
    if (trim->by == TRIM_ID)
        return stream_id_compare(id, trim->id) >= 0;
    return size < count || size - count < (uint64_t)trim->length;
}

/* Removes the entry unless a group needs it; false: the store failed. */
static bool remove_if_acked(struct acked_trim *acked, struct stream_id id)
{
    int needed = stream_references_has(acked->call, acked->entry, acked->references, id);
    if (needed)
        return needed > 0;
    return !is_read_failure(stream_remove(acked->call, acked->entry, id, &acked->removal));
}

static bool end_node(struct acked_trim *acked)
{
    if (acked->ids_count == 0)
        return true;
    acked->is_over = is_enough(acked, acked->ids_count, acked->ids[acked->ids_count - 1]);
    for (uint64_t i = 0; !acked->is_over && i < acked->ids_count; i++)
        if (!remove_if_acked(acked, acked->ids[i]))
            return false;
    acked->passed += acked->ids_count;
    acked->is_front_gone = acked->is_front_gone || acked->passed == acked->removal.count;
    acked->ids_count = 0;
    return true;
}

static bool take_candidate(struct acked_trim *acked, const struct candidate *candidate)
{
    bool is_unread = stream_id_compare(candidate->id, acked->read_by_all) > 0;
    if (!acked->trim->is_rough) {
        acked->is_over = is_unread || is_enough(acked, 1, candidate->id);
        return acked->is_over || remove_if_acked(acked, candidate->id);
    }
    if (candidate->begins_node && !end_node(acked))
        return false;
    if (candidate->begins_node && is_unread) {
        acked->is_over = true;
        return true;
    }
    if (acked->ids_count == acked->ids_cap) {
        acked->ids_cap = acked->ids_cap * 2 + 128;
        struct stream_id *ids = arena_alloc(acked->call->arena, acked->ids_cap * sizeof *ids);
        if (acked->ids_count)
            memcpy(ids, acked->ids, acked->ids_count * sizeof *ids);
        acked->ids = ids;
    }
    acked->ids[acked->ids_count++] = candidate->id;
    return true;
}

int64_t stream_trim_acked(struct call *call, struct entry *entry, const struct trim *trim,
                          const struct stream_references *references)
{
    struct acked_trim *acked = arena_alloc(call->arena, sizeof *acked);
    memset(acked, 0, sizeof *acked);
    acked->call = call;
    acked->entry = entry;
    acked->trim = trim;
    acked->references = references;
    acked->next = entry->meta.stream_first;
    acked->node = entry->meta.stream_node;
    acked->read_by_all = STREAM_ID_MAX;
    for (uint64_t i = 0; i < references->count; i++)
        if (stream_id_compare(references->groups[i].last, acked->read_by_all) < 0)
            acked->read_by_all = references->groups[i].last;
    acked->reads = READ_FIRST;
    acked->is_over = stream_id_compare(acked->next, acked->read_by_all) > 0;
    struct stream_id max_deleted = entry->meta.stream_max_deleted;
    while (!acked->is_over) {
        if (!read_candidates(acked))
            return -1;
        for (uint32_t i = 0; !acked->is_over && i < acked->candidates_count; i++)
            if (!take_candidate(acked, &acked->candidates[i]))
                return -1;
        if (!acked->is_over && acked->is_last) {
            if (!end_node(acked))
                return -1;
            acked->is_over = true;
        }
    }
    if (acked->removal.has_end && !stream_find_ends(call, entry))
        return -1;
    if (acked->is_front_gone)
        entry->meta.stream_node = (struct stream_node){0};
    if (entry->meta.size == 0 ||
        stream_id_compare(entry->meta.stream_max_deleted, entry->meta.stream_first) < 0)
        entry->meta.stream_max_deleted = max_deleted; /* as in any trim that leaves no holes */
    return (int64_t)acked->removal.count;
}
