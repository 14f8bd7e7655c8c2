#include "backend/tool/moment_shards.h"

#include "backend/format/transaction_record.h"
#include "backend/storage/partition_store.h"
#include "backend/tool/moment.h"
#include "backend/tool/moment_slots.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/path.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

struct moment_shards {
    struct moment_order order;
    struct moment_slots *slots;
    struct table *decided; /* ids of transactions that were committed */
    bool *are_prepared;    /* by source: has it transactions that are only prepared? */
    struct arena arena;
    char *error;
    size_t size;
};

#define REASON(shards) (shards)->error, (shards)->size

/* ---- scratch directories ---- */

bool moment_shards_dir(const struct moment_shards *shards, size_t source, char path[PATH_MAX],
                       char *error, size_t size)
{
    char name[64];
    (void)snprintf(name, sizeof name, "restore-source-%zu", source);
    return disk_path(path, shards->order.config->data, name, error, size);
}

static struct storage *open_shard(struct moment_shards *shards, size_t index)
{
    char dir[PATH_MAX];
    if (!moment_shards_dir(shards, index, dir, REASON(shards)))
        return NULL;
    return partition_store_open_raw(shards->order.env, shards->order.config, dir, REASON(shards));
}

/* All in files: batches that the log of several copies has may not count as committed when it is opened again. */
static bool close_shard(struct moment_shards *shards, struct storage *storage, bool is_good)
{
    is_good = is_good && storage_flush(storage, REASON(shards)) == OK;
    storage_close(storage);
    return is_good;
}

/* ---- records of transactions ---- */

struct transaction_row {
    enum transaction_record record;
    struct transaction_id id;
    struct bytes value;
};

typedef bool transaction_row_fn(void *owner, const struct transaction_row *row);

static bool take_transaction(struct moment_shards *shards, const struct store_iter *iter,
                             transaction_row_fn *take, void *owner)
{
    struct transaction_row row = {.value = store_iter_value(iter)};
    if (decode_transaction_key(store_iter_key(iter), &row.record, &row.id))
        return take(owner, &row);
    (void)snprintf(REASON(shards), "a record of a transaction cannot be read");
    return false;
}

static bool each_transaction_row(struct moment_shards *shards, struct store *store,
                                 transaction_row_fn *take, void *owner)
{
    struct store_iter *iter =
        store_iter_new(store, CF_SYSTEM, transaction_rows_from(), transaction_rows_to());
    bool good = true;
    for (store_iter_seek_first(iter); good && store_iter_valid(iter); store_iter_next(iter)) {
        good = take_transaction(shards, iter, take, owner);
        arena_reset(&shards->arena);
    }
    if (good && store_iter_failed(iter)) {
        (void)snprintf(REASON(shards), "the records of transactions cannot be read");
        good = false;
    }
    store_iter_free(iter);
    return good;
}

/* Of one shard. */
struct ending {
    struct moment_shards *shards;
    size_t source;
    struct store *store;
    struct store_batch *batch;
};

/* transaction_row_fn */
static bool note_transaction(void *owner, const struct transaction_row *row)
{
    const struct ending *ending = owner;
    char id[TRANSACTION_ID_BYTES_MAX];
    size_t len = transaction_id_write(&row->id, id);
    if (row->record == TRANSACTION_DECIDED)
        (void)table_put(ending->shards->decided, (struct bytes){id, len}, ending->shards);
    if (row->record == TRANSACTION_PREPARED)
        ending->shards->are_prepared[ending->source] = true;
    return true;
}

/* The shard that knows how it ended is missing. */
static bool no_coordinator(const struct ending *ending, const struct transaction_id *id)
{
    struct moment_shards *shards = ending->shards;
    char text[TRANSACTION_ID_TEXT_MAX];
    transaction_id_print(id, text);
    (void)snprintf(
        REASON(shards),
        "shard %s: whether transaction %s was committed is known to shard %s only, which "
        "is not in the backup",
        shards->order.sources->items[ending->source].manifest->shard, text, id->shard);
    return false;
}

static bool has_coordinator(const struct sources *sources, const struct transaction_id *id)
{
    for (size_t i = 0; i < sources->count; i++)
        if (strcmp(sources->items[i].manifest->shard, id->shard) == 0)
            return true;
    return false;
}

/* The row of this kind of the transaction. ERR_NOT_FOUND: there is none. */
static int read_transaction_row(const struct ending *ending, enum transaction_record record,
                                const struct transaction_id *id, struct slice *value)
{
    return store_get(ending->store, CF_SYSTEM,
                     encode_transaction_key(&ending->shards->arena, record, id), value);
}

enum outcome { OUTCOME_COMMIT, OUTCOME_ABORT, OUTCOME_UNKNOWN, OUTCOME_FAILED };

/* What an operator has chosen; UNKNOWN: nothing. */
static enum outcome forced_outcome(const struct ending *ending, const struct transaction_id *id)
{
    struct slice value;
    bool is_commit, differs;
    int err = read_transaction_row(ending, TRANSACTION_FORCED, id, &value);
    if (err != OK)
        return err == ERR_NOT_FOUND ? OUTCOME_UNKNOWN : OUTCOME_FAILED;
    bool good = decode_forced(slice_bytes(&value), &is_commit, &differs);
    slice_release(&value);
    return !good ? OUTCOME_FAILED : is_commit ? OUTCOME_COMMIT : OUTCOME_ABORT;
}

