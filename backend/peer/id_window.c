#include "backend/peer/id_window.h"

#include <string.h>

static uint64_t *word_of(struct peer_id_window *window, uint64_t id)
{
    return &window->bits[id % PEER_ID_WINDOW / 64];
}

static uint64_t bit_of(uint64_t id)
{
    return UINT64_C(1) << id % 64;
}

/* Moves the window up to `id`: clears the bits of the ids from highest + 1 to id, which belonged to ids that are now
 * too old. */
static void advance_window(struct peer_id_window *window, uint64_t id)
{
    if (!window->has_ids || id - window->highest >= PEER_ID_WINDOW)
        memset(window->bits, 0, sizeof window->bits);
    else
        for (uint64_t old = window->highest + 1; old <= id; old++)
            *word_of(window, old) &= ~bit_of(old);
    window->highest = id;
    window->has_ids = true;
}

enum peer_id_seen peer_id_window_add(struct peer_id_window *window, uint64_t id)
{
    if (!window->has_ids || id > window->highest)
        advance_window(window, id);
    else if (window->highest - id >= PEER_ID_WINDOW)
        return PEER_ID_TOO_OLD;
    else if (*word_of(window, id) & bit_of(id))
        return PEER_ID_SEEN;
    *word_of(window, id) |= bit_of(id);
    return PEER_ID_NEW;
}
