/*
 * leader_push.h - tells proxies that this copy's part in its group has changed (shared/leading.h).
 */
#pragma once

struct partition;

/* To be called when partition_copies.is_closed, .leader or .term has changed: sends LEADER_FRAME to all that have sent SCREE SELF LEADS. */
void leader_push(struct partition *partition);