static enum outcome how_it_ended(const struct ending *ending, const struct transaction_id *id)
{
    char bytes[TRANSACTION_ID_BYTES_MAX];
    struct slice value;
    size_t len = transaction_id_write(id, bytes);
    if (table_get(ending->shards->decided, (struct bytes){bytes, len}))
        return OUTCOME_COMMIT;
    int err = read_transaction_row(ending, TRANSACTION_APPLYING, id, &value);
    if (err == OK)
        slice_release(&value);
    if (err != ERR_NOT_FOUND)
        return err == OK ? OUTCOME_COMMIT : OUTCOME_FAILED;
    enum outcome forced = forced_outcome(ending, id);
    if (forced != OUTCOME_UNKNOWN)
        return forced;
    return has_coordinator(ending->shards->order.sources, id) ? OUTCOME_ABORT : OUTCOME_UNKNOWN;
}

static bool add_prepared(const struct ending *ending, struct bytes value)
{
    struct bytes effects, changes;
    if (decode_prepared(value, &effects, &changes))
        return store_batch_add_effects(ending->batch, ending->store, effects,
                                       REASON(ending->shards));
    (void)snprintf(REASON(ending->shards), "a prepared transaction cannot be read");
    return false;
}

/* transaction_row_fn. Transactions that are prepared at the same time have no row in common. */
static bool end_prepared(void *owner, const struct transaction_row *row)
{
    const struct ending *ending = owner;
    if (row->record != TRANSACTION_PREPARED)
        return true;
    switch (how_it_ended(ending, &row->id)) {
    case OUTCOME_COMMIT:
        return add_prepared(ending, row->value);
    case OUTCOME_ABORT:
        return true;
    case OUTCOME_UNKNOWN:
        return no_coordinator(ending, &row->id);
    case OUTCOME_FAILED:
        break;
    }
    (void)snprintf(REASON(ending->shards), "the records of transactions cannot be read");
    return false;
}

/* ---- shards ---- */

static bool replay_shard(struct moment_shards *shards, size_t index)
{
    const struct moment_order *order = &shards->order;
    const struct source *source = &order->sources->items[index];
    char dir[PATH_MAX];
    uint64_t batches = 0;
    if (!moment_shards_dir(shards, index, dir, REASON(shards)) ||
        !source_scratch(source, dir, order->progress, REASON(shards)))
        return false;
    struct storage *storage = open_shard(shards, index);
    if (!storage)
        return false;
    struct ending ending = {shards, index, storage_store(storage), NULL};
    bool good = (!order->archive || moment_replay(storage, source, order->archive, order->time_us,
                                                  &batches, REASON(shards))) &&
                moment_slots_add(shards->slots, index, storage, REASON(shards)) &&
                each_transaction_row(shards, ending.store, note_transaction, &ending);
    if (good && order->archive)
        (void)printf("# shard %s: %llu batches of the archive\n", source->manifest->shard,
                     (unsigned long long)batches);
    return close_shard(shards, storage, good);
}

static bool end_transactions(struct moment_shards *shards, size_t index)
{
    if (!shards->are_prepared[index])
        return true;
    struct storage *storage = open_shard(shards, index);
    if (!storage)
        return false;
    struct ending ending = {shards, index, storage_store(storage), store_batch_new()};
    bool good = each_transaction_row(shards, ending.store, end_prepared, &ending) &&
                store_apply(ending.store, ending.batch, REASON(shards)) == OK;
    store_batch_free(ending.batch);
    return close_shard(shards, storage, good);
}

static bool make_shards(struct moment_shards *shards)
{
    size_t count = shards->order.sources->count;
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = replay_shard(shards, i);
    good =
        good && (!shards->order.sources->map || moment_slots_check(shards->slots, REASON(shards)));
    for (size_t i = 0; good && i < count; i++)
        good = end_transactions(shards, i);
    return good;
}

struct moment_shards *moment_shards_new(const struct moment_order *order, char *error, size_t size)
{
    struct moment_shards *shards = calloc(1, sizeof *shards);
    CHECK(shards);
    shards->order = *order;
    shards->slots = moment_slots_new();
    shards->decided = table_new();
    shards->are_prepared = calloc(order->sources->count, sizeof shards->are_prepared[0]);
    CHECK(shards->are_prepared);
    arena_init(&shards->arena);
    shards->error = error;
    shards->size = size;
    if (make_shards(shards))
        return shards;
    moment_shards_free(shards);
    return NULL;
}

void moment_shards_free(struct moment_shards *shards)
{
    char dir[PATH_MAX], ignored[64];
    if (!shards)
        return;
    for (size_t i = 0; i < shards->order.sources->count; i++)
        if (moment_shards_dir(shards, i, dir, ignored, sizeof ignored))
            (void)path_remove(dir);
    moment_slots_free(shards->slots);
    table_free(shards->decided);
    free(shards->are_prepared);
    arena_fini(&shards->arena);
    free(shards);
}

int moment_shards_owner(const struct moment_shards *shards, unsigned slot)
{
    return moment_slots_owner(shards->slots, slot);
}
