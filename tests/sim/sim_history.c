/*
 * sim_history.c - records operations, and searches a valid order for those of each key.
 *
 * The search places one operation after the other (Wing and Gong), and remembers the states it has tried (Lowe). Reads
 * that fit are placed at once, since they change nothing. A first search, which nearly always succeeds, leaves out
 * unanswered operations whose values no client has read.
 */
#include "tests/sim/sim_history.h"

#include "shared/check.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TRIES_MAX = 100000, VISITED_SIZE = 1 << 18 };

/* ---- recording -------------------------------------------------------------------------------- */

static void *room(void *items, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return items;
    *cap = *cap ? *cap * 2 : 256;
    items = realloc(items, *cap * size);
    CHECK(items);
    return items;
}

void history_init(struct history *history)
{
    *history = (struct history){.written_count = 1};
    history->written = room(NULL, 0, &history->written_cap, sizeof(struct written));
}

void history_fini(struct history *history)
{
    free(history->operations);
    free(history->written);
    free(history->keys);
    *history = (struct history){0};
}

uint32_t history_add_key(struct history *history, const char *text)
{
    history->keys = realloc(history->keys, (history->key_count + 1) * HISTORY_KEY_TEXT);
    CHECK(history->keys);
    (void)snprintf(history->keys[history->key_count], HISTORY_KEY_TEXT, "%s", text);
    return (uint32_t)history->key_count++;
}

uint32_t history_begin(struct history *history, uint32_t key, uint32_t connection, uint32_t group)
{
    CHECK(key < history->key_count);
    history->operations =
        room(history->operations, history->count, &history->cap, sizeof(struct operation));
    history->operations[history->count] = (struct operation){
        .key = key,
        .connection = connection,
        .group = group,
        .end = HISTORY_NEVER,
        .end_ms = HISTORY_NEVER,
    };
    return (uint32_t)history->count++;
}

struct operation *history_operation(struct history *history, uint32_t index)
{
    CHECK(index < history->count);
    return &history->operations[index];
}

struct step *history_step(struct history *history, uint32_t index, enum step_kind kind)
{
    struct operation *operation = history_operation(history, index);
    if (operation->step_count == HISTORY_STEPS_MAX)
        return NULL;
    struct step *step = &operation->steps[operation->step_count++];
    *step = (struct step){.kind = kind};
    return step;
}

uint32_t history_value(struct history *history, uint32_t index, uint8_t field)
{
    history->written = room(history->written, history->written_count, &history->written_cap,
                            sizeof(struct written));
    history->written[history->written_count] = (struct written){index, field};
    return (uint32_t)history->written_count++;
}

void history_sent(struct history *history, uint32_t index, uint64_t now_ms)
{
    struct operation *operation = history_operation(history, index);
    operation->is_sent = true;
    operation->begin = ++history->clock;
    operation->begin_ms = now_ms;
}

void history_answered(struct history *history, uint32_t index, uint64_t now_ms)
{
    struct operation *operation = history_operation(history, index);
    CHECK(operation->is_sent);
    operation->is_answered = true;
    operation->end = ++history->clock;
    operation->end_ms = now_ms;
}

/* ---- values ----------------------------------------------------------------------------------- */

/* Most fillers are short; some values are too long for one read. */
static size_t filler_of(uint32_t value)
{
    if (value % 61 == 0)
        return 5000;
    return value % 13 == 0 ? value % 500 : 0;
}

size_t value_format(uint32_t value, char text[VALUE_TEXT_MAX])
{
    size_t len = (size_t)snprintf(text, VALUE_TEXT_MAX, "v%" PRIu32 ":", value);
    size_t filler = filler_of(value);
    CHECK(len + filler <= VALUE_TEXT_MAX);
    memset(text + len, 'a' + (int)(value % 26), filler);
    return len + filler;
}

bool value_parse(struct bytes text, uint32_t *value)
{
    char expected[VALUE_TEXT_MAX];
    uint64_t number = 0;
    size_t at = 1;
    if (text.len < 3 || text.len > VALUE_TEXT_MAX || text.data[0] != 'v')
        return false;
    for (; at < text.len && at < 11 && text.data[at] != ':'; at++)
        number = number * 10 + (uint64_t)(text.data[at] - '0');
    *value = (uint32_t)number;
    return number <= UINT32_MAX &&
           bytes_equal(text, (struct bytes){expected, value_format(*value, expected)});
}

