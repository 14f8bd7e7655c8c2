/*
 * key_grants.h - how the shards share the max-keys of a namespace, so that together they never have more keys.
 *
 *   worker 0 of one proxy, the coordinator           each shard
 *   ─────────────────────────────────────            ─────────────────────────────────────────────────────
 *   grant_ledger: what each may have, at most  ──order──► key_grant: creates keys up to `keys`
 *                                              ◄─report── keys, fewest, claim, version, wants
 *
 * (1) A shard's *claim* is what it may have: its grant, or its keys if these are more. The coordinator keeps a bound of each
 *     claim: a grant counts from the moment it is sent, and less counts only when the shard has reported it. It raises a grant by no
 *     more than max-keys minus the sum of all bounds.
 * (2) The version of a grant changes with every order from its coordinator. An order with another version changes nothing, so a
 *     late, repeated or lost order does no harm; the report has the claim and the version for the next one.
 * (3) A shard takes orders from one coordinator at a time. A proxy raises nothing until all shards of its map have accepted it, and
 *     have reported once more after the last of them did: then no other proxy can raise until it has been accepted by all, and so has
 *     changed the versions that the first one would have to give. Of two proxies the one with the higher map epoch wins, then the lower id; every other one when the coordinator was silent
 *     for KEY_GRANT_LEASE_MS. Clocks decide only who may try.
 * (4) A shard that starts has no grant: its claim is what it has. While a shard is down its bound stays, and the others
 *     share the rest; a new coordinator raises nothing until it is back.
 * (5) Keys that leave a shard count here for KEY_GRANT_LEAVE_MS more, and then lower the grant: those of slots that move, and those
 *     that a transaction creates at another shard. They raise the claim of the shard where they arrive. If that takes longer, or
 *     the coordinator gets no report of that shard for so long, they may be granted a second time.
 * (6) A shard without room refuses a key only when max-keys was reached at a moment after the command came: figures of before do
 *     not have what was deleted since. Each report has the *fewest* keys since the report before. If the times between the last two
 *     reports of all shards have a moment in common, there were at least as many keys at that moment as the fewest of all
 *     shards together, and the next order carries this sum. For a command that comes after order N, the order N + 3 is the first
 *     whose moment lies behind the command: the report on N + 1 says that it waits, N + 2 asks for what there was since, N + 3 carries it.
 *
 * Of what is left a quarter is spread evenly, and the rest goes to the shards that create keys or want more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_GRANT_LEASE_MS = 2000, KEY_GRANT_LEAVE_MS = 500 };

/* ---- a shard ---- */

struct key_grant {
    uint64_t keys;        /* so many it may have */
    uint64_t leaving[2];  /* keys that have left, younger and older: (5) */
    uint64_t version;     /* (2); not 0 */
    uint64_t coordinator; /* its id; 0: there was none */
    uint64_t epoch;       /* of the coordinator's map */
    uint64_t until_ms;    /* monotonic: the coordinator's lease */
    uint64_t turn_ms;     /* monotonic: when `leaving` moves on */
    uint64_t orders;      /* accepted ones */
    uint64_t fewest;      /* so many keys had all shards together at a moment, at least: (6) */
    uint64_t fewest_here; /* as of the last report */
    bool is_in_turn;      /* the last order followed the report before it: fewest_here counts */
    bool wants;           /* a command had no room since the last report */
};

/* What a coordinator sends to a shard. */
struct grant_order {
    uint64_t coordinator; /* not 0 */
    uint64_t epoch;       /* of its map */
    uint64_t keys;
    uint64_t version;          /* of the last report; 0: none */
    uint64_t fewest_elsewhere; /* at the other shards, at a moment: (6) */
};

/* What a shard has. */
struct grant_keys {
    uint64_t keys;
    uint64_t fewest; /* since the last order that was accepted */
};

/* What a shard replies. */
struct grant_report {
    uint64_t keys;
    uint64_t fewest; /* since the report before; 0: the coordinator has not got that one */
    uint64_t claim;
    uint64_t version; /* 0: the shard has another coordinator: the order was not accepted */
    bool is_new;      /* it had another one, or none, before this order */
    bool wants;
};

/* `version`: not 0, and larger than any that the shard has had before it started: its clock in µs. */
void key_grant_init(struct key_grant *grant, uint64_t version);
/* Carries out an order at a shard. */
struct grant_report key_grant_order(struct key_grant *grant, const struct grant_order *order,
                                    const struct grant_keys *here, uint64_t now_ms);
/* The claim of a shard with so many keys. */
uint64_t key_grant_claim(const struct key_grant *grant, uint64_t keys);
/* Keys that a shard with so many may still create. */
uint64_t key_grant_room(const struct key_grant *grant, uint64_t keys);
/* The number of the first order whose figures are of a moment that is not over yet: (6). */
uint64_t key_grant_proof(const struct key_grant *grant);
/* Has the order of this number, or one after it, shown that there is no room for so many new keys? */
bool key_grant_is_full(const struct key_grant *grant, uint64_t proof, uint64_t created,
                       uint64_t max_keys);
/* So many keys were here, or were charged here, and are at another shard now: (5). */
void key_grant_leave(struct key_grant *grant, uint64_t keys);
/* To be called several times in KEY_GRANT_LEAVE_MS. */
void key_grant_tick(struct key_grant *grant, uint64_t now_ms);

/* ---- the coordinator ---- */

/* What it has noted of one shard. All zero: nothing. */
struct grant_share {
    uint64_t keys;
    uint64_t bound;   /* of the claim: (1) */
    uint64_t version; /* 0: the shard has not accepted this coordinator, or must report once more */
    uint64_t growth;  /* keys created between the last reports */
    uint64_t fewest;  /* between the last two reports: (6) */
    /* by the ledger's clock: when the last order was sent and the last report came, and in between which of these times `fewest` was
     * counted, at least */
    uint64_t sent;
    uint64_t seen;
    uint64_t fewest_from;
    uint64_t fewest_to;
    bool wants;
};

struct grant_ledger {
    struct grant_share *shares; /* by shard; the owner's */
    size_t count;
    uint32_t tenure; /* changes when a shard has accepted this coordinator anew */
    uint64_t clock;  /* counts orders and reports */
};

/* The grant to send to a shard, which counts from now on. */
uint64_t grant_next(struct grant_ledger *ledger, size_t shard, uint64_t max_keys);
/* A shard has replied. `tenure`: of the ledger when the order was sent; reports of older ones are dropped. */
void grant_reported(struct grant_ledger *ledger, size_t shard, uint32_t tenure,
                    const struct grant_report *report);
/* So many keys the other shards had together at a moment, at least: (6). */
uint64_t grant_fewest_elsewhere(const struct grant_ledger *ledger, size_t shard);
/* Does a shard want more than it has, or to know that there is no more? */
bool grant_is_wanted(const struct grant_ledger *ledger);
