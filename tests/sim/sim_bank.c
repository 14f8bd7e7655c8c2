#include "tests/sim/sim_bank.h"

#include "shared/check.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { AMOUNT_UNIT = 1000, AMOUNT_UNITS_MAX = 9 };

void sim_bank_fail(struct sim_bank *bank, const char *format, ...)
{
    va_list args;
    if (bank->why[0])
        return;
    va_start(args, format);
    (void)vsnprintf(bank->why, sizeof bank->why, format, args);
    va_end(args);
}

const char *sim_deal_name(enum deal_kind kind)
{
    static const char *const names[] = {
        [DEAL_EXEC] = "exec",          [DEAL_SCRIPT] = "script", [DEAL_WATCHED] = "watched",
        [DEAL_LMOVE] = "lmove",        [DEAL_SMOVE] = "smove",   [DEAL_RENAME] = "rename",
        [DEAL_MSETNX] = "msetnx",      [DEAL_CLEAR] = "clear",   [LOOK_EXEC] = "look-exec",
        [LOOK_SCRIPT] = "look-script", [DEAL_ENTRY] = "entry",   [DEAL_DEPOSIT] = "deposit",
        [LOOK_LEDGER] = "look-ledger", [DEAL_PAGES] = "pages",   [LOOK_PAGES] = "look-pages",
        [DEAL_RANKED] = "ranked",      [DEAL_MEMBER] = "member", [LOOK_RANKS] = "look-ranks",
        [DEAL_SETUP] = "setup"};
    return names[kind];
}

/* ---- keys ---- */

/* Finds a name on the shard. */
static void name_key(const struct sim_bank *bank, char *name, const char *word, unsigned number,
                     unsigned shard)
{
    unsigned try = 0;
    do
        (void)snprintf(name, SIM_NAMES_MAX, "%s-%u-%u", word, number, try++);
    while (sim_cluster_shard(bank->cluster, slot_of(bytes_of(name))) != shard);
}

void sim_bank_init(struct sim_bank *bank, struct sim_cluster *cluster, bool is_across_only,
                   unsigned neighbours)
{
    unsigned shards = cluster->shard_count;
    *bank = (struct sim_bank){.cluster = cluster, .is_across_only = is_across_only};
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        struct sim_ledger *ledger = &bank->ledgers[i];
        ledger->account_shard = i / neighbours % shards;
        ledger->shard = is_across_only   ? (i + 1) % shards
                        : neighbours > 1 ? ledger->account_shard
                                         : (unsigned)sim_random(shards);
        name_key(bank, ledger->account, "account", i, ledger->account_shard);
        name_key(bank, ledger->key, "ledger", i, ledger->shard);
        name_key(bank, ledger->table, "table", i, ledger->shard);
    }
    for (unsigned i = 0; i < BANK_PLACES; i++) {
        name_key(bank, bank->purses[i], "purse", i, i / neighbours % shards);
        name_key(bank, bank->bags[i], "bag", i, i / neighbours % shards);
        name_key(bank, bank->trio[i], "trio", i, i / neighbours % shards);
        for (unsigned thing = 0; thing < BANK_THINGS; thing++)
            name_key(bank, bank->tokens[thing][i], "token", thing, i % shards);
    }
    for (unsigned i = 0; i < BANK_PAGES; i++)
        name_key(bank, bank->pages[i], "page", i, i % shards);
}

/* ---- deals ---- */

static void begin_look(const struct sim_bank *bank, struct sim_deal *deal)
{
    deal->accounts =
        sim_random(2) ? (1u << BANK_ACCOUNTS) - 1 : (1u << deal->from) | (1u << deal->to);
    deal->has_rest = sim_random(3) == 0;
    if (deal->kind == LOOK_LEDGER)
        deal->accounts = 1u << deal->from;
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++)
        deal->deposits[i] = bank->ledgers[i].deposits_done;
}

/* The next account, from `from` on, whose key the shard has; -1: none. */
static int account_on(const struct sim_bank *bank, enum deal_kind kind, unsigned from, int shard)
{
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        unsigned account = (from + i) % BANK_ACCOUNTS;
        const struct sim_ledger *ledger = &bank->ledgers[account];
        unsigned has = kind == DEAL_DEPOSIT ? ledger->account_shard : ledger->shard;
        if (shard < 0 || has == (unsigned)shard)
            return (int)account;
    }
    return -1;
}

