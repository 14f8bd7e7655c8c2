#include "proxy/client/watch_lost.h"

#include "proxy/core/client.h"
#include "proxy/core/node.h"
#include "proxy/upstream/upstream.h"

static bool has_answered_watch(const struct client *client)
{
    const struct command *watch = command_find(BYTES("watch"));
    uint32_t unanswered = 0;
    for (const struct pipeline_link *link = client->pipeline.front; link; link = link->next) {
        const struct request *request = container_of(link, struct request, link);
        unanswered += request->command == watch && request->waiting > 0;
    }
    return unanswered < client->session.transaction.watches;
}

void watch_connection_lost(struct client *client, const struct upstream *dedicated,
                           const char *reason)
{
    struct client_transaction *transaction = &client->session.transaction;
    if (upstream_is_stopping(dedicated))
        client_transaction_unwatched(transaction);
    else if (has_answered_watch(client))
        client_transaction_lost(transaction, dedicated->node->name, dedicated->node->address,
                                reason);
    else
        client_transaction_forget_watches(transaction);
}
