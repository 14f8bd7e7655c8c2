/*
 * store_effects.c - converts effects of a batch (effects.h) to operations for the tables, for any implementation of store.h.
 */
#include "backend/format/effects.h"
#include "backend/store/store.h"

#include <stdio.h>

static void add_effect(struct store_batch *batch, struct store *store, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_PUT:
        store_batch_put(batch, store, effect->cf, effect->key, effect->value);
        break;
    case EFFECT_DELETE:
        store_batch_delete(batch, store, effect->cf, effect->key);
        break;
    case EFFECT_DELETE_RANGE:
        store_batch_delete_range(batch, store, effect->cf, effect->key, effect->to);
        break;
    case EFFECT_NOTE:
        break;
    }
}

bool store_batch_add_effects(struct store_batch *batch, struct store *store, struct bytes effects,
                             char *error, size_t size)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result = effects_open(effects, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        add_effect(batch, store, &effect);
    if (result == EFFECTS_END)
        return true;
    (void)snprintf(error, size, "%s", effects_refusal(result));
    return false;
}
