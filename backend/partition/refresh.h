/*
 * refresh.h - a partition switches to the configuration snapshot that CONFIG SET, ACL commands or a reload published.
 */
#pragma once

struct partition;

/* Called before requests run; cheap when there is no new snapshot. */
void partition_refresh(struct partition *partition);
