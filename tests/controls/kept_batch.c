/* kept_batch.c - a leader that steps down keeps the rows of its batch in flight, which the next leader may not have. */
#include "backend/storage/overlay_inner.h"

void __real_overlay_discard(struct overlay *overlay);
void __wrap_overlay_discard(struct overlay *overlay);

void __wrap_overlay_discard(struct overlay *overlay)
{
    if (overlay->in_flight)
        overlay_batch_committed(overlay);
    __real_overlay_discard(overlay);
}
