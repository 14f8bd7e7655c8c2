/*
 * greeting.h - the first commands of a connection to a backend that has the cluster secret.
 *
 *   proxy ─► SCREE AUTH secret ─► +OK, or the error with which every request would fail. While the secret is being changed
 *                                 both are sent, secret-previous first, and one must be accepted
 *         ─► SCREE SELF        ─► shard, run_id, version, slots, orphaned, protocol, client: the partition at this address says which shard it is,
 *                                 and which protocols of proxies it serves (version.h); a copy: role, generation, term, leader, zone
 *
 * A partition reads the name of its shard in the shard map of its backend. A backend without a shard map sends no name; then the
 * proxy assumes that the address in the proxy's own map belongs to the right shard.
 * A backend that does not serve this proxy's protocol gets no requests: requests or replies could be misunderstood.
 */
#pragma once

#include "shared/shard_map.h"
#include "shared/zone.h"

struct out;

enum { RUN_ID_BYTES = 40 };

/* Which reply of the greeting comes next. */
struct greeting {
    uint8_t auths_left; /* replies to SCREE AUTH */
    bool is_admitted;   /* the backend has accepted a secret */
};

/* What a partition reports of itself: the reply to SCREE SELF. */
struct greeting_self {
    char shard[SHARD_NAME_MAX + 1]; /* empty: not known */
    char run_id[RUN_ID_BYTES + 1];  /* empty: not known */
    uint64_t slots;                 /* number of slots that it owns */
    /* slots that its map gives it, and that no shard owns (backend/slots/slot_figures.h) */
    uint64_t orphaned;
    uint64_t client;           /* CLIENT ID of this connection; 0: it does not say */
    uint64_t protocol, oldest; /* newest and oldest protocol that it serves; 0: it does not say */
    /* of a shard with copies (shared/leading.h); else false, 0 and empty */
    bool has_copies;
    bool leads;
    uint64_t generation, term;
    char leader[SHARD_ADDRESS_MAX + 1]; /* empty: not known */
    char zone[ZONE_NAME_MAX + 1];       /* empty: none */
};

/* Writes the commands; `previous`: a second secret, empty: none. */
void greeting_write(struct greeting *greeting, struct out *out, const char *secret,
                    const char *previous);
/* Writes those before SCREE SELF. */
void greeting_write_auth(struct greeting *greeting, struct out *out, const char *secret,
                         const char *previous);
/* Reads the reply to a SCREE AUTH. False: no secret was accepted. */
bool greeting_auth(struct greeting *greeting, struct bytes frame);
/* Reads the reply to SCREE SELF. If it is an error, all fields are empty or 0, else those that the reply lacks. */
void greeting_read(struct bytes frame, struct greeting_self *self);
/* False: it is a copy that does not lead, so it serves no requests, and reason[size] says where the leader is. */
bool greeting_serves(const struct greeting_self *self, char *reason, size_t size);
/* The same of a connection for reads at copies: false: it leads, or has no copies. */
bool greeting_follows(const struct greeting_self *self, char *reason, size_t size);
/* False: the partition is another shard than `shard`, or does not serve this proxy's protocol, and reason[size] says so. */
bool greeting_check(const struct greeting_self *self, const char *shard, char *reason, size_t size);
