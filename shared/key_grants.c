#include "shared/key_grants.h"

enum {
    EVEN_PART = 4,    /* part of what is left that is spread evenly */
    PROOF_ORDERS = 3, /* (6) */
};

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* ---- a shard ---- */

void key_grant_init(struct key_grant *grant, uint64_t version)
{
    *grant = (struct key_grant){.version = version};
}

static bool accepts(const struct key_grant *grant, const struct grant_order *order, uint64_t now_ms)
{
    if (order->coordinator == grant->coordinator || now_ms >= grant->until_ms)
        return true;
    return order->epoch != grant->epoch ? order->epoch > grant->epoch
                                        : order->coordinator < grant->coordinator;
}

/* Keys that count here, with those that have left. */
static uint64_t keys_counted(const struct key_grant *grant, uint64_t keys)
{
    return keys + grant->leaving[0] + grant->leaving[1];
}

uint64_t key_grant_claim(const struct key_grant *grant, uint64_t keys)
{
    return at_least(grant->keys, keys_counted(grant, keys));
}

uint64_t key_grant_room(const struct key_grant *grant, uint64_t keys)
{
    return minus(grant->keys, keys_counted(grant, keys));
}

void key_grant_leave(struct key_grant *grant, uint64_t keys)
{
    grant->leaving[0] += keys;
}

void key_grant_tick(struct key_grant *grant, uint64_t now_ms)
{
    if (now_ms < grant->turn_ms)
        return;
    grant->turn_ms = now_ms + KEY_GRANT_LEAVE_MS;
    grant->keys = minus(grant->keys, grant->leaving[1]);
    grant->leaving[1] = grant->leaving[0];
    grant->leaving[0] = 0;
}

uint64_t key_grant_proof(const struct key_grant *grant)
{
    return grant->orders + PROOF_ORDERS;
}

bool key_grant_is_full(const struct key_grant *grant, uint64_t proof, uint64_t created,
                       uint64_t max_keys)
{
    return grant->orders >= proof && grant->fewest + created > max_keys;
}

/* Takes over what an accepted order says. `is_in_turn`: it follows the last report of this shard. */
static void follow_order(struct key_grant *grant, const struct grant_order *order, bool is_in_turn,
                         uint64_t fewest_here)
{
    bool is_known = is_in_turn && grant->is_in_turn;
    if (is_in_turn)
        grant->keys = order->keys;
    grant->fewest = is_known ? order->fewest_elsewhere + grant->fewest_here : 0;
    grant->fewest_here = fewest_here;
    grant->is_in_turn = is_in_turn;
    grant->orders++;
}

struct grant_report key_grant_order(struct key_grant *grant, const struct grant_order *order,
                                    const struct grant_keys *here, uint64_t now_ms)
{
    struct grant_report report = {.keys = here->keys, .wants = grant->wants};
    if (accepts(grant, order, now_ms)) {
        report.is_new = order->coordinator != grant->coordinator;
        bool is_in_turn = !report.is_new && order->version == grant->version;
        report.fewest = is_in_turn ? here->fewest : 0;
        follow_order(grant, order, is_in_turn, here->fewest);
        grant->coordinator = order->coordinator;
        grant->epoch = order->epoch;
        grant->until_ms = now_ms + KEY_GRANT_LEASE_MS;
        grant->wants = false;
        report.version = ++grant->version;
    }
    report.claim = key_grant_claim(grant, here->keys);
    return report;
}

/* ---- the coordinator ---- */

/* Another proxy may have changed all grants, and has got reports of its own. */
static void begin_anew(struct grant_ledger *ledger)
{
    ledger->tenure++;
    for (size_t i = 0; i < ledger->count; i++)
        ledger->shares[i].version = ledger->shares[i].fewest = 0;
}

/* Notes the fewest keys, which the shard has counted since its report before. */
static void note_fewest(struct grant_ledger *ledger, struct grant_share *share, uint64_t fewest)
{
    share->fewest = fewest;
    share->fewest_from = share->seen;
    share->fewest_to = share->sent;
    share->seen = ++ledger->clock;
}

