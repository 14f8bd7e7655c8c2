#include "backend/walk.h"

#include "backend/partition.h"
#include "backend/session.h"
#include "shared/check.h"

#include <stdlib.h>

/* May the rest of this reply come later? Only when nothing else belongs to it, and the engine is well. */
static bool may_part(const struct call *call)
{
    return call->session && !call->session->walk && !call->in_exec && !call->in_script &&
           !(call->command->flags & CMD_WRITE) && !commit_is_failed(call->partition->commit, NULL);
}

/* Takes the iterator over. */
static void hand_over(struct call *call, const struct sub_iter *it, uint64_t rows, walk_row_fn *row,
                      unsigned how)
{
    struct walk *walk = calloc(1, sizeof *walk);
    CHECK(walk);
    overlay_iter_detach(it->iter);
    walk->session = call->session;
    walk->iter = it->iter;
    walk->prefix_len = it->prefix_len;
    walk->is_reverse = it->reverse;
    walk->rows = rows;
    walk->row = row;
    walk->how = how;
    out_init(&walk->behind);
    list_push(&call->partition->walks, &walk->link);
    call->session->walk = walk;
}

bool walk_rows(struct call *call, struct sub_iter *it, uint64_t rows, walk_row_fn *row,
               unsigned how)
{
    struct out *out = call->reply.out;
    bool parts = may_part(call);
    if (out == &call->partition->scrap && parts) /* nobody wants it */
        return sub_iter_fini(it);
    for (; rows > 0 && sub_iter_next(it); rows--) {
        row(&call->reply, it->sub, it->value, how);
        if (parts && rows > 1 && out->bytes - call->begun > STREAM_HIGH_WATER) {
            hand_over(call, it, rows - 1, row, how);
            return true;
        }
    }
    return sub_iter_fini(it) && rows == 0;
}

enum walk_end walk_fill(struct walk *walk, struct reply *reply, size_t bytes_max)
{
    while (walk->rows > 0 && reply->out->bytes <= bytes_max) {
        if (walk->is_reverse)
            overlay_iter_prev(walk->iter);
        else
            overlay_iter_next(walk->iter);
        if (!overlay_iter_valid(walk->iter))
            return WALK_FAILED;
        struct bytes key = overlay_iter_key(walk->iter);
        struct bytes sub = {key.data + walk->prefix_len, key.len - walk->prefix_len};
        walk->row(reply, sub, overlay_iter_value(walk->iter), walk->how);
        walk->rows--;
    }
    return walk->rows ? WALK_ON : WALK_DONE;
}

void walk_free(struct walk *walk)
{
    if (!walk)
        return;
    list_remove(&walk->link);
    overlay_iter_free(walk->iter);
    out_clear(&walk->behind);
    free(walk);
}