struct sim_deal *sim_bank_begin(struct sim_bank *bank, enum deal_kind kind, int shard)
{
    unsigned among = kind >= DEAL_LMOVE && kind <= DEAL_CLEAR ? BANK_PLACES : BANK_ACCOUNTS;
    int from = (int)sim_random(among);
    if (kind >= DEAL_ENTRY && kind <= LOOK_RANKS)
        from = account_on(bank, kind, (unsigned)from, shard);
    if (from < 0 || bank->count == BANK_DEALS_MAX)
        return NULL;
    struct sim_deal *deal = &bank->deals[bank->count];
    *deal = (struct sim_deal){.kind = kind,
                              .number = bank->count++,
                              .from = (unsigned)from,
                              .thing = (unsigned)sim_random(BANK_THINGS),
                              .amount = AMOUNT_UNIT * (1 + (int64_t)sim_random(AMOUNT_UNITS_MAX)),
                              .sent_us = sim_now_us(),
                              .ended_us = UINT64_MAX};
    deal->to = (deal->from + 1 + (unsigned)sim_random(among - 1)) % among;
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++)
        deal->entries[i] = -1;
    if (kind == LOOK_EXEC || kind == LOOK_SCRIPT || kind == LOOK_LEDGER)
        begin_look(bank, deal);
    if (kind == DEAL_DEPOSIT)
        bank->ledgers[deal->from].deposits_sent++;
    return deal;
}

static void trace(const struct sim_bank *bank, const struct sim_deal *deal, struct bytes reply)
{
    static const char *const fates[] = {"open", "done", "refused", "unknown"};
    if (bank->trace)
        (void)fprintf(bank->trace,
                      "%10" PRIu64 " deal %u %s %u-%u thing %u since %" PRIu64 ": %s %.*s\n",
                      sim_now_us() % 1000000000, deal->number, sim_deal_name(deal->kind),
                      deal->from, deal->to, deal->thing, deal->sent_us % 1000000000,
                      fates[deal->fate], (int)(reply.len < 100 ? reply.len : 100), reply.data);
}

void sim_bank_end(struct sim_bank *bank, struct sim_deal *deal, enum deal_fate fate,
                  struct bytes reply)
{
    CHECK(deal->fate == DEAL_OPEN);
    deal->fate = fate;
    trace(bank, deal, reply);
    if (fate != DEAL_UNKNOWN)
        deal->ended_us = sim_now_us();
    if (deal->kind == DEAL_DEPOSIT) {
        bank->ledgers[deal->from].deposits_done += fate == DEAL_DONE;
        bank->ledgers[deal->from].deposits_sent -= fate == DEAL_REFUSED;
    }
    bank->done[deal->kind] += fate == DEAL_DONE;
    bank->refused += fate == DEAL_REFUSED;
    bank->unknown += fate == DEAL_UNKNOWN;
    sim_note("deal", deal->number * 4 + fate);
}

unsigned sim_bank_done(const struct sim_bank *bank)
{
    unsigned done = 0;
    for (unsigned kind = 0; kind < DEAL_KINDS; kind++)
        done += bank->done[kind];
    return done;
}

/* ---- what reads see ---- */

static struct resp_value next_value(struct bytes frame, size_t *pos)
{
    struct resp_value value;
    CHECK(resp_value_next(frame, pos, &value));
    return value;
}

static int64_t number_of(struct bytes text)
{
    int64_t number = 0;
    return number_parse_int64(text, &number) ? number : INT64_MIN;
}

static void read_entry(struct sim_bank *bank, unsigned account, int at, int64_t number)
{
    struct sim_ledger *ledger = &bank->ledgers[account];
    if (number < 0 || number >= (int64_t)bank->count || at == BANK_DEALS_MAX) {
        sim_bank_fail(bank, "ledger %u has an entry that is no deal", account);
        return;
    }
    if (at == ledger->count)
        ledger->entries[ledger->count++] = (unsigned)number;
    if (ledger->entries[at] != number)
        sim_bank_fail(bank, "ledger %u: entry %d is deal %" PRId64 ", and was deal %u", account, at,
                      number, ledger->entries[at]);
}

