/*
 * backup_cancel.h - cancels attempts of backups at the shards, again and again until every copy has answered that may take part.
 *
 *   proxy ── PREPARE ──► stalled process      the attempt fails: no reply within the upstream timeout
 *   proxy ── CANCEL ───► no answer
 *         …              the shard runs again and reads PREPARE: without CANCEL it would wait a minute for the next step
 *   proxy ── CANCEL ───► 1                   so the next backup can begin at once
 */
#pragma once

#include <stdbool.h>

struct backup_cancels;
struct proxy_worker;

struct backup_cancels *backup_cancels_new(struct proxy_worker *worker);
/* Sends CANCEL for the attempt with this id to all shards, or to all copies of them, which then show `reason` as the error of their backup. While a shard does
 * not answer, CANCEL is sent again every half second, for a minute. */
void backup_cancel_at_shards(struct backup_cancels *cancels, const char *id, const char *reason,
                             bool has_copies);
/* To be called when the worker is freed and no request is in flight. */
void backup_cancels_free(struct backup_cancels *cancels);
