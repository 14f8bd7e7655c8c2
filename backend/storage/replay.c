#include "backend/storage/replay.h"

#include "backend/format/effects.h"
#include "shared/check.h"
#include "shared/list.h"

#include <stdio.h>
#include <stdlib.h>

struct kept {
    struct list node;
    uint64_t index;
    size_t len;
    char data[];
};

struct replay {
    replay_fn *apply;
    void *owner;
    struct list kept; /* batches that are not committed yet, by index */
    uint64_t count;   /* number of these batches */
    uint64_t committed;
    uint64_t known; /* batches up to this one are committed, whatever they say */
};

struct replay *replay_new(replay_fn *apply, void *owner)
{
    struct replay *replay = calloc(1, sizeof *replay);
    CHECK(replay);
    replay->apply = apply;
    replay->owner = owner;
    list_init(&replay->kept);
    return replay;
}

void replay_free(struct replay *replay)
{
    if (!replay)
        return;
    for (struct list *node; (node = list_pop(&replay->kept));)
        free(container_of(node, struct kept, node));
    free(replay);
}

void replay_commit(struct replay *replay, uint64_t index)
{
    replay->known = index;
}

static void keep_batch(struct replay *replay, uint64_t index, struct bytes batch)
{
    struct kept *kept = malloc(sizeof *kept + batch.len);
    CHECK(kept);
    kept->index = index;
    kept->len = batch.len;
    memcpy(kept->data, batch.data, batch.len);
    list_push(&replay->kept, &kept->node);
    replay->count++;
}

static bool apply_kept(struct replay *replay, uint64_t commit, char *error, size_t size)
{
    while (!list_empty(&replay->kept)) {
        struct kept *kept = container_of(replay->kept.next, struct kept, node);
        if (kept->index > commit)
            return true;
        if (!replay->apply(replay->owner, (struct bytes){kept->data, kept->len}, error, size))
            return false;
        replay->committed = kept->index;
        replay->count--;
        list_remove(&kept->node);
        free(kept);
    }
    return true;
}

/* The commit index in a batch. */
static bool read_commit(uint64_t index, struct bytes batch, uint64_t *commit, char *error,
                        size_t size)
{
    struct effects_header header;
    struct effects_reader reader;
    *commit = index;
    if (effects_is_write_batch(batch))
        return true;
    enum effects_read result = effects_open(batch, &header, &reader);
    if (result == EFFECTS_READ && header.index != index)
        result = EFFECTS_DAMAGED;
    if (result != EFFECTS_READ)
        (void)snprintf(error, size, "%s", effects_refusal(result));
    *commit = header.commit;
    return result == EFFECTS_READ;
}

bool replay_batch(void *owner, uint64_t index, struct bytes batch, char *error, size_t size)
{
    struct replay *replay = owner;
    uint64_t commit;
    if (!read_commit(index, batch, &commit, error, size))
        return false;
    if (commit < replay->known)
        commit = replay->known;
    if (!apply_kept(replay, commit, error, size))
        return false;
    if (commit < index) {
        keep_batch(replay, index, batch);
        return true;
    }
    if (!replay->apply(replay->owner, batch, error, size))
        return false;
    replay->committed = index;
    return true;
}

uint64_t replay_committed(const struct replay *replay)
{
    return replay->committed;
}

uint64_t replay_uncommitted(const struct replay *replay)
{
    return replay->count;
}
