/*
 * rank_rebuild.h - replaces rank trees that older programs wrote, because their counts may be wrong.
 *
 *   root row without RANK_FORMAT ─► the tree is stale: no command reads it
 *
 *   rows of the collection ──iteration, in steps──► draft: its leaves, in memory ──all rows counted──► a new tree with RANK_FORMAT
 *                                                   ("" 96)("ca" 97)("m" 95) …
 *                                                        ▲
 *                  changes of handlers: +1 or -1 for a row that was already counted
 *
 * Stale trees are found by a walk over all root rows, which begins when the store is opened by a program of this format and is
 * recorded in a system row when it has ended, and by commands that need a rank: slots and backups of older programs may bring more
 * later. A command that needs a rank completes the draft at once, so it replies right, and the next ones are as fast as with a
 * tree; at the next tick the draft is written. Without such commands a draft is continued by a bounded number of rows a tick.
 *
 * When anything else than a handler changes the collection (stamps.h), its draft begins again. A draft is only written while no
 * transaction over shards has locked the key, so no transaction has effects that were computed without the new tree.
 */
#pragma once

#include "backend/rank/rank.h"

struct rank_rebuild;

/* `partition`: its number, for the log. */
struct rank_rebuild *rank_rebuild_new(struct overlay *overlay, uint32_t partition);
void rank_rebuild_free(struct rank_rebuild *rebuild); /* NULL is allowed */

/* For a collection with a stale tree: the start of an iteration to row number `rank`, or (`sub` not NULL) to the row `sub`: at
 * *separator, in the call's arena, with *before rows before it. False: the store failed (replied). */
bool rank_rebuild_find(struct call *call, struct entry *entry, enum cf cf, const struct bytes *sub,
                       uint64_t rank, struct bytes *separator, uint64_t *before);
/* A handler has added (+1) or deleted (-1) this row of a collection with a stale tree. */
void rank_rebuild_note(struct call *call, struct entry *entry, struct bytes sub, int change);

/* One step in the background, in a call without a session: continues a draft, writes it, or looks for stale trees. */
void rank_rebuild_cycle(struct call *call);

struct rank_rebuild_figures {
    uint64_t checked; /* trees that the walk has looked at */
    uint64_t rebuilt;
    uint32_t drafts; /* trees that are being replaced */
    bool is_walked;  /* all root rows were looked at */
};
struct rank_rebuild_figures rank_rebuild_figures(const struct rank_rebuild *rebuild);
