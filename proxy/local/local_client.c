/*
 * local_client.c - CLIENT INFO, LIST and KILL over all connections of the proxy.
 *
 * Clients belong to their workers' threads: a filter is sent to every worker, each writes its matching clients, and the
 * worker of the command joins their output.
 */
#include "proxy/client/blocked.h"
#include "proxy/client/client_line.h"
#include "proxy/client/memory.h"
#include "proxy/client/monitor.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/client/users.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/client_filter.h"

#include <inttypes.h>
#include <stdlib.h>

/* Selects clients. Sent by value, with the client_filter after it. */
struct filter {
    uint64_t asker; /* id of the client that sent the command */
    /* the sender is in the namespace `space`, and sees only clients of that namespace */
    bool is_tenant;
    char space[256];
    uint64_t wanted[]; /* a struct client_filter */
};

static const struct client_filter *filter_wanted(const struct filter *filter)
{
    return (const struct client_filter *)filter->wanted;
}

static size_t filter_bytes(const struct filter *filter)
{
    return sizeof *filter + client_filter_size(filter_wanted(filter));
}

/* Takes `wanted`, which is freed. The result is freed with free(). */
static struct filter *filter_of(const struct client *asker, struct client_filter *wanted)
{
    struct bytes space = asker->session.keyspace->name;
    size_t size = client_filter_size(wanted);
    struct filter *filter = calloc(1, sizeof *filter + size);
    CHECK(filter);
    filter->asker = asker->id;
    filter->is_tenant = space.len > 0;
    (void)snprintf(filter->space, sizeof filter->space, "%.*s", (int)space.len, space.data);
    memcpy(filter->wanted, wanted, size);
    free(wanted);
    return filter;
}

static bool filter_matches(const struct filter *filter, const struct client *client)
{
    const struct client_session *session = &client->session;
    const struct client_filter *wanted = filter_wanted(filter);
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    char flags[CLIENT_FLAGS_MAX];
    if (client->is_closed || (client_filter_skips_me(wanted) && client->id == filter->asker))
        return false;
    if (filter->is_tenant && !bytes_equal(session->keyspace->name, bytes_of(filter->space)))
        return false;
    client_flags(client, flags);
    const struct client_facts facts = {
        .id = client->id,
        .age_s = (now_ms - client->created_ms) / 1000,
        .idle_s = (now_ms - stream_active_ms(client->stream)) / 1000,
        .db = session->keyspace->db,
        .is_subscriber = client_subscriptions(client) > 0,
        .addr = stream_peer(client->stream),
        .laddr = stream_local(client->stream),
        .flags = flags,
        .name = session->name,
        .lib_name = session->lib_name,
        .lib_version = session->lib_version,
        .user = users_name(client),
    };
    return client_filter_matches(wanted, &facts);
}

/* ---- listing ---- */

enum {
    PORTION = 1024, /* clients that do not match: about a millisecond … */
    LINE_COST = 16, /* … a line takes as long as so many of them */
};

/* A worker's part of a list, between portions. */
struct listing {
    bool is_begun;
    struct client_walk walk;
};

/* Writes a line of CLIENT LIST. */
static void write_client_info(const struct client *client, struct out *out)
{
    client_write_line(client, out);
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

/* gather_portion_fn */
static bool list_some_clients(struct proxy_worker *worker, const void *filter, void *state,
                              struct out *out)
{
    struct listing *listing = state;
    if (!listing->is_begun)
        client_walk_begin(worker, &listing->walk);
    listing->is_begun = true;
    for (uint32_t spent = 0; spent < PORTION; spent++) {
        const struct client *client = client_walk_next(worker, &listing->walk);
        if (!client)
            return false;
        if (!filter_matches(filter, client))
            continue;
        write_client_info(client, out);
        spent += LINE_COST;
    }
    return true;
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

/* True for the name of an ACL user, or of a namespace: its own user has the same name. */
static bool is_known_user(const void *owner, struct bytes name)
{
    const struct proxy_snapshot *snapshot = owner;
    struct namespace_match match;
    return acl_user_find(snapshot->users, name) ||
           namespaces_find(snapshot->namespaces, name, &match);
}

/* Parses the options; NULL: an error was replied. */
static struct filter *parse_filter(const struct client *client, struct request *request,
                                   bool is_list, struct reply *reply)
{
    const struct client_filter_rules rules = {.skips_me = !is_list,
                                              .may_repeat = is_list,
                                              .databases = DATABASES,
                                              .is_user = is_known_user,
                                              .owner = client->worker->snapshot};
    struct client_filter *wanted =
        client_filter_parse(request_argv(request), request_argc(request), 2, &rules, reply);
    return wanted ? filter_of(client, wanted) : NULL;
}

void local_client_list(struct client *client, struct request *request, struct reply *reply)
{
    struct filter *filter = parse_filter(client, request, true, reply);
    request->head.shows_clients = true;
    if (filter)
        request_gather_portions(request, list_some_clients, sizeof(struct listing), filter,
                                filter_bytes(filter), client_list_done);
    free(filter);
}

void local_client_info(struct client *client, struct request *request, struct reply *reply)
{
    struct out out;
    request->head.shows_clients = true;
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

void local_client_kill(struct client *client, struct request *request, struct reply *reply)
{
    /* the old form: one address, which may be the client's own */
    bool is_old = request_argc(request) == 3;
    struct filter *filter = is_old
                                ? filter_of(client, client_filter_of_addr(request_argv(request)[2]))
                                : parse_filter(client, request, false, reply);
    if (filter)
        request_gather(request, kill_visit, filter, filter_bytes(filter),
                       is_old ? kill_address_done : kill_done);
    free(filter);
}
