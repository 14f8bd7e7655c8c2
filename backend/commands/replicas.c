/*
 * replicas.c - the copies of the partition's shard: SCREE REPLICAS, SCREE LEADER, ROLE and the replication section of INFO.
 *
 * To clients, the copy that serves is a master and the others are its slaves, as redis-server shows them: offsets are indexes of the log.
 */
#include "backend/commands/info.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/handlers.h"
#include "backend/partition/compare.h"
#include "backend/partition/copy_pause.h"
#include "backend/partition/founding.h"
#include "backend/partition/hand_over.h"
#include "backend/replica/replica_figures.h"
#include "backend/session/session.h"
#include "backend/storage/storage.h"
#include "shared/clock.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER = -1, HEARD_MS_MAX = 10000 };

/* ---- what is shown ----------------------------------------------------------------------------- */

/* False: the shard has one copy. */
static bool has_copies(const struct call *call, struct replica_figures *figures)
{
    struct replica *replica = call->partition->copies.replica;
    if (replica)
        replica_figures(replica, figures);
    return replica != NULL;
}

static bool is_serving(const struct call *call)
{
    return founding_role(call->partition)->phase == REPLICA_PHASE_SERVING;
}

static const struct replica_figure *member_of_id(const struct replica_figures *figures, uint64_t id)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (id && figures->of[i].id == id)
            return &figures->of[i];
    return NULL;
}

static bool is_this_copy(const struct replica_figures *figures, const char *address)
{
    for (unsigned i = 0; i < figures->place_count; i++)
        if (strcasecmp(figures->places[i].address, address) == 0)
            return figures->places[i].is_own;
    return false;
}

/* Milliseconds since the copy was heard; NEVER. */
static int64_t silent_ms(const struct replica_figure *figure)
{
    uint64_t now_us = clock_boot_us();
    if (!figure || !figure->heard_us)
        return NEVER;
    return now_us > figure->heard_us ? (int64_t)((now_us - figure->heard_us) / 1000) : 0;
}

static int64_t seconds(int64_t ms)
{
    return ms < 0 ? ms : ms / 1000;
}

struct host_port {
    char host[REPLICA_ADDRESS_MAX + 1];
    int port;
};

/* "[::1]:7401" has the host ::1. */
static struct host_port host_port_of(const char *address)
{
    struct host_port to = {.port = 0};
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : strlen(address);
    bool is_v6 = len > 2 && *address == '[';
    (void)snprintf(to.host, sizeof to.host, "%.*s", (int)(is_v6 ? len - 2 : len), address + is_v6);
    to.port = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
    return to;
}

/* Of the leader; while it is not known, of the copy that the map has first. */
static struct host_port master_of(const struct call *call, const struct replica_figures *figures)
{
    const char *address = founding_role(call->partition)->leader_address;
    for (unsigned i = 0; i < figures->place_count && !*address; i++)
        if (!figures->places[i].is_own)
            address = figures->places[i].address;
    return host_port_of(address);
}

/* Is the leader connected, and was it heard a moment ago? */
static bool hears_master(const struct replica_figures *figures)
{
    const struct replica_figure *leader = member_of_id(figures, figures->leader);
    int64_t ms = silent_ms(leader);
    return leader && leader->is_up && ms >= 0 && ms < HEARD_MS_MAX;
}

static uint64_t offset_of(const struct call *call)
{
    return storage_committed(call->partition->storage);
}

/* ---- INFO replication -------------------------------------------------------------------------- */

static unsigned count_slaves(const struct replica_figures *figures)
{
    unsigned count = 0;
    for (unsigned i = 0; i < figures->count; i++)
        count += figures->of[i].is_up && !is_this_copy(figures, figures->of[i].address);
    return count;
}

static void print_slaves(const struct replica_figures *figures, struct out *out)
{
    unsigned number = 0;
    for (unsigned i = 0; i < figures->count; i++) {
        const struct replica_figure *figure = &figures->of[i];
        if (!figure->is_up || is_this_copy(figures, figure->address))
            continue;
        const struct host_port at = host_port_of(figure->address);
        out_printf(out, "slave%u:ip=%s,port=%d,state=%s,offset=%" PRIu64 ",lag=%" PRId64 "\r\n",
                   number++, at.host, at.port, figure->match ? "online" : "wait_bgsave",
                   figure->applied, seconds(silent_ms(figure)));
    }
}

