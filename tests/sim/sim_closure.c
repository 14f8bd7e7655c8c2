#include "tests/sim/sim_closure.h"

#include "backend/format/effects.h"
#include "backend/format/slot_record.h"
#include "backend/format/transaction_record.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOGS_MAX = 16 };

enum fact_kind { FACT_PUT, FACT_DELETE, FACT_SLOTS };

/* What a shard's record says of a slot. */
struct place {
    uint64_t migration;
    uint8_t state;
};

/* What a batch says. */
struct fact {
    uint64_t time_us, index;
    unsigned log;
    enum fact_kind kind;
    enum transaction_record record; /* PUT, DELETE: of this row … */
    char id[TRANSACTION_ID_BYTES_MAX];
    size_t id_len;
    unsigned page; /* SLOTS: … or the slots of this page */
    struct place places[SLOT_PAGE_SLOTS];
};

struct fact_log {
    char path[128];
    uint64_t last_us;
};

static struct fact *facts;
static size_t fact_count, fact_room;
static struct fact_log logs[LOGS_MAX];
static unsigned log_count, transactions;

void sim_closure_begin(void)
{
    fact_count = 0;
    log_count = transactions = 0;
}

unsigned sim_closure_transactions(void)
{
    return transactions;
}

/* ---- batches ----------------------------------------------------------------------------------- */

static unsigned log_of(const char *path)
{
    for (unsigned i = 0; i < log_count; i++)
        if (strcmp(logs[i].path, path) == 0)
            return i;
    CHECK(log_count < LOGS_MAX && strlen(path) < sizeof logs[0].path);
    logs[log_count] = (struct fact_log){.last_us = 0};
    memcpy(logs[log_count].path, path, strlen(path) + 1);
    return log_count++;
}

/* What a crash or a failure has taken, as the same index is written again. */
static void forget_from(unsigned log, uint64_t index)
{
    size_t kept = 0;
    for (size_t i = 0; i < fact_count; i++)
        if (facts[i].log != log || facts[i].index < index)
            facts[kept++] = facts[i];
    fact_count = kept;
}

static bool has_from(unsigned log, uint64_t index)
{
    for (size_t i = fact_count; i-- > 0;)
        if (facts[i].log == log)
            return facts[i].index >= index;
    return false;
}

static struct fact *add_fact(struct fact fact)
{
    if (fact_count == fact_room) {
        fact_room = fact_room ? 2 * fact_room : 1024;
        facts = realloc(facts, fact_room * sizeof facts[0]);
        CHECK(facts);
    }
    facts[fact_count] = fact;
    return &facts[fact_count++];
}

static void add_transaction(struct fact fact, const struct effect *effect)
{
    struct transaction_id id;
    if (!decode_transaction_key(effect->key, &fact.record, &id))
        return;
    fact.id_len = transaction_id_write(&id, fact.id);
    fact.kind = effect->kind == EFFECT_PUT ? FACT_PUT : FACT_DELETE;
    (void)add_fact(fact);
}

static void add_slots(struct fact fact, const struct effect *effect)
{
    struct slot_record records[SLOT_PAGE_SLOTS];
    if (effect->kind != EFFECT_PUT || !decode_slot_page_key(effect->key, &fact.page) ||
        !decode_slot_page(effect->value, records))
        return;
    fact.kind = FACT_SLOTS;
    for (unsigned i = 0; i < SLOT_PAGE_SLOTS; i++)
        fact.places[i] = (struct place){records[i].migration, records[i].state};
    (void)add_fact(fact);
}

void sim_closure_hear(const char *path, uint64_t index, struct bytes batch)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    if (effects_open(batch, &header, &reader) != EFFECTS_READ)
        return;
    unsigned log = log_of(path);
    if (has_from(log, index))
        forget_from(log, index);
    if (header.hybrid)
        logs[log].last_us = header.hybrid;
    const struct fact fact = {.time_us = logs[log].last_us, .index = index, .log = log};
    while (effects_next(&reader, &effect) == EFFECTS_READ) {
        if (effect.cf != CF_SYSTEM)
            continue;
        add_transaction(fact, &effect);
        add_slots(fact, &effect);
    }
}

/* ---- the check --------------------------------------------------------------------------------- */

static int compare_facts(const void *a, const void *b)
{
    const struct fact *one = a, *other = b;
    if (one->time_us != other->time_us)
        return one->time_us < other->time_us ? -1 : 1;
    if (one->log != other->log)
        return one->log < other->log ? -1 : 1;
    return (one->index > other->index) - (one->index < other->index);
}

