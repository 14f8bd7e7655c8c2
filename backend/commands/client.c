/*
 * client.c - CLIENT subcommands about other connections of the partition: LIST, KILL, UNBLOCK, PAUSE.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/partition/blocking.h"
#include "backend/partition/handlers.h"
#include "backend/partition/pause.h"
#include "backend/partition/session_line.h"
#include "backend/partition/session_reply.h"
#include "shared/command_reply.h"
#include "shared/number.h"

/* ---- LIST ---- */

/* Writes one line of CLIENT LIST. */
static void write_client_line(const struct session *session, struct out *out)
{
    session_line(session, out);
    out_write(out, "\n", 1);
}

static struct session *next_session(struct partition *partition, struct session *session)
{
    struct list *link = session ? session->link.next : partition->clients.all.next;
    return link == &partition->clients.all ? NULL : container_of(link, struct session, link);
}

static struct session *find_session_by_id(struct partition *partition, uint64_t id)
{
    struct session *session = NULL;
    while ((session = next_session(partition, session)))
        if (session->id == id)
            return session;
    return NULL;
}

/* Redis' client types. TYPE_NOBODY stands for replicas and masters, which a partition does not have. */
enum client_type { TYPE_ANY, TYPE_NORMAL, TYPE_PUBSUB, TYPE_NOBODY };

static bool session_type_matches(enum client_type type, const struct session *session)
{
    if (type == TYPE_ANY)
        return true;
    return type == (subscriber_count(&session->subscriber) ? TYPE_PUBSUB : TYPE_NORMAL);
}

/* Parses the name of a client type; false: an error was replied. */
static bool parse_client_type(struct call *call, struct bytes name, enum client_type *type)
{
    if (bytes_is(name, "normal"))
        *type = TYPE_NORMAL;
    else if (bytes_is(name, "pubsub"))
        *type = TYPE_PUBSUB;
    else
        *type = TYPE_NOBODY;
    if (*type != TYPE_NOBODY || bytes_is(name, "slave") || bytes_is(name, "replica") ||
        bytes_is(name, "master"))
        return true;
    call_errorf(call, "ERR Unknown client type '%.*s'", (int)name.len, name.data);
    return false;
}

static bool list_ids(struct call *call, struct out *out)
{
    for (uint32_t i = 3; i < call->argc; i++) {
        int64_t id;
        if (!number_parse_int64(call->argv[i], &id)) {
            call_error_text(call, "ERR Invalid client ID");
            return false;
        }
        const struct session *session = find_session_by_id(call->partition, (uint64_t)id);
        if (session)
            write_client_line(session, out);
    }
    return true;
}

void cmd_client_list(struct call *call)
{
    struct out out;
    struct session *session = NULL;
    enum client_type type = call->argc == 2 ? TYPE_ANY : TYPE_NOBODY;
    out_init(&out);
    if (call->argc == 4 && bytes_is(call->argv[2], "TYPE")) {
        if (!parse_client_type(call, call->argv[3], &type))
            return;
    } else if (call->argc > 3 && bytes_is(call->argv[2], "ID")) {
        if (!list_ids(call, &out)) {
            out_clear(&out);
            return;
        }
    } else if (type == TYPE_NOBODY) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    while ((session = next_session(call->partition, session)))
        if (session_type_matches(type, session))
            write_client_line(session, &out);
    reply_verbatim_out(&call->reply, "txt", &out);
}

void cmd_client_info(struct call *call)
{
    struct out out;
    out_init(&out);
    write_client_line(call->session, &out);
    reply_verbatim_out(&call->reply, "txt", &out);
}

void cmd_client_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

/* ---- KILL ---- */

/* Filter of CLIENT KILL; a NULL text or 0 matches every connection. */
struct kill {
    uint64_t id;
    const struct bytes *addr;
    const struct bytes *laddr;
    const struct bytes *user;
    enum client_type type;
    bool skip_me;
};

static bool kill_matches(const struct kill *kill, const struct session *session,
                         const struct session *me)
{
    if (session->is_closing || !session_type_matches(kill->type, session) ||
        (kill->skip_me && session == me))
        return false;
    return (!kill->id || kill->id == session->id) &&
           (!kill->user || bytes_equal(*kill->user, session_user_name(session))) &&
           (!kill->addr || bytes_equal(*kill->addr, bytes_of(stream_peer(session->stream)))) &&
           (!kill->laddr || bytes_equal(*kill->laddr, bytes_of(stream_local(session->stream))));
}

