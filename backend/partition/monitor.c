#include "backend/partition/monitor.h"

#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "backend/partition/push_message.h"
#include "backend/partition/session.h"
#include "shared/monitor_line.h"

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

static struct block *line_of(const struct call *call)
{
    struct out out;
    const struct monitor_line line = {.at_us = call->now_us,
                                      .db = call->session->scope.db,
                                      .peer = call->in_script ? "lua"
                                                              : stream_peer(call->session->stream),
                                      .command = call->command,
                                      .argv = call->argv,
                                      .argc = call->argc};
    out_init(&out);
    monitor_line_write(&line, &out);
    return message_of(&out);
}

void monitor_show(struct call *call)
{
    struct list *monitors = &call->partition->clients.monitors;
    struct bytes name = session_namespace(call->session);
    struct block *line = NULL;
    if (call->command->flags & CMD_ADMIN)
        return;
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
