/*
 * admin.h - what the pages of the admin port get to see.
 *
 * A page is a function and a row in local_admin.c's table. It runs on the HTTP thread: it reads atomics, the snapshot,
 * and what it asks the workers for by loop_post, with a limit to its patience.
 */
#pragma once

#include "proxy/proxy.h"
#include "shared/net/http.h"

struct admin;

struct admin_visit {
    struct proxy *proxy;
    struct admin *admin;
    const struct proxy_snapshot *snapshot; /* in force when the request came */
    const char *path;
};

/* Which shards answer, and whether /readyz would say yes. local_admin.c */
void admin_print_health(const struct admin_visit *visit, struct out *out);
