#include "backend/replica/replica_wish.h"

#include <string.h>

/* ---- members and addresses --------------------------------------------------------------------- */

/* The place in the map of this member; NULL: its address is gone. */
static const struct replica_wished *wished_place_of(const struct replica_wish *wish,
                                                    const struct member *member)
{
    for (unsigned i = 0; i < wish->count; i++)
        if (replica_address_equal(bytes_of(wish->places[i].address), member->address))
            return &wish->places[i];
    return NULL;
}

static bool is_voter_at(const struct replica_wish *wish, const char *address)
{
    const struct members *named = &wish->members->named;
    for (unsigned i = 0; i < named->count; i++)
        if (named->list[i].kind == MEMBER_VOTER &&
            replica_address_equal(named->list[i].address, bytes_of(address)))
            return true;
    return false;
}

static unsigned voters_in_map(const struct replica_wish *wish)
{
    unsigned count = 0;
    for (unsigned i = 0; i < wish->count; i++)
        count += is_voter_at(wish, wish->places[i].address);
    return count;
}

unsigned replica_wish_voters(const struct replica_wish *wish)
{
    const struct members *named = &wish->members->named;
    unsigned count = 0;
    for (unsigned i = 0; i < named->count; i++)
        count += named->list[i].kind == MEMBER_VOTER;
    return count;
}

bool replica_wish_has_most(const struct replica_wish *wish)
{
    return wish->count && 2 * voters_in_map(wish) > wish->count;
}

/* ---- removal ----------------------------------------------------------------------------------- */

/* Another disk waits at the member's address: its own is gone. */
static bool is_replaced(const struct replica_wished *place, const struct member *member)
{
    const struct replica_hello *hello = place ? place->hello : NULL;
    return hello && hello->id && hello->id != member->id && hello->state == REPLICA_STATE_EMPTY;
}

/* A voter whose address is gone is needed until its successors vote: all of them, or most if there is no room for the others. */
static bool have_successors(const struct replica_wish *wish)
{
    bool is_full = wish->members->named.count == MEMBERS_MAX;
    return voters_in_map(wish) == wish->count || (is_full && replica_wish_has_most(wish));
}

static bool must_leave(const struct replica_wish *wish, const struct member *member)
{
    const struct replica_wished *place = wished_place_of(wish, member);
    if (member->id == wish->own || (member->kind == MEMBER_VOTER && !wish->has_voters))
        return false;
    if (place)
        return is_replaced(place, member);
    return member->kind != MEMBER_VOTER || have_successors(wish);
}

static bool wish_removal(const struct replica_wish *wish, struct members *to)
{
    const struct members *named = &wish->members->named;
    for (unsigned i = 0; i < named->count; i++) {
        if (!must_leave(wish, &named->list[i]))
            continue;
        replica_members_without(wish->members, named->list[i].id, wish->epoch, to);
        return true;
    }
    return false;
}

/* ---- learners ---------------------------------------------------------------------------------- */

static bool wish_learner(const struct replica_wish *wish, struct members *to)
{
    for (unsigned i = 0; i < wish->count; i++)
        if (wish->places[i].hello && replica_members_with(wish->members, wish->places[i].hello,
                                                          wish->epoch, wish->has_voters, to))
            return true;
    return false;
}

/* ---- voters ------------------------------------------------------------------------------------ */

/* A learner at an address of the map whose process can vote, and has nearly all records. */
static bool is_ready(const struct replica_wish *wish, unsigned at)
{
    const struct member *member = &wish->members->named.list[at];
    const struct replica_wished *place = wished_place_of(wish, member);
    return member->kind == MEMBER_LEARNER && wish->is_caught_up[at] && place && place->hello &&
           place->hello->id == member->id && (place->hello->flags & REPLICA_FLAG_VOTES);
}

/* An even number of voters survives the loss of no more than one less does. So from an odd number, two follow each other closely, unless
 * the map asks for one only. */
static unsigned wanted_at_once(const struct replica_wish *wish)
{
    unsigned missing = wish->count - voters_in_map(wish);
    return replica_wish_voters(wish) % 2 == 1 && missing >= 2 ? 2 : 1;
}

static bool wish_voter(const struct replica_wish *wish, struct members *to)
{
    const struct members *named = &wish->members->named;
    unsigned ready = 0, first = 0;
    for (unsigned i = named->count; i-- > 0;) {
        if (!is_ready(wish, i))
            continue;
        ready++;
        first = i;
    }
    if (!wish->has_voters || !ready || ready < wanted_at_once(wish))
        return false;
    *to = *named;
    to->epoch = wish->epoch;
    to->list[first].kind = MEMBER_VOTER;
    return true;
}

/* ---- the wish ---------------------------------------------------------------------------------- */

bool replica_wish_next(const struct replica_wish *wish, struct members *to)
{
    return wish->count && wish->epoch >= wish->members->named.epoch &&
           (wish_removal(wish, to) || wish_learner(wish, to) || wish_voter(wish, to));
}

static bool is_own_address_gone(const struct replica_wish *wish)
{
    const struct members *named = &wish->members->named;
    for (unsigned i = 0; i < named->count; i++)
        if (named->list[i].id == wish->own)
            return !wished_place_of(wish, &named->list[i]);
    return false;
}

uint64_t replica_wish_successor(const struct replica_wish *wish)
{
    const struct members *named = &wish->members->named;
    if (!wish->has_voters || !wish->count || wish->epoch < named->epoch ||
        !is_own_address_gone(wish))
        return 0;
    for (unsigned i = 0; i < named->count; i++)
        if (named->list[i].kind == MEMBER_VOTER && named->list[i].id != wish->own &&
            wish->is_caught_up[i] && wished_place_of(wish, &named->list[i]))
            return named->list[i].id;
    return 0;
}
