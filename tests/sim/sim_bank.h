/*
 * sim_bank.h - accounts, ledgers and things that clients move between shards, and what must hold whenever they are read.
 *
 *   deal 9 moves 500 from account 0 to account 2, as EXEC, a script, or WATCH and EXEC:
 *
 *     INCRBY account-0 -500 · INCRBY account-2 500 · RPUSH ledger-0 9 · RPUSH ledger-2 9       four keys, any shards
 *
 * The ledgers are the history: each lists the deals of an account in the order in which they took effect. So
 *
 * (1) an account's balance is what its ledger says, in every atomic read; the sum of all accounts is constant, apart
 *     from deposits, which are single INCRBY commands of ordinary clients;
 * (2) a deal is in both ledgers once or in none; an acknowledged one is there, one that was refused is not;
 * (3) reads and deals have an order in which every read sees exactly the deals before it, and which agrees with time: what
 *     ended before something else began comes before it (strict serializability);
 * (4) a database has eight equal pages or none, and KEYS and DBSIZE see them together;
 * (5) tables are sorted sets with rank trees: the rank of a member is the number of members that a read finds before it, also when
 *     single commands and transactions change them in turn;
 * (6) coins, tokens and members, which LMOVE, RENAME and SMOVE move, exist once; three keys of an MSETNX are equal.
 */
#pragma once

#include "shared/bytes.h"
#include "tests/sim/sim_cluster.h"

#include <stdio.h>

enum {
    BANK_ACCOUNTS = 4,
    BANK_PLACES =
        3, /* purses with coins, bags with members, names of each token, keys of a MSETNX */
    BANK_PAGES = 8,
    BANK_THINGS = 4, /* coins, members, tokens */
    BANK_DEALS_MAX = 2048,
    BANK_START = 100000, /* in each account */
    BANK_MEMBERS = 160,  /* of each table at first: m000 with score 0, m001 with 10 … */
};

enum deal_kind {
    DEAL_EXEC,
    DEAL_SCRIPT,
    DEAL_WATCHED, /* WATCH, read, MULTI, SET, EXEC */
    DEAL_LMOVE,
    DEAL_SMOVE,
    DEAL_RENAME,
    DEAL_MSETNX,
    DEAL_CLEAR,  /* EXEC that deletes the keys of the MSETNX */
    DEAL_RANKED, /* EXEC that adds a member to two tables */
    LOOK_EXEC,   /* reads accounts, perhaps all, and perhaps everything else */
    LOOK_SCRIPT,
    DEAL_ENTRY, /* RPUSH to one ledger: from here on commands with one key, sent to its shard */
    DEAL_DEPOSIT,
    LOOK_LEDGER,
    DEAL_MEMBER, /* adds a member to a table */
    LOOK_RANKS,  /* reads a table and a rank in it, by a script */
    DEAL_PAGES,  /* in another database: FLUSHDB, or new pages, or both */
    LOOK_PAGES,  /* KEYS and DBSIZE there, and all pages */
    DEAL_KINDS,
    DEAL_SETUP, /* the first state of everything */
};

enum deal_fate { DEAL_OPEN, DEAL_DONE, DEAL_REFUSED, DEAL_UNKNOWN };

struct sim_deal {
    enum deal_kind kind;
    enum deal_fate fate;
    unsigned number;
    unsigned from, to; /* accounts, or places */
    unsigned thing;
    int64_t amount;
    int64_t balances[2]; /* WATCHED: what was read */
    unsigned accounts;   /* LOOK: bit set of accounts and ledgers that are read */
    bool has_rest;       /* LOOK: everything else is read too */
    uint64_t sent_us;
    uint64_t ended_us;               /* of its reply; UINT64_MAX: there was none */
    int entries[BANK_ACCOUNTS];      /* LOOK: entries that the ledger had; -1: not read */
    int64_t deposits[BANK_ACCOUNTS]; /* LOOK: acknowledged when it was sent */
};

struct sim_ledger {
    unsigned shard; /* of the ledger */
    unsigned account_shard;
    char account[SIM_NAMES_MAX];
    char key[SIM_NAMES_MAX];
    char table[SIM_NAMES_MAX];        /* on the ledger's shard */
    unsigned entries[BANK_DEALS_MAX]; /* numbers of deals */
    int count;
    int64_t deposits_sent, deposits_done;
};

struct sim_bank {
    struct sim_cluster *cluster;
    /* Crashes may lose what is not synced: all deals concern several shards, which are always synced. */
    bool is_across_only;
    bool may_fail; /* a fault has happened: errors are allowed */
    bool must_try; /* whatever can be tried again inside is: no client of a proxy gets TRYAGAIN */
    struct sim_ledger ledgers[BANK_ACCOUNTS];
    char purses[BANK_PLACES][SIM_NAMES_MAX];
    char bags[BANK_PLACES][SIM_NAMES_MAX];
    char tokens[BANK_THINGS][BANK_PLACES][SIM_NAMES_MAX];
    char trio[BANK_PLACES][SIM_NAMES_MAX];
    char pages[BANK_PAGES][SIM_NAMES_MAX];
    struct sim_deal deals[BANK_DEALS_MAX];
    unsigned count;
    unsigned done[DEAL_SETUP + 1], refused, unknown;
    FILE *trace;   /* NULL: none */
    char why[400]; /* the first failure; empty: none */
};

/* So many accounts and places in turn are on the same shard. */
void sim_bank_init(struct sim_bank *bank, struct sim_cluster *cluster, bool is_across_only,
                   unsigned neighbours);
const char *sim_deal_name(enum deal_kind kind);
void sim_bank_fail(struct sim_bank *bank, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Begins a deal with random accounts, places and amount. A command with one key gets a key of the `shard`; -1: of any.
 * NULL: there is no such key, or there are BANK_DEALS_MAX already. */
struct sim_deal *sim_bank_begin(struct sim_bank *bank, enum deal_kind kind, int shard);
/* `reply`: the one that decided; for the trace. */
void sim_bank_end(struct sim_bank *bank, struct sim_deal *deal, enum deal_fate fate,
                  struct bytes reply);

/* Number of deals that were acknowledged. */
unsigned sim_bank_done(const struct sim_bank *bank);
/* Checks the reply of a LOOK, without its error or null. */
void sim_bank_look(struct sim_bank *bank, struct sim_deal *deal, struct bytes frame);
/* After the last LOOK, which has read everything. */
void sim_bank_check_end(struct sim_bank *bank);
