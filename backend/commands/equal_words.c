#include "backend/commands/equal_words.h"

#include "shared/table.h"

/* Compares each word with those before it. */
static void find_among_few(const struct bytes *words, uint32_t count, uint32_t *first)
{
    for (uint32_t i = 0; i < count; i++)
        for (first[i] = 0; first[i] < i && !bytes_equal(words[first[i]], words[i]);)
            first[i]++;
}

/* Looks each word up in a table of slots with open addressing, which have indexes + 1. */
static void find_among_many(struct arena *arena, const struct bytes *words, uint32_t count,
                            uint32_t *first)
{
    size_t slots_count = 1;
    while (slots_count < (size_t)count * 2)
        slots_count *= 2;
    uint32_t *slots = arena_alloc(arena, slots_count * sizeof *slots);
    memset(slots, 0, slots_count * sizeof *slots);
    for (uint32_t i = 0; i < count; i++) {
        size_t at = hash_bytes(words[i]) & (slots_count - 1);
        while (slots[at] && !bytes_equal(words[slots[at] - 1], words[i]))
            at = (at + 1) & (slots_count - 1);
        if (!slots[at])
            slots[at] = i + 1;
        first[i] = slots[at] - 1;
    }
}

const uint32_t *first_of_equal(struct arena *arena, const struct bytes *words, uint32_t count)
{
    enum { FEW = 8 };
    uint32_t *first = arena_alloc(arena, ((size_t)count + 1) * sizeof *first);
    if (count <= FEW)
        find_among_few(words, count, first);
    else
        find_among_many(arena, words, count, first);
    return first;
}