static void read_ledger(struct sim_bank *bank, struct sim_deal *deal, unsigned account,
                        struct bytes frame, size_t *pos)
{
    struct resp_value list = next_value(frame, pos);
    for (int64_t i = 0; i < list.count; i++) {
        int64_t number = number_of(next_value(frame, pos).text);
        if (!bank->why[0])
            read_entry(bank, account, (int)i, number);
    }
    deal->entries[account] = (int)list.count;
}

/* The balance without deposits, as the first `count` entries of the ledger say. */
static int64_t balance_of(const struct sim_bank *bank, unsigned account, int count)
{
    int64_t balance = BANK_START;
    for (int i = 0; i < count; i++) {
        const struct sim_deal *deal = &bank->deals[bank->ledgers[account].entries[i]];
        if (deal->kind != DEAL_ENTRY)
            balance += deal->from == account ? -deal->amount : deal->amount;
    }
    return balance;
}

static void check_balance(struct sim_bank *bank, const struct sim_deal *deal, unsigned account,
                          int64_t balance)
{
    const struct sim_ledger *ledger = &bank->ledgers[account];
    int64_t deposits = balance - balance_of(bank, account, deal->entries[account]);
    if (deposits < deal->deposits[account] || deposits > ledger->deposits_sent)
        sim_bank_fail(bank,
                      "account %u has %" PRId64 ": %" PRId64 " more than its ledger says, between "
                      "%" PRId64 " and %" PRId64 " expected (deal %u)",
                      account, balance, deposits, deal->deposits[account], ledger->deposits_sent,
                      deal->number);
}

static int find_entry(const struct sim_bank *bank, unsigned account, int count, unsigned number)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += bank->ledgers[account].entries[i] == number;
    return found;
}

/* A deal is in both ledgers once. */
static void check_entries(struct sim_bank *bank, const struct sim_deal *look, unsigned account)
{
    for (int i = 0; i < look->entries[account]; i++) {
        const struct sim_deal *deal = &bank->deals[bank->ledgers[account].entries[i]];
        unsigned other = deal->from == account ? deal->to : deal->from;
        if (find_entry(bank, account, look->entries[account], deal->number) != 1)
            sim_bank_fail(bank, "deal %u is in ledger %u twice", deal->number, account);
        if (deal->kind != DEAL_ENTRY && look->entries[other] >= 0 &&
            find_entry(bank, other, look->entries[other], deal->number) != 1)
            sim_bank_fail(bank, "deal %u is in ledger %u and not in %u (deal %u)", deal->number,
                          account, other, look->number);
    }
}

/* Reads `places` lists or sets of things, of which each must be there once. */
static void read_things(struct sim_bank *bank, const char *what, struct bytes frame, size_t *pos)
{
    unsigned found[BANK_THINGS] = {0};
    for (unsigned place = 0; place < BANK_PLACES; place++) {
        struct resp_value list = next_value(frame, pos);
        for (int64_t i = 0; i < list.count; i++) {
            int64_t thing = number_of(next_value(frame, pos).text);
            CHECK(thing >= 0 && thing < BANK_THINGS);
            found[thing]++;
        }
    }
    for (unsigned i = 0; i < BANK_THINGS; i++)
        if (found[i] != 1)
            sim_bank_fail(bank, "%s %u exists %u times", what, i, found[i]);
}

/* Each token has one of its names. */
static void read_tokens(struct sim_bank *bank, struct bytes frame, size_t *pos)
{
    for (unsigned thing = 0; thing < BANK_THINGS; thing++) {
        unsigned found = 0;
        for (unsigned place = 0; place < BANK_PLACES; place++)
            found += !next_value(frame, pos).is_null;
        if (found != 1)
            sim_bank_fail(bank, "token %u exists %u times", thing, found);
    }
}

