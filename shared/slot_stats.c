#include "shared/slot_stats.h"

#include "shared/check.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const metric_names[SLOT_METRICS] = {
    [SLOT_KEY_COUNT] = "key-count",
    [SLOT_CPU_USEC] = "cpu-usec",
    [SLOT_BYTES_IN] = "network-bytes-in",
    [SLOT_BYTES_OUT] = "network-bytes-out",
};

/* ---- arguments ---- */

static const char *parse_slots(struct slot_stats_query *query, const struct bytes *argv)
{
    int64_t first;
    int64_t last;
    if (!number_parse_int64(argv[3], &first) || first < 0 || first >= SLOT_COUNT ||
        !number_parse_int64(argv[4], &last) || last < 0 || last >= SLOT_COUNT)
        return "ERR Invalid or out of range slot";
    if (first > last) {
        (void)snprintf(query->error, sizeof query->error,
                       "ERR Start slot number %d is greater than end slot number %d", (int)first,
                       (int)last);
        return query->error;
    }
    query->first = (unsigned)first;
    query->last = (unsigned)last;
    return NULL;
}

static const char *parse_slot_limit(struct slot_stats_query *query, struct bytes text)
{
    int64_t limit;
    if (!number_parse_int64(text, &limit) || limit < 1 || limit > SLOT_COUNT)
        return "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
    query->limit = (uint32_t)limit;
    return NULL;
}

static const char *parse_order(struct slot_stats_query *query, const struct bytes *argv,
                               uint32_t argc)
{
    unsigned limits = 0;
    unsigned directions = 0;
    const char *error = NULL;
    query->is_ordered = true;
    while (query->metric < SLOT_METRICS && !bytes_is(argv[3], metric_names[query->metric]))
        query->metric++;
    if (query->metric == SLOT_METRICS)
        return "ERR Unrecognized sort metric for ORDERBY.";
    for (uint32_t i = 4; i < argc && !error; i++) {
        if (bytes_is(argv[i], "limit") && i + 1 < argc) {
            error = parse_slot_limit(query, argv[++i]);
            limits++;
        } else if (bytes_is(argv[i], "asc") || bytes_is(argv[i], "desc")) {
            query->is_ascending = bytes_is(argv[i], "asc");
            directions++;
        } else {
            error = "ERR syntax error";
        }
        if (!error && (limits > 1 || directions > 1))
            error = "ERR Multiple filters of the same type are disallowed.";
    }
    return error;
}

const char *slot_stats_parse(struct slot_stats_query *query, const struct bytes *argv,
                             uint32_t argc)
{
    *query = (struct slot_stats_query){.last = SLOT_COUNT - 1, .limit = SLOT_COUNT};
    if (argc == 5 && bytes_is(argv[2], "slotsrange"))
        return parse_slots(query, argv);
    if (argc >= 4 && bytes_is(argv[2], "orderby"))
        return parse_order(query, argv, argc);
    (void)snprintf(
        query->error, sizeof query->error,
        "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try CLUSTER HELP.",
        (int)argv[1].len, argv[1].data);
    return query->error;
}

/* ---- the reply ---- */

/* The order of `metric`, its direction, and the order of slots are in each element, for qsort. */
struct ordered {
    struct slot_stats stats;
    uint64_t rank; /* the element with the smallest rank is first */
};

static int by_rank(const void *a, const void *b)
{
    const struct ordered *x = a;
    const struct ordered *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (int)x->stats.slot - (int)y->stats.slot;
}

static void sort_stats(const struct slot_stats_query *query, struct slot_stats *all, uint32_t count)
{
    struct ordered *ordered = malloc((count + 1) * sizeof *ordered);
    CHECK(ordered);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = query->is_ordered ? all[i].metrics[query->metric] : all[i].slot;
        bool is_descending = query->is_ordered && !query->is_ascending;
        ordered[i] = (struct ordered){.stats = all[i], .rank = is_descending ? ~value : value};
    }
    qsort(ordered, count, sizeof *ordered, by_rank);
    for (uint32_t i = 0; i < count; i++)
        all[i] = ordered[i].stats;
    free(ordered);
}

void slot_stats_reply(const struct slot_stats_query *query, struct slot_stats *all, uint32_t count,
                      struct reply *reply)
{
    sort_stats(query, all, count);
    count = count < query->limit ? count : query->limit;
    reply_array(reply, count);
    for (uint32_t i = 0; i < count; i++) {
        reply_array(reply, 2);
        reply_int(reply, all[i].slot);
        reply_map(reply, SLOT_METRICS);
        for (unsigned m = 0; m < SLOT_METRICS; m++) {
            reply_bulk_text(reply, metric_names[m]);
            reply_int(reply, (int64_t)all[i].metrics[m]);
        }
    }
}

bool slot_stats_read(struct bytes frame, struct slot_stats *all, uint32_t *count)
{
    struct resp_value value;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &value) || value.type != '*')
        return false;
    for (int64_t left = value.count; left > 0; left--) {
        struct slot_stats stats = {0};
        struct resp_value slot;
        if (!resp_value_next(frame, &pos, &value) || value.count != 2 ||
            !resp_value_next(frame, &pos, &slot) || slot.type != ':' || slot.count < 0 ||
            slot.count >= SLOT_COUNT || !resp_value_next(frame, &pos, &value) ||
            *count == SLOT_COUNT)
            return false;
        stats.slot = (uint16_t)slot.count;
        for (unsigned m = 0; m < SLOT_METRICS; m++) {
            if (!resp_value_next(frame, &pos, &value) || value.type != '$' ||
                !resp_value_next(frame, &pos, &value) || value.type != ':')
                return false;
            stats.metrics[m] = (uint64_t)value.count;
        }
        all[(*count)++] = stats;
    }
    return true;
}
