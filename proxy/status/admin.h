/*
 * admin.h - what a page of the admin port can read.
 *
 * A page is a function and a row in admin.c's table. The function runs on the HTTP thread and reads atomics and the
 * snapshot. It requests other data from the workers by loop_post, and waits a limited time for their answers.
 */
#pragma once

#include "proxy/core/proxy.h"
#include "proxy/upstream/health_checks.h"
#include "shared/net/http.h"

struct admin;

struct admin_visit {
    struct proxy *proxy;
    struct admin *admin;
    const struct proxy_snapshot *snapshot; /* the snapshot in force when the request came */
    const char *path;
};

/* The state of each shard of the map, as of its last health check; to[map->shard_count]. Any thread. */
void admin_copy_health(const struct admin *admin, const struct shard_map *map,
                       struct shard_health *to);
/* Prints which shards answer, and whether /readyz succeeds. admin.c */
void admin_print_health(const struct admin_visit *visit, struct out *out);

/* Starts the admin port. Main thread. False: the reason is in error[size]. */
bool admin_port_start(struct proxy *proxy, char *error, size_t size);
/* The proxy is stopping: no shard is checked any longer. */
void admin_end_checks(struct proxy *proxy);
void admin_port_stop(struct proxy *proxy);
/* To be called after proxy->snapshot was replaced: pages and health checks use the new one. */
void admin_publish(struct proxy *proxy);
