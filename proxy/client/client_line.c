#include "proxy/client/client_line.h"

#include "proxy/client/blocked.h"
#include "proxy/client/memory.h"
#include "proxy/client/monitor.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/client/users.h"
#include "proxy/core/worker.h"

#include <inttypes.h>
#include <string.h>

void client_flags(const struct client *client, char flags[CLIENT_FLAGS_MAX])
{
    char *at = flags;
    if (client_monitors(client))
        *at++ = 'O';
    if (client_subscriptions(client) > 0)
        *at++ = 'P';
    if (client->session.transaction.is_open)
        *at++ = 'x';
    if (client_tracks(client))
        *at++ = 't';
    if (client_tracks(client) && client->tracking->is_broken)
        *at++ = 'R';
    if (client_tracks(client) && client->tracking->is_bcast)
        *at++ = 'B';
    if (blocked_is_waiting(client) || client->held_by & HOLD_PAUSED)
        *at++ = 'b';
    if (client->session.is_readonly)
        *at++ = 'r';
    if (client->is_ending)
        *at++ = 'c';
    if (strchr(stream_peer(client->stream), '/'))
        *at++ = 'U';
    if (client->session.no_evict)
        *at++ = 'e';
    if (client->session.no_touch)
        *at++ = 'T';
    if (at == flags)
        *at++ = 'N';
    *at = 0;
}

void client_write_line(const struct client *client, struct out *out)
{
    const struct client_session *session = &client->session;
    const struct client_transaction *transaction = &session->transaction;
    const struct stream *stream = client->stream;
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    struct bytes user = users_name(client);
    uint32_t counts[CHANNEL_KINDS] = {0};
    char flags[CLIENT_FLAGS_MAX];
    struct client_memory memory;
    client_memory(client, &memory);
    client_flags(client, flags);
    for (int kind = 0; client->channels && kind < CHANNEL_KINDS; kind++)
        counts[kind] = client->channels->subscriber.kinds[kind].count;
    out_printf(out,
               "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
               " flags=%s db=%u",
               client->id, stream_peer(stream), stream_local(stream), stream_fd(stream),
               session->name ? session->name : "", (now_ms - client->created_ms) / 1000,
               (now_ms - stream_active_ms(stream)) / 1000, flags, session->keyspace->db);
    out_printf(out,
               " sub=%u psub=%u ssub=%u multi=%d qbuf=%zu qbuf-free=%zu argv-mem=%zu multi-mem=%zu "
               "rbs=0 rbp=0 obl=%zu oll=%u omem=%zu tot-mem=%zu events=r",
               counts[CHANNEL_PLAIN], counts[CHANNEL_PATTERN], counts[CHANNEL_SHARD],
               transaction->is_open ? (int)transaction->count : -1, memory.query, memory.room,
               memory.argv, memory.queue, stream_pending(stream),
               client->pipeline.count - (client_line_request(client) != NULL), client->bytes.kept,
               memory.total);
    out_printf(out, " cmd=%s user=%.*s redir=%" PRId64 " resp=%u lib-name=%s lib-ver=%s",
               client->last_command ? command_full_name(client->last_command) : "NULL",
               (int)user.len, user.data,
               client_tracks(client) ? (int64_t)client->tracking->redirect_id : -1, session->resp,
               session->lib_name ? session->lib_name : "",
               session->lib_version ? session->lib_version : "");
}
