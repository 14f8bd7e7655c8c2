/*
 * client.c - CLIENT subcommands about other connections of the partition: LIST, KILL, UNBLOCK, PAUSE.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/pause.h"
#include "backend/session/session_line.h"
#include "backend/session/session_reply.h"
#include "shared/client_filter.h"
#include "shared/command/command_reply.h"
#include "shared/number.h"

#include <stdlib.h>

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

static void list_ids(struct call *call, struct out *out)
{
    for (uint32_t i = 3; i < call->argc; i++) {
        int64_t id = 0;
        (void)number_parse_int64(call->argv[i], &id);
        const struct session *session = find_session_by_id(call->partition, (uint64_t)id);
        if (session)
            write_client_line(session, out);
    }
}

static bool is_user(const void *partition, struct bytes name)
{
    return acl_user_find(((const struct partition *)partition)->snapshot->acl, name);
}

static bool session_matches(const struct client_filter *filter, const struct session *session,
                            const struct session *me)
{
    char flags[SESSION_FLAGS_MAX];
    uint64_t now_ms = loop_mono_ms(session->partition->loop);
    session_flags(session, flags);
    const struct client_facts facts = {
        .id = session->id,
        .age_s = (now_ms - session->about.created_ms) / 1000,
        .idle_s = (now_ms - stream_active_ms(session->stream)) / 1000,
        .db = session->scope.db,
        .is_subscriber = subscriber_count(&session->subscriber),
        .addr = stream_peer(session->stream),
        .laddr = stream_local(session->stream),
        .flags = flags,
        .name = session->about.name,
        .lib_name = session->about.lib_name,
        .lib_version = session->about.lib_version,
        .user = session_user_name(session),
    };
    return !(client_filter_skips_me(filter) && session == me) &&
           client_filter_matches(filter, &facts);
}

/* Only ids were given: the lines are in their order. */
static bool is_list_of_ids(const struct call *call)
{
    int64_t id;
    for (uint32_t i = 3; i < call->argc; i++)
        if (!number_parse_int64(call->argv[i], &id))
            return false;
    return call->argc > 3 && bytes_is(call->argv[2], "ID");
}

void cmd_client_list(struct call *call)
{
    struct out out;
    struct session *session = NULL;
    const struct client_filter_rules rules = {.may_repeat = true,
                                              .databases = session_databases(call->session),
                                              .is_user = is_user,
                                              .owner = call->partition};
    struct client_filter *filter =
        client_filter_parse(call->argv, call->argc, 2, &rules, &call->reply);
    call->failed = !filter;
    if (!filter)
        return;
    out_init(&out);
    if (is_list_of_ids(call))
        list_ids(call, &out);
    else
        while ((session = next_session(call->partition, session)))
            if (session_matches(filter, session, call->session))
                write_client_line(session, &out);
    free(filter);
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

/* Returns the number of killed connections. The caller's own connection closes after the reply. */
static int64_t kill_matching(struct call *call, const struct client_filter *filter)
{
    int64_t count = 0;
    struct session *session = next_session(call->partition, NULL);
    while (session) {
        struct session *next = next_session(call->partition, session);
        if (!session->is_closing && session_matches(filter, session, call->session)) {
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

void cmd_client_kill(struct call *call)
{
    const struct client_filter_rules rules = {.skips_me = true,
                                              .databases = session_databases(call->session),
                                              .is_user = is_user,
                                              .owner = call->partition};
    bool is_old = call->argc == 3; /* the old form: one address, also the caller's own */
    struct client_filter *filter =
        is_old ? client_filter_of_addr(call->argv[2])
               : client_filter_parse(call->argv, call->argc, 2, &rules, &call->reply);
    call->failed = !filter;
    if (!filter)
        return;
    int64_t count = kill_matching(call, filter);
    free(filter);
    if (!is_old)
        reply_int(&call->reply, count);
    else if (count)
        reply_ok(&call->reply);
    else
        call_error_text(call, "ERR No such client");
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