bool history_may_read(const struct history *history, uint32_t key, unsigned field, uint32_t value,
                      char *why, size_t size)
{
    if (value == 0 || value >= history->written_count) {
        (void)snprintf(why, size, "value %" PRIu32 " was never written", value);
        return false;
    }
    const struct written *written = &history->written[value];
    const struct operation *writer = &history->operations[written->operation];
    if (writer->key == key && written->field == field && writer->is_sent)
        return true;
    (void)snprintf(why, size, "%s field %u holds value %" PRIu32 " %s to %s field %u",
                   history->keys[key], field, value, writer->is_sent ? "written" : "never sent",
                   history->keys[writer->key], written->field);
    return false;
}

/* ---- the model -------------------------------------------------------------------------------- */

/* A key's state: absent when the number and all fields are 0. */
struct model {
    int64_t number;
    uint32_t fields[HISTORY_FIELDS];
    bool has_expiry;
    uint64_t expire_ms_min; /* the key expires at some time in this range */
    uint64_t expire_ms_max;
};

static bool model_exists(const struct model *model)
{
    for (unsigned i = 0; i < HISTORY_FIELDS; i++) {
        if (model->fields[i])
            return true;
    }
    return model->number != 0;
}

static uint64_t add_ms(uint64_t ms, uint64_t more_ms)
{
    return ms > HISTORY_NEVER - more_ms ? HISTORY_NEVER : ms + more_ms;
}

static void set_expiry(struct model *model, const struct operation *operation, uint64_t ttl_ms)
{
    model->has_expiry = ttl_ms > 0;
    model->expire_ms_min = ttl_ms ? operation->begin_ms + ttl_ms : 0;
    model->expire_ms_max = ttl_ms ? add_ms(operation->end_ms, ttl_ms) : 0;
}

static bool fields_fit(const struct model *model, const struct step *step, unsigned mask)
{
    for (unsigned i = 0; i < HISTORY_FIELDS; i++) {
        if (mask & 1u << i && model->fields[i] != step->values[i])
            return false;
    }
    return true;
}

static bool apply_hset(struct model *model, const struct step *step)
{
    int64_t fresh = 0;
    for (unsigned i = 0; i < HISTORY_FIELDS; i++) {
        if (!(step->fields & 1u << i))
            continue;
        fresh += model->fields[i] == 0;
        model->fields[i] = step->values[i];
    }
    return !step->has_result || step->result == fresh;
}

/* Applies the step. False: this state cannot give the step's result. */
static bool apply_step(struct model *model, const struct operation *operation,
                       const struct step *step)
{
    bool existed = model_exists(model);
    bool fits = !step->has_result || step->result == (int64_t)existed;
    switch (step->kind) {
    case STEP_SET:
        model->number = step->number;
        set_expiry(model, operation, step->ttl_ms);
        return true;
    case STEP_GET:
        return !step->has_result || step->number == model->number;
    case STEP_DEL:
        *model = (struct model){0};
        return fits;
    case STEP_EXISTS:
        return fits;
    case STEP_INCR:
        model->number++;
        return !step->has_result || step->number == model->number;
    case STEP_EXPIRE:
        if (existed)
            set_expiry(model, operation, step->ttl_ms);
        return fits;
    case STEP_HSET:
        return apply_hset(model, step);
    case STEP_HGET:
        return !step->has_result || fields_fit(model, step, step->fields);
    case STEP_HGETALL:
        return !step->has_result || fields_fit(model, step, ~0u);
    case STEP_NOTHING:
        return true;
    }
    return false;
}

/* Applies the operation, after expiring the key if `is_expired`. False: the result is impossible. */
static bool apply(struct model *model, const struct operation *operation, bool is_expired)
{
    if (is_expired) {
        if (!model->has_expiry || operation->end_ms <= model->expire_ms_min)
            return false;
        *model = (struct model){0};
    } else if (model->has_expiry) {
        if (operation->begin_ms > model->expire_ms_max)
            return false;
        if (model->expire_ms_min < operation->begin_ms)
            model->expire_ms_min = operation->begin_ms;
    }
    for (unsigned i = 0; i < operation->step_count; i++) {
        if (!apply_step(model, operation, &operation->steps[i]))
            return false;
    }
    return true;
}