static void print_slave(const struct call *call, const struct replica_figures *figures,
                        struct out *out)
{
    const struct host_port master = master_of(call, figures);
    int64_t ms = silent_ms(member_of_id(figures, figures->leader));
    bool is_up = hears_master(figures);
    uint64_t offset = offset_of(call);
    bool is_joining = founding_role(call->partition)->phase == REPLICA_PHASE_JOINING;
    out_printf(out,
               "role:slave\r\nmaster_host:%s\r\nmaster_port:%d\r\nmaster_link_status:%s\r\n"
               "master_last_io_seconds_ago:%" PRId64 "\r\nmaster_sync_in_progress:%d\r\n"
               "slave_read_repl_offset:%" PRIu64 "\r\nslave_repl_offset:%" PRIu64 "\r\n",
               master.host, master.port, is_up ? "up" : "down",
               is_up ? seconds(ms) : (int64_t)NEVER, is_joining, offset, offset);
    if (!is_up)
        out_printf(out, "master_link_down_since_seconds:%" PRId64 "\r\n", seconds(ms));
    out_printf(out, "slave_priority:100\r\nslave_read_only:1\r\nreplica_announced:1\r\n"
                    "connected_slaves:0\r\n");
}

/* Of copies it names their log, as the offsets are its indexes: it is the same at all of them, and another one after FORCE. */
static void print_replid(const struct partition *partition, bool has_copies, struct out *out)
{
    if (has_copies)
        out_printf(out, "master_replid:%016" PRIx64 "%024" PRIx32 "\r\n", partition->batch.log_id,
                   partition->copies.generation);
    else
        out_printf(out, "master_replid:%s\r\n", partition->process->run_id);
}

/* Redis' words: the copy waits until nothing is in flight, and then for the other one. */
static const char *failover_state(const struct partition_copies *copies)
{
    if (!copies->hand_over)
        return "no-failover";
    return copies->is_held ? "failover-in-progress" : "waiting-for-sync";
}

void info_replication(const struct call *call, struct out *out)
{
    struct replica_figures figures;
    bool is_one_of_several = has_copies(call, &figures);
    if (is_one_of_several && !is_serving(call)) {
        print_slave(call, &figures, out);
    } else {
        out_printf(out, "role:master\r\nconnected_slaves:%u\r\n",
                   is_one_of_several ? count_slaves(&figures) : 0);
        if (is_one_of_several)
            print_slaves(&figures, out);
    }
    out_printf(out, "master_failover_state:%s\r\n", failover_state(&call->partition->copies));
    print_replid(call->partition, is_one_of_several, out);
    out_printf(
        out,
        "master_replid2:0000000000000000000000000000000000000000\r\nmaster_repl_offset:%" PRIu64
        "\r\n",
        is_one_of_several ? offset_of(call) : call->partition->batch.index);
    out_printf(out,
               "second_repl_offset:-1\r\nrepl_backlog_active:0\r\nrepl_backlog_size:%" PRId64 "\r\n"
               "repl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n",
               config_snapshot_number(call->partition->snapshot, "repl-backlog-size"));
}

/* ---- ROLE -------------------------------------------------------------------------------------- */

static void reply_slaves(struct reply *reply, const struct replica_figures *figures)
{
    reply_array(reply, count_slaves(figures));
    for (unsigned i = 0; i < figures->count; i++) {
        const struct replica_figure *figure = &figures->of[i];
        if (!figure->is_up || is_this_copy(figures, figure->address))
            continue;
        const struct host_port at = host_port_of(figure->address);
        reply_array(reply, 3);
        reply_bulk_text(reply, at.host);
        reply_bulk_int(reply, at.port);
        reply_bulk_int(reply, (int64_t)figure->applied);
    }
}

static void reply_slave(struct call *call, const struct replica_figures *figures)
{
    const struct host_port master = master_of(call, figures);
    bool is_up = hears_master(figures);
    bool is_joining = founding_role(call->partition)->phase == REPLICA_PHASE_JOINING;
    const char *state = is_joining ? "sync" : "connected";
    reply_array(&call->reply, 5);
    reply_bulk_text(&call->reply, "slave");
    reply_bulk_text(&call->reply, master.host);
    reply_int(&call->reply, master.port);
    reply_bulk_text(&call->reply, is_up ? state : "connect");
    reply_int(&call->reply, is_up ? (int64_t)offset_of(call) : NEVER);
}

