#include "backend/consensus/members.h"

#include "shared/check.h"

#include <string.h>

unsigned members_find(const struct consensus_members *members, uint64_t id)
{
    for (unsigned i = 0; i < members->count; i++)
        if (members->list[i].id == id)
            return i;
    return MEMBER_NONE;
}

bool members_has_voter(const struct consensus_members *members, uint64_t id)
{
    unsigned at = members_find(members, id);
    return at != MEMBER_NONE && members->list[at].kind == CONSENSUS_VOTER;
}

uint64_t members_majority(const struct consensus_members *members,
                          const uint64_t values[CONSENSUS_MEMBERS_MAX])
{
    uint64_t sorted[CONSENSUS_MEMBERS_MAX]; /* of voters, the greatest first */
    unsigned count = 0;
    for (unsigned i = 0; i < members->count; i++) {
        if (members->list[i].kind != CONSENSUS_VOTER)
            continue;
        unsigned at = count++;
        for (; at > 0 && sorted[at - 1] < values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return count ? sorted[count / 2] : 0;
}

bool members_are_valid(const struct consensus_members *members)
{
    bool has_voter = false;
    if (members->count > CONSENSUS_MEMBERS_MAX)
        return false;
    for (unsigned i = 0; i < members->count; i++) {
        const struct consensus_member *member = &members->list[i];
        if (!member->id || members_find(members, member->id) != i ||
            (member->kind != CONSENSUS_VOTER && member->kind != CONSENSUS_LEARNER))
            return false;
        has_voter |= member->kind == CONSENSUS_VOTER;
    }
    return has_voter;
}

/* Number of members of `a` that are not in `b`, or that have another kind there; *kinds counts only those with another kind. */
static unsigned differences(const struct consensus_members *a, const struct consensus_members *b,
                            unsigned *kinds)
{
    unsigned count = 0;
    for (unsigned i = 0; i < a->count; i++) {
        unsigned at = members_find(b, a->list[i].id);
        bool is_other_kind = at != MEMBER_NONE && a->list[i].kind != b->list[at].kind;
        *kinds += is_other_kind;
        count += at == MEMBER_NONE || is_other_kind;
    }
    return count;
}

bool members_differ_by_one(const struct consensus_members *a, const struct consensus_members *b)
{
    unsigned kinds = 0;
    unsigned again = 0;
    return differences(a, b, &kinds) + differences(b, a, &again) - kinds == 1;
}

/* Moves each member's progress to its place in the new list. A new member begins without any known records. */
static void move_progress(struct consensus *core, const struct consensus_members *before,
                          uint64_t now_us)
{
    struct consensus_progress old[CONSENSUS_MEMBERS_MAX];
    memcpy(old, core->progress, sizeof old);
    memset(core->progress, 0, sizeof core->progress);
    for (unsigned i = 0; i < core->members.count; i++) {
        unsigned at = members_find(before, core->members.list[i].id);
        core->progress[i] = at != MEMBER_NONE ? old[at]
                                              : (struct consensus_progress){.next = core->last + 1,
                                                                            .heard_us = now_us};
    }
}

void members_append(struct consensus *core, const struct consensus_members *members,
                    uint64_t now_us)
{
    struct consensus_members before = core->members;
    core->members_before = before;
    core->members = *members;
    move_progress(core, &before, now_us);
}

void members_cut(struct consensus *core, uint64_t after)
{
    if (core->members.index > after)
        core->members = core->members_before;
}
