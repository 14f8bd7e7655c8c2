/*
 * refresh.h - a partition takes over the snapshot that CONFIG SET, ACL commands or a reload have changed.
 */
#pragma once

struct partition;

/* Called before requests are run; cheap when nothing has changed. */
void partition_refresh(struct partition *partition);
