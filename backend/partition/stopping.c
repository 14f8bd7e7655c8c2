#include "backend/partition/stopping.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/blocking.h"
#include "backend/session/session.h"
#include "backend/session/waits.h"
#include "backend/transaction/participant.h"
#include "shared/stopping.h"

static void tell_stop(struct session *session)
{
    out_write(stream_out(session->stream), STOPPING_FRAME, sizeof STOPPING_FRAME - 1);
    session->login.was_told = true;
}

/* Sends STOPPING_FRAME once, and gives back the commands that wait on this connection. */
static void drain_session(struct session *session)
{
    if (session->pending.streamed || session->is_closing)
        return; /* a frame must not stand inside a reply */
    if (!session->login.was_told)
        tell_stop(session);
    waits_cancel(session, blocking_give_back);
    stream_send(session->stream);
}

bool stopping_drain(struct partition *partition, uint64_t last_client)
{
    bool is_drained = true;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next) {
        struct session *session = container_of(link, struct session, link);
        if (!session->login.hears_stop || session->id > last_client)
            continue;
        drain_session(session);
        is_drained = false;
    }
    return is_drained;
}

void stopping_tell(struct partition *partition)
{
    (void)stopping_drain(partition, UINT64_MAX);
}

void stopping_set_drained(struct partition *partition, bool is_drained)
{
    if (partition->thread.is_undrained == !is_drained)
        return;
    partition->thread.is_undrained = !is_drained;
    atomic_fetch_add(&partition->process->undrained, is_drained ? UINT32_MAX : 1); /* -1 */
}

void stopping_begin(struct partition *partition)
{
    partition->thread.is_draining = true;
    partition->thread.drain_until_ms =
        loop_mono_ms(partition->loop) + partition->snapshot->config.drain_timeout_ms;
}

bool stopping_is_drained(struct partition *partition)
{
    char why[256];
    if (loop_mono_ms(partition->loop) >= partition->thread.drain_until_ms) {
        stopping_set_drained(partition, true);
        return true;
    }
    bool is_drained = stopping_drain(partition, UINT64_MAX) &&
                      participant_is_quiet(partition->shards.participant, why, sizeof why);
    stopping_set_drained(partition, is_drained);
    return is_drained &&
           (partition->copies.is_closed || atomic_load(&partition->process->undrained) == 0);
}
