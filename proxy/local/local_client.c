/*
 * local_client.c - CLIENT INFO, LIST and KILL over all connections of the proxy.
 *
 * Clients belong to their workers' threads: a filter is sent to every worker, each writes its matching clients, and the
 * worker of the command joins their output.
 */
#include "proxy/blocked.h"
#include "proxy/local/local.h"
#include "proxy/memory.h"
#include "proxy/monitor.h"
#include "proxy/subscriptions.h"
#include "proxy/tracking.h"
#include "proxy/users.h"
#include "proxy/worker.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdlib.h>

/* Redis' client types; there are no replicas and masters. */
enum client_type { TYPE_ANY, TYPE_NORMAL, TYPE_PUBSUB, TYPE_NOBODY };

/* Selects clients. Sent by value, with the ids after it. */
struct filter {
    uint64_t asker; /* id of the client that sent the command */
    uint64_t id;    /* 0: any */
    enum client_type type;
    bool
        is_tenant; /* the sender is in the namespace `space`, and sees only clients of that namespace */
    bool skip_me;
    bool has_addr;
    bool has_laddr;
    bool has_user;
    char addr[256];
    char laddr[256];
    char user[256];
    char space[256];
    uint32_t id_count; /* LIST ID; 0: any */
    uint64_t ids[];
};

static bool filter_has_id(const struct filter *filter, uint64_t id)
{
    if (filter->id_count == 0)
        return filter->id == 0 || filter->id == id;
    for (uint32_t i = 0; i < filter->id_count; i++)
        if (filter->ids[i] == id)
            return true;
    return false;
}

static bool type_matches(enum client_type type, const struct client *client)
{
    if (type == TYPE_ANY)
        return true;
    return type == (client_subscriptions(client) > 0 ? TYPE_PUBSUB : TYPE_NORMAL);
}

static void filter_begin(struct filter *filter, const struct client *asker)
{
    struct bytes space = asker->session.keyspace->name;
    filter->asker = asker->id;
    filter->is_tenant = space.len > 0;
    (void)snprintf(filter->space, sizeof filter->space, "%.*s", (int)space.len, space.data);
}

static bool filter_matches(const struct filter *filter, const struct client *client)
{
    if (client->is_closed || (filter->skip_me && client->id == filter->asker))
        return false;
    if (filter->is_tenant && !bytes_equal(client->session.keyspace->name, bytes_of(filter->space)))
        return false;
    return type_matches(filter->type, client) && filter_has_id(filter, client->id) &&
           (!filter->has_addr || strcmp(filter->addr, stream_peer(client->stream)) == 0) &&
           (!filter->has_user || bytes_equal(users_name(client), bytes_of(filter->user))) &&
           (!filter->has_laddr || strcmp(filter->laddr, stream_local(client->stream)) == 0);
}

/* Parses the name of a client type. False: an error was replied. */
static bool parse_filter_type(struct bytes name, struct filter *filter, struct reply *reply)
{
    if (bytes_is(name, "normal"))
        filter->type = TYPE_NORMAL;
    else if (bytes_is(name, "pubsub"))
        filter->type = TYPE_PUBSUB;
    else
        filter->type = TYPE_NOBODY;
    if (filter->type != TYPE_NOBODY || bytes_is(name, "slave") || bytes_is(name, "replica") ||
        bytes_is(name, "master"))
        return true;
    reply_errorf(reply, "ERR Unknown client type '%.*s'", (int)name.len, name.data);
    return false;
}

/* ---- listing ---- */

void local_client_flags(const struct client *client, char flags[LOCAL_FLAGS_MAX])
{
    char *at = flags;
    if (monitor_is(client))
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

void local_describe_client(const struct client *client, struct out *out)
{
    const struct client_session *session = &client->session;
    const struct client_transaction *transaction = &session->transaction;
    const struct stream *stream = client->stream;
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    struct bytes user = users_name(client);
    uint32_t counts[CHANNEL_KINDS] = {0};
    char flags[LOCAL_FLAGS_MAX];
    struct client_memory memory;
    client_memory(client, &memory);
    local_client_flags(client, flags);
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
               memory.argv, memory.queue, stream_pending(stream), client->pipeline.count,
               client->bytes.kept, memory.total);
    out_printf(out, " cmd=%s user=%.*s redir=%" PRId64 " resp=%u lib-name=%s lib-ver=%s",
               client->last_command ? command_full_name(client->last_command) : "NULL",
               (int)user.len, user.data,
               client_tracks(client) ? (int64_t)client->tracking->redirect_id : -1, session->resp,
               session->lib_name ? session->lib_name : "",
               session->lib_version ? session->lib_version : "");
}

/* Writes a line of CLIENT LIST. */
static void write_client_info(const struct client *client, struct out *out)
{
    local_describe_client(client, out);
    out_write(out, "\n", 1);
}

/* Calls `each` for the worker's clients that match; it may close them. */
static void for_matching(struct proxy_worker *worker, const struct filter *filter,
                         void (*each)(struct client *client, const struct filter *filter,
                                      void *owner),
                         void *owner)
{
    struct list *next;
    for (struct list *node = worker->clients.all.next; node != &worker->clients.all; node = next) {
        struct client *client = container_of(node, struct client, links.all);
        next = node->next;
        if (filter_matches(filter, client))
            each(client, filter, owner);
    }
}

static void list_client(struct client *client, const struct filter *filter, void *out)
{
    (void)filter;
    write_client_info(client, out);
}

/* gather_visit_fn */
static void list_worker_clients(struct proxy_worker *worker, const void *filter, struct out *out)
{
    for_matching(worker, filter, list_client, out);
}

