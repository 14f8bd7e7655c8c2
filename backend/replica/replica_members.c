#include "backend/replica/replica_members.h"

#include "backend/replica/replica_message.h"

#include <string.h>
#include <strings.h>

bool replica_address_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && strncasecmp(a.data, b.data, a.len) == 0;
}

void replica_members_set(struct replica_members *members, const struct members *from)
{
    members->named = *from;
    for (unsigned i = 0; i < from->count; i++) {
        memcpy(members->addresses[i], from->list[i].address.data, from->list[i].address.len);
        members->named.list[i].address.data = members->addresses[i];
    }
}

bool replica_members_read(struct replica_members *members, struct bytes record)
{
    struct members row;
    bool is_read = members_of_record(record, &row);
    if (is_read)
        replica_members_set(members, &row);
    return is_read;
}

static const struct member *member_of(const struct replica_members *members, uint64_t id)
{
    for (unsigned i = 0; i < members->named.count; i++)
        if (members->named.list[i].id == id)
            return &members->named.list[i];
    return NULL;
}

struct bytes replica_members_address(const struct replica_members *members, uint64_t id)
{
    const struct member *member = member_of(members, id);
    return member ? member->address : (struct bytes){"", 0};
}

bool replica_members_has(const struct replica_members *members, uint64_t id)
{
    return member_of(members, id) != NULL;
}

bool replica_members_is_alone(const struct replica_members *members, uint64_t id)
{
    bool is_voter = false, has_other = false;
    for (unsigned i = 0; i < members->named.count; i++) {
        const struct member *member = &members->named.list[i];
        is_voter |= member->kind == MEMBER_VOTER && member->id == id;
        has_other |= member->kind == MEMBER_VOTER && member->id != id;
    }
    return is_voter && !has_other;
}

static bool has_member_at(const struct replica_members *members, struct bytes address)
{
    for (unsigned i = 0; i < members->named.count; i++)
        if (replica_address_equal(members->named.list[i].address, address))
            return true;
    return false;
}

/* It was removed, or the record that added it was cut. It has kept its promises, so it goes on with its id and its log. */
static bool is_of_same_group(const struct members *named, const struct replica_hello *hello)
{
    return hello->state == REPLICA_STATE_MEMBER && hello->group.group == named->group &&
           hello->group.generation == named->generation;
}

bool replica_members_with(const struct replica_members *members, const struct replica_hello *hello,
                          uint64_t epoch, bool again, struct members *to)
{
    bool may_join =
        hello->state == REPLICA_STATE_EMPTY || (again && is_of_same_group(&members->named, hello));
    if (!hello->id || !may_join || replica_members_has(members, hello->id) ||
        has_member_at(members, hello->address) || members->named.count == MEMBERS_MAX ||
        epoch < members->named.epoch)
        return false;
    *to = members->named;
    to->epoch = epoch;
    to->list[to->count++] = (struct member){hello->id, MEMBER_LEARNER, hello->address};
    return true;
}

void replica_members_without(const struct replica_members *members, uint64_t id, uint64_t epoch,
                             struct members *to)
{
    *to = members->named;
    to->epoch = epoch;
    to->count = 0;
    for (unsigned i = 0; i < members->named.count; i++)
        if (members->named.list[i].id != id)
            to->list[to->count++] = members->named.list[i];
}
