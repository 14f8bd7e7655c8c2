/*
 * copies_room.h - copies that vote, when their disks become full.
 *
 *   free space           less than disk-free-min      less than COPIES_ROOM_BYTES      no byte
 *   this copy says       low                          none                             none
 *   most copies say so   commands that add data       all writes are refused           as before: the WAL has a spare segment (wal.h)
 *                        are refused
 *   only the leader says so: it gives its role to a copy that has more room
 *
 * Reads go on in each case, also of a leader that is elected then. Writes go on by themselves when most copies have room again.
 */
#pragma once

#include <stddef.h>

struct partition;

/* Ten times a second. Nothing is done unless copies vote. */
void copies_room_tick(struct partition *partition);
/* OK, or ERR_DISK_FULL and a one-line reason in error[size]: this disk, or those of most copies, have no room for a record of so many bytes. Any
 * thread. */
int copies_room_check(const struct partition *partition, size_t bytes, char *error, size_t size);
/* … and not even when a quarter more than the least room is free: writes that were refused begin again. */
int copies_room_again(const struct partition *partition, char *error, size_t size);