static bool step_is_read(const struct step *step)
{
    return step->kind == STEP_GET || step->kind == STEP_EXISTS || step->kind == STEP_HGET ||
           step->kind == STEP_HGETALL;
}

static bool operation_is_read(const struct operation *operation)
{
    for (unsigned i = 0; i < operation->step_count; i++) {
        if (!step_is_read(&operation->steps[i]))
            return false;
    }
    return true;
}

/* ---- the search ------------------------------------------------------------------------------- */

/* An operation in the search. */
struct item {
    const struct operation *operation;
    /* number, from 1, of the answered operation before it on its connection; 0: none */
    size_t before;
    uint64_t chance;
    bool is_read;
    bool is_needed; /* the operation certainly took place */
    bool is_placed;
};

/* A position in the order under construction. */
struct moment {
    struct model model;
    uint64_t end_min; /* an operation that began later than this cannot be next */
    size_t next;      /* next choice to try: 2 × item + is_expired */
    size_t placed;    /* the item placed here */
    bool is_forced;   /* there is no other choice */
};

struct search {
    struct item *items; /* sorted by their ends */
    size_t count;
    size_t needed; /* needed items that are not placed yet */
    struct moment *moments;
    size_t depth;
    uint64_t placed_hash;
    size_t tries;
};

/* The states that all searches have visited; entries of older searches count as free. */
static struct {
    uint64_t hash;
    uint64_t search;
} visited[VISITED_SIZE];
static uint64_t searches;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash + value + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 31)) * 0x94d049bb133111eb;
    return hash ^ (hash >> 30);
}

static uint64_t model_hash(const struct model *model)
{
    uint64_t hash = mix(0x51, (uint64_t)model->number);
    for (unsigned i = 0; i < HISTORY_FIELDS; i++)
        hash = mix(hash, model->fields[i]);
    hash = mix(hash, model->expire_ms_min);
    return mix(hash, model->expire_ms_max + model->has_expiry);
}

/* Records the current state of the search. False: it was visited before. */
static bool visit(struct search *search)
{
    uint64_t hash = mix(search->placed_hash, model_hash(&search->moments[search->depth].model));
    for (size_t at = hash % VISITED_SIZE;; at = (at + 1) % VISITED_SIZE) {
        if (visited[at].search != searches) {
            visited[at].search = searches;
            visited[at].hash = hash;
            return true;
        }
        if (visited[at].hash == hash)
            return false;
    }
}

static bool is_candidate(const struct search *search, const struct item *item, uint64_t end_min)
{
    if (item->is_placed || item->operation->begin > end_min)
        return false;
    return !item->before || search->items[item->before - 1].is_placed;
}

/* An answered read that fits the current state. */
static bool find_read(struct search *search, struct moment *moment)
{
    for (size_t i = 0; i < search->count; i++) {
        struct item *item = &search->items[i];
        struct model model = moment->model;
        bool is_sure = !model.has_expiry || item->operation->end_ms <= model.expire_ms_min;
        if (!item->is_read || !is_sure || !is_candidate(search, item, moment->end_min))
            continue;
        if (apply(&model, item->operation, false)) {
            moment->next = 2 * i;
            return true;
        }
    }
    return false;
}

/* Enters a new position. False: this state was visited before. */
static bool moment_enter(struct search *search)
{
    struct moment *moment = &search->moments[search->depth];
    moment->next = 0;
    moment->is_forced = false;
    moment->end_min = HISTORY_NEVER;
    for (size_t i = 0; i < search->count; i++) {
        const struct item *item = &search->items[i];
        if (!item->is_placed && item->operation->end < moment->end_min)
            moment->end_min = item->operation->end;
    }
    if (!visit(search))
        return false;
    moment->is_forced = find_read(search, moment);
    return true;
}

static void place(struct search *search, size_t index, const struct model *model)
{
    struct item *item = &search->items[index];
    search->moments[search->depth].placed = index;
    item->is_placed = true;
    search->needed -= item->is_needed;
    search->placed_hash ^= item->chance;
    search->moments[++search->depth].model = *model;
}

