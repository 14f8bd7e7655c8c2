/*
 * overlay_release.c - frees what a command has written, when it is rolled back.
 *
 *   effects  ────────M────────────────►     M: the savepoint, or the start of an attempt, script or EXEC
 *   marks         A     B     C     D       one for each sixteenth of a full buffer
 *                       └ a rollback to M frees everything behind B
 *
 * What lies between M and B stays in the buffer as rows without effects. Marks cost nothing for commands that write little.
 */
#include "backend/storage/overlay_inner.h"
#include "shared/check.h"

#include <stdlib.h>

enum { MARKS = 16 }; /* in a full buffer */

static size_t marks_distance(const struct overlay *overlay)
{
    return overlay->buffer_bytes / MARKS;
}

void overlay_space_marks(struct overlay *overlay)
{
    overlay->kept.marks.next_bytes = overlay_target(overlay)->arena.bytes + marks_distance(overlay);
}

void overlay_add_mark(struct overlay *overlay)
{
    struct release_marks *marks = &overlay->kept.marks;
    if (marks->count == marks->cap) {
        marks->cap = marks->cap ? 2 * marks->cap : 16;
        marks->items = realloc(marks->items, marks->cap * sizeof *marks->items);
        CHECK(marks->items);
    }
    marks->items[marks->count++] =
        (struct release_mark){.rows = write_buffer_mark(overlay_target(overlay)),
                              .undo_count = overlay->undo.count,
                              .changes = overlay->batch->count};
    overlay_space_marks(overlay);
}

/* It is freed if it is at least as much as the older rows, each of which costs time. */
void overlay_release(struct overlay *overlay, const struct mark *mark)
{
    struct release_marks *marks = &overlay->kept.marks;
    size_t count = marks->count;
    while (count && marks->items[count - 1].undo_count >= mark->undo_count)
        count--;
    if (count == marks->count)
        return;
    const struct release_mark *to = &marks->items[count];
    size_t gone = overlay_target(overlay)->arena.bytes - to->rows.arena.bytes;
    marks->count = count;
    if (gone >= marks_distance(overlay) && gone >= to->rows.arena.bytes) {
        overlay->batch->count = to->changes;
        write_buffer_release(overlay_target(overlay), &to->rows);
    }
    overlay_space_marks(overlay);
}
