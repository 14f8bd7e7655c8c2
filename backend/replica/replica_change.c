/*
 * replica_change.c - how the members of a copy's group change, and which copies may vote and serve while they do.
 *
 *   leader   each tick: shard map, hello of the others, progress ─► replica_wish.h ─► one proposal, or leadership is handed over
 *            each tick: {id, start, acknowledged and committed} of all ─► REPLICA_KNOWN ─► all members (replica_known.h)
 *   member   after its start: hello of most copies ─► it stands and votes         hello: "your disk is an older one" ─► LOST
 *   LOST     another copy says that it serves ─► on_lost: an empty directory takes the place of this one
 */
#include "backend/consensus/rules.h"
#include "backend/peer/link.h"
#include "backend/replica/replica_inner.h"
#include "backend/replica/replica_wish.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/out.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum { VOTERS_OF_A_GROUP = 3, GONE_US = 5000000, GONE_AGAIN_US = 30000000 };

/* ---- the wish ---------------------------------------------------------------------------------- */

static struct replica_wish see_wish(const struct replica *replica)
{
    const struct members *named = &replica->membership.now.named;
    struct replica_wish wish = {.members = &replica->membership.now,
                                .own = replica->record.id,
                                .has_voters = replica->options.has_voters,
                                .epoch = replica->map.epoch,
                                .count = replica->map.count};
    for (unsigned i = 0; i < wish.count; i++) {
        const char *address = replica->map.addresses[i];
        wish.places[i] =
            (struct replica_wished){address, replica_links_hello(replica->net.links, address)};
    }
    for (unsigned i = 0; i < named->count; i++)
        wish.is_caught_up[i] =
            replica->has_core && consensus_is_caught_up(&replica->core, named->list[i].id);
    return wish;
}

/* The core takes a change when the one before is committed, and a record of its own term. */
static bool may_propose(const struct replica *replica)
{
    const struct consensus *core = replica_core(replica);
    return core && replica->phase == REPLICA_PHASE_SERVING && !replica->membership.proposed_us &&
           core->serves_term == core->term && core->committed >= core->members.index;
}

static bool was_heard_lately(const struct replica *replica, uint64_t id)
{
    const struct consensus *core = &replica->core;
    uint64_t since_us = clock_boot_us() - replica->options.election_us / 2;
    for (unsigned i = 0; i < core->members.count; i++)
        if (core->members.list[i].id == id)
            return id == core->id || core->progress[i].heard_us > since_us;
    return false;
}

/* Home writes the record a batch later, or more: a copy that is silent since longer may make the core refuse it then. */
static bool were_most_heard_lately(const struct replica *replica,
                                   const struct consensus_members *members)
{
    unsigned heard = 0, voters = 0;
    for (unsigned i = 0; i < members->count; i++) {
        bool is_voter = members->list[i].kind == CONSENSUS_VOTER;
        voters += is_voter;
        heard += is_voter && was_heard_lately(replica, members->list[i].id);
    }
    return 2 * heard > voters;
}

/* A record that the core refuses ends this copy's leadership (replica_step_record). */
static bool may_change_to(const struct replica *replica, const struct members *members)
{
    const struct consensus_members next = replica_core_members(members, 0);
    return !replica->options.has_voters ||
           (!replica->core.leading.transfer_to && rule_may_change(&replica->core, &next) &&
            were_most_heard_lately(replica, &next));
}

static void propose_next(struct replica *replica)
{
    struct members members;
    if (!may_propose(replica))
        return;
    const struct replica_wish wish = see_wish(replica);
    if (!replica_wish_next(&wish, &members) || !may_change_to(replica, &members))
        return;
    replica->membership.proposed_us = clock_boot_us();
    replica_note_propose(&replica->notes, replica->core.term, &members);
}

/* ---- hand-over --------------------------------------------------------------------------------- */

static bool has_whole_log(const struct consensus *core, uint64_t id)
{
    for (unsigned i = 0; i < core->members.count; i++)
        if (core->members.list[i].id == id)
            return core->progress[i].match == core->last;
    return false;
}

