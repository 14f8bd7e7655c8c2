#include "backend/peer/leaders.h"

#include "config/option.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The newest leader of a shard; all zero: none was heard. */
struct peer_leader {
    struct peer_leadership leadership;
    const char *address; /* of the map, or `gone`; NULL: not known */
    char *
        gone; /* an address that the map does not have: the leader's, or one that a copy names as its leader's */
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

static void drop_heard(const struct peer_leaders *leaders)
{
    for (size_t i = 0; leaders->map && i < leaders->map->shard_count; i++)
        free(leaders->of[i].gone);
    shard_map_unref(leaders->map);
    free(leaders->of);
}

void peer_leaders_free(struct peer_leaders *leaders)
{
    if (!leaders)
        return;
    drop_heard(leaders);
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

/* The address of the map, or that of the leader; NULL: it is neither. */
static const char *known_address(const struct peer_leaders *leaders, const struct shard *shard,
                                 struct bytes address)
{
    const char *gone = leader_of(leaders, shard)->gone;
    const char *known = address_of_map(shard, address);
    bool is_gone =
        gone && strlen(gone) == address.len && strncasecmp(gone, address.data, address.len) == 0;
    return known ? known : is_gone ? gone : NULL;
}

/* The map of before is still there. */
static void keep_heard(struct peer_leader *of, const struct shard *shard,
                       const struct peer_leaders *before)
{
    const struct shard *old = shard_heard(before, shard->name);
    const struct peer_leader *heard = old ? leader_of(before, old) : NULL;
    if (!heard)
        return;
    of->leadership = heard->leadership;
    of->address = heard->address ? address_of_map(shard, bytes_of(heard->address)) : NULL;
    if (heard->address && !of->address) {
        of->address = of->gone = strdup(heard->address);
        CHECK(of->gone);
    }
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
    drop_heard(&before);
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
    const char *known = shard ? known_address(leaders, shard, bytes_of(address)) : NULL;
    if (!known || heard == PEER_LEADER_OLDER)
        return heard;
    struct peer_leader *leader = leader_of(leaders, shard);
    leader->address = known;
    if (known != leader->gone) {
        free(leader->gone);
        leader->gone = NULL;
    }
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
    return shard ? known_address(leaders, shard, bytes_of(identity->address)) : NULL;
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
    return of ? (unsigned)of->address_count + (leader_of(leaders, of)->gone != NULL) : 1;
}

const char *peer_leaders_at(const struct peer_leaders *leaders, const char *shard, unsigned index)
{
    const struct shard *of = shard_heard(leaders, shard);
    CHECK(of && index < peer_leaders_addresses(leaders, shard));
    return index < of->address_count ? of->addresses[index] : leader_of(leaders, of)->gone;
}

/* ---- the answer of a copy that does not lead ---- */

#define REDIRECTION "NOTLEADER "

static bool is_of_any_shard(const struct shard_map *map, struct bytes address)
{
    for (size_t i = 0; i < map->shard_count; i++)
        if (address_of_map(&map->shards[i], address))
            return true;
    return false;
}

/* Where any program could connect: a copy must not make this one open files. */
static bool is_of_host(struct bytes address)
{
    bool is_file = address.len >= 5 && memcmp(address.data, "unix:", 5) == 0;
    return !is_file && address.len <= PEER_ADDRESS_MAX && address_valid(address);
}

/* A copy names its leader, whose address the map does not have: the map has dropped it since, or is older than that of the copies.
 * What was noted stays, so it must be newer than the leader before. */
static const char *take_gone(struct peer_leaders *leaders, const struct shard *shard,
                             struct bytes address)
{
    struct peer_leader *leader = leader_of(leaders, shard);
    if (!is_of_host(address) || is_of_any_shard(leaders->map, address))
        return NULL;
    if (leader->address == leader->gone)
        leader->address = NULL;
    free(leader->gone);
    leader->gone = strndup(address.data, address.len);
    CHECK(leader->gone);
    return leader->gone;
}

const char *peer_leaders_named(struct peer_leaders *leaders, const char *shard, struct bytes line)
{
    const struct bytes start = BYTES("-" REDIRECTION);
    const struct shard *of = shard_heard(leaders, shard);
    if (!of || line.len < start.len || memcmp(line.data, start.data, start.len) != 0)
        return NULL;
    const struct bytes rest = {line.data + start.len, line.len - start.len};
    const char *end = memchr(rest.data, ' ', rest.len);
    const struct bytes address = {rest.data, end ? (size_t)(end - rest.data) : rest.len};
    const char *known = known_address(leaders, of, address);
    return known ? known : take_gone(leaders, of, address);
}

const char *peer_redirect(char to[PEER_REDIRECTION_MAX], const char *leader)
{
    (void)snprintf(to, PEER_REDIRECTION_MAX, REDIRECTION "%s this copy of the shard does not lead",
                   *leader ? leader : "-");
    return to;
}
