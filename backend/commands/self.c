/*
 * self.c - SCREE SELF: what a proxy, or another program, must know of a backend's partition before it uses it.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/handlers.h"
#include "backend/peer/peer_set.h"
#include "backend/session/session.h"
#include "backend/slots/peering.h"
#include "backend/slots/slot_figures.h"
#include "backend/slots/slot_owners.h"
#include "shared/version.h"
#include "shared/zone.h"

#include <inttypes.h>
#include <stdio.h>

/* A copy that does not lead has no place in the map yet: it names the shard of its data. */
static const char *shown_shard(const struct partition *partition)
{
    return partition->copies.is_closed ? slot_owners_name(partition->shards.owners)
                                       : peer_set_shard(partition->shards.peers);
}

/* SCREE SELF LEADS: LEADER_FRAME is sent on this connection when this copy begins or ends to lead (shared/leading.h). SCREE SELF FRESH: as
 * READONLY, and no copy answers with old data, whatever its replica-reads is. */
static bool take_wish(struct call *call)
{
    struct session *session = call->session;
    bool hears = call->argc == 3 && bytes_is(call->argv[2], "leads");
    bool is_fresh = call->argc == 3 && bytes_is(call->argv[2], "fresh");
    if (call->argc > 2 && !hears && !is_fresh)
        call_error(call, ERR_SYNTAX);
    session->login.hears_leader |= hears;
    session->about.is_readonly |= is_fresh;
    session->about.wants_fresh |= is_fresh;
    return call->argc == 2 || hears || is_fresh;
}

/* SCREE SELF [LEADS | FRESH]: names and values. The name of the shard is empty if no shard map has this partition's address. The last five say which
 * part the copy has in its group (shared/leading.h), and in which zone it is. */
void cmd_scree_self(struct call *call)
{
    const struct partition *partition = call->partition;
    char owned[12];
    char orphaned[12];
    char protocol[12];
    char oldest[12];
    char client[24];
    char generation[12];
    char term[24];
    char address[PEER_ADDRESS_MAX + 1];
    char zone[ZONE_NAME_MAX + 1];
    const struct slot_figures figures = slot_figures_of(partition);
    bool is_leader = !partition->copies.is_closed && !partition->copies.is_leaving &&
                     !peer_set_is_elsewhere(partition->shards.peers);
    const char *const fields[] = {
        "shard",
        shown_shard(partition),
        "run_id",
        partition->process->run_id,
        "version",
        SCREE_VERSION,
        "slots",
        owned,
        "orphaned",
        orphaned,
        "protocol",
        protocol,
        "protocol_oldest",
        oldest,
        "client",
        client,
        "role",
        is_leader ? "leader" : "replica",
        "generation",
        generation,
        "term",
        term,
        "leader",
        is_leader                     ? address
        : partition->copies.is_closed ? partition->copies.leader
                                      : "",
        "zone",
        zone,
    };
    enum { COUNT = sizeof fields / sizeof fields[0], OF_COPIES = 10 };
    const int count = partition->copies.replica ? COUNT : COUNT - OF_COPIES;
    if (!take_wish(call))
        return;
    (void)snprintf(owned, sizeof owned, "%u", figures.owned);
    (void)snprintf(orphaned, sizeof orphaned, "%u", figures.orphaned);
    (void)snprintf(protocol, sizeof protocol, "%d", PROXY_PROTOCOL);
    (void)snprintf(oldest, sizeof oldest, "%d", PROXY_PROTOCOL_OLDEST);
    (void)snprintf(client, sizeof client, "%" PRIu64, call->session->id);
    (void)snprintf(generation, sizeof generation, "%" PRIu32, partition->copies.generation);
    (void)snprintf(term, sizeof term, "%" PRIu64, partition->copies.term);
    peering_address(partition, address, sizeof address);
    (void)zone_expand(bytes_of(partition->snapshot->config.zone), zone);
    reply_array(&call->reply, count);
    for (int i = 0; i < count; i++)
        reply_bulk_text(&call->reply, fields[i]);
}