void grant_reported(struct grant_ledger *ledger, size_t shard, uint32_t tenure,
                    const struct grant_report *report)
{
    struct grant_share *share = &ledger->shares[shard];
    if (tenure != ledger->tenure)
        return;
    if (report->is_new)
        begin_anew(ledger);
    note_fewest(ledger, share, report->fewest);
    share->version = report->version;
    share->bound = report->claim;
    share->growth = at_least(share->growth / 2, minus(report->keys, share->keys));
    share->keys = report->keys;
    share->wants = report->wants;
}

/* Sums over all shards. */
struct sums {
    uint64_t keys;
    uint64_t bounds;
    uint64_t growth;
    uint64_t wants;
    bool is_complete; /* all have accepted this coordinator */
};

static struct sums sums_of(const struct grant_ledger *ledger)
{
    struct sums sums = {.is_complete = true};
    for (size_t i = 0; i < ledger->count; i++) {
        const struct grant_share *share = &ledger->shares[i];
        sums.keys += share->keys;
        sums.bounds += share->bound;
        sums.growth += share->growth;
        sums.wants += share->wants;
        sums.is_complete = sums.is_complete && share->version;
    }
    return sums;
}

/* One that wants more counts as much as all that only grow. */
static uint64_t weight(const struct grant_share *share, const struct sums *sums)
{
    return share->growth + (share->wants ? 1 + sums->growth : 0);
}

/* The part of the shard in what is left, rounded down. */
static uint64_t part_of(const struct grant_share *share, const struct sums *sums, size_t count,
                        uint64_t left)
{
    uint64_t even = left / EVEN_PART / count;
    uint64_t rest = left - even * count;
    uint64_t all = sums->growth + sums->wants * (1 + sums->growth);
    if (!all)
        return left / count;
    return even + (uint64_t)((double)rest * ((double)weight(share, sums) / (double)all));
}

/* What rounding leaves goes to the shard with the highest weight. */
static uint64_t remainder_for(const struct grant_ledger *ledger, size_t shard,
                              const struct sums *sums, uint64_t left)
{
    const struct grant_share *shares = ledger->shares;
    size_t heaviest = 0;
    uint64_t given = 0;
    for (size_t i = 0; i < ledger->count; i++) {
        given += part_of(&shares[i], sums, ledger->count, left);
        if (weight(&shares[i], sums) > weight(&shares[heaviest], sums))
            heaviest = i;
    }
    return shard == heaviest ? minus(left, given) : 0;
}

uint64_t grant_next(struct grant_ledger *ledger, size_t shard, uint64_t max_keys)
{
    struct grant_share *share = &ledger->shares[shard];
    struct sums sums = sums_of(ledger);
    share->sent = ++ledger->clock;
    if (!sums.is_complete)
        return share->bound;
    /* When the limit was lowered, keys that are deleted must leave no room for new ones. */
    if (sums.keys > max_keys) {
        uint64_t even = max_keys / ledger->count;
        return even < share->keys ? even : share->keys;
    }
    uint64_t left = minus(max_keys, sums.keys);
    uint64_t wanted = share->keys + part_of(share, &sums, ledger->count, left) +
                      remainder_for(ledger, shard, &sums, left);
    uint64_t free = minus(max_keys, sums.bounds);
    uint64_t more = minus(wanted, share->bound);
    if (!more)
        return wanted;
    share->bound += more < free ? more : free;
    return share->bound;
}

uint64_t grant_fewest_elsewhere(const struct grant_ledger *ledger, size_t shard)
{
    uint64_t from = 0;
    uint64_t to = UINT64_MAX;
    uint64_t keys = 0;
    for (size_t i = 0; i < ledger->count; i++) {
        const struct grant_share *share = &ledger->shares[i];
        if (!share->version)
            return 0;
        from = at_least(from, share->fewest_from);
        to = share->fewest_to < to ? share->fewest_to : to;
        keys += i == shard ? 0 : share->fewest;
    }
    return from < to ? keys : 0;
}

bool grant_is_wanted(const struct grant_ledger *ledger)
{
    struct sums sums = sums_of(ledger);
    return sums.is_complete && sums.wants;
}
