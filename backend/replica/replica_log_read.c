/*
 * replica_log_read.c - what a copy's log has at the start.
 *
 *   segments      1 …           40 …          80 …                        first records: terms 0, 3, 5
 *   terms         0 0 0 │ 3 3   3 3 3 3       5 5 5 5 5 5 │ 5             only 1 … 39 and 80 … are read whole
 *                         ▲                               └─ not known to be committed: searched for records of the members
 *                         └ the group was founded: the base
 *
 * The log begins behind its base. That record is the first one that the WAL has, with the segments that it keeps for others: the
 * storage of a copy trims only what lies before a record that is applied, so the first one is committed, and its term can be read. Records
 * of the time before the group have no term, and it begins behind them. The file `replica` names a later base if it knows one. Kept
 * segments that cannot be read are left out, as if they had been trimmed.
 */
#include "backend/format/effects.h"
#include "backend/replica/replica_log.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct storage *storage;
    struct wal *wal;
    const struct replica_record *record;
    struct replica_found_log *found;
    uint64_t first; /* the first record that may be the base */
    bool has_base;
    uint64_t seen_term;
    char *error;
    size_t size;
};

static enum replica_log_found refuse(const struct reading *reading, enum replica_log_found why,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum replica_log_found refuse(const struct reading *reading, enum replica_log_found why,
                                     const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reading->error, reading->size, format, arguments);
    va_end(arguments);
    return why;
}

static uint64_t greater_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- records ----------------------------------------------------------------------------------- */

/* Takes the record of the index; what it returns ends the reading unless it is READ. */
typedef enum replica_log_found take_fn(struct reading *reading, const struct effects_header *header,
                                       struct bytes record);

static enum replica_log_found take_record(struct reading *reading, uint64_t index,
                                          struct bytes record, take_fn *take)
{
    struct effects_header header = {.type = EFFECTS_BATCH, .index = index};
    struct effects_reader reader;
    enum effects_read result = EFFECTS_READ;
    if (!effects_is_write_batch(record)) /* these are older than all groups */
        result = effects_open(record, &header, &reader);
    if (result == EFFECTS_READ && header.index != index)
        result = EFFECTS_DAMAGED;
    if (result != EFFECTS_READ)
        return refuse(reading, REPLICA_LOG_FAILED, "record %" PRIu64 ": %s", index,
                      effects_refusal(result));
    return take(reading, &header, record);
}

/* Reads records that are all in kept segments, or all in present ones. */
static enum replica_log_found read_some(struct reading *reading, uint64_t from, uint64_t to,
                                        take_fn *take)
{
    enum replica_log_found result = REPLICA_LOG_READ;
    struct bytes record;
    uint64_t index = 0;
    struct wal_cursor *cursor = from < wal_first(reading->wal)
                                    ? wal_cursor_new_weak(reading->wal, from)
                                    : wal_cursor_new(reading->wal, from);
    if (!cursor)
        return refuse(reading, REPLICA_LOG_FAILED, "record %" PRIu64 " is not there", from);
    while (result == REPLICA_LOG_READ && index < to)
        result = wal_cursor_next(cursor, &index, &record, reading->error, reading->size) == OK
                     ? take_record(reading, index, record, take)
                     : REPLICA_LOG_FAILED;
    wal_cursor_free(cursor);
    return result;
}

/* Reads the records from `from` to `to`. */
static enum replica_log_found read_records(struct reading *reading, uint64_t from, uint64_t to,
                                           take_fn *take)
{
    enum replica_log_found result = REPLICA_LOG_READ;
    uint64_t present = wal_first(reading->wal);
    if (from < present && from <= to)
        result = read_some(reading, from, to < present ? to : present - 1, take);
    if (result == REPLICA_LOG_READ && to >= present && from <= to)
        result = read_some(reading, from > present ? from : present, to, take);
    return result;
}

/* ---- members ----------------------------------------------------------------------------------- */

/* take_fn */
static enum replica_log_found note_members(struct reading *reading,
                                           const struct effects_header *header, struct bytes record)
{
    struct replica_found_log *found = reading->found;
    struct members members;
    if (header->type != EFFECTS_MEMBERS)
        return REPLICA_LOG_READ;
    if (!members_of_record(record, &members))
        return refuse(reading, REPLICA_LOG_FAILED, "record %" PRIu64 ": its members are damaged",
                      header->index);
    found->members_before = found->members;
    found->members = replica_core_members(&members, header->index);
    replica_members_set(&found->named_before, &found->named.named);
    replica_members_set(&found->named, &members);
    return REPLICA_LOG_READ;
}

