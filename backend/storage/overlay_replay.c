#include "backend/storage/overlay_replay.h"

#include "backend/storage/overlay.h"
#include "backend/storage/storage.h"

/* Makes the effects of a batch of the WAL durable rows of the write buffer: replay_fn. */
static bool show_batch(void *owner, struct bytes record, char *error, size_t size)
{
    return overlay_add_committed(owner, record, error, size) == OK;
}

bool overlay_replay(struct overlay *overlay, struct storage *storage, char *error, size_t size)
{
    return storage_read_wal(storage, show_batch, overlay, error, size) == OK;
}
