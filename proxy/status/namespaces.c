/*
 * namespaces.c - the namespaces in the status page's JSON: those of the configuration, those with clients, and those that shards have.
 */
#include "proxy/cluster/usage.h"
#include "proxy/core/limits.h"
#include "proxy/core/proxy.h"
#include "proxy/status/gather.h"
#include "proxy/status/share.h"
#include "proxy/status/status.h"
#include "shared/arena.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/json_writer.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    ADVICE_REQUESTS_MIN = 1000, /* with keys of several shards, before there is any advice … */
    ADVICE_PERCENT_MIN = 5,     /* … and of all requests */
};

/* A namespace, summed over all workers. */
struct space {
    struct bytes name;
    uint64_t clients;
    struct namespace_counts counts;
    struct usage_figures usage;
    bool is_ephemeral;
};

struct space_list {
    struct table *by_name; /* position + 1 in `spaces` */
    struct space *spaces;
    size_t count;
    size_t room;
    struct arena names; /* names that only shards have */
};

static int by_clients_then_name(const void *a, const void *b)
{
    const struct space *left = a;
    const struct space *right = b;
    if (left->clients != right->clients)
        return left->clients > right->clients ? -1 : 1;
    return bytes_compare(left->name, right->name);
}

/* The entry of the name, which is borrowed; valid until the next call. Added if it is new. */
static struct space *find_or_add_space(struct space_list *list, struct bytes name)
{
    uintptr_t position = (uintptr_t)table_get(list->by_name, name);
    if (position)
        return &list->spaces[position - 1];
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->spaces = realloc(list->spaces, list->room * sizeof *list->spaces);
        CHECK(list->spaces);
    }
    list->spaces[list->count++] = (struct space){.name = name};
    (void)table_put(list->by_name, name, (void *)(uintptr_t)list->count);
    return &list->spaces[list->count - 1];
}

/* usages_fn */
static void add_usage(void *owner, struct bytes name, const struct usage_figures *figures)
{
    struct space_list *list = owner;
    bool is_new = !table_get(list->by_name, name);
    struct bytes kept = is_new ? arena_copy(&list->names, name) : name;
    find_or_add_space(list, kept)->usage = *figures;
}

static void collect_spaces(const struct status *status, const struct namespaces *configured,
                           struct space_list *list)
{
    arena_init(&list->names);
    (void)find_or_add_space(list, BYTES(""));
    for (size_t i = 0; i < configured->count; i++) {
        const struct namespace *item = &configured->items[i];
        if (!item->is_pattern)
            find_or_add_space(list, bytes_of(item->name))->is_ephemeral = item->ephemeral;
    }
    for (uint32_t i = 0; i < gatherer_count(status->gatherer); i++) {
        const struct share *share = gatherer_share(status->gatherer, i);
        for (uint32_t at = 0; share && at < share->keyspace_count; at++) {
            const struct share_keyspace *keyspace = &share->keyspaces[at];
            struct space *space = find_or_add_space(list, keyspace->name);
            space->clients += keyspace->clients;
            space->is_ephemeral |= keyspace->is_ephemeral;
        }
        for (uint32_t at = 0; share && at < share->counted; at++) {
            struct namespace_counts *counts =
                &find_or_add_space(list, share->counts[at].name)->counts;
            counts->requests += share->counts[at].counts.requests;
            counts->over_shards += share->counts[at].counts.over_shards;
        }
    }
    usages_each(status->proxy->tenants.usages, add_usage, list);
}

/* The rule by which the namespace's keys have slots. */
static enum slot_rule_kind slot_rule_of_namespace(const struct namespaces *configured,
                                                  struct bytes name)
{
    struct namespace_match match;
    return name.len && namespaces_find(configured, name, &match) ? match.entry->slot_rule.kind
                                                                 : SLOT_RULE_TAG;
}

/* What would keep more of its requests on one shard; NULL: few have keys of several, or nothing would. */
static const char *advice_for(const struct namespaces *configured, const struct space *space)
{
    const struct namespace_counts *counts = &space->counts;
    if (counts->over_shards < ADVICE_REQUESTS_MIN ||
        counts->over_shards * 100 < counts->requests * ADVICE_PERCENT_MIN)
        return NULL;
    if (space->name.len == 0)
        return "a {tag} in the names of keys that belong together, or a namespace with a slot-rule";
    switch (slot_rule_of_namespace(configured, space->name)) {
    case SLOT_RULE_TAG:
        return "a {tag} in the names of keys that belong together, or a slot-rule";
    case SLOT_RULE_PREFIX:
        return "a slot-rule with fewer fields, or fixed:SLOT";
    case SLOT_RULE_FIXED:
        return NULL;
    }
    return NULL;
}

static void write_namespace(struct json_writer *json, const struct status *status,
                            const struct namespaces *configured, const struct space *space)
{
    const struct proxy_tenants *tenants = &status->proxy->tenants;
    uint64_t age_ms = usages_age_ms(tenants->usages, clock_mono_us() / 1000);
    const char *advice = advice_for(configured, space);
    json_put_object(json, NULL);
    json_put_shown(json, "name", space->name, NAME_SHOWN);
    json_put_uint(json, "clients", space->clients);
    json_put_uint(json, "requests", space->counts.requests);
    json_put_uint(json, "over_shards", space->counts.over_shards);
    if (advice)
        json_put_text(json, "advice", advice);
    json_put_bool(json, "is_ephemeral", space->is_ephemeral);
    if (age_ms != UINT64_MAX) {
        json_put_uint(json, "keys", space->usage.keys);
        json_put_uint(json, "bytes", space->usage.bytes);
        json_put_uint(json, "keys_age_ms", age_ms);
    } else {
        json_put_null(json, "keys");
    }
    struct limit_figures limits;
    if (limits_find(tenants->limits, space->name, &limits)) {
        json_put_uint(json, "max_keys", limits.max_keys);
        json_put_uint(json, "max_bytes", limits.max_bytes);
    }
    json_put_end(json);
}

void document_write_some_namespaces(const struct status *status,
                                    const struct proxy_snapshot *snapshot, size_t max,
                                    struct json_writer *json)
{
    struct space_list list = {.by_name = table_new()};
    collect_spaces(status, snapshot->namespaces, &list);
    qsort(list.spaces, list.count, sizeof *list.spaces, by_clients_then_name);
    json_put_uint(json, "namespace_count", list.count);
    json_put_list(json, "namespaces");
    for (size_t i = 0; i < list.count && i < max; i++)
        write_namespace(json, status, snapshot->namespaces, &list.spaces[i]);
    json_put_end(json);
    arena_fini(&list.names);
    table_free(list.by_name);
    free(list.spaces);
}

void document_write_namespaces(const struct status *status, const struct proxy_snapshot *snapshot,
                               struct out *out)
{
    struct json_writer json;
    json_writer_init(&json, out);
    json_put_object(&json, NULL);
    document_write_some_namespaces(status, snapshot, SIZE_MAX, &json);
    json_put_end(&json);
    json_writer_fini(&json);
}