/* The row in the tables is that of a record which is committed. */
static enum replica_log_found read_members_row(struct reading *reading, uint64_t upto)
{
    struct members members;
    struct slice value;
    int err = store_get(storage_store(reading->storage), CF_SYSTEM, BYTES(SYSTEM_MEMBERS), &value);
    if (err == ERR_NOT_FOUND)
        return REPLICA_LOG_READ;
    if (err != OK)
        return refuse(reading, REPLICA_LOG_FAILED, "the members of the group cannot be read");
    bool is_good = members_row_read(slice_bytes(&value), &members);
    if (is_good) {
        reading->found->members = replica_core_members(&members, upto);
        replica_members_set(&reading->found->named, &members);
    }
    slice_release(&value);
    return is_good ? REPLICA_LOG_READ
                   : refuse(reading, REPLICA_LOG_FAILED, "the members of the group are damaged");
}

/* The newest members are in a record that the tables do not have yet, or in the tables. On a full disk these may lack all that the
 * WAL has. */
static enum replica_log_found read_members(struct reading *reading)
{
    const struct storage *storage = reading->storage;
    uint64_t in_tables =
        storage_is_behind(storage) ? wal_first(reading->wal) - 1 : storage_committed(storage);
    enum replica_log_found result = read_members_row(reading, in_tables);
    return result == REPLICA_LOG_READ
               ? read_records(reading, in_tables + 1, reading->found->last, note_members)
               : result;
}

/* Is the group that of the file `replica`? */
static enum replica_log_found compare_group(struct reading *reading)
{
    const struct replica_record *record = reading->record;
    const struct members *named = &reading->found->named.named;
    if (!named->count || named->generation < record->generation)
        return refuse(reading, REPLICA_LOG_UNFOUNDED,
                      "the store has no record of generation %" PRIu32 " of its group",
                      record->generation);
    if (named->generation > record->generation || named->group != record->group)
        return refuse(reading, REPLICA_LOG_LOST,
                      "the store is of another group than its file replica");
    return REPLICA_LOG_READ;
}

/* ---- terms ------------------------------------------------------------------------------------- */

/* take_fn: the terms of records that are taken in order, though not all of them */
static enum replica_log_found take_term(struct reading *reading,
                                        const struct effects_header *header, struct bytes record)
{
    struct replica_found_log *found = reading->found;
    (void)record;
    if (!reading->has_base) {
        reading->has_base = header->term > 0;
        term_runs_init(&found->runs, header->index, header->term);
        if (found->committed < header->index)
            found->committed = header->index;
        return REPLICA_LOG_READ;
    }
    if (header->term < term_runs_last(&found->runs))
        return refuse(reading, REPLICA_LOG_FAILED, "record %" PRIu64 ": its term is too low",
                      header->index);
    if (!term_runs_has_room(&found->runs, header->term, found->committed))
        return refuse(reading, REPLICA_LOG_FAILED,
                      "records of more than %d terms are not known to be committed", TERM_RUNS_MAX);
    term_runs_append(&found->runs, header->index, header->term);
    return REPLICA_LOG_READ;
}

/* take_fn */
static enum replica_log_found see_term(struct reading *reading, const struct effects_header *header,
                                       struct bytes record)
{
    (void)record;
    reading->seen_term = header->term;
    return REPLICA_LOG_READ;
}

/* Terms never fall, so a segment has one term if the next one begins with it too. *at: the last record whose term was taken. */
static enum replica_log_found read_terms_of_segment(struct reading *reading, uint64_t next,
                                                    uint64_t *at)
{
    enum replica_log_found result = read_records(reading, next, next, see_term);
    if (result == REPLICA_LOG_READ && reading->seen_term != term_runs_last(&reading->found->runs))
        result = read_records(reading, *at + 1, next, take_term);
    *at = next;
    return result;
}

static enum replica_log_found read_all_segments(struct reading *reading, const uint64_t *firsts,
                                                size_t count)
{
    uint64_t at = reading->first;
    enum replica_log_found result = read_records(reading, at, at, take_term);
    for (size_t i = 0; i < count && result == REPLICA_LOG_READ; i++)
        if (firsts[i] > at)
            result = read_terms_of_segment(reading, firsts[i], &at);
    return result == REPLICA_LOG_READ
               ? read_records(reading, at + 1, reading->found->last, take_term)
               : result;
}

