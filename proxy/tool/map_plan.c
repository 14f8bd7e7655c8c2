#include "proxy/tool/map_plan.h"

#include "shared/check.h"
#include "shared/json_writer.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *owner_name(const struct map_plan *plan, uint16_t slot)
{
    const struct shard_map *owners = plan->figures->truth->owners;
    uint16_t owner = owners->slot_shard[slot];
    return owner == SHARD_NONE ? NULL : owners->shards[owner].name;
}

static bool is_same_name(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void count_moved_slot(struct map_plan *plan, uint16_t slot)
{
    const char *from = owner_name(plan, slot);
    const char *to = plan->next->shards[plan->next->slot_shard[slot]].name;
    for (size_t i = 0; i < plan->count; i++) {
        struct map_plan_row *row = &plan->rows[i];
        if (!is_same_name(row->from, from) || strcmp(row->to, to) != 0)
            continue;
        row->keys += plan->figures->keys[slot];
        row->bytes += plan->figures->bytes[slot];
        return;
    }
}

static void sum_rows(struct map_plan *plan)
{
    plan->total = (struct map_plan_row){0};
    plan->most_bytes = 0;
    for (size_t i = 0; i < plan->count; i++) {
        uint64_t sent = 0;
        plan->total.slots += plan->rows[i].slots;
        plan->total.keys += plan->rows[i].keys;
        plan->total.bytes += plan->rows[i].bytes;
        for (size_t k = 0; k < plan->count; k++)
            sent += is_same_name(plan->rows[k].from, plan->rows[i].from) ? plan->rows[k].bytes : 0;
        plan->most_bytes = sent > plan->most_bytes ? sent : plan->most_bytes;
    }
}

struct map_plan map_plan_make(const struct map_figures *figures, const struct shard_map *next)
{
    const struct shard_map *owners = figures->truth->owners;
    struct map_plan plan = {.figures = figures, .next = next};
    struct map_change change = map_change_find(owners, next);
    plan.count = change.count;
    plan.rows = calloc(change.count + 1, sizeof *plan.rows);
    CHECK(plan.rows);
    for (size_t i = 0; i < change.count; i++)
        plan.rows[i] = (struct map_plan_row){
            .from = change.flows[i].from, .to = change.flows[i].to, .slots = change.flows[i].slots};
    map_change_free(&change);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (!map_change_keeps(owners, next, (uint16_t)slot))
            count_moved_slot(&plan, (uint16_t)slot);
    sum_rows(&plan);
    return plan;
}

void map_plan_free(struct map_plan *plan)
{
    free(plan->rows);
    plan->rows = NULL;
}

int64_t map_plan_seconds(const struct map_plan *plan)
{
    uint64_t rate = plan->figures->rate;
    return rate ? (int64_t)((plan->most_bytes + rate - 1) / rate) : -1;
}

/* ---- what the operator should know ---- */

/* Calls the function for each sentence. */
typedef void plan_note_fn(void *owner, const char *text);

static void note_shards(const struct map_plan *plan, plan_note_fn *on_note, void *owner)
{
    const struct map_truth *truth = plan->figures->truth;
    char text[2 * SHARD_NAME_MAX + 400];
    for (size_t i = 0; i < truth->wish->shard_count; i++) {
        const char *name = truth->wish->shards[i].name;
        if (!truth->shards[i].has_owners)
            (void)snprintf(text, sizeof text, "shard %s has not replied: %s", name,
                           truth->shards[i].reason);
        else if (shard_map_named(plan->next, bytes_of(name)) < 0 && truth->shards[i].owned)
            (void)snprintf(text, sizeof text,
                           "shard %s is not in the new map, but owns %u slots: keep its section, "
                           "without slots, until SCREE MAP STATUS names it as drained",
                           name, truth->shards[i].owned);
        else
            continue;
        on_note(owner, text);
    }
    for (size_t i = 0; i < plan->next->shard_count; i++) {
        const struct shard *shard = &plan->next->shards[i];
        if (shard_map_named(truth->wish, bytes_of(shard->name)) >= 0)
            continue;
        (void)snprintf(text, sizeof text,
                       "shard %s (%.200s) is new: start its backend with the new map before the "
                       "reload",
                       shard->name, shard->addresses[0]);
        on_note(owner, text);
    }
}

static void note_all(const struct map_plan *plan, plan_note_fn *on_note, void *owner)
{
    const struct map_truth *truth = plan->figures->truth;
    char text[200];
    struct map_change change = map_change_find(truth->owners, truth->wish);
    note_shards(plan, on_note, owner);
    if (change.slots > change.unknown) {
        (void)snprintf(text, sizeof text,
                       "the shards have not settled yet: %u slots are not where the present map "
                       "wants them",
                       change.slots - change.unknown);
        on_note(owner, text);
    }
    map_change_free(&change);
}

/* ---- text ---- */

static void print_row(const struct map_plan_row *row, const char *from, const char *to,
                      struct out *out)
{
    out_printf(out, "%-16s %-16s %6u %12" PRIu64 " %15" PRIu64 "\n", from, to, row->slots,
               row->keys, row->bytes);
}

/* plan_note_fn */
static void print_note(void *owner, const char *text)
{
    out_printf(owner, "note: %s\n", text);
}

static void print_time(const struct map_plan *plan, struct out *out)
{
    int64_t seconds = map_plan_seconds(plan);
    if (!plan->total.slots)
        return;
    if (seconds >= 0)
        out_printf(out,
                   "At the lowest migration-rate, %" PRIu64
                   " bytes per second, the shard that sends most takes about %" PRId64 " s.\n",
                   plan->figures->rate, seconds);
    else if (plan->figures->has_rate)
        out_printf(out, "No shard has a migration-rate: they move as fast as they can.\n");
    else
        out_printf(out, "The shards have not said their migration-rate.\n");
}

void map_plan_print(const struct map_plan *plan, struct out *out)
{
    out_printf(out, "map epoch %" PRIu64 " replaces epoch %" PRIu64 "\n", plan->next->epoch,
               plan->figures->truth->wish->epoch);
    if (!plan->count)
        out_printf(out, "nothing moves\n");
    else
        out_printf(out, "%-16s %-16s %6s %12s %15s\n", "from", "to", "slots", "keys", "bytes");
    for (size_t i = 0; i < plan->count; i++)
        print_row(&plan->rows[i], plan->rows[i].from ? plan->rows[i].from : "?", plan->rows[i].to,
                  out);
    if (plan->count)
        print_row(&plan->total, "all", "", out);
    print_time(plan, out);
    note_all(plan, print_note, out);
}

/* ---- JSON ---- */

static void write_row(struct json_writer *json, const char *name, const struct map_plan_row *row)
{
    json_put_object(json, name);
    if (!name && row->from)
        json_put_text(json, "from", row->from);
    else if (!name)
        json_put_null(json, "from");
    if (!name)
        json_put_text(json, "to", row->to);
    json_put_uint(json, "slots", row->slots);
    json_put_uint(json, "keys", row->keys);
    json_put_uint(json, "bytes", row->bytes);
    json_put_end(json);
}

/* plan_note_fn */
static void write_note(void *owner, const char *text)
{
    json_put_text(owner, NULL, text);
}

void map_plan_print_json(const struct map_plan *plan, struct out *out)
{
    struct json_writer json;
    int64_t seconds = map_plan_seconds(plan);
    json_writer_init(&json, out);
    json_put_object(&json, NULL);
    json_put_uint(&json, "epoch", plan->next->epoch);
    json_put_uint(&json, "epoch_before", plan->figures->truth->wish->epoch);
    json_put_list(&json, "moves");
    for (size_t i = 0; i < plan->count; i++)
        write_row(&json, NULL, &plan->rows[i]);
    json_put_end(&json);
    write_row(&json, "total", &plan->total);
    json_put_uint(&json, "migration_rate", plan->figures->rate);
    if (seconds >= 0)
        json_put_uint(&json, "seconds", (uint64_t)seconds);
    else
        json_put_null(&json, "seconds");
    json_put_uint(&json, "shards_silent", map_truth_silent(plan->figures->truth));
    json_put_bool(&json, "is_complete", map_figures_missing(plan->figures) == 0);
    json_put_list(&json, "notes");
    note_all(plan, write_note, &json);
    json_put_end(&json);
    json_put_end(&json);
    json_writer_fini(&json);
    out_write(out, "\n", 1);
}
