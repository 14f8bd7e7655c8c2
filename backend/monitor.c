#include "backend/monitor.h"

#include "backend/call.h"
#include "backend/partition.h"
#include "backend/session.h"

#include <inttypes.h>

void monitor_add(struct session *session)
{
    list_push(&session->partition->monitors, &session->monitor);
}

void monitor_remove(struct session *session)
{
    list_remove(&session->monitor);
}

bool monitor_is(const struct session *session)
{
    return !list_empty(&session->monitor);
}

/* A byte as Redis quotes it. */
static void quote_byte(struct out *out, unsigned char byte)
{
    static const char NAMED[] = "\nn\rr\tt\aa\bb\\\\\"\"";
    const char *named = byte ? strchr(NAMED, byte) : NULL;
    for (; named && (named - NAMED) % 2; named = strchr(named + 1, byte))
        continue;
    if (named)
        out_printf(out, "\\%c", named[1]);
    else if (byte >= ' ' && byte <= '~')
        out_write(out, &byte, 1);
    else
        out_printf(out, "\\x%02x", byte);
}

static void quote(struct out *out, struct bytes text)
{
    out_write(out, " \"", 2);
    for (size_t i = 0; i < text.len;) {
        size_t plain = i;
        while (plain < text.len && text.data[plain] >= ' ' && text.data[plain] <= '~' &&
               text.data[plain] != '"' && text.data[plain] != '\\')
            plain++;
        out_write(out, text.data + i, plain - i);
        if (plain < text.len)
            quote_byte(out, (unsigned char)text.data[plain++]);
        i = plain;
    }
    out_write(out, "\"", 1);
}

/* Is the argument part of a password? */
static bool is_secret(const struct call *call, uint32_t index)
{
    switch ((int)call->command->id) {
    case COMMAND_auth:
    case COMMAND_scree_auth:
        return index > 0;
    case COMMAND_hello:
        return (index > 2 && bytes_is(call->argv[index - 1], "AUTH")) ||
               (index > 3 && bytes_is(call->argv[index - 2], "AUTH"));
    default:
        return false;
    }
}

static struct block *line_of(const struct call *call)
{
    struct out out;
    const char *peer = call->in_script ? "lua" : stream_peer(call->session->stream);
    bool is_unix = strchr(peer, '/') != NULL;
    out_init(&out);
    out_printf(&out, "+%" PRIu64 ".%06" PRIu64 " [%u %s%s]", call->now_us / 1000000,
               call->now_us % 1000000, call->session->db, is_unix ? "unix:" : "", peer);
    for (uint32_t i = 0; i < call->argc; i++)
        quote(&out, is_secret(call, i) ? BYTES("(redacted)") : call->argv[i]);
    out_write(&out, "\r\n", 2);
    return message_of(&out);
}

void monitor_show(struct call *call)
{
    struct list *monitors = &call->partition->monitors;
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
        message_send(&call->partition->messages, session, line, MESSAGE_AFTER);
    }
    block_unref(line);
}