/* Returns the number of killed connections. The caller's own connection closes after the reply. */
static int64_t kill_matching(struct call *call, const struct kill *kill)
{
    int64_t count = 0;
    struct session *session = next_session(call->partition, NULL);
    while (session) {
        struct session *next = next_session(call->partition, session);
        if (kill_matches(kill, session, call->session)) {
            count++;
            if (session == call->session)
                session_end(session);
            else
                session_abort(session);
        }
        session = next;
    }
    return count;
}

/* Parses an option and its value. */
static bool parse_kill_option(struct call *call, const struct bytes *option, struct kill *kill)
{
    const struct bytes *value = option + 1;
    if (bytes_is(*option, "ID")) {
        int64_t id;
        if (!number_parse_int64(*value, &id) || id <= 0) {
            call_error_text(call, "ERR client-id should be greater than 0");
            return false;
        }
        kill->id = (uint64_t)id;
    } else if (bytes_is(*option, "TYPE")) {
        if (!parse_client_type(call, *value, &kill->type))
            return false;
    } else if (bytes_is(*option, "ADDR")) {
        kill->addr = value;
    } else if (bytes_is(*option, "LADDR")) {
        kill->laddr = value;
    } else if (bytes_is(*option, "USER")) {
        kill->user = value;
        if (!acl_user_find(call->partition->snapshot->acl, *value)) {
            call_errorf(call, "ERR No such user '%.*s'", (int)value->len, value->data);
            return false;
        }
    } else if (bytes_is(*option, "SKIPME") && (bytes_is(*value, "yes") || bytes_is(*value, "no"))) {
        kill->skip_me = bytes_is(*value, "yes");
    } else {
        call_error(call, ERR_SYNTAX);
        return false;
    }
    return true;
}

void cmd_client_kill(struct call *call)
{
    if (call->argc == 3) { /* the old form: one address, also the caller's own */
        const struct kill kill = {.addr = &call->argv[2]};
        if (kill_matching(call, &kill))
            reply_ok(&call->reply);
        else
            call_error_text(call, "ERR No such client");
        return;
    }
    struct kill kill = {.skip_me = true};
    for (uint32_t i = 2; i < call->argc; i += 2) {
        if (i + 1 == call->argc) {
            call_error(call, ERR_SYNTAX);
            return;
        }
        if (!parse_kill_option(call, &call->argv[i], &kill))
            return;
    }
    reply_int(&call->reply, kill_matching(call, &kill));
}

/* ---- UNBLOCK ---- */

void cmd_client_unblock(struct call *call)
{
    int64_t id;
    bool with_error = call->argc == 4 && bytes_is(call->argv[3], "ERROR");
    if (call->argc > 4) {
        call_errorf(
            call,
            "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try CLIENT HELP.",
            (int)(call->argv[1].len < 128 ? call->argv[1].len : 128), call->argv[1].data);
        return;
    }
    if (call->argc == 4 && !with_error && !bytes_is(call->argv[3], "TIMEOUT")) {
        call_error_text(call, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
        return;
    }
    if (!call_int64(call, 2, &id))
        return;
    const struct session *session = find_session_by_id(call->partition, (uint64_t)id);
    reply_int(&call->reply, session && session->pending.waiter);
    if (session && session->pending.waiter)
        blocking_unblock(session->pending.waiter, with_error);
}

/* ---- PAUSE ---- */

void cmd_client_pause(struct call *call)
{
    struct partition *partition = call->partition;
    int64_t timeout_ms;
    bool writes_only = call->argc == 4 && bytes_is(call->argv[3], "WRITE");
    if (call->argc == 4 && !writes_only && !bytes_is(call->argv[3], "ALL")) {
        call_error_text(call, "ERR CLIENT PAUSE mode must be WRITE or ALL");
    } else if (!number_parse_int64(call->argv[2], &timeout_ms)) {
        call_error_text(call, "ERR timeout is not an integer or out of range");
    } else if (timeout_ms < 0) {
        call_error_text(call, "ERR timeout is negative");
    } else if (timeout_ms > INT64_MAX - (int64_t)call->now_ms) {
        call_error_text(call, "ERR timeout is out of range");
    } else {
        uint64_t until_ms = call->now_ms + (uint64_t)timeout_ms;
        if (partition->pause
                .until_ms) { /* a second pause does not shorten or weaken the first one */
            writes_only = writes_only && partition->pause.writes_only;
            until_ms = until_ms > partition->pause.until_ms ? until_ms : partition->pause.until_ms;
        }
        partition->pause.is_new = call->in_exec;
        partition_pause(partition, until_ms, writes_only);
        reply_ok(&call->reply);
    }
}

void cmd_client_unpause(struct call *call)
{
    partition_pause(call->partition, 0, false);
    reply_ok(&call->reply);
}
