#include "proxy/core/share_limits.h"

#include "proxy/core/client.h"
#include "proxy/core/proxy.h"
#include "proxy/core/shares.h"
#include "proxy/core/worker.h"
#include "shared/namespace.h"

enum { RESERVED_PART = 10 };

const char maxclients_error[] = "ERR max number of clients reached";

/* The part of a limit that is kept for namespaces that have less than it. */
static int64_t reserve_of(const struct proxy_worker *worker, int64_t limit)
{
    return worker->snapshot->namespaces->count ? limit / RESERVED_PART : 0;
}

/* May a namespace that has `own` of `all` take one more? */
static bool has_room(const struct proxy_worker *worker, int64_t all, int64_t own, int64_t limit)
{
    int64_t reserve = reserve_of(worker, limit);
    return all < limit && (all < limit - reserve || own < reserve);
}

bool share_take_dedicated(const struct client *client, bool beyond_limit)
{
    const struct proxy_worker *worker = client->worker;
    const struct keyspace *keyspace = client->session.keyspace;
    int64_t limit = worker->snapshot->config.dedicated_limit;
    int64_t all = atomic_fetch_add(&worker->proxy->dedicated_connections, 1);
    int64_t own = keyspace->share ? atomic_fetch_add(&keyspace->share->dedicated, 1) : 0;
    if (beyond_limit || has_room(worker, all, own, limit))
        return true;
    share_give_back_dedicated(worker, keyspace->share);
    return false;
}

void share_give_back_dedicated(const struct proxy_worker *worker, struct share *share)
{
    atomic_fetch_sub(&worker->proxy->dedicated_connections, 1);
    if (share)
        atomic_fetch_sub(&share->dedicated, 1);
}

/* ---- clients --------------------------------------------------------------------------------- */

bool shares_may_enter(const struct proxy_worker *worker, struct bytes name)
{
    struct namespace_match match;
    if (!name.len || !worker->proxy->tenants.shares)
        return true;
    struct share *share = shares_get(worker->proxy->tenants.shares, name);
    int64_t own = atomic_load(&share->clients);
    int64_t all = atomic_load(&worker->proxy->clients) - 1; /* the client itself is counted */
    share_unref(worker->proxy->tenants.shares, share);
    bool has_limit = namespaces_find(worker->snapshot->namespaces, name, &match);
    uint64_t limit = has_limit ? match.entry->maxclients : 0;
    return (!limit || (uint64_t)own < limit) &&
           has_room(worker, all, own, worker->snapshot->config.maxclients);
}

const char *shares_refuse(const struct client *client, uint64_t age_ms)
{
    const struct proxy_worker *worker = client->worker;
    const struct client_session *session = &client->session;
    int64_t limit = worker->snapshot->config.maxclients;
    int64_t all = atomic_load(&worker->proxy->clients);
    if (age_ms < CROWDED_LOGIN_MS)
        return NULL;
    if (!session->is_authenticated)
        return all > limit - reserve_of(worker, limit) ? maxclients_error : NULL;
    bool is_operator = !session->keyspace->name.len && !session->is_limited;
    return session->is_spare && !is_operator && all > limit ? maxclients_error : NULL;
}