void cmd_role(struct call *call)
{
    struct replica_figures figures;
    bool is_one_of_several = has_copies(call, &figures);
    if (is_one_of_several && !is_serving(call)) {
        reply_slave(call, &figures);
        return;
    }
    reply_array(&call->reply, 3);
    reply_bulk_text(&call->reply, "master");
    reply_int(&call->reply, is_one_of_several ? (int64_t)offset_of(call) : 0);
    if (is_one_of_several)
        reply_slaves(&call->reply, &figures);
    else
        reply_array(&call->reply, 0);
}

/* ---- SCREE REPLICAS ---------------------------------------------------------------------------- */

enum { LINE_BYTES = 2 * REPLICA_ADDRESS_MAX + 512 };

static const char *phase_word(enum replica_phase phase)
{
    static const char *const words[] = {
        [REPLICA_PHASE_NONE] = "none",           [REPLICA_PHASE_JOINING] = "joining",
        [REPLICA_PHASE_FOLLOWING] = "following", [REPLICA_PHASE_LEADING] = "leading",
        [REPLICA_PHASE_SERVING] = "serving",     [REPLICA_PHASE_LOST] = "lost",
        [REPLICA_PHASE_OVERTAKEN] = "overtaken",
    };
    return words[phase];
}

static const char *state_word(enum replica_state state)
{
    static const char *const words[] = {
        [0] = "unknown",
        [REPLICA_STATE_NONE] = "none",
        [REPLICA_STATE_EMPTY] = "empty",
        [REPLICA_STATE_MEMBER] = "member",
        [REPLICA_STATE_LOST] = "lost",
        [REPLICA_STATE_DATA] = "data",
    };
    return words[state];
}

static void reply_partition(struct call *call, const struct replica_figures *figures)
{
    const struct replica_role *role = founding_role(call->partition);
    char line[LINE_BYTES];
    (void)snprintf(line, sizeof line,
                   "partition=%u phase=%s term=%" PRIu64 " leader=%s last=%" PRIu64
                   " committed=%" PRIu64 " applied=%" PRIu64 " paused_ms=%" PRIu64,
                   call->partition->index, phase_word(role->phase), role->term,
                   *role->leader_address ? role->leader_address : "-", figures->last,
                   figures->committed, offset_of(call), copy_pause_left_ms(call->partition));
    reply_bulk_text(&call->reply, line);
}

static const char *verdict_word(enum compare_verdict verdict)
{
    static const char *const words[] = {
        [COMPARE_UNKNOWN] = "unknown",
        [COMPARE_SAME] = "same",
        [COMPARE_DIFFER] = "differ",
        [COMPARE_UNREADABLE] = "unreadable",
    };
    return words[verdict];
}

static const struct replica_place *map_place_of(const struct replica_figures *figures,
                                                const char *address)
{
    for (unsigned i = 0; i < figures->place_count; i++)
        if (strcasecmp(figures->places[i].address, address) == 0)
            return &figures->places[i];
    return NULL;
}

static void reply_member_line(struct call *call, const struct replica_figures *figures,
                              const struct replica_figure *figure)
{
    const struct replica_place *place = map_place_of(figures, figure->address);
    const struct compare_found found = compare_found(call->partition, figure->id);
    char line[LINE_BYTES];
    (void)snprintf(
        line, sizeof line,
        "partition=%u address=%s id=%016" PRIx64 " kind=%s up=%s match=%" PRIu64 " applied=%" PRIu64
        " silent_ms=%" PRId64 " map=%s rows=%s rows_at=%" PRIu64 " rows_slots=%u",
        call->partition->index, figure->address, figure->id, figure->is_voter ? "voter" : "learner",
        figure->is_up ? "yes" : "no", figure->match, figure->applied, silent_ms(figure),
        place ? "yes" : "no", verdict_word(found.verdict), found.index, found.slots);
    reply_bulk_text(&call->reply, line);
}

static bool is_member_at(const struct replica_figures *figures, const char *address)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (strcasecmp(figures->of[i].address, address) == 0)
            return true;
    return false;
}

/* An address of the map at which no member is. */
static void reply_address_line(struct call *call, const struct replica_place *place)
{
    char line[LINE_BYTES];
    (void)snprintf(line, sizeof line,
                   "partition=%u address=%s id=%016" PRIx64 " kind=none up=%s state=%s",
                   call->partition->index, place->address, place->id,
                   place->is_heard || place->is_own ? "yes" : "no",
                   place->is_own ? phase_word(founding_role(call->partition)->phase)
                                 : state_word(place->state));
    reply_bulk_text(&call->reply, line);
}