/* Reads values, which must be equal. Returns the number of those that exist. */
static unsigned read_equal(struct sim_bank *bank, const char *what, unsigned count,
                           struct bytes frame, size_t *pos)
{
    struct resp_value first = next_value(frame, pos);
    for (unsigned i = 1; i < count; i++) {
        struct resp_value value = next_value(frame, pos);
        if (value.is_null != first.is_null || !bytes_equal(value.text, first.text))
            sim_bank_fail(bank, "%s differ: %.*s and %.*s", what, (int)first.text.len,
                          first.text.data, (int)value.text.len, value.text.data);
    }
    return first.is_null ? 0 : count;
}

/* KEYS, DBSIZE, and the pages. */
static void read_pages(struct sim_bank *bank, struct bytes frame, size_t *pos)
{
    struct resp_value keys = next_value(frame, pos);
    for (int64_t i = 0; i < keys.count; i++)
        (void)next_value(frame, pos);
    int64_t count = number_of(next_value(frame, pos).text);
    unsigned pages = read_equal(bank, "pages", BANK_PAGES, frame, pos);
    if (keys.count != pages || count != pages)
        sim_bank_fail(bank, "KEYS has %" PRId64 " keys, DBSIZE is %" PRId64 ", of %u pages",
                      keys.count, count, pages);
}

/* The number of members of a table, the rank of m150 (score 1500), the number of smaller scores, and all members. */
static void read_table(struct sim_bank *bank, const struct sim_deal *deal, struct bytes frame,
                       size_t *pos)
{
    struct resp_value list = next_value(frame, pos);
    int64_t size = number_of(next_value(frame, pos).text);
    int64_t rank = number_of(next_value(frame, pos).text);
    int64_t before = number_of(next_value(frame, pos).text);
    int64_t place = -1;
    for (int64_t i = 0; i < list.count - 3; i++)
        if (bytes_equal(next_value(frame, pos).text, BYTES("m150")))
            place = i;
    if (size != list.count - 3 || rank != place || before != place)
        sim_bank_fail(bank,
                      "table %u: %" PRId64 " of %" PRId64 " members; m150 is number %" PRId64
                      ", its rank is %" PRId64 ", with %" PRId64 " smaller scores (deal %u)",
                      deal->from, list.count - 3, size, place, rank, before, deal->number);
}

/* The rank of m150 in each table, and the number of smaller scores. */
static void read_ranks(struct sim_bank *bank, struct bytes frame, size_t *pos)
{
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        int64_t rank = number_of(next_value(frame, pos).text);
        int64_t before = number_of(next_value(frame, pos).text);
        if (rank != before)
            sim_bank_fail(bank, "table %u: rank %" PRId64 ", with %" PRId64 " smaller scores", i,
                          rank, before);
    }
}

void sim_bank_look(struct sim_bank *bank, struct sim_deal *deal, struct bytes frame)
{
    int64_t balances[BANK_ACCOUNTS];
    size_t pos = 0;
    if (deal->kind == LOOK_LEDGER) {
        read_ledger(bank, deal, deal->from, frame, &pos);
        return;
    }
    if (deal->kind == LOOK_RANKS) {
        read_table(bank, deal, frame, &pos);
        return;
    }
    CHECK(next_value(frame, &pos).type == '*');
    if (deal->kind == LOOK_PAGES) {
        read_pages(bank, frame, &pos);
        return;
    }
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        if (!(deal->accounts & 1u << i))
            continue;
        balances[i] = number_of(next_value(frame, &pos).text);
        read_ledger(bank, deal, i, frame, &pos);
    }
    for (unsigned i = 0; i < BANK_ACCOUNTS && !bank->why[0]; i++) {
        if (!(deal->accounts & 1u << i))
            continue;
        check_balance(bank, deal, i, balances[i]);
        check_entries(bank, deal, i);
    }
    if (!deal->has_rest)
        return;
    read_things(bank, "coin", frame, &pos);
    read_things(bank, "member", frame, &pos);
    read_tokens(bank, frame, &pos);
    (void)read_equal(bank, "keys of one MSETNX", BANK_PLACES, frame, &pos);
    read_ranks(bank, frame, &pos);
}

/* ---- at the end ---- */

static bool is_entered(const struct sim_deal *deal)
{
    return deal->kind <= DEAL_WATCHED || deal->kind == DEAL_ENTRY;
}

