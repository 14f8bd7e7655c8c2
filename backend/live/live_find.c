#include "backend/live/live_find.h"

#include "backend/copy/value_reader.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIND_REPLY_MS = 5000, FOUND_SERVERS_MAX = 1000 };

/* A search. */
struct finding {
    struct wire wire; /* to one server at a time */
    const struct copy_options *options;
    struct loop *loop;
    const bool *is_stopped;
    char *error; /* WIRE_ERROR_MAX */
};

static bool not_found(const struct finding *finding, const char *address, const char *reason)
{
    (void)snprintf(finding->error, WIRE_ERROR_MAX, "%.200s%s%.480s", address, *address ? ": " : "",
                   reason);
    return false;
}

/* Connects to a Sentinel, or to a server of the source. The wire is finished by the caller in any case. */
static bool ask_server(struct finding *finding, const char *address, bool is_sentinel)
{
    const struct copy_target *from = &finding->options->from;
    struct copy_target server = {.is_secure = from->is_secure, .needs_no_select = true};
    server.password = is_sentinel ? from->seeds.password : from->password;
    (void)snprintf(server.user, sizeof server.user, "%s",
                   is_sentinel ? from->seeds.user : from->user);
    (void)snprintf(server.address, sizeof server.address, "%s", address);
    wire_init(&finding->wire, finding->loop, finding->options, &server, finding->is_stopped);
    finding->wire.reply_ms = FIND_REPLY_MS;
    return wire_connect(&finding->wire) || not_found(finding, "", finding->wire.error);
}

static bool call_server(struct finding *finding, const struct bytes *words, uint32_t count,
                        struct bytes *frame)
{
    return wire_call(&finding->wire, words, count, frame) ||
           not_found(finding, "", finding->wire.error);
}

/* host:port; an IPv6 address is put in brackets. */
static bool join_address(struct bytes host, struct bytes port, char address[COPY_ADDRESS_MAX])
{
    bool is_v6 = memchr(host.data, ':', host.len) != NULL;
    int len = snprintf(address, COPY_ADDRESS_MAX, "%s%.*s%s:%.*s", is_v6 ? "[" : "", (int)host.len,
                       host.data, is_v6 ? "]" : "", (int)port.len, port.data);
    return host.len && port.len && len < COPY_ADDRESS_MAX;
}

/* ---- the master ---- */

static bool ask_for_master(struct finding *finding, const char *sentinel, char *address)
{
    const char *name = finding->options->from.seeds.name;
    struct bytes words[] = {BYTES("SENTINEL"), BYTES("GET-MASTER-ADDR-BY-NAME"), bytes_of(name)};
    struct bytes frame;
    size_t at = 0;
    if (!call_server(finding, words, COUNT_OF(words), &frame))
        return false;
    if (values_count(frame, &at) != 2)
        return not_found(finding, sentinel, "this Sentinel has no master of that name");
    struct bytes host = value_text(frame, &at);
    return join_address(host, value_text(frame, &at), address) ||
           not_found(finding, sentinel, "an address that is not known");
}

static bool ask_master(struct finding *finding, const char *address, uint64_t *sent)
{
    struct bytes frame;
    size_t at = 0;
    if (!call_server(finding, (struct bytes[]){BYTES("ROLE")}, 1, &frame))
        return false;
    if (values_count(frame, &at) == 0 || !bytes_is(value_text(frame, &at), "master"))
        return not_found(finding, address, "others call it the master, but it is a replica");
    *sent = (uint64_t)value_number(frame, &at);
    return true;
}

static bool has_master_role(struct finding *finding, const char *address)
{
    uint64_t sent;
    return ask_master(finding, address, &sent);
}

static bool find_by_sentinel(struct finding *finding, const char *sentinel, char *address)
{
    bool is_found =
        ask_server(finding, sentinel, true) && ask_for_master(finding, sentinel, address);
    wire_fini(&finding->wire);
    if (!is_found)
        return false;
    is_found = ask_server(finding, address, false) && has_master_role(finding, address);
    wire_fini(&finding->wire);
    return is_found;
}

/* ---- a cluster ---- */

static bool ask_for_nodes(struct finding *finding, const char *address, struct cluster_nodes *nodes)
{
    struct bytes words[] = {BYTES("CLUSTER"), BYTES("NODES")};
    bool is_secure = finding->options->from.is_secure;
    struct bytes frame = BYTES("");
    size_t at = 0;
    *nodes = (struct cluster_nodes){.count = 0};
    bool is_good = ask_server(finding, address, false) &&
                   call_server(finding, words, COUNT_OF(words), &frame) &&
                   (cluster_nodes_read(nodes, value_text(frame, &at), address, is_secure) ||
                    not_found(finding, address, "its reply to CLUSTER NODES is not known"));
    wire_fini(&finding->wire);
    return is_good;
}

/* The master that has the slots, as this node says, and as the master itself says. */
static bool find_by_node(struct finding *finding, const char *asked, char *address)
{
    struct cluster_nodes nodes;
    bool is_found = ask_for_nodes(finding, asked, &nodes);
    if (is_found) {
        const struct cluster_node *owner =
            cluster_nodes_owner(&nodes, finding->options->from.seeds.slots);
        is_found = (owner && *owner->address) ||
                   not_found(finding, asked, "it has no address of a master with these slots");
        if (is_found)
            (void)snprintf(address, COPY_ADDRESS_MAX, "%s", owner->address);
    }
    cluster_nodes_free(&nodes);
    if (!is_found)
        return false;
    is_found = ask_server(finding, address, false) && has_master_role(finding, address);
    wire_fini(&finding->wire);
    return is_found;
}

