/*
 * store_rocksdb_filter.c - compaction filters: decide which rows are dropped, and pause compactions.
 *
 *   a compaction begins ─► create_compaction_filter ─► for each row filter_row ─► its end: filter_free
 *                                          ├─ 64 KB were passed: pace_pass, which may sleep
 *                                          └─ rows of collections: store->dropping
 *
 * Each compaction has its own filter, on its own thread. RocksDB 7.8 makes none for a flush. A filter that sleeps holds no
 * lock; it stops sleeping when the database is closed or its compaction is cancelled.
 */
#include "backend/store/store_rocksdb.h"

#include "backend/store/pace.h"
#include "shared/check.h"

#include <stdlib.h>

/* The filter of one compaction, used by its thread. */
struct filter {
    struct store *store;
    struct pace *pace; /* NULL: none */
    enum cf cf;
    bool may_drop;
    bool is_manual;
    uint64_t bytes; /* not reported to pace_pass yet */
};

/* After a cancel RocksDB ends the compaction at the next row. */
static bool may_throttle(void *owner)
{
    const struct filter *filter = owner;
    return atomic_load(&filter->store->is_ready) &&
           !(filter->is_manual && atomic_load(&filter->store->compacting.is_disabled));
}

/* May RocksDB drop the row? Until store_replayed, and while the database is being closed, rows are kept. keeps_orphans is read
 * before drop() reads the metadata row: it is reset when that row is in the tables. */
// NOLINTNEXTLINE(readability-function-size): the signature is RocksDB's
static unsigned char filter_row(void *state, int level, const char *key, size_t key_len,
                                const char *value, size_t value_len, char **new_value,
                                size_t *new_value_len, unsigned char *is_changed)
{
    struct filter *filter = state;
    struct store *store = filter->store;
    (void)level, (void)value, (void)new_value, (void)new_value_len;
    *is_changed = 0;
    filter->bytes += key_len + value_len;
    if (filter->pace && filter->bytes >= PACE_SHARE) {
        pace_pass(filter->pace, filter->bytes, may_throttle, filter);
        filter->bytes = 0;
    }
    if (!filter->may_drop || !atomic_load_explicit(&store->is_ready, memory_order_acquire) ||
        atomic_load(&store->keeps_orphans))
        return 0;
    return store->dropping.may_drop(store->dropping.owner, store, filter->cf,
                                    (struct bytes){key, key_len});
}

static const char *filter_name(void *state)
{
    (void)state;
    return "scree.rows";
}

static void filter_free(void *state)
{
    free(state);
}

/* With a filter RocksDB reads every blob: column families of keys have none if there are blobs. */
static rocksdb_compactionfilter_t *
create_compaction_filter(void *state, rocksdb_compactionfiltercontext_t *context)
{
    const struct filter_maker *maker = state;
    struct store *store = maker->store;
    bool may_drop = store_has_orphans(store, maker->cf);
    if (!may_drop && atomic_load(&store->has_blobs))
        return NULL;
    struct filter *filter = malloc(sizeof *filter);
    CHECK(filter);
    *filter = (struct filter){
        .store = store,
        .pace = store->env->pace,
        .cf = maker->cf,
        .may_drop = may_drop,
        .is_manual = rocksdb_compactionfiltercontext_is_manual_compaction(context),
    };
    return rocksdb_compactionfilter_create(filter, filter_free, filter_row, filter_name);
}

static const char *maker_name(void *state)
{
    (void)state;
    return "scree.filters";
}

static void maker_free(void *state)
{
    (void)state; /* the filter maker is a member of the store, so nothing is freed here */
}

void store_make_filter(struct store *store, enum cf cf, rocksdb_options_t *options)
{
    struct filter_maker *maker = &store->filter_makers[cf];
    *maker = (struct filter_maker){store, cf};
    rocksdb_options_set_compaction_filter_factory(
        options, rocksdb_compactionfilterfactory_create(maker, maker_free, create_compaction_filter,
                                                        maker_name));
}
