#include "proxy/client/move.h"

#include "proxy/client/ephemeral.h"
#include "proxy/client/memory.h"
#include "proxy/client/rate.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/core/client.h"
#include "proxy/core/worker.h"

void keyspace_left(struct proxy_worker *worker, struct keyspace *keyspace)
{
    if (keyspace->clients > 0)
        return;
    memory_space_left(keyspace);
    ephemeral_left(worker, keyspace);
}

void client_move(struct client *client, struct bytes name, uint8_t db)
{
    struct proxy_worker *worker = client->worker;
    struct client_session *session = &client->session;
    struct keyspace *before = session->keyspace ? keyspace_ref(session->keyspace) : NULL;
    struct keyspace *keyspace = keyspaces_get(&worker->keyspaces, name, db);
    if (before && !bytes_equal(before->name, name)) {
        subscriptions_clear(client);
        tracking_clear(client);
    }
    rate_leave(client);
    client_session_move(session, &worker->keyspaces, keyspace);
    keyspace_unref(&worker->keyspaces, keyspace);
    if (before)
        keyspace_left(worker, before);
    keyspace_unref(&worker->keyspaces, before);
}