/* A node that most masters do not reach says so after the cluster's node timeout. */
static bool has_good_cluster(struct finding *finding, const char *address)
{
    static const char good[] = "cluster_state:ok";
    struct bytes frame;
    size_t at = 0;
    if (!call_server(finding, (struct bytes[]){BYTES("CLUSTER"), BYTES("INFO")}, 2, &frame))
        return false;
    struct bytes text = value_text(frame, &at);
    return memmem(text.data, text.len, good, strlen(good)) ||
           not_found(finding, address, "its cluster is not whole");
}

bool find_sent(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
               const char *address, uint64_t *sent, char error[WIRE_ERROR_MAX])
{
    struct finding finding = {
        .options = options, .loop = loop, .is_stopped = is_stopped, .error = error};
    bool is_found = ask_server(&finding, address, false) && has_good_cluster(&finding, address) &&
                    ask_master(&finding, address, sent);
    wire_fini(&finding.wire);
    return is_found;
}

bool find_nodes_at(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                   const char *address, struct cluster_nodes *nodes, char error[WIRE_ERROR_MAX])
{
    struct finding finding = {
        .options = options, .loop = loop, .is_stopped = is_stopped, .error = error};
    return ask_for_nodes(&finding, address, nodes);
}

bool find_nodes(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                struct cluster_nodes *nodes, char error[WIRE_ERROR_MAX])
{
    const struct copy_seeds *seeds = &options->from.seeds;
    *nodes = (struct cluster_nodes){.count = 0};
    for (unsigned i = 0; i < seeds->count && !*is_stopped; i++) {
        if (find_nodes_at(loop, options, is_stopped, seeds->all[i], nodes, error))
            return true;
        cluster_nodes_free(nodes);
    }
    return false;
}

/* ---- the source ---- */

bool find_source(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                 char address[COPY_ADDRESS_MAX], char error[WIRE_ERROR_MAX])
{
    struct finding finding = {
        .options = options, .loop = loop, .is_stopped = is_stopped, .error = error};
    const struct copy_seeds *seeds = &options->from.seeds;
    for (unsigned i = 0; i < seeds->count && !*is_stopped; i++)
        if (seeds->is_cluster ? find_by_node(&finding, seeds->all[i], address)
                              : find_by_sentinel(&finding, seeds->all[i], address))
            return true;
    return false;
}

/* ---- its replicas ---- */

static void add_found(struct found_servers *servers, const char *address)
{
    for (size_t i = 0; i < servers->count; i++)
        if (strcmp(servers->all[i], address) == 0)
            return;
    servers->all = realloc(servers->all, (servers->count + 1) * sizeof *servers->all);
    CHECK(servers->all);
    (void)snprintf(servers->all[servers->count++], COPY_ADDRESS_MAX, "%s", address);
}

/* A list of names and values. Replicas without a port, as this tool, cannot become master. */
static bool read_replica(struct bytes frame, size_t *at, char *address)
{
    struct bytes host = BYTES("");
    struct bytes port = BYTES("");
    for (uint64_t left = values_count(frame, at) / 2; left > 0; left--) {
        struct bytes name = value_text(frame, at);
        struct bytes value = value_text(frame, at);
        if (bytes_is(name, "ip"))
            host = value;
        else if (bytes_is(name, "port"))
            port = value;
    }
    return !bytes_is(port, "0") && join_address(host, port, address);
}

static bool ask_for_replicas(struct finding *finding, struct found_servers *servers)
{
    struct bytes words[] = {BYTES("SENTINEL"), BYTES("SLAVES"),
                            bytes_of(finding->options->from.seeds.name)};
    char address[COPY_ADDRESS_MAX];
    struct bytes frame;
    size_t at = 0;
    if (!call_server(finding, words, COUNT_OF(words), &frame))
        return false;
    uint64_t count = values_count(frame, &at);
    if (count > FOUND_SERVERS_MAX)
        return not_found(finding, "", "the master has too many replicas");
    for (; count > 0; count--)
        if (read_replica(frame, &at, address))
            add_found(servers, address);
    return true;
}

/* Does this Sentinel have contact with most of the others? Else it may not have heard of a failover. */
static bool has_quorum(struct finding *finding)
{
    struct bytes words[] = {BYTES("SENTINEL"), BYTES("CKQUORUM"),
                            bytes_of(finding->options->from.seeds.name)};
    struct bytes frame;
    return call_server(finding, words, COUNT_OF(words), &frame);
}

static bool find_servers_by(struct finding *finding, const char *sentinel,
                            struct found_servers *servers)
{
    char address[COPY_ADDRESS_MAX];
    bool is_found = ask_server(finding, sentinel, true) && has_quorum(finding) &&
                    ask_for_master(finding, sentinel, address);
    servers->count = 0;
    if (is_found) {
        add_found(servers, address);
        is_found = ask_for_replicas(finding, servers);
    }
    wire_fini(&finding->wire);
    return is_found;
}

bool find_servers(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                  struct found_servers *servers, char error[WIRE_ERROR_MAX])
{
    struct finding finding = {
        .options = options, .loop = loop, .is_stopped = is_stopped, .error = error};
    const struct copy_seeds *seeds = &options->from.seeds;
    for (unsigned i = 0; i < seeds->count && !*is_stopped; i++)
        if (find_servers_by(&finding, seeds->all[i], servers))
            return true;
    return false;
}
