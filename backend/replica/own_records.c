#include "backend/replica/own_records.h"

#include "shared/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- a record ---------------------------------------------------------------------------------- */

struct own_record *own_record_new(struct bytes bytes)
{
    struct own_record *record = malloc(sizeof *record + bytes.len);
    CHECK(record);
    char *copy = (char *)(record + 1);
    memcpy(copy, bytes.data, bytes.len);
    *record = (struct own_record){.uses = 1, .bytes = {copy, bytes.len}};
    return record;
}

struct own_record *own_record_use(struct own_record *record)
{
    record->uses++;
    return record;
}

void own_record_end(struct own_record *record)
{
    if (record && --record->uses == 0)
        free(record);
}

/* ---- the newest ones --------------------------------------------------------------------------- */

static struct own_record **own_place(struct own_records *records, uint64_t index)
{
    return &records->ring[index % OWN_RECORDS_MAX];
}

static void drop_first_own(struct own_records *records)
{
    struct own_record **place = own_place(records, records->first);
    records->bytes -= (*place)->bytes.len;
    own_record_end(*place);
    *place = NULL;
    records->first++;
    records->count--;
}

void own_records_drop(struct own_records *records)
{
    while (records->count)
        drop_first_own(records);
}

void own_records_add(struct own_records *records, uint64_t index, struct own_record *record)
{
    if (index != records->first + records->count)
        own_records_drop(records);
    while (records->count && (records->count == OWN_RECORDS_MAX ||
                              records->bytes + record->bytes.len > OWN_RECORDS_BYTES))
        drop_first_own(records);
    if (!records->count)
        records->first = index;
    *own_place(records, index) = own_record_use(record);
    records->bytes += record->bytes.len;
    records->count++;
}

struct own_record *own_records_at(const struct own_records *records, uint64_t index)
{
    bool is_there =
        records->count && index >= records->first && index < records->first + records->count;
    return is_there ? records->ring[index % OWN_RECORDS_MAX] : NULL;
}

void own_records_synced(struct own_records *records, uint64_t synced)
{
    if (records->bytes > OWN_RECORDS_BYTES && records->first <= synced)
        drop_first_own(records);
}
