/*
 * write_buffer_effects.c - adds the effects of a whole batch (effects.h) to a buffer that no overlay uses: nothing is ever rolled back, and
 * rows have no tickets.
 */
#include "backend/format/effects.h"
#include "backend/storage/write_buffer.h"

#include <stdio.h>

enum { AWAITED_MAX = 16 };

/* An effect whose place in the index the CPU is fetching: that of a big buffer is seldom in its caches. */
struct awaited {
    struct effect effect;
    uint64_t hash;
};

static void set_row(struct write_buffer *buffer, const struct awaited *awaited,
                    enum row_state state)
{
    const struct effect *effect = &awaited->effect;
    struct row *row = write_buffer_get_or_add(buffer, effect->cf, effect->key, awaited->hash);
    row->value = arena_copy(&buffer->arena, effect->value);
    row->state = state;
}

/* The rows that the buffer has in the range are gone: it applies ranges before rows. */
static void delete_rows(struct write_buffer *buffer, const struct effect *effect)
{
    struct range range = {.cf = effect->cf, .from = effect->key, .to = effect->to};
    const struct row_list *list = write_buffer_order(buffer, range.cf, range.from, range.to);
    for (struct row *row = rows_at_or_after(list, range.from);
         row && range_has(&range, range.cf, row->key); row = row->next[0])
        row->state = ROW_ABSENT;
    write_buffer_add_range(buffer, &range);
}

static void apply_effect(struct write_buffer *buffer, const struct awaited *awaited)
{
    switch (awaited->effect.kind) {
    case EFFECT_PUT:
        set_row(buffer, awaited, ROW_VALUE);
        break;
    case EFFECT_DELETE:
        set_row(buffer, awaited, ROW_DELETED);
        break;
    case EFFECT_DELETE_RANGE:
        delete_rows(buffer, &awaited->effect);
        break;
    case EFFECT_NOTE:
        break;
    }
}

static void apply_all(struct write_buffer *buffer, const struct awaited *awaited, size_t count)
{
    for (size_t i = 0; i < count; i++)
        apply_effect(buffer, &awaited[i]);
}

static void await_effect(const struct write_buffer *buffer, struct awaited *awaited)
{
    awaited->hash = hash_row(awaited->effect.cf, awaited->effect.key);
    write_buffer_await(buffer, awaited->hash);
}

bool write_buffer_add_effects(struct write_buffer *buffer, struct bytes effects, char *error,
                              size_t size)
{
    struct effects_header header;
    struct effects_reader reader;
    struct awaited awaited[AWAITED_MAX];
    size_t count = 0;
    enum effects_read result = effects_open(effects, &header, &reader);
    while (result == EFFECTS_READ &&
           (result = effects_next(&reader, &awaited[count].effect)) == EFFECTS_READ) {
        await_effect(buffer, &awaited[count]);
        if (++count == AWAITED_MAX) {
            apply_all(buffer, awaited, count);
            count = 0;
        }
    }
    apply_all(buffer, awaited, count);
    if (result == EFFECTS_END)
        return true;
    (void)snprintf(error, size, "%s", effects_refusal(result));
    return false;
}
