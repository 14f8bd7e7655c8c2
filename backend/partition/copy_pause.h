/*
 * copy_pause.h - a copy that follows adds no records for a while, because an operator wants to look at the data of before.
 *
 *   log ── upto ──► replica_apply ──╳──► rows        it goes on taking records, acknowledging them, and voting
 *
 *   SCREE REPLICAS PAUSE 600 ─► paused ─► RESUME, the time is over, the disk has little room, or this copy does not follow any more
 *
 * Nothing is at risk: what the group has committed is in this copy's log. A copy that is elected while it is paused adds what it lacks before it
 * serves, as any other that is behind. The end of the process ends the pause.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;

enum { COPY_PAUSE_SECONDS_MAX = 86400 };

/* Also of a copy that is paused: its time begins anew. NULL, or why not. */
const char *copy_pause_begin(struct partition *partition, uint64_t seconds);
/* Records are added again with the next tick. Does nothing if there is no pause. `why` is one word, for the log. */
void copy_pause_end(struct partition *partition, const char *why);
/* For how long records are held up still; 0: they are not. */
uint64_t copy_pause_left_ms(const struct partition *partition);
/* No record may be added now. Before all rows of each record that the tables may have are there, records are added: until then clients could not read. */
bool copy_pause_holds(const struct partition *partition);
/* Ten times a second. */
void copy_pause_tick(struct partition *partition);
