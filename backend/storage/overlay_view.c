/*
 * overlay_view.c - the attempt of a transaction over shards: its rows are above the overlay's buffers (view.h).
 */
#include "backend/storage/overlay_inner.h"
#include "shared/check.h"

#include <stdlib.h>

struct view *view_new(void)
{
    struct view *view = calloc(1, sizeof *view);
    CHECK(view);
    write_buffer_init(&view->written);
    write_buffer_init(&view->borrowed);
    return view;
}

void view_free(struct view *view)
{
    if (!view)
        return;
    write_buffer_fini(&view->written);
    write_buffer_fini(&view->borrowed);
    free(view->script.undo.items);
    free(view);
}

void view_forget_written(struct view *view)
{
    write_buffer_reset(&view->written);
    memset(view->placed, 0, sizeof view->placed);
    view->placed_ranges = 0;
    view->effects = 0;
    view->script.undo.count = 0;
}

void view_clear(struct view *view)
{
    view_forget_written(view);
    write_buffer_reset(&view->borrowed);
    memset(view->lent, 0, sizeof view->lent);
    view->is_all_lent = false;
}

static void note_place(struct view *view, size_t place)
{
    view->lent[place / 64] |= 1ull << place % 64;
}

void view_lend(struct view *view, enum cf cf, struct bytes key, const struct bytes *value)
{
    struct row *row = write_buffer_get_or_add(&view->borrowed, cf, key, hash_row(cf, key));
    size_t place;
    row->state = value ? ROW_VALUE : ROW_DELETED;
    row->value = value ? arena_copy(&view->borrowed.arena, *value) : (struct bytes){NULL, 0};
    if (stamps_place_of(cf, key, &place))
        note_place(view, place);
}

struct view *overlay_view(const struct overlay *overlay)
{
    return overlay->view;
}

void overlay_view_begin(struct overlay *overlay, struct view *view)
{
    CHECK(!overlay->view && !overlay->kept.attempt.is_on && !overlay->kept.script.is_on &&
          !overlay->kept.queue.is_on && !overlay->securing.is_on);
    overlay->view = view;
    view->effects = 0;
    overlay_savepoint(overlay);
    overlay_space_marks(overlay);
}

static void stamp_lent(struct stamps *stamps, const struct view *view)
{
    if (view->is_all_lent)
        stamps_all(stamps);
    for (size_t word = 0; word < sizeof view->lent / sizeof view->lent[0]; word++)
        for (uint64_t bits = view->lent[word]; bits; bits &= bits - 1)
            stamps->of[word * 64 + (size_t)__builtin_ctzll(bits)]++;
}

/* What was derived from rows of the view is wrong without them. */
static void stamp_rows(struct stamps *stamps, const struct view *view)
{
    const struct write_buffer *written = &view->written;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = written->rows[cf].newest; row; row = row->older)
            stamps_row(stamps, cf, row->key);
    for (size_t i = 0; i < written->ranges_count; i++)
        stamps_range(stamps, written->ranges[i].cf, written->ranges[i].from, written->ranges[i].to);
    stamp_lent(stamps, view);
}

/* Notes the places of what was written since the last time. */
static void note_written(struct view *view)
{
    const struct write_buffer *written = &view->written;
    size_t place;
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        const struct row *newest = written->rows[cf].newest;
        for (const struct row *row = newest; row != view->placed[cf]; row = row->older)
            if (stamps_place_of(cf, row->key, &place))
                note_place(view, place);
        view->placed[cf] = newest;
    }
    for (; view->placed_ranges < written->ranges_count; view->placed_ranges++) {
        const struct range *range = &written->ranges[view->placed_ranges];
        if (stamps_place_of_range(range->cf, range->from, range->to, &place))
            note_place(view, place);
        else
            view->is_all_lent |= cf_has_collections(range->cf);
    }
}

static void swap_undo(struct overlay *overlay)
{
    struct undo_log other = overlay->view->script.undo;
    overlay->view->script.undo = overlay->undo;
    overlay->undo = other;
}

void overlay_view_keep_script(struct overlay *overlay)
{
    CHECK(overlay->view && !overlay->kept.script.is_on);
    swap_undo(overlay);
    overlay->view->script.mark = overlay->kept.script.mark;
}

void overlay_script_go_on(struct overlay *overlay)
{
    CHECK(overlay->view && overlay->kept.queue.is_on);
    overlay->undo.count = 0; /* if the queue fails, the whole view is dropped */
    swap_undo(overlay);
    overlay_script_begin(overlay);
    overlay->kept.script.mark = overlay->view->script.mark;
}

void overlay_view_leave(struct overlay *overlay)
{
    CHECK(overlay->view && !overlay->kept.script.is_on && !overlay->kept.queue.is_on);
    note_written(overlay->view);
    stamp_lent(&overlay->stamps, overlay->view);
    overlay->view = NULL;
    overlay_savepoint(overlay);
    overlay_space_marks(overlay);
}

void overlay_view_enter(struct overlay *overlay, struct view *view)
{
    size_t effects = view->effects;
    stamp_lent(&overlay->stamps, view); /* what was derived from rows without those of the view */
    overlay_view_begin(overlay, view);
    view->effects = effects;
    overlay_savepoint(overlay);
}

void overlay_view_undo(struct overlay *overlay)
{
    CHECK(overlay->view && !overlay->kept.script.is_on && !overlay->kept.queue.is_on);
    stamp_rows(&overlay->stamps, overlay->view);
    view_forget_written(overlay->view);
    overlay_savepoint(overlay);
    overlay_space_marks(overlay);
}

void overlay_view_end(struct overlay *overlay)
{
    CHECK(overlay->view && !overlay->kept.script.is_on && !overlay->kept.queue.is_on);
    stamp_rows(&overlay->stamps, overlay->view);
    view_forget_written(overlay->view);
    overlay->view = NULL;
    overlay_savepoint(overlay);
    overlay_space_marks(overlay);
}

/* By column family and key: the order may not depend on addresses, because it decides the bytes of a PREPARE. */
static int compare_written(const void *a, const void *b)
{
    const struct row *row_a = *(const struct row *const *)a;
    const struct row *row_b = *(const struct row *const *)b;
    return row_a->cf != row_b->cf ? (int)row_a->cf - (int)row_b->cf
                                  : bytes_compare(row_a->key, row_b->key);
}

void overlay_each_written(const struct overlay *overlay, const struct overlay_changes *changes)
{
    const struct write_buffer *written = &overlay->view->written;
    size_t count = 0;
    for (size_t i = 0; i < written->ranges_count; i++) {
        const struct range *range = &written->ranges[i];
        changes->on_range(changes->owner, range->cf, range->from, range->to);
    }
    const struct row **rows = malloc((written->rows_count + 1) * sizeof *rows);
    CHECK(rows);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = written->rows[cf].newest; row; row = row->older)
            if (row->state != ROW_ABSENT)
                rows[count++] = row;
    qsort(rows, count, sizeof *rows, compare_written);
    for (size_t i = 0; i < count; i++)
        changes->on_row(changes->owner, (enum cf)rows[i]->cf, rows[i]->key,
                        rows[i]->state == ROW_VALUE ? &rows[i]->value : NULL);
    free(rows);
}
