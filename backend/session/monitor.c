#include "backend/session/monitor.h"

#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "shared/command/monitor_line.h"

enum { SHOWN_BYTES_MAX = 1 << 20 }; /* the lines wait in memory until the script ends */

void monitor_add(struct session *session)
{
    list_push(&session->partition->clients.monitors, &session->monitor);
}

void monitor_remove(struct session *session)
{
    list_remove(&session->monitor);
}

bool monitor_is(const struct session *session)
{
    return !list_empty(&session->monitor);
}

/* Did a proxy request MONITOR lines for this script's commands (SCREE SHOW)? */
static bool is_for_proxy(const struct call *call)
{
    return call->in_script && call->session->request.shows_scripts;
}

bool monitor_wants(const struct call *call)
{
    return !list_empty(&call->partition->clients.monitors) || is_for_proxy(call);
}

static void write_line(const struct call *call, struct out *out)
{
    const struct monitor_line line = {.at_us = call->now_us,
                                      .db = call->session->scope.db,
                                      .peer = call->in_script ? "lua"
                                                              : stream_peer(call->session->stream),
                                      .command = call->command,
                                      .argv = call->argv,
                                      .argc = call->argc};
    monitor_line_write(&line, out);
}

static struct block *line_of(const struct call *call)
{
    struct out out;
    out_init(&out);
    write_line(call, &out);
    return message_of(&out);
}

/* Sends the line to the proxy, up to SHOWN_BYTES_MAX for a request; the last line then says that more commands have
 * run. */
static void show_to_proxy(const struct call *call)
{
    struct session_request *request = &call->session->request;
    struct out line;
    struct out frame;
    if (request->shown_bytes > SHOWN_BYTES_MAX)
        return;
    out_init(&line);
    out_init(&frame);
    write_line(call, &line);
    request->shown_bytes += (uint32_t)line.bytes;
    if (request->shown_bytes > SHOWN_BYTES_MAX) {
        out_clear(&line);
        out_printf(&line, "+%llu.%06llu [%u lua] (further commands are not shown)\r\n",
                   (unsigned long long)(call->now_us / 1000000),
                   (unsigned long long)(call->now_us % 1000000), call->session->scope.db);
    }
    out_printf(&frame, ">2\r\n$7\r\nmonitor\r\n$%zu\r\n", line.bytes);
    out_move(&frame, &line);
    out_write(&frame, "\r\n", 2);
    struct block *message = message_of(&frame);
    push_message_send(call->partition->watchers.messages, call->session, message,
                      MESSAGE_BEFORE | MESSAGE_KEPT);
    block_unref(message);
}

void monitor_show(struct call *call)
{
    struct list *monitors = &call->partition->clients.monitors;
    struct bytes name = session_namespace(call->session);
    struct block *line = NULL;
    if (call->command->flags & CMD_ADMIN)
        return;
    if (is_for_proxy(call))
        show_to_proxy(call);
    for (struct list *link = monitors->next; link != monitors; link = link->next) {
        struct session *session = container_of(link, struct session, monitor);
        if (!bytes_equal(session_namespace(session), name))
            continue;
        if (!line)
            line = line_of(call);
        push_message_send(call->partition->watchers.messages, session, line,
                          MESSAGE_AFTER | MESSAGE_KEPT);
    }
    block_unref(line);
}
