#include "proxy/core/session.h"

#include "proxy/core/proxy_metrics.h"
#include "proxy/core/shares.h"
#include "shared/check.h"

#include <stdlib.h>

void client_session_init(struct client_session *session)
{
    *session = (struct client_session){.resp = 2};
    client_transaction_init(&session->transaction);
}

static void count_client(struct keyspace *keyspace, int change)
{
    keyspace->clients += (uint32_t)change;
    if (keyspace->cell)
        cell_add(keyspace->cell, TENANT_CLIENTS, (uint64_t)change);
    if (keyspace->share)
        atomic_fetch_add(&keyspace->share->clients, change);
}

void client_session_fini(struct client_session *session, struct keyspaces *keyspaces)
{
    if (session->keyspace)
        count_client(session->keyspace, -1);
    keyspace_unref(keyspaces, session->keyspace);
    keyspace_unref(keyspaces, session->home);
    session->keyspace = session->home = NULL;
    client_transaction_fini(&session->transaction);
    free(session->user_name);
    session->user_name = NULL;
    free(session->name);
    free(session->lib_name);
    free(session->lib_version);
    session->name = session->lib_name = session->lib_version = NULL;
}

void client_session_move(struct client_session *session, struct keyspaces *keyspaces,
                         struct keyspace *keyspace)
{
    struct keyspace *before = session->keyspace;
    session->keyspace = keyspace_ref(keyspace);
    count_client(keyspace, 1);
    if (before)
        count_client(before, -1);
    keyspace_unref(keyspaces, before);
}

void client_session_set_text(char **text, struct bytes value)
{
    free(*text);
    *text = NULL;
    if (value.len == 0)
        return;
    *text = strndup(value.data, value.len);
    CHECK(*text);
}