static void undo_choice(struct search *search)
{
    struct item *item = &search->items[search->moments[--search->depth].placed];
    item->is_placed = false;
    search->needed += item->is_needed;
    search->placed_hash ^= item->chance;
}

/* Tries the remaining choices at this position. False: none is left. */
static bool step_on(struct search *search)
{
    struct moment *moment = &search->moments[search->depth];
    while (moment->next < 2 * search->count) {
        size_t choice = moment->next;
        struct item *item = &search->items[choice / 2];
        struct model model = moment->model;
        moment->next = moment->is_forced ? 2 * search->count : choice + 1;
        if (!is_candidate(search, item, moment->end_min) ||
            !apply(&model, item->operation, choice % 2))
            continue;
        place(search, choice / 2, &model);
        return true;
    }
    return false;
}

enum verdict { HOLDS, FAILS, UNDECIDED };

static enum verdict search_run(struct search *search)
{
    bool is_new = moment_enter(search);
    while (search->needed > 0) {
        if (++search->tries > TRIES_MAX)
            return UNDECIDED;
        if (is_new && step_on(search)) {
            is_new = moment_enter(search);
            continue;
        }
        if (search->depth == 0)
            return FAILS;
        undo_choice(search);
        is_new = true;
    }
    return HOLDS;
}

/* The order of the answers is nearly the order in which operations took place. */
static int by_end(const void *a, const void *b)
{
    const struct operation *one = ((const struct item *)a)->operation;
    const struct operation *other = ((const struct item *)b)->operation;
    if (one->end != other->end)
        return one->end < other->end ? -1 : 1;
    return one->begin < other->begin ? -1 : 1;
}

/* Finds the answered operation before this one on the same connection. */
static void find_before(struct search *search, struct item *item)
{
    const struct operation *before = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const struct operation *other = search->items[i].operation;
        if (!other->is_answered || other->connection != item->operation->connection ||
            other->begin >= item->operation->begin || (before && other->begin < before->begin))
            continue;
        before = other;
        item->before = i + 1;
    }
}

/* The items of a key, in order; `with_doubtful`: also unanswered operations whose values no client has read. */
static void search_init(struct search *search, const struct history *history,
                        const uint32_t *operations, size_t count, bool with_doubtful)
{
    *search = (struct search){.items = calloc(count + 1, sizeof(struct item)),
                              .moments = calloc(count + 2, sizeof(struct moment))};
    CHECK(search->items && search->moments);
    searches++;
    for (size_t i = 0; i < count; i++) {
        const struct operation *operation = &history->operations[operations[i]];
        bool is_needed = operation->is_answered || operation->is_certain;
        if (!is_needed && (!with_doubtful || operation_is_read(operation)))
            continue;
        search->items[search->count++] = (struct item){
            .operation = operation,
            .chance = mix(0x77, operations[i] + 1),
            .is_read = operation->is_answered && operation_is_read(operation),
            .is_needed = is_needed,
        };
        search->needed += is_needed;
    }
    qsort(search->items, search->count, sizeof(struct item), by_end);
    for (size_t i = 0; i < search->count; i++)
        find_before(search, &search->items[i]);
}

static void search_fini(struct search *search)
{
    free(search->items);
    free(search->moments);
}

static enum verdict check_key(const struct history *history, const uint32_t *operations,
                              size_t count)
{
    enum verdict verdict = FAILS;
    for (int with_doubtful = 0; with_doubtful < 2 && verdict != HOLDS; with_doubtful++) {
        struct search search;
        search_init(&search, history, operations, count, with_doubtful);
        verdict = search_run(&search);
        search_fini(&search);
    }
    return verdict;
}

/* ---- all keys --------------------------------------------------------------------------------- */

static void note_read(struct history *history, bool *seen, int64_t value)
{
    if (value > 0 && value < (int64_t)history->written_count)
        seen[history->operations[history->written[value].operation].group] = true;
}

/* An unanswered group took place if a client has read one of its values. Counters have no unique values, so their
 * keys are left out. */