static void list_copies(struct call *call, const struct replica_figures *figures)
{
    int64_t count = 1 + figures->count;
    for (unsigned i = 0; i < figures->place_count; i++)
        count += !is_member_at(figures, figures->places[i].address);
    reply_array(&call->reply, count);
    reply_partition(call, figures);
    for (unsigned i = 0; i < figures->count; i++)
        reply_member_line(call, figures, &figures->of[i]);
    for (unsigned i = 0; i < figures->place_count; i++)
        if (!is_member_at(figures, figures->places[i].address))
            reply_address_line(call, &figures->places[i]);
}

/* Of a client of a proxy, the shards that have copies compare theirs. */
static void begin_comparison(struct call *call)
{
    int64_t slots[2] = {0, SLOT_COUNT - 1};
    struct replica_figures figures;
    char line[LINE_BYTES];
    if (call->argc != 3 && call->argc != 5) {
        call_error_text(call, "ERR expected SCREE REPLICAS HASH, with a first and a last slot or "
                              "without");
        return;
    }
    for (int i = 0; i < 2 && call->argc == 5; i++)
        if (!call_int64(call, (uint32_t)(3 + i), &slots[i]))
            return;
    if (slots[0] < 0 || slots[0] > slots[1] || slots[1] >= SLOT_COUNT) {
        call_error_text(call, "ERR expected a first and a last slot from 0 to 16383");
        return;
    }
    if (!has_copies(call, &figures)) {
        reply_array(&call->reply, 0);
        return;
    }
    const char *refusal = compare_begin(call->partition, (uint16_t)slots[0], (uint16_t)slots[1]);
    if (refusal) {
        call_errorf(call, "ERR %s", refusal);
        return;
    }
    (void)snprintf(line, sizeof line, "partition=%u first_slot=%" PRId64 " last_slot=%" PRId64,
                   call->partition->index, slots[0], slots[1]);
    reply_array(&call->reply, 1);
    reply_bulk_text(&call->reply, line);
}

static const char *pause_copy(struct call *call)
{
    int64_t seconds;
    if (call->argc != 4 || !number_parse_int64(call->argv[3], &seconds) || seconds < 1 ||
        seconds > COPY_PAUSE_SECONDS_MAX)
        return "expected SCREE REPLICAS PAUSE and seconds from 1 to 86400";
    return copy_pause_begin(call->partition, (uint64_t)seconds);
}

static const char *resume_copy(const struct call *call)
{
    if (call->argc != 3)
        return "expected SCREE REPLICAS RESUME";
    copy_pause_end(call->partition, "order");
    return NULL;
}

/* What acts on one copy is for clients of this copy, and not for those of a proxy. */
static const char *act_on_copy(struct call *call)
{
    if (call->session->login.is_internal)
        return "connect to the copy itself, not through a proxy";
    if (bytes_is(call->argv[2], "pause"))
        return pause_copy(call);
    if (bytes_is(call->argv[2], "resume"))
        return resume_copy(call);
    if (bytes_is(call->argv[2], "found"))
        return founding_found(call->partition);
    if (bytes_is(call->argv[2], "force"))
        return founding_force(call->partition);
    return "expected SCREE REPLICAS, with HASH, PAUSE, RESUME, FOUND or FORCE or without";
}

void cmd_scree_replicas(struct call *call)
{
    struct replica_figures figures;
    bool is_list = call->argc == 2;
    if (!is_list && bytes_is(call->argv[2], "hash")) {
        begin_comparison(call);
        return;
    }
    const char *refusal = is_list ? NULL : act_on_copy(call);
    if (refusal)
        call_errorf(call, "ERR %s", refusal);
    else if (!is_list)
        reply_ok(&call->reply);
    else if (has_copies(call, &figures))
        list_copies(call, &figures);
    else
        reply_array(&call->reply, 0);
}

/* ---- SCREE LEADER ------------------------------------------------------------------------------ */

void cmd_scree_leader(struct call *call)
{
    const struct bytes to = call->argv[3];
    char address[REPLICA_ADDRESS_MAX + 1] = "";
    if (!bytes_is(call->argv[2], "to") || !to.len || to.len > REPLICA_ADDRESS_MAX) {
        call_error_text(call, "ERR expected SCREE LEADER TO, and the address of a copy");
        return;
    }
    memcpy(address, to.data, to.len);
    const char *refusal = hand_over_begin(call->partition, address);
    if (refusal) {
        call_errorf(call, "ERR %s", refusal);
        return;
    }
    replica_decline(call->partition->copies.replica, true); /* or the lead would return soon */
    reply_ok(&call->reply);
}
