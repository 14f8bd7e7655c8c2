#include "backend/storage/overlay_replay.h"

#include "backend/format/effects.h"
#include "backend/storage/overlay.h"
#include "backend/storage/storage.h"

#include <stdio.h>

static void show_effect(struct overlay *overlay, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_PUT:
        overlay_put(overlay, effect->cf, effect->key, effect->value);
        break;
    case EFFECT_DELETE:
        overlay_delete(overlay, effect->cf, effect->key);
        break;
    case EFFECT_DELETE_RANGE:
        overlay_delete_range(overlay, effect->cf, effect->key, effect->to);
        break;
    case EFFECT_NOTE:
        break;
    }
}

/* Makes the effects of a batch of the WAL durable rows of the write buffer: replay_fn. */
static bool show_batch(void *owner, struct bytes record, char *error, size_t size)
{
    struct overlay *overlay = owner;
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result =
        effects_is_write_batch(record) ? EFFECTS_NEWER : effects_open(record, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        show_effect(overlay, &effect);
    if (overlay_dirty(overlay)) {
        (void)overlay_close_batch(overlay);
        overlay_batch_committed(overlay);
        overlay_savepoint(overlay);
    }
    if (result == EFFECTS_END)
        return true;
    (void)snprintf(error, size, "a batch of the WAL: %s", effects_refusal(result));
    return false;
}

bool overlay_replay(struct overlay *overlay, struct storage *storage, char *error, size_t size)
{
    return storage_read_wal(storage, show_batch, overlay, error, size) == OK;
}
