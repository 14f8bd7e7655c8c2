/*
 * fuzz_effects.c - effects.h: reading any bytes ends and never goes beyond them. Effects that were read whole are
 * written again, and reading those bytes must give equal effects.
 */
#include "backend/format/effects.h"
#include "backend/format/note.h"
#include "shared/check.h"

#include <stdint.h>
#include <stdlib.h>

static volatile unsigned sum; /* uses every byte, so that the compiler keeps the reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(struct bytes run)
{
    if (run.len)
        sum += (uint8_t)run.data[0] + (uint8_t)run.data[run.len - 1];
}

static void write_again(struct effects *effects, const struct effect *effect)
{
    effects_set_internal(effects, effect->is_internal);
    if (effect->kind == EFFECT_NOTE)
        effects_note(effects, effect->cf, effect->key, effect->value);
    else if (effect->kind == EFFECT_PUT)
        effects_put(effects, effect->cf, effect->key, effect->value);
    else if (effect->kind == EFFECT_DELETE)
        effects_delete(effects, effect->cf, effect->key);
    else
        effects_delete_range(effects, effect->cf, effect->key, effect->to);
}

/* Compares the effects. Their positions must be those of the keys; positions in the input may be others. */
static void check_same(struct bytes written, struct bytes again)
{
    struct effects_header header, header_again;
    struct effects_reader one, other;
    struct effect a, b;
    CHECK(effects_open(written, &header, &one) == EFFECTS_READ);
    CHECK(effects_open(again, &header_again, &other) == EFFECTS_READ);
    CHECK(memcmp(&header, &header_again, sizeof header) == 0);
    for (enum effects_read result = EFFECTS_READ; result == EFFECTS_READ;) {
        result = effects_next_or_note(&one, &a);
        CHECK(effects_next_or_note(&other, &b) == result && result != EFFECTS_DAMAGED);
        CHECK(result != EFFECTS_READ ||
              (a.kind == b.kind && a.cf == b.cf && a.is_internal == b.is_internal &&
               bytes_equal(a.key, b.key) && bytes_equal(a.value, b.value) &&
               bytes_equal(a.to, b.to)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = {(const char *)data, size};
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    struct note note;
    memset(&header, 0, sizeof header);
    if (effects_open(input, &header, &reader) != EFFECTS_READ)
        return 0;
    struct effects *effects = effects_new();
    effects_begin(effects, &header);
    enum effects_read result;
    while ((result = effects_next_or_note(&reader, &effect)) == EFFECTS_READ) {
        touch(effect.place.space);
        touch(effect.key);
        touch(effect.value);
        touch(effect.to);
        if (effect.kind == EFFECT_NOTE)
            sum += note_read(effect.value, &note);
        write_again(effects, &effect);
    }
    if (result == EFFECTS_END)
        check_same(input, effects_bytes(effects));
    effects_free(effects);
    return 0;
}