static enum replica_log_found read_terms(struct reading *reading, uint64_t first)
{
    reading->first = greater_of(first, reading->record->base);
    reading->has_base = false;
    size_t count = wal_firsts(reading->wal, NULL, 0);
    uint64_t *firsts = calloc(count + 1, sizeof *firsts);
    CHECK(firsts);
    CHECK(wal_firsts(reading->wal, firsts, count) == count);
    enum replica_log_found result = read_all_segments(reading, firsts, count);
    free(firsts);
    return result;
}

/* ---- the log ----------------------------------------------------------------------------------- */

/* A log without records begins where the file `replica` says. */
static void take_base(struct reading *reading)
{
    const struct replica_record *record = reading->record;
    reading->has_base = record->base == reading->found->last && record->base_term;
    term_runs_init(&reading->found->runs, record->base, record->base_term);
}

/* Reads from the first record that is kept, or from the first one of the WAL if that fails. */
static enum replica_log_found read_runs(struct reading *reading)
{
    uint64_t present = wal_first(reading->wal), kept = wal_kept(reading->wal).first;
    if (greater_of(present, reading->record->base) > reading->found->last) {
        take_base(reading);
        return REPLICA_LOG_READ;
    }
    enum replica_log_found result = read_terms(reading, kept ? kept : present);
    return result == REPLICA_LOG_FAILED && kept ? read_terms(reading, present) : result;
}

/* Was the base found, and is it the one of the file `replica`, if the log begins with that? */
static bool is_base_good(const struct reading *reading)
{
    const struct term_runs *runs = &reading->found->runs;
    return reading->has_base && (term_runs_base(runs) != reading->record->base ||
                                 runs->run[0].term == reading->record->base_term);
}

static enum replica_log_found read_log(struct reading *reading)
{
    const struct replica_record *record = reading->record;
    struct replica_found_log *found = reading->found;
    found->committed = greater_of(greater_of(storage_committed(reading->storage), record->base),
                                  record->committed);
    if (found->committed > found->last)
        return refuse(reading, REPLICA_LOG_LOST,
                      "records up to %" PRIu64 " were committed, and the log ends with %" PRIu64,
                      found->committed, found->last);
    enum replica_log_found result = read_runs(reading);
    if (result == REPLICA_LOG_READ && !is_base_good(reading))
        return refuse(reading, REPLICA_LOG_LOST, "record %" PRIu64 " of the group is not there",
                      record->base);
    if (found->members.index <= found->committed)
        found->members_before = (struct consensus_members){0};
    return result;
}

/* The WAL may have records of its own: they are overwritten before the copy is a member. */
static enum replica_log_found read_without_group(struct reading *reading)
{
    struct replica_found_log *found = reading->found;
    enum replica_log_found result = read_members_row(reading, 0);
    if (result == REPLICA_LOG_READ && found->named.named.count)
        result = refuse(reading, REPLICA_LOG_LOST,
                        "the store is of a group, and its file replica is not");
    found->last = 0;
    term_runs_init(&found->runs, 0, 0);
    return result;
}

enum replica_log_found replica_log_read(struct storage *storage,
                                        const struct replica_record *record,
                                        struct replica_found_log *found, char *error, size_t size)
{
    struct reading reading = {.storage = storage,
                              .wal = storage_wal(storage),
                              .record = record,
                              .found = found,
                              .error = error,
                              .size = size};
    memset(found, 0, sizeof *found);
    found->last = storage_logged(storage);
    if (!record->group)
        return read_without_group(&reading);
    if (storage_has_lost_durable(storage))
        return refuse(&reading, REPLICA_LOG_LOST, "records at the end of the log are damaged");
    enum replica_log_found result = read_members(&reading);
    if (result == REPLICA_LOG_READ)
        result = compare_group(&reading);
    return result == REPLICA_LOG_READ ? read_log(&reading) : result;
}

void replica_log_start(const struct replica_found_log *found, struct consensus_start *start)
{
    start->base = term_runs_base(&found->runs);
    start->base_term = found->runs.run[0].term;
    start->run = found->runs.run + 1;
    start->run_count = found->runs.count - 1;
    start->last = found->last;
    start->synced = 0;
    start->committed = found->committed;
    start->members = found->members;
    start->members_before = found->members_before;
}
