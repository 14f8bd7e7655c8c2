#include "backend/session/session_line.h"

#include "backend/context/partition.h"
#include "backend/session/monitor.h"
#include "backend/session/session_reply.h"
#include "backend/session/waits.h"
#include "shared/command/command.h"

#include <inttypes.h>

void session_flags(const struct session *session, char flags[SESSION_FLAGS_MAX])
{
    const struct tracker *tracker = &session->tracker;
    const struct {
        bool is_set;
        char letter;
    } letters[] = {
        {monitor_is(session), 'O'},
        {subscriber_count(&session->subscriber), 'P'},
        {session->transaction.is_open, 'x'},
        {session->pending.waiter || waits_count(session) || session->is_paused, 'b'},
        {tracker->is_on, 't'},
        {tracker->is_broken, 'R'},
        {tracker->is_bcast, 'B'},
        {session->watcher.dirty, 'd'},
        {session->is_closing, 'c'},
        {strchr(stream_peer(session->stream), '/'), 'U'},
        {session->about.is_readonly, 'r'},
        {session->about.no_evict, 'e'},
        {session->about.no_touch, 'T'},
    };
    _Static_assert(sizeof letters / sizeof letters[0] < SESSION_FLAGS_MAX, "all may be set");
    char *at = flags;
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++)
        if (letters[i].is_set)
            *at++ = letters[i].letter;
    if (at == flags)
        *at++ = 'N';
    *at = 0;
}

/* Bytes of the request that runs, and of its arguments. */
static size_t request_bytes(const struct session *session)
{
    return session->is_running ? session->scan.size : 0;
}

static size_t argument_bytes(const struct session *session)
{
    size_t bytes = 0;
    for (uint32_t i = 0; session->is_running && i < session->scan.argc; i++)
        bytes += session->scan.args[i].len;
    return bytes;
}

void session_line(const struct session *session, struct out *out)
{
    const struct stream *stream = session->stream;
    const struct transaction *transaction = &session->transaction;
    const struct follower *kinds = session->subscriber.kinds;
    const struct tracker *tracker = &session->tracker;
    uint64_t now_ms = loop_mono_ms(session->partition->loop);
    char flags[SESSION_FLAGS_MAX];
    session_flags(session, flags);
    out_printf(out,
               "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
               " flags=%s db=%u",
               session->id, stream_peer(stream), stream_local(stream), stream_fd(stream),
               session->about.name ? session->about.name : "",
               (now_ms - session->about.created_ms) / 1000,
               (now_ms - stream_active_ms(stream)) / 1000, flags, session->scope.db);
    size_t held = session->replies.held[0].bytes + session->replies.held[1].bytes;
    size_t query =
        stream_held(stream) > request_bytes(session) ? stream_held(stream) : request_bytes(session);
    size_t room = stream_held_room(stream) > query ? stream_held_room(stream) - query : 0;
    out_printf(out,
               " sub=%u psub=%u ssub=%u multi=%d qbuf=%zu qbuf-free=%zu argv-mem=%zu multi-mem=%zu "
               "rbs=0 "
               "rbp=0 obl=%zu oll=%u"
               " omem=%zu tot-mem=%zu events=r",
               kinds[CHANNEL_PLAIN].count, kinds[CHANNEL_PATTERN].count, kinds[CHANNEL_SHARD].count,
               transaction->is_open ? (int)transaction->count : -1, query, room,
               argument_bytes(session), transaction->bytes, stream_pending(stream),
               session->replies.held_count[0] + session->replies.held_count[1], held,
               sizeof *session + stream_tls_bytes(stream) + query + room + argument_bytes(session) +
                   session_state_bytes(session) + waits_bytes(session) +
                   session_owed_bytes(session));
    struct bytes user = session_user_name(session);
    out_printf(out, " cmd=%s user=%.*s redir=%" PRId64 " resp=%u lib-name=%s lib-ver=%s",
               session->request.command ? command_full_name(session->request.command) : "NULL",
               (int)user.len, user.data, tracker->is_on ? (int64_t)tracker->redirect_id : -1,
               session->resp, session->about.lib_name ? session->about.lib_name : "",
               session->about.lib_version ? session->about.lib_version : "");
}
