#include "backend/keyspace/need.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_MIN = 16 };

static bool is_same_need(const struct need *need, const struct need *other)
{
    if (need_locks(need->kind))
        return need_locks(other->kind) && bytes_equal(need->row_key, other->row_key);
    return need->kind == other->kind && need->cf == other->cf &&
           bytes_equal(need->row_key, other->row_key) &&
           (!need_is_question(need->kind) || need->slot == other->slot) &&
           bytes_equal(need->row, other->row);
}

/* Equal for equal needs (is_same_need). */
static uint64_t hash_need(const struct need *need)
{
    uint64_t hash = hash_bytes(need->row_key);
    return need_locks(need->kind) ? hash : hash + need->kind + hash_bytes(need->row) + need->slot;
}

static struct need **chain_of(const struct need_set *set, const struct need *need)
{
    return &set->table[hash_need(need) & (set->size - 1)];
}

static void chain(struct need_set *set, struct need *need)
{
    struct need **first = chain_of(set, need);
    need->chained = *first;
    *first = need;
}

static void grow_table(struct need_set *set)
{
    set->size = set->size ? 2 * set->size : TABLE_MIN;
    free(set->table);
    set->table = calloc(set->size, sizeof *set->table);
    CHECK(set->table);
    for (struct need *need = set->first; need; need = need->next)
        chain(set, need);
}

static struct need *find(const struct need_set *set, const struct need *wanted)
{
    struct need *need = set->size ? *chain_of(set, wanted) : NULL;
    while (need && !is_same_need(need, wanted))
        need = need->chained;
    return need;
}

static struct need *copy_need(const struct need *wanted)
{
    struct need *need = malloc(sizeof *need + wanted->row_key.len + wanted->row.len);
    CHECK(need);
    *need = *wanted;
    char *text = (char *)(need + 1);
    need->row_key = bytes_copy_to(&text, wanted->row_key);
    need->row = bytes_copy_to(&text, wanted->row);
    need->next = NULL;
    return need;
}

void need_set_add(struct need_set *set, const struct need *wanted)
{
    struct need *need = find(set, wanted);
    if (need) {
        if (wanted->mode > need->mode)
            need->mode = wanted->mode;
        if (wanted->kind == NEED_KEY)
            need->kind = NEED_KEY; /* it was BARE, perhaps */
        return;
    }
    if (set->count == set->size)
        grow_table(set);
    need = copy_need(wanted);
    tally_add(set->tally, need_memory(need));
    if (!set->end)
        set->end = &set->first;
    *set->end = need;
    set->end = &need->next;
    set->count++;
    chain(set, need);
}

struct need *need_set_take(struct need_set *set)
{
    struct need *needs = set->first;
    free(set->table);
    *set = (struct need_set){.tally = set->tally};
    return needs;
}

void need_set_clear(struct need_set *set)
{
    needs_free(need_set_take(set), set->tally);
}

void need_free(struct need *need, struct tally *tally)
{
    tally_remove(tally, need_memory(need));
    free(need);
}

void needs_free(struct need *needs, struct tally *tally)
{
    while (needs) {
        struct need *next = needs->next;
        need_free(needs, tally);
        needs = next;
    }
}
