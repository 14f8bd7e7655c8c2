/*
 * store_rocksdb_ranges.c - which column families may hold deleted ranges.
 *
 * RocksDB 7.8 loses rows without an error when an iterator that respects deleted ranges fails to read a file: at the
 * boundary of two files of a level, and where a deleted range makes it seek again (both were corrected in 8.5.2). A
 * read without disk access fails in this way when the block is not in memory, so:
 *
 *   no deleted ranges there   iterators ignore them, and every error is seen
 *   there may be some         iterators respect them and may read the disk, where errors are rare
 *
 * There may be deleted ranges while begun > gone. All are gone when the memtable with the last one was flushed, and no
 * file has one.
 */
#include "backend/store/store_rocksdb.h"

#include <stdlib.h>

void store_range_begun(struct store *store, enum cf cf)
{
    atomic_fetch_add(&store->ranges[cf].begun, 1);
}

void store_ranges_landed(struct store *store)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        atomic_store(&store->ranges[cf].landed, atomic_load(&store->ranges[cf].begun));
}

bool store_has_ranges(const struct store *store, enum cf cf)
{
    return atomic_load(&store->ranges[cf].begun) != atomic_load(&store->ranges[cf].gone);
}

/* Has a file of the column family a deleted range? */
static bool files_have_ranges(struct store *store, enum cf cf)
{
    static const char label[] = "# range deletions=";
    char *text =
        rocksdb_property_value_cf(store->db, store->cfs[cf], "rocksdb.aggregated-table-properties");
    const char *at = text ? strstr(text, label) : NULL;
    bool found = !at || strtoull(at + strlen(label), NULL, 10) > 0;
    rocksdb_free(text);
    return found;
}

static bool flush_cf(struct store *store, enum cf cf)
{
    char *reason = store_flush_cf(store, cf);
    bool good = !reason;
    rocksdb_free(reason);
    return good;
}

static void check_ranges(struct store *store, enum cf cf)
{
    struct ranges *ranges = &store->ranges[cf];
    uint64_t landed = atomic_load(&ranges->landed);
    if (store_has_ranges(store, cf) && landed == atomic_load(&ranges->begun) &&
        flush_cf(store, cf) && !files_have_ranges(store, cf))
        atomic_store(&ranges->gone, landed);
}

void store_look_for_ranges(struct store *store)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        check_ranges(store, cf);
}

/* Files that were written before may have ranges. */
void store_ranges_opened(struct store *store)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        store_range_begun(store, cf);
        store->ranges[cf].opened = atomic_load(&store->ranges[cf].begun);
    }
}

/* Has a memtable of the column family anything? */
static bool memory_has_entries(struct store *store, enum cf cf)
{
    uint64_t active = 0, older = 0;
    rocksdb_column_family_handle_t *family = store->cfs[cf];
    bool is_known = rocksdb_property_int_cf(store->db, family,
                                            "rocksdb.num-entries-active-mem-table", &active) == 0 &&
                    rocksdb_property_int_cf(store->db, family, "rocksdb.num-entries-imm-mem-tables",
                                            &older) == 0;
    return !is_known || active + older > 0;
}

/* With one copy the rows of the WAL are in files now, and the files alone show which column families have deleted ranges. With several copies
 * these rows are still in memtables, perhaps with ranges. */
void store_ranges_replayed(struct store *store)
{
    store_ranges_landed(store);
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        struct ranges *ranges = &store->ranges[cf];
        bool were_deleted = atomic_load(&ranges->begun) != ranges->opened;
        if (!(were_deleted && memory_has_entries(store, cf)) && !files_have_ranges(store, cf))
            atomic_store(&ranges->gone, atomic_load(&ranges->begun));
    }
}

void store_compact_ranges(struct store *store)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        if (store_has_ranges(store, cf))
            store_compact(store, cf, (struct bytes){NULL, 0}, (struct bytes){NULL, 0});
    pthread_rwlock_rdlock(&store->lock);
    if (store->db && !atomic_load(&store->stopped))
        store_look_for_ranges(store);
    pthread_rwlock_unlock(&store->lock);
}