/* Is an acknowledged deal there, and a refused one not? */
static void check_fates(struct sim_bank *bank)
{
    for (unsigned i = 0; i < bank->count; i++) {
        const struct sim_deal *deal = &bank->deals[i];
        const struct sim_ledger *ledger = &bank->ledgers[deal->from];
        if (!is_entered(deal))
            continue;
        int found = find_entry(bank, deal->from, ledger->count, deal->number);
        if (deal->fate == DEAL_DONE && !found)
            sim_bank_fail(bank, "deal %u was acknowledged, and is lost", deal->number);
        if (deal->fate == DEAL_REFUSED && found)
            sim_bank_fail(bank, "deal %u was refused, and is there", deal->number);
    }
}

/* Something that has a place in the order: a deal that took effect, or a read that was answered. For each ledger, the
 * number of entries that come before it; -1: it does not concern the ledger. */
struct node {
    const struct sim_deal *deal;
    int before[BANK_ACCOUNTS];
    bool is_writer;
    bool is_ordered;
};

static unsigned make_nodes(const struct sim_bank *bank, struct node nodes[BANK_DEALS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < bank->count; i++) {
        const struct sim_deal *deal = &bank->deals[i];
        struct node *node = &nodes[count];
        bool is_there = false;
        *node = (struct node){.deal = deal, .is_writer = is_entered(deal)};
        for (unsigned j = 0; j < BANK_ACCOUNTS; j++) {
            node->before[j] = deal->entries[j];
            for (int at = 0; node->is_writer && at < bank->ledgers[j].count; at++)
                if (bank->ledgers[j].entries[at] == deal->number)
                    node->before[j] = at;
            is_there |= node->before[j] >= 0;
        }
        count += is_there;
    }
    return count;
}

/* Is there a read that comes before the writer, because it has not seen the writer's entry? */
static bool is_read_before(const struct node *writer, const struct node *nodes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < BANK_ACCOUNTS && !nodes[i].is_ordered && !nodes[i].is_writer; j++)
            if (writer->before[j] >= 0 && nodes[i].before[j] == writer->before[j])
                return true;
    return false;
}

/* Can the node be the next one in the order, after those that added `entries` to the ledgers? Of those left, none may
 * have ended before this one began. */
static bool may_be_next(const struct node *node, const int entries[BANK_ACCOUNTS],
                        uint64_t first_end_us)
{
    bool may = node->deal->sent_us <= first_end_us;
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++)
        may = may && (node->before[i] < 0 || node->before[i] == entries[i]);
    return may;
}

static uint64_t first_end(const struct node *nodes, unsigned count)
{
    uint64_t first = UINT64_MAX;
    for (unsigned i = 0; i < count; i++)
        if (!nodes[i].is_ordered && nodes[i].deal->ended_us < first)
            first = nodes[i].deal->ended_us;
    return first;
}

/* Puts a node into the order. False: none can be next. */
static bool order_next(struct node *nodes, unsigned count, int entries[BANK_ACCOUNTS])
{
    uint64_t first_end_us = first_end(nodes, count);
    for (unsigned i = 0; i < count; i++) {
        struct node *node = &nodes[i];
        if (node->is_ordered || !may_be_next(node, entries, first_end_us) ||
            (node->is_writer && is_read_before(node, nodes, count)))
            continue;
        node->is_ordered = true;
        for (unsigned j = 0; j < BANK_ACCOUNTS && node->is_writer; j++)
            entries[j] += node->before[j] >= 0;
        return true;
    }
    return false;
}

static void check_order(struct sim_bank *bank)
{
    static struct node nodes[BANK_DEALS_MAX];
    int entries[BANK_ACCOUNTS] = {0};
    unsigned count = make_nodes(bank, nodes);
    for (unsigned left = count; left > 0; left--) {
        if (order_next(nodes, count, entries))
            continue;
        unsigned stuck = 0;
        while (nodes[stuck].is_ordered)
            stuck++;
        sim_bank_fail(bank,
                      "no order explains what was read and when: %u deals left, deal %u first",
                      left, nodes[stuck].deal->number);
        return;
    }
}

void sim_bank_check_end(struct sim_bank *bank)
{
    check_fates(bank);
    if (!bank->why[0])
        check_order(bank);
}
