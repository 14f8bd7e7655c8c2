/*
 * background.h - changes of keys that no client asks for, in bounded steps, at each tick of the partition.
 *
 *   a copy that follows ─► the group's records       else ─► rank trees of older programs
 */
#pragma once

struct partition;

/* A step of replacing rank trees of older programs (rank_rebuild.h), unless writes wait for something; or, at a copy that follows, what
 * leadership.h has to do. */
void background_tick(struct partition *partition);
