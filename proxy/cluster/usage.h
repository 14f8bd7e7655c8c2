/*
 * usage.h - keys and bytes of every namespace at all shards, with and without limits.
 *
 *   worker 0, every USAGE_MS:  SCREE USAGE ──► each shard, page by page
 *                              the sums    ◄── when the last shard has answered its last page, they replace those before
 *   any thread:                usage_find, usage_each
 *
 * If a shard fails, the sums of the round before stay. Sums of all shards that one round has seen are true for one moment of each
 * shard, not for one moment of all.
 */
#pragma once

#include "shared/bytes.h"

struct proxy_worker;
struct usages;

enum {
    USAGE_MS =
        2000, /* from round to round, but at least USAGE_PART times as long as the last one took */
    USAGE_PART = 20,
    USAGE_PAGE = 64, /* namespaces in one reply */
};

struct usage_figures {
    uint64_t keys; /* in all databases, at all shards */
    uint64_t bytes;
};

struct usages *usages_new(void);
void usages_free(struct usages *usages);
/* Once a second on worker 0. */
void usages_tick(struct usages *usages, struct proxy_worker *worker);
/* How old the figures are, in ms; UINT64_MAX: there are none yet. */
uint64_t usages_age_ms(struct usages *usages, uint64_t now_ms);
/* False: there are no figures yet. A namespace that no shard has is empty. */
bool usages_find(struct usages *usages, struct bytes name, struct usage_figures *figures);
/* Calls the function for each namespace that any shard has, under the lock: it must not call usages_…. */
typedef void usages_fn(void *owner, struct bytes name, const struct usage_figures *figures);
void usages_each(struct usages *usages, usages_fn *on_usage, void *owner);
