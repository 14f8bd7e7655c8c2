/*
 * zset_pop.c - pops the lowest or highest members, with or without blocking; and random members.
 */
#include "backend/commands/sample.h"
#include "backend/commands/zset.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

/* ---- popping ---- */

/* What to pop, and the form of the reply. */
struct pop {
    const struct bytes *keys;
    uint32_t keys_count;
    uint64_t count;
    bool is_max;
    bool with_key;  /* the reply begins with the key */
    bool is_nested; /* each member and its score are an array */
};

static void reply_popped(struct call *call, const struct pop *pop, struct bytes key,
                         const struct zset_rows *rows)
{
    int64_t count = (int64_t)rows->count;
    if (pop->with_key) {
        reply_array(&call->reply, pop->is_nested ? 2 : 1 + 2 * count);
        reply_bulk(&call->reply, key);
    }
    if (pop->is_nested)
        reply_array(&call->reply, count);
    else if (!pop->with_key)
        reply_array(&call->reply, 2 * count);
    for (uint64_t i = 0; i < rows->count && call_goes_on(call, BUDGET_ROW); i++) {
        if (pop->is_nested)
            reply_array(&call->reply, 2);
        reply_bulk(&call->reply, rows->row[i].member);
        reply_double(&call->reply, rows->row[i].score);
    }
}

/* Pops members of an existing sorted set and replies them. */
static void pop_from_zset(struct call *call, const struct pop *pop, struct entry *entry)
{
    struct zset_iter iter;
    struct zset_rows rows = {0};
    struct bytes from = NOTHING;
    if (!pop->is_max && !zset_first_bound(call, entry, &from))
        return;
    zset_iter_init(call, entry, from, NOTHING, pop->is_max, &iter);
    while (rows.count < pop->count && zset_iter_next(&iter))
        zset_rows_add(call, &rows, iter.member, iter.score);
    if (!zset_iter_fini(&iter))
        return;
    reply_popped(call, pop, entry->key, &rows);
    if (!zset_remove_rows(call, entry, &rows))
        return;
    notify(call, NOTIFY_ZSET, pop->is_max ? "zpopmax" : "zpopmin", entry->key);
    if (!entry->exists)
        notify(call, NOTIFY_GENERIC, "del", entry->key);
}

/* Pops from the first sorted set that exists. True: members or an error were replied. */
static bool pop_first_zset(struct call *call, const struct pop *pop)
{
    struct entry entry;
    for (uint32_t i = 0; i < pop->keys_count; i++) {
        if (call->ready_key && !bytes_equal(pop->keys[i], *call->ready_key))
            continue;
        if (!keyspace_open_type(call, pop->keys[i], TYPE_ZSET, OPEN_WRITE, &entry))
            return true;
        if (entry.exists && pop->count) {
            pop_from_zset(call, pop, &entry);
            return true;
        }
    }
    return false;
}

static void pop_members(struct call *call, bool is_max)
{
    struct pop pop = {.keys = &call->argv[1], .keys_count = 1, .count = 1, .is_max = is_max};
    if (call->argc > 3) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (call->argc == 3) {
        int64_t count;
        if (!number_parse_int64(call->argv[2], &count) || count < 0) {
            call_error_text(call, "ERR value is out of range, must be positive");
            return;
        }
        pop.count = (uint64_t)count;
        pop.is_nested = call->reply.resp >= 3;
    }
    if (!pop_first_zset(call, &pop))
        reply_array(&call->reply, 0);
}

void cmd_zpopmin(struct call *call)
{
    pop_members(call, false);
}

void cmd_zpopmax(struct call *call)
{
    pop_members(call, true);
}

static void pop_zset_or_wait(struct call *call, const struct pop *pop, uint32_t timeout_at)
{
    uint64_t timeout_ms;
    if (!blocking_timeout(call, timeout_at, &timeout_ms) || pop_first_zset(call, pop))
        return;
    if (!blocking_wait(call, pop->keys, pop->keys_count, timeout_ms))
        reply_null_array(&call->reply);
}

static void blocking_zset_pop(struct call *call, bool is_max)
{
    const struct pop pop = {.keys = &call->argv[1],
                            .keys_count = call->argc - 2,
                            .count = 1,
                            .is_max = is_max,
                            .with_key = true};
    pop_zset_or_wait(call, &pop, call->argc - 1);
}

void cmd_bzpopmin(struct call *call)
{
    blocking_zset_pop(call, false);
}

void cmd_bzpopmax(struct call *call)
{
    blocking_zset_pop(call, true);
}