static void client_list_done(struct client *client, struct request *request, struct reply *reply)
{
    struct out all;
    (void)client;
    out_init(&all);
    for (uint32_t i = 0; i < request_gathered_count(request); i++)
        out_move(&all, request_gathered(request, i));
    reply_verbatim_out(reply, "txt", &all);
}

/* Parses LIST ID id id …; false: an error was replied. */
static bool parse_ids(const struct bytes *argv, uint32_t argc, struct filter *filter,
                      struct reply *reply)
{
    for (uint32_t i = 3; i < argc; i++) {
        int64_t id;
        if (!number_parse_int64(argv[i], &id)) {
            reply_error(reply, "ERR Invalid client ID");
            return false;
        }
        filter->ids[filter->id_count++] = (uint64_t)id;
    }
    return true;
}

void local_client_list(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    size_t size = sizeof(struct filter) + argc * sizeof(uint64_t);
    struct filter *filter = calloc(1, size);
    CHECK(filter);
    filter_begin(filter, client);
    bool fine = true;
    if (argc == 4 && bytes_is(argv[2], "TYPE")) {
        fine = parse_filter_type(argv[3], filter, reply);
    } else if (argc > 3 && bytes_is(argv[2], "ID")) {
        fine = parse_ids(argv, argc, filter, reply);
    } else if (argc != 2) {
        reply_code(reply, ERR_SYNTAX);
        fine = false;
    }
    if (fine)
        request_gather(request, list_worker_clients, filter, size, client_list_done);
    free(filter);
}

void local_client_info(struct client *client, struct request *request, struct reply *reply)
{
    struct out out;
    (void)request;
    out_init(&out);
    write_client_info(client, &out);
    reply_verbatim_out(reply, "txt", &out);
}

/* ---- killing ---- */

/* Result of one worker. */
struct killed {
    int64_t count;
    bool has_asker; /* the client of the command itself matched: it is closed after the reply */
};

static void kill_one(struct client *client, const struct filter *filter, void *owner)
{
    struct killed *killed = owner;
    killed->count++;
    if (client->id == filter->asker)
        killed->has_asker = true;
    else
        client_kill(client, "killed by CLIENT KILL");
}

/* gather_visit_fn */
static void kill_visit(struct proxy_worker *worker, const void *filter, struct out *out)
{
    struct killed killed = {0};
    for_matching(worker, filter, kill_one, &killed);
    out_write(out, &killed, sizeof killed);
}

static struct killed killed_in_all(struct request *request)
{
    struct killed all = {0};
    for (uint32_t i = 0; i < request_gathered_count(request); i++) {
        struct killed one;
        out_copy(request_gathered(request, i), (char *)&one);
        all.count += one.count;
        all.has_asker |= one.has_asker;
    }
    return all;
}

static void kill_done(struct client *client, struct request *request, struct reply *reply)
{
    struct killed all = killed_in_all(request);
    reply_int(reply, all.count);
    if (all.has_asker)
        client_end(client);
}

static void kill_address_done(struct client *client, struct request *request, struct reply *reply)
{
    struct killed all = killed_in_all(request);
    if (all.count)
        reply_ok(reply);
    else
        reply_error(reply, "ERR No such client");
    if (all.has_asker)
        client_end(client);
}

static void filter_set_text(struct bytes value, char to[256], bool *has)
{
    size_t len =
        value.len < 255 ? value.len : 255; /* no client has a longer address or user name */
    memcpy(to, value.data, len);
    to[len] = 0;
    *has = true;
}

/* True for the name of an ACL user, or of a namespace: its own user has the same name. */
static bool is_known_user(const struct client *client, struct bytes name)
{
    const struct proxy_snapshot *snapshot = client->worker->snapshot;
    struct namespace_match match;
    return acl_user_find(snapshot->users, name) ||
           namespaces_find(snapshot->namespaces, name, &match);
}

/* Parses one option and its value. False: an error was replied. */
static bool parse_kill_filter(const struct client *client, struct bytes option, struct bytes value,
                              struct filter *filter, struct reply *reply)
{
    int64_t id;
    if (bytes_is(option, "ID")) {
        if (!number_parse_int64(value, &id) || id <= 0) {
            reply_error(reply, "ERR client-id should be greater than 0");
            return false;
        }
        filter->id = (uint64_t)id;
    } else if (bytes_is(option, "TYPE")) {
        return parse_filter_type(value, filter, reply);
    } else if (bytes_is(option, "ADDR")) {
        filter_set_text(value, filter->addr, &filter->has_addr);
    } else if (bytes_is(option, "LADDR")) {
        filter_set_text(value, filter->laddr, &filter->has_laddr);
    } else if (bytes_is(option, "USER")) {
        if (!is_known_user(client, value)) {
            reply_errorf(reply, "ERR No such user '%.*s'", (int)value.len, value.data);
            return false;
        }
        filter_set_text(value, filter->user, &filter->has_user);
    } else if (bytes_is(option, "SKIPME") && (bytes_is(value, "yes") || bytes_is(value, "no"))) {
        filter->skip_me = bytes_is(value, "yes");
    } else {
        reply_code(reply, ERR_SYNTAX);
        return false;
    }
    return true;
}

void local_client_kill(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    struct filter filter = {0};
    filter_begin(&filter, client);
    if (argc == 3) { /* the old form: one address, which may be the client's own */
        filter_set_text(argv[2], filter.addr, &filter.has_addr);
        request_gather(request, kill_visit, &filter, sizeof filter, kill_address_done);
        return;
    }
    filter.skip_me = true;
    for (uint32_t i = 2; i < argc; i += 2) {
        if (i + 1 == argc) {
            reply_code(reply, ERR_SYNTAX);
            return;
        }
        if (!parse_kill_filter(client, argv[i], argv[i + 1], &filter, reply))
            return;
    }
    request_gather(request, kill_visit, &filter, sizeof filter, kill_done);
}