/* Records are refused from a TRANSFER on, so it is given when it takes effect at once. False: not now. */
static bool hand_leadership_over(struct replica *replica, uint64_t id)
{
    const struct consensus *core = replica_core(replica);
    if (!core || core->role != CONSENSUS_SERVING || core->committed != core->last ||
        !has_whole_log(core, id))
        return false;
    replica->voting.hand_over.id = 0;
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_TRANSFER, .id = id});
    return true;
}

static bool is_better_voter(const struct consensus *core, unsigned at, unsigned than)
{
    enum replica_room room = replica_room_at(core, at), other = replica_room_at(core, than);
    return room != other ? room < other : core->progress[at].match > core->progress[than].match;
}

/* The voter that has most room, and then most of the log, of those that were heard. */
static uint64_t best_voter(const struct replica *replica)
{
    const struct consensus *core = &replica->core;
    unsigned best = MEMBERS_MAX;
    for (unsigned i = 0; i < core->members.count; i++) {
        const struct consensus_member *member = &core->members.list[i];
        if (member->id != core->id && member->kind == CONSENSUS_VOTER &&
            was_heard_lately(replica, member->id) &&
            (best == MEMBERS_MAX || is_better_voter(core, i, best)))
            best = i;
    }
    return best == MEMBERS_MAX ? 0 : core->members.list[best].id;
}

static uint64_t id_at(const struct members *named, struct bytes address)
{
    for (unsigned i = 0; i < named->count; i++)
        if (replica_address_equal(named->list[i].address, address))
            return named->list[i].id;
    return 0;
}

static uint64_t hand_over_us(const struct replica *replica)
{
    uint64_t us = 2 * replica->options.election_us, most_us = REPLICA_HAND_OVER_MS * UINT64_C(1000);
    return us < most_us ? us : most_us;
}

void replica_change_hand_over(struct replica *replica, struct bytes address)
{
    const struct members *named = &replica->membership.now.named;
    if (!replica->has_core)
        return;
    replica->voting.hand_over.id = address.len ? id_at(named, address) : best_voter(replica);
    replica->voting.hand_over.until_us = clock_boot_us() + hand_over_us(replica);
    replica_plan_turn_end(replica);
}

void replica_change_turn(struct replica *replica)
{
    uint64_t id = replica->voting.hand_over.id;
    if (!id)
        return;
    if (clock_boot_us() >= replica->voting.hand_over.until_us)
        replica->voting.hand_over.id = 0;
    else
        (void)hand_leadership_over(replica, id);
}

/* Home hands over before, so that no client sees an error (backend/partition/leader_return.h); if it cannot, it is done without home: clients
 * get errors and wait until it has succeeded or failed, so not again and again. While home tries, it is not done. */
static void hand_over_when_gone(struct replica *replica)
{
    uint64_t now_us = clock_boot_us(), *due_us = &replica->voting.gone_due_us;
    if (!replica->options.has_voters || !may_propose(replica))
        return;
    const struct replica_wish wish = see_wish(replica);
    uint64_t successor = replica_wish_successor(&wish);
    if (!successor)
        *due_us = 0;
    else if (!*due_us || replica->voting.hand_over.id)
        *due_us = now_us + GONE_US;
    else if (now_us >= *due_us && hand_leadership_over(replica, successor))
        *due_us = now_us + GONE_AGAIN_US;
}

/* ---- who may vote ------------------------------------------------------------------------------ */

static bool has_said_hello(const struct replica *replica, const char *address)
{
    return strcasecmp(address, replica->map.address) == 0 ||
           replica_links_is_heard(replica->net.links, address);
}

static bool have_most_addresses(const struct replica *replica)
{
    unsigned heard = 0;
    for (unsigned i = 0; i < replica->map.count; i++)
        heard += has_said_hello(replica, replica->map.addresses[i]);
    return replica->map.count && 2 * heard > replica->map.count;
}

static bool have_most_voters(const struct replica *replica)
{
    const struct members *named = &replica->membership.now.named;
    unsigned heard = 0, count = 0;
    bool is_own = false;
    for (unsigned i = 0; i < named->count; i++) {
        const struct member *member = &named->list[i];
        if (member->kind != MEMBER_VOTER)
            continue;
        count++;
        is_own |= member->id == replica->record.id;
        heard += member->id == replica->record.id ||
                 replica_links_to(replica->net.links, member->id) != NULL;
    }
    return is_own && 2 * heard > count;
}

