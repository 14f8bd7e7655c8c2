/*
 * backup_cancel.h - cancels attempts of backups at the shards, again and again until every shard has answered.
 *
 *   proxy ── PREPARE ──► stalled process      the attempt fails: no reply within the upstream timeout
 *   proxy ── CANCEL ───► no answer
 *         …              the shard runs again and reads PREPARE: without CANCEL it would wait a minute for the next step
 *   proxy ── CANCEL ───► 1                   so the next backup can begin at once
 */
#pragma once

struct backup_cancels;
struct proxy_worker;

struct backup_cancels *backup_cancels_new(struct proxy_worker *worker);
/* Sends CANCEL for the attempt with this id to all shards, which then show `reason` as the error of their backup. While a shard does
 * not answer, CANCEL is sent again every half second, for a minute. */
void backup_cancel_at_shards(struct backup_cancels *cancels, const char *id, const char *reason);
/* To be called when the worker is freed and no request is in flight. */
void backup_cancels_free(struct backup_cancels *cancels);
