#include "backend/peer/leaders.h"

#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The newest leader of a shard; all zero: none was heard. */
struct peer_leader {
    struct peer_leadership leadership;
    const char *address; /* of the map; NULL: the map does not have it */
};

struct peer_leaders {
    void (*on_newer)(void *owner, const char *shard);
    void *owner;
    struct shard_map *map;  /* NULL: none */
    struct peer_leader *of; /* as the shards of the map */
};

struct peer_leaders *peer_leaders_new(void (*on_newer)(void *owner, const char *shard), void *owner)
{
    struct peer_leaders *leaders = calloc(1, sizeof *leaders);
    CHECK(leaders);
    leaders->on_newer = on_newer;
    leaders->owner = owner;
    return leaders;
}

void peer_leaders_free(struct peer_leaders *leaders)
{
    if (!leaders)
        return;
    shard_map_unref(leaders->map);
    free(leaders->of);
    free(leaders);
}

/* ---- shards and their addresses ---- */

static const struct shard *shard_heard(const struct peer_leaders *leaders, const char *shard)
{
    int index = leaders->map ? shard_map_named(leaders->map, bytes_of(shard)) : -1;
    return index < 0 ? NULL : &leaders->map->shards[index];
}

/* What was heard of a shard of the map. */
static struct peer_leader *leader_of(const struct peer_leaders *leaders, const struct shard *shard)
{
    return &leaders->of[shard - leaders->map->shards];
}

/* The address as the map writes it; NULL: the map does not have it. */
static const char *address_of_map(const struct shard *shard, struct bytes address)
{
    for (size_t i = 0; i < shard->address_count; i++)
        if (strlen(shard->addresses[i]) == address.len &&
            strncasecmp(shard->addresses[i], address.data, address.len) == 0)
            return shard->addresses[i];
    return NULL;
}

/* The map of before is still there. */
static void keep_heard(struct peer_leader *of, const struct shard *shard,
                       const struct peer_leaders *before)
{
    const struct shard *old = shard_heard(before, shard->name);
    if (!old)
        return;
    *of = *leader_of(before, old);
    of->address = of->address ? address_of_map(shard, bytes_of(of->address)) : NULL;
}

void peer_leaders_configure(struct peer_leaders *leaders, const struct shard_map *map)
{
    const struct peer_leaders before = *leaders;
    leaders->map = map ? shard_map_ref((struct shard_map *)map) : NULL;
    leaders->of = NULL;
    if (map) {
        leaders->of = calloc(map->shard_count + 1, sizeof *leaders->of);
        CHECK(leaders->of);
        for (size_t i = 0; i < map->shard_count; i++)
            keep_heard(&leaders->of[i], &map->shards[i], &before);
    }
    shard_map_unref(before.map);
    free(before.of);
}

/* ---- what is heard ---- */

enum peer_leader_heard peer_leaders_compare(const struct peer_leaders *leaders,
                                            const struct peer_identity *identity)
{
    const struct shard *shard = shard_heard(leaders, identity->shard);
    const struct peer_leadership none = {0};
    int order = 0;
    if (shard &&
        (shard->address_count > 1 || peer_leadership_compare(&identity->leadership, &none)))
        order =
            peer_leadership_compare(&identity->leadership, &leader_of(leaders, shard)->leadership);
    return order < 0 ? PEER_LEADER_OLDER : order > 0 ? PEER_LEADER_NEWER : PEER_LEADER_SAME;
}

enum peer_leader_heard peer_leaders_hear(struct peer_leaders *leaders,
                                         const struct peer_identity *identity, const char *address)
{
    enum peer_leader_heard heard = peer_leaders_compare(leaders, identity);
    const struct shard *shard = shard_heard(leaders, identity->shard);
    const char *known = shard ? address_of_map(shard, bytes_of(address)) : NULL;
    if (!known || heard == PEER_LEADER_OLDER)
        return heard;
    struct peer_leader *leader = leader_of(leaders, shard);
    leader->address = known;
    if (heard != PEER_LEADER_NEWER)
        return heard;
    leader->leadership = identity->leadership;
    leaders->on_newer(leaders->owner, shard->name);
    return heard;
}

const char *peer_leaders_claimed(const struct peer_leaders *leaders,
                                 const struct peer_identity *identity)
{
    const struct shard *shard = shard_heard(leaders, identity->shard);
    return shard ? address_of_map(shard, bytes_of(identity->address)) : NULL;
}

/* ---- where links go ---- */

const char *peer_leaders_address(const struct peer_leaders *leaders, const char *shard)
{
    const struct shard *of = shard_heard(leaders, shard);
    return of ? leader_of(leaders, of)->address : NULL;
}

unsigned peer_leaders_addresses(const struct peer_leaders *leaders, const char *shard)
{
    const struct shard *of = shard_heard(leaders, shard);
    return of ? (unsigned)of->address_count : 1;
}

const char *peer_leaders_at(const struct peer_leaders *leaders, const char *shard, unsigned index)
{
    const struct shard *of = shard_heard(leaders, shard);
    CHECK(of && index < of->address_count);
    return of->addresses[index];
}

/* ---- the answer of a copy that does not lead ---- */

#define REDIRECTION "NOTLEADER "

const char *peer_leaders_named(const struct peer_leaders *leaders, const char *shard,
                               struct bytes line)
{
    const struct bytes start = BYTES("-" REDIRECTION);
    const struct shard *of = shard_heard(leaders, shard);
    if (!of || line.len < start.len || memcmp(line.data, start.data, start.len) != 0)
        return NULL;
    const struct bytes rest = {line.data + start.len, line.len - start.len};
    const char *end = memchr(rest.data, ' ', rest.len);
    return address_of_map(of,
                          (struct bytes){rest.data, end ? (size_t)(end - rest.data) : rest.len});
}

const char *peer_redirect(char to[PEER_REDIRECTION_MAX], const char *leader)
{
    (void)snprintf(to, PEER_REDIRECTION_MAX, REDIRECTION "%s this copy of the shard does not lead",
                   *leader ? leader : "-");
    return to;
}