static bool is_of(const struct fact *fact, const struct fact *decision, enum fact_kind kind,
                  enum transaction_record record)
{
    return fact->kind == kind && fact->record == record && fact->id_len == decision->id_len &&
           memcmp(fact->id, decision->id, fact->id_len) == 0;
}

static bool say(char *why, size_t size, const struct fact *decision, const char *what)
{
    struct transaction_id id;
    char text[TRANSACTION_ID_TEXT_MAX];
    CHECK(transaction_id_read((struct bytes){decision->id, decision->id_len}, &id));
    transaction_id_print(&id, text);
    (void)snprintf(why, size, "transaction %s: %s", text, what);
    return false;
}

/* Facts are in the order of their times: what must be before the decision is not behind it. */
static bool check_decision(size_t at, char *why, size_t size)
{
    const struct fact *decision = &facts[at];
    bool is_deleted = false;
    transactions++;
    for (size_t i = 0; i < fact_count; i++) {
        const struct fact *fact = &facts[i];
        bool is_before = fact->time_us < decision->time_us;
        if (is_of(fact, decision, FACT_PUT, TRANSACTION_PREPARED) && !is_before)
            return say(why, size, decision, "it is prepared at a shard after its decision");
        if (is_of(fact, decision, FACT_DELETE, TRANSACTION_PREPARED) &&
            (fact->time_us <= decision->time_us || is_deleted))
            return say(why, size, decision,
                       "it is applied before its decision, or after that was forgotten");
        is_deleted |= is_of(fact, decision, FACT_DELETE, TRANSACTION_DECIDED);
    }
    return true;
}

static bool check_transactions(char *why, size_t size)
{
    for (size_t i = 0; i < fact_count; i++)
        if (facts[i].kind == FACT_PUT && facts[i].record == TRANSACTION_DECIDED &&
            !check_decision(i, why, size))
            return false;
    return true;
}

static bool owns(uint8_t state)
{
    return state == SLOT_OWNED || state == SLOT_EXPORTING;
}

/* A shard that was staged by another move, which was given up, has nothing to do with this one. */
static bool is_released_to(struct place places[LOGS_MAX][SLOT_COUNT], unsigned slot,
                           const struct place *staged)
{
    for (unsigned i = 0; i < log_count; i++)
        if (places[i][slot].state == SLOT_RELEASED &&
            places[i][slot].migration == staged->migration)
            return true;
    return false;
}

/* After each fact of a slot. */
static bool check_slot(struct place places[LOGS_MAX][SLOT_COUNT], unsigned slot, uint64_t time_us,
                       char *why, size_t size)
{
    unsigned owners = 0, staged = 0;
    for (unsigned i = 0; i < log_count; i++) {
        const struct place *place = &places[i][slot];
        owners += owns(place->state);
        staged += place->state == SLOT_STAGED && is_released_to(places, slot, place);
    }
    if (owners == 1 || (!owners && staged == 1))
        return true;
    (void)snprintf(why, size, "at the time %" PRIu64 " slot %u has %u owners, and is staged at %u",
                   time_us, slot, owners, staged);
    return false;
}

static bool take_slots(struct place places[LOGS_MAX][SLOT_COUNT], bool was_owned[SLOT_COUNT],
                       const struct fact *fact, char *why, size_t size)
{
    for (unsigned i = 0; i < SLOT_PAGE_SLOTS; i++) {
        unsigned slot = fact->page * SLOT_PAGE_SLOTS + i;
        struct place *place = &places[fact->log][slot];
        bool is_new = place->state != fact->places[i].state;
        *place = fact->places[i];
        was_owned[slot] |= owns(place->state);
        if (is_new && was_owned[slot] && !check_slot(places, slot, fact->time_us, why, size))
            return false;
    }
    return true;
}

static bool check_slots(char *why, size_t size)
{
    static struct place places[LOGS_MAX][SLOT_COUNT];
    static bool was_owned[SLOT_COUNT];
    memset(places, 0, sizeof places);
    memset(was_owned, 0, sizeof was_owned);
    for (size_t i = 0; i < fact_count; i++)
        if (facts[i].kind == FACT_SLOTS && !take_slots(places, was_owned, &facts[i], why, size))
            return false;
    return true;
}

bool sim_closure_check(char *why, size_t size)
{
    if (fact_count)
        qsort(facts, fact_count, sizeof facts[0], compare_facts);
    return check_transactions(why, size) && check_slots(why, size);
}