/* A voter by its own log asks the voters of that log. Another copy may have missed the record of its promotion, so it asks those of the
 * map. */
bool replica_may_vote(struct replica *replica)
{
    if (!replica->voting.has_greeted)
        replica->voting.has_greeted =
            !replica->options.has_voters ||
            replica_members_is_alone(&replica->membership.now, replica->record.id) ||
            have_most_voters(replica) || have_most_addresses(replica);
    return replica->voting.has_greeted;
}

/* ---- what copies know of each other ------------------------------------------------------------ */

static uint64_t own_last(const struct replica *replica)
{
    return replica->has_core ? replica->core.last : replica->start.found.last;
}

static void go_back(struct replica *replica, const struct replica_known_copy *known)
{
    log_event(LOG_ERROR, "replica_went_back",
              "starts=%" PRIu64 " known_starts=%" PRIu64 " last=%" PRIu64 " known_last=%" PRIu64,
              replica->record.starts, known->starts, own_last(replica), known->last);
    replica_drive_stop(replica);
    replica->start.due_us = 0;
    replica->record.committed = UINT64_MAX; /* later starts see it by this */
    replica_group_save(replica, NULL);
    replica_group_set_phase(replica, REPLICA_PHASE_LOST);
}

void replica_change_hear(struct replica *replica, const struct replica_hello *hello)
{
    const struct replica_known_copy copy = {.id = hello->id, hello->starts, hello->run};
    bool is_of_group = hello->state == REPLICA_STATE_MEMBER &&
                       hello->group.group == replica->record.group &&
                       hello->group.generation == replica->record.generation;
    if (!replica->options.has_voters || !is_of_group || !replica->record.group)
        return;
    (void)replica_known_add(&replica->voting.known, &copy);
    if (replica->phase != REPLICA_PHASE_LOST && hello->known.id == replica->record.id &&
        replica_known_is_newer(&hello->known, replica->record.starts, replica->self.run,
                               own_last(replica)))
        go_back(replica, &hello->known);
}

/* There is room for the present members: those that were replaced must not fill it. */
static void forget_removed(struct replica *replica)
{
    const struct members *named = &replica->membership.now.named;
    uint64_t ids[MEMBERS_MAX];
    for (unsigned i = 0; i < named->count; i++)
        ids[i] = named->list[i].id;
    replica_known_keep(&replica->voting.known, ids, named->count);
}

bool replica_change_take_known(struct replica *replica, uint64_t from, struct bytes payload)
{
    struct replica_known_list list;
    if (!replica_known_read(payload, &list))
        return false;
    if (!replica->has_core || !from || from != replica->core.leader ||
        list.group.group != replica->record.group ||
        list.group.generation != replica->record.generation)
        return true;
    forget_removed(replica);
    for (unsigned i = 0; i < list.count; i++)
        (void)replica_known_add(&replica->voting.known, &list.copies[i]);
    return true;
}

/* What this leader knows of the member at a place of its core. */
static struct replica_known_copy known_member(const struct replica *replica, unsigned at)
{
    const struct consensus *core = &replica->core;
    uint64_t id = core->members.list[at].id, match = core->progress[at].match;
    if (id == core->id)
        return (struct replica_known_copy){id, replica->record.starts, replica->self.run,
                                           core->committed};
    return (struct replica_known_copy){.id = id,
                                       .last = match < core->committed ? match : core->committed};
}

/* True: something is new. */
static bool note_acknowledged(struct replica *replica)
{
    uint64_t ids[CONSENSUS_MEMBERS_MAX];
    unsigned count = replica->core.members.count;
    bool is_new = false;
    for (unsigned i = 0; i < count; i++)
        ids[i] = replica->core.members.list[i].id;
    replica_known_keep(&replica->voting.known, ids, count);
    for (unsigned i = 0; i < count; i++) {
        const struct replica_known_copy copy = known_member(replica, i);
        is_new |= replica_known_add(&replica->voting.known, &copy);
    }
    return is_new;
}

static void post_known(const struct replica *replica, struct peer_link *link)
{
    struct replica_known_list list = {.group = replica->group,
                                      .count = replica->voting.known.count};
    struct out out;
    memcpy(list.copies, replica->voting.known.copies, sizeof list.copies);
    out_init(&out);
    replica_known_write(&list, &out);
    (void)peer_link_post_out(link, PEER_REPLICA_KNOWN, &out);
}

