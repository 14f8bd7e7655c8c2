#include "backend/partition/leader_push.h"

#include "backend/context/partition.h"
#include "backend/session/session.h"
#include "shared/leading.h"

static void push_leader(struct session *session)
{
    out_write(stream_out(session->stream), LEADER_FRAME, sizeof LEADER_FRAME - 1);
    stream_send(session->stream);
}

/* A connection that closes needs no message, and a frame must not stand inside a reply. */
static bool may_push(const struct session *session)
{
    return session->login.hears_leader && !session->is_closing && !session->pending.streamed;
}

void leader_push(struct partition *partition)
{
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next) {
        struct session *session = container_of(link, struct session, link);
        if (may_push(session))
            push_leader(session);
    }
}
