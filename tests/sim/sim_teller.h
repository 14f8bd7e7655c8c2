/*
 * sim_teller.h - simulated clients of a bank (sim_bank.h): one deal at a time, through a proxy or directly.
 *
 *   deal ─► requests ─► replies, of which the last decides ─► DONE, REFUSED (TRYAGAIN, null) or UNKNOWN
 *
 * A direct client connects to a partition as a proxy does, and sends SCREE ACROSS itself. It may choose any partition as the
 * coordinator, also one that has none of the keys.
 */
#pragma once

#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim_bank.h"

enum { SIM_TELLERS_MAX = 10 };

struct sim_teller {
    struct sim_bank *bank;
    char name[SIM_NAMES_MAX]; /* of its host */
    struct loop *loop;
    struct timer *timer;
    struct stream *stream; /* NULL: not connected */
    struct resp_skip skip;
    int proxy;             /* number of its proxy; -1: it connects to a partition */
    unsigned shard;        /* the partition's shard */
    uint32_t kinds;        /* bit set of the deals that it makes */
    unsigned quota;        /* deals that it may still make */
    unsigned greetings;    /* outstanding replies to its greeting */
    unsigned replies;      /* outstanding replies to the deal's requests */
    struct sim_deal *deal; /* NULL: none is open */
    bool is_at_pages;      /* its connection uses the database of the pages */
    bool has_read;         /* WATCHED: the second requests were sent */
    bool is_stubborn;      /* it repeats its only deal until that is done */
};

void sim_teller_start(struct sim_teller *teller, struct sim_bank *bank, unsigned number,
                      uint32_t kinds, unsigned quota);
/* Makes this deal, again and again until it is done; LOOK_EXEC reads everything. Through the proxy, or (-1) at the shard. */
void sim_teller_start_one(struct sim_teller *teller, struct sim_bank *bank, unsigned number,
                          enum deal_kind kind, int proxy, unsigned shard);
/* It makes no more deals; an open one may end. */
void sim_teller_end(struct sim_teller *teller);
bool sim_teller_is_idle(const struct sim_teller *teller);
/* Disconnects and frees. */
void sim_teller_fini(struct sim_teller *teller);