static void find_certain(struct history *history, const bool *is_counter)
{
    bool *seen = calloc(history->groups + 1, sizeof(bool));
    CHECK(seen);
    for (size_t i = 0; i < history->count; i++) {
        const struct operation *operation = &history->operations[i];
        for (unsigned j = 0; operation->is_answered && j < operation->step_count; j++) {
            const struct step *step = &operation->steps[j];
            if (step->kind == STEP_GET && !is_counter[operation->key])
                note_read(history, seen, step->number);
            for (unsigned k = 0; step_is_read(step) && k < HISTORY_FIELDS; k++)
                note_read(history, seen, step->values[k]);
        }
    }
    for (size_t i = 0; i < history->count; i++) {
        struct operation *operation = &history->operations[i];
        operation->is_certain =
            operation->is_sent && !operation->is_answered && seen[operation->group];
    }
    free(seen);
}

static void find_counters(const struct history *history, bool *is_counter)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct operation *operation = &history->operations[i];
        for (unsigned j = 0; j < operation->step_count; j++)
            is_counter[operation->key] |= operation->steps[j].kind == STEP_INCR;
    }
}

bool history_check(struct history *history, char *why, size_t size)
{
    bool holds = true;
    bool *is_counter = calloc(history->key_count + 1, sizeof(bool));
    uint32_t *operations = calloc(history->count + 1, sizeof(uint32_t));
    CHECK(is_counter && operations);
    find_counters(history, is_counter);
    find_certain(history, is_counter);
    for (uint32_t key = 0; key < history->key_count && holds; key++) {
        size_t count = 0;
        for (size_t i = 0; i < history->count; i++) {
            if (history->operations[i].key == key && history->operations[i].is_sent)
                operations[count++] = (uint32_t)i;
        }
        enum verdict verdict = check_key(history, operations, count);
        history->undecided += verdict == UNDECIDED;
        holds = verdict != FAILS;
        if (!holds)
            (void)snprintf(why, size, "no order explains what was told of %s (key %" PRIu32 ")",
                           history->keys[key], key);
    }
    free(is_counter);
    free(operations);
    return holds;
}

/* ---- printing --------------------------------------------------------------------------------- */

static void step_print(const struct step *step, FILE *to)
{
    static const char *const names[] = {
        [STEP_SET] = "SET",          [STEP_GET] = "GET",   [STEP_DEL] = "DEL",
        [STEP_EXISTS] = "EXISTS",    [STEP_INCR] = "INCR", [STEP_EXPIRE] = "EXPIRE",
        [STEP_HSET] = "HSET",        [STEP_HGET] = "HGET", [STEP_HGETALL] = "HGETALL",
        [STEP_NOTHING] = "(failed)",
    };
    fprintf(to, " %s", names[step->kind]);
    if (step->kind == STEP_SET || step->kind == STEP_GET || step->kind == STEP_INCR)
        fprintf(to, " %" PRId64, step->number);
    for (unsigned i = 0; i < HISTORY_FIELDS; i++) {
        if (step->fields & 1u << i || step->kind == STEP_HGETALL)
            fprintf(to, " f%u=%" PRIu32, i, step->values[i]);
    }
    if (step->ttl_ms)
        fprintf(to, " ttl %" PRIu64, step->ttl_ms);
    if (step->has_result && step->kind != STEP_GET && step->kind != STEP_INCR)
        fprintf(to, " = %" PRId64, step->result);
    if (!step->has_result)
        fprintf(to, " = ?");
}

void history_print(const struct history *history, uint32_t key, FILE *to)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct operation *operation = &history->operations[i];
        if (operation->key != key || !operation->is_sent)
            continue;
        fprintf(to, "  connection %-3" PRIu32 " group %-4" PRIu32 " %6" PRIu64 "..",
                operation->connection, operation->group, operation->begin);
        if (operation->is_answered)
            fprintf(to, "%-6" PRIu64, operation->end);
        else
            fprintf(to, "%-6s", operation->is_certain ? "? read" : "?");
        fprintf(to, " ms %" PRIu64 "..%" PRId64, operation->begin_ms % 10000000,
                operation->is_answered ? (int64_t)(operation->end_ms % 10000000) : -1);
        for (unsigned j = 0; j < operation->step_count; j++)
            step_print(&operation->steps[j], to);
        fprintf(to, "\n");
    }
}
