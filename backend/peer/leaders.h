/*
 * leaders.h - which copy leads each other shard of the map, as far as this partition has heard, and where links go therefore.
 *
 *   what a link, or a connection to this partition, brings    the link to the shard
 *   ──────────────────────────────────────────────────────    ────────────────────────────────────────────────────
 *   the connection broke, or was refused                      tries the next address of the shard
 *   -NOTLEADER address                                        tries this address, also if the map does not have it
 *   identity on the link: (generation, term) newer than       stays; this is noted, and what comes from older leaders
 *     what is noted                                             is dropped
 *   identity on a connection: newer than what is noted        asks at the address in it, if the map has that; until then nothing
 *                                                               that comes on the connection is read
 *   identity: older than what is noted                        stays with the newest; the older one is refused
 *
 * Only what is said at an address of the map is noted, or at one that a copy there has named: whoever has the secret can connect and claim any term, and if that were noted, the
 * shard's real leaders would be older for ever. NOTLEADER is a hint where to look, and so is the claim of a partition that connects. A
 * leader that is newer than all before makes links of its own when it begins to serve, so that others ask it at once.
 *
 * What was heard is kept as long as the map has the shard: a leader of before may come back after the connection of its successor broke.
 * A map that drops the leader's address does not end its lead: that address counts as one of the map until a newer leader is heard.
 * A shard that has one address, and one copy, is never an older leader: nothing can have succeeded it, and after a restore of its data it
 * counts from 0 again.
 */
#pragma once

#include "backend/peer/frame.h"

enum { PEER_REDIRECTION_MAX = PEER_ADDRESS_MAX + 64 }; /* bytes of an error that names a leader */

struct peer_leaders;

enum peer_leader_heard {
    PEER_LEADER_OLDER, /* a newer leader of the shard was heard before */
    PEER_LEADER_SAME, /* the newest that was heard; or one copy; or the map does not have the shard */
    PEER_LEADER_NEWER, /* it is the newest from now on */
};

/* on_newer is called when a newer leader of a shard was heard, after this has been noted. */
struct peer_leaders *peer_leaders_new(void (*on_newer)(void *owner, const char *shard),
                                      void *owner);
/* NULL is allowed. */
void peer_leaders_free(struct peer_leaders *leaders);
/* Puts a map into force, which is referenced; NULL: none. What was heard of its shards is kept. */
void peer_leaders_configure(struct peer_leaders *leaders, const struct shard_map *map);

/* Notes the leadership that a partition of another shard has given in its reply to the greeting of a link to this address. Nothing is noted
 * if the map has the shard at other addresses. */
enum peer_leader_heard peer_leaders_hear(struct peer_leaders *leaders,
                                         const struct peer_identity *identity, const char *address);
/* The address at which a partition that has connected says that it leads, as the map writes it; NULL: the map does not have it. */
const char *peer_leaders_claimed(const struct peer_leaders *leaders,
                                 const struct peer_identity *identity);
/* As peer_leaders_hear, without noting anything. */
enum peer_leader_heard peer_leaders_compare(const struct peer_leaders *leaders,
                                            const struct peer_identity *identity);
/* The address of the newest leader that was heard; NULL: none was. */
const char *peer_leaders_address(const struct peer_leaders *leaders, const char *shard);
/* Number of addresses that a link to the shard may try; 1: the map does not have it. */
unsigned peer_leaders_addresses(const struct peer_leaders *leaders, const char *shard);
/* One of them, 0 …; the map has the shard. */
const char *peer_leaders_at(const struct peer_leaders *leaders, const char *shard, unsigned index);
/* The address that a copy of the shard names, which has replied this line to a greeting. NULL: it names none, or one of another shard, or a
 * file. One that the map does not have counts as one of the map until another leader is heard, or named. */
const char *peer_leaders_named(struct peer_leaders *leaders, const char *shard, struct bytes line);

/* Writes the reply of a copy that does not lead to SCREE PEER, without its '-'. `leader`: address, may be empty. Returns `to`. */
const char *peer_redirect(char to[PEER_REDIRECTION_MAX], const char *leader);
