#include "proxy/move.h"

#include "proxy/client.h"
#include "proxy/local/local.h"
#include "proxy/memory.h"
#include "proxy/rate.h"
#include "proxy/subscriptions.h"
#include "proxy/tracking.h"
#include "proxy/worker.h"

void place_left(struct proxy_worker *worker, struct place *place)
{
    if (place->clients > 0)
        return;
    memory_space_left(place);
    local_place_left(worker, place);
}

void client_move(struct client *client, struct bytes name, uint8_t db)
{
    struct proxy_worker *worker = client->worker;
    struct client_session *session = &client->session;
    struct place *before = session->place ? place_ref(session->place) : NULL;
    struct place *place = places_get(&worker->places, name, db);
    if (before && !bytes_equal(before->name, name)) {
        subscriptions_clear(client);
        tracking_clear(client);
    }
    rate_leave(client);
    client_session_move(session, &worker->places, place);
    place_unref(&worker->places, place);
    if (before)
        place_left(worker, before);
    place_unref(&worker->places, before);
}
