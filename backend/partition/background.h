/*
 * background.h - work on keys that no client asks for, in bounded steps, at each tick of the partition.
 *
 *   a copy that follows ─► the group's records       else ─► rank trees of older programs
 *                                                        └─► hashes whose fields have TTLs are counted, after the start
 */
#pragma once

struct partition;

/* A step of replacing rank trees of older programs (rank_rebuild.h), unless writes wait for something, and of counting hashes
 * (ttl_hashes.h); or, at a copy that follows, what leadership.h has to do. */
void background_tick(struct partition *partition);
