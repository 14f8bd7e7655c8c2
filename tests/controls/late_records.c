/* late_records.c - the log of a backup that a copy makes has records from after the moment. */
#include "backend/backup/store_cut.h"

int __wrap_cut_end_at(struct cut *cut, uint64_t index, char *error, size_t size);

int __wrap_cut_end_at(struct cut *cut, uint64_t index, char *error, size_t size)
{
    (void)index;
    return cut_end(cut, error, size);
}