/* Of a leader with other members. What is not new is not said again; a connection that broke has said it in its hello. */
static void tell_known(struct replica *replica)
{
    if (!replica->options.has_voters || replica->phase != REPLICA_PHASE_SERVING ||
        !note_acknowledged(replica))
        return;
    for (unsigned i = 0; i < replica->core.members.count; i++) {
        struct peer_link *link =
            replica_links_to(replica->net.links, replica->core.members.list[i].id);
        if (link)
            post_known(replica, link);
    }
}

/* ---- a copy that is lost ----------------------------------------------------------------------- */

/* Does another copy serve, of this copy's group as far as it knows its own? */
static bool is_replaced_by(const struct replica *replica, const struct replica_hello *hello)
{
    const struct replica_record *record = &replica->record;
    return hello && hello->state == REPLICA_STATE_MEMBER && (hello->flags & REPLICA_FLAG_SERVES) &&
           (!record->group ||
            (hello->group.group == record->group && hello->group.generation >= record->generation));
}

static void leave_when_replaced(struct replica *replica)
{
    bool is_lost =
        replica->phase == REPLICA_PHASE_LOST || replica->phase == REPLICA_PHASE_OVERTAKEN;
    if (!replica->options.has_voters || replica->options.has_lost || replica->voting.has_left ||
        !is_lost)
        return;
    for (unsigned i = 0; i < replica->map.count && !replica->voting.has_left; i++) {
        const char *address = replica->map.addresses[i];
        if (!replica_links_is_heard(replica->net.links, address) ||
            !is_replaced_by(replica, replica_links_hello(replica->net.links, address)))
            continue;
        replica->voting.has_left = true;
        replica_note_lost(&replica->notes);
    }
}

/* ---- serving ----------------------------------------------------------------------------------- */

/* A group of three voters had most addresses of a map, whatever the present one names. */
static bool has_had_most(const struct replica *replica)
{
    const struct consensus *core = &replica->core;
    const struct replica_wish wish = see_wish(replica);
    return core->committed >= core->members.index &&
           (replica_wish_has_most(&wish) || replica_wish_voters(&wish) >= VOTERS_OF_A_GROUP);
}

/* A group that was founded without keys begins to serve when the loss of one copy loses nothing. Once it did, it goes on. */
bool replica_waits_for_voters(struct replica *replica)
{
    if (!replica->options.waits_for_voters || replica->voting.has_had_most)
        return false;
    replica->voting.has_had_most = has_had_most(replica);
    return !replica->voting.has_had_most;
}

static bool is_of_own_group(const struct replica *replica, const struct replica_hello *hello)
{
    const struct replica_record *record = &replica->record;
    uint64_t term = replica->has_core ? replica->core.term : record->term;
    return record->group && hello->group.group == record->group &&
           hello->group.generation == record->generation && hello->term >= term;
}

/* The map of this copy is old, or its members are: its log ends before the one that sends the hello was a member. A copy that was removed has no
 * newer map, and serves nothing. */
bool replica_change_welcomes(const struct replica *replica, const struct replica_hello *hello)
{
    bool serves = hello->flags & REPLICA_FLAG_SERVES;
    if (!replica->options.has_voters || hello->state != REPLICA_STATE_MEMBER)
        return false;
    if (replica->phase == REPLICA_PHASE_JOINING)
        return serves && hello->map_epoch >= replica->map.epoch;
    return is_of_own_group(replica, hello) && (serves || hello->map_epoch > replica->map.epoch);
}

/* A member whose address is gone from the map is needed until its successors are members. */
static void link_members(struct replica *replica)
{
    const struct members *named = &replica->membership.now.named;
    struct bytes addresses[MEMBERS_MAX];
    if (!replica->options.has_voters)
        return;
    for (unsigned i = 0; i < named->count; i++)
        addresses[i] = named->list[i].address;
    replica_links_also(replica->net.links, addresses, named->count);
}

void replica_change_tick(struct replica *replica)
{
    link_members(replica);
    propose_next(replica);
    hand_over_when_gone(replica);
    tell_known(replica);
    leave_when_replaced(replica);
}
