/*
 * overlay_replay.h - a start on a full disk: the rows of the WAL are shown by the write buffer, because the tables cannot take them.
 *
 *   WAL ──overlay_replay──► active write buffer        reads search it above the tables, which are open for reading only
 *
 * The buffer takes about as much memory as the WAL has bytes (wal-limit). When there is room, storage_recover replays the WAL into the
 * tables, and the buffer is emptied.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct overlay;
struct storage;

/* For storage_is_behind, while the overlay has no effects. False and a one-line reason: the WAL cannot be read. */
bool overlay_replay(struct overlay *overlay, struct storage *storage, char *error, size_t size);
