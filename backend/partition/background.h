/*
 * background.h - changes of keys that no client asks for, in bounded steps, at each tick of the partition.
 */
#pragma once

struct partition;

/* A step of replacing rank trees of older programs (rank_rebuild.h), unless writes wait for something. */
void background_rebuild_ranks(struct partition *partition);
