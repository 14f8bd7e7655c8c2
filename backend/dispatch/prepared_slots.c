#include "backend/dispatch/prepared_slots.h"

#include "backend/format/effects.h"
#include "backend/format/transaction_record.h"
#include "backend/storage/overlay.h"
#include "shared/error.h"

#include <string.h>

static void mark_place(struct prepared_slots *prepared, const struct effect_place *place)
{
    if (place->first_slot == EFFECT_NO_SLOT)
        return;
    for (unsigned slot = place->first_slot; slot <= place->last_slot; slot++)
        prepared->bits[slot / 8] |= (uint8_t)(1 << slot % 8);
}

/* False: the effects cannot be read. */
static bool mark_effects(struct prepared_slots *prepared, struct bytes effects)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    if (effects_open(effects, &header, &reader) != EFFECTS_READ)
        return false;
    enum effects_read read;
    while ((read = effects_next(&reader, &effect)) == EFFECTS_READ)
        mark_place(prepared, &effect.place);
    return read == EFFECTS_END;
}

static bool mark_prepared(struct prepared_slots *prepared, struct bytes row, struct bytes value)
{
    enum transaction_record record;
    struct transaction_id id;
    struct bytes effects, changes;
    if (!decode_transaction_key(row, &record, &id))
        return false;
    if (record != TRANSACTION_PREPARED)
        return true;
    return decode_prepared(value, &effects, &changes) && mark_effects(prepared, effects);
}

static bool find_prepared_slots(struct prepared_slots *prepared, struct overlay *overlay)
{
    struct overlay_iter *iter =
        overlay_iter_new(overlay, CF_SYSTEM, transaction_rows_from(), transaction_rows_to());
    bool is_good = true;
    memset(prepared->bits, 0, sizeof prepared->bits);
    for (overlay_iter_seek_first(iter); is_good && overlay_iter_valid(iter);
         overlay_iter_next(iter))
        is_good = mark_prepared(prepared, overlay_iter_key(iter), overlay_iter_value(iter));
    is_good = is_good && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return is_good;
}

bool prepared_slots_has(struct prepared_slots *prepared, struct overlay *overlay, uint16_t slot)
{
    if (!prepared->is_known)
        prepared->is_known = find_prepared_slots(prepared, overlay);
    return !prepared->is_known || prepared->bits[slot / 8] >> slot % 8 & 1;
}