static bool syntax_error(struct call *call)
{
    call_error(call, ERR_SYNTAX);
    return false;
}

/* Parses numkeys key … MIN|MAX [COUNT n]. */
static bool parse_zmpop(struct call *call, struct pop *pop)
{
    const struct counted_errors errors = {"ERR numkeys should be greater than 0",
                                          "ERR numkeys should be greater than 0",
                                          error_text(ERR_SYNTAX)};
    struct counted_keys keys;
    if (!call_counted_keys(call, &errors, &keys))
        return false;
    *pop = (struct pop){.keys = &call->argv[keys.first],
                        .keys_count = keys.count,
                        .count = 1,
                        .with_key = true,
                        .is_nested = true};
    uint32_t end_at = keys.behind;
    pop->is_max = bytes_is(call->argv[end_at], "MAX");
    if (!pop->is_max && !bytes_is(call->argv[end_at], "MIN"))
        return syntax_error(call);
    if (end_at + 1 == call->argc)
        return true;
    if (!bytes_is(call->argv[end_at + 1], "COUNT") || end_at + 2 == call->argc)
        return syntax_error(call);
    if (!call_positive(call, end_at + 2, "ERR count should be greater than 0", &pop->count))
        return false;
    return end_at + 3 == call->argc || syntax_error(call);
}

void cmd_zmpop(struct call *call)
{
    struct pop pop;
    if (parse_zmpop(call, &pop) && !pop_first_zset(call, &pop))
        reply_null_array(&call->reply);
}

void cmd_bzmpop(struct call *call)
{
    struct pop pop;
    if (parse_zmpop(call, &pop))
        pop_zset_or_wait(call, &pop, 1);
}

/* ---- ZRANDMEMBER ---- */

enum {
    SCAN_RATIO = 16
}; /* for more than size / 16 members one iteration is cheaper than single lookups */

static void reply_picks(struct call *call, const struct sample *picks, uint64_t count,
                        bool with_scores)
{
    for (uint64_t i = 0; picks && i < count; i++)
        zset_reply_row(&call->reply, zset_place_member(picks[i].sub),
                       zset_place_score(picks[i].sub), with_scores);
}

/* For many members: iterates and takes each with probability needed / remaining (Knuth's algorithm S). */
static void random_many(struct call *call, struct entry *entry, uint64_t needed, bool with_scores)
{
    struct zset_iter iter;
    uint64_t remaining = entry->meta.size;
    zset_iter_init(call, entry, NOTHING, NOTHING, false, &iter);
    for (; needed > 0 && zset_iter_next(&iter); remaining--)
        if (call_random(call) % remaining < needed) {
            zset_reply_row(&call->reply, iter.member, iter.score, with_scores);
            needed--;
        }
    if (zset_iter_fini(&iter))
        (void)call_rows_end(call, needed);
}

static void random_members_repeated(struct call *call, struct entry *entry, uint64_t count,
                                    bool with_scores)
{
    if (count <= entry->meta.size / SCAN_RATIO) {
        reply_picks(call, sample_repeated(call, entry, CF_ZSET_SCORE, count), count, with_scores);
        return;
    }
    struct zset_iter iter;
    struct zset_rows rows = {0};
    zset_iter_init(call, entry, NOTHING, NOTHING, false, &iter);
    while (zset_iter_next(&iter))
        zset_rows_add(call, &rows, iter.member, iter.score);
    if (!zset_iter_fini(&iter) || !call_rows_end(call, rows.count == 0))
        return;
    for (uint64_t i = 0; i < count && call_goes_on(call, BUDGET_ROW); i++) {
        const struct zset_row *row = &rows.row[call_random(call) % rows.count];
        zset_reply_row(&call->reply, row->member, row->score, with_scores);
    }
}

void cmd_zrandmember(struct call *call)
{
    struct entry entry;
    struct sample_wish wish;
    if (!sample_parse(call, "withscores", &wish) || !zset_open_read(call, call->argv[1], &entry) ||
        !sample_bound(call, &entry, &wish))
        return;
    if (wish.has_count)
        reply_array(&call->reply, zset_reply_count(call, wish.count, wish.has_option));
    else if (!entry.exists)
        reply_null(&call->reply);
    if (wish.count == 0)
        return;
    if (wish.repeats)
        random_members_repeated(call, &entry, wish.count, wish.has_option);
    else if (wish.count <= entry.meta.size / SCAN_RATIO)
        reply_picks(call, sample_distinct(call, &entry, CF_ZSET_SCORE, wish.count), wish.count,
                    wish.has_option);
    else
        random_many(call, &entry, wish.count, wish.has_option);
}
