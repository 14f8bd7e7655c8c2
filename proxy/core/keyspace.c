#include "proxy/core/keyspace.h"

#include "proxy/core/limits.h"
#include "proxy/core/proxy_metrics.h"
#include "proxy/core/rate_limiter.h"
#include "proxy/core/shares.h"
#include "shared/check.h"
#include "shared/namespace.h"
#include "shared/table.h"

#include <stdlib.h>

enum { KEYSPACE_KEY_MAX = NAMESPACE_NAME_MAX + 2 };

static struct bytes keyspace_key(char key[KEYSPACE_KEY_MAX], struct bytes name, uint8_t db)
{
    CHECK(name.len <= NAMESPACE_NAME_MAX);
    if (name.len)
        memcpy(key, name.data, name.len);
    key[name.len] = '\0';
    key[name.len + 1] = (char)db;
    return (struct bytes){key, name.len + 2};
}

void keyspaces_init(struct keyspaces *keyspaces, const struct namespaces *namespaces,
                    struct rate_limiters *rate_limiters, struct limits *limits)
{
    keyspaces->rate_limiters = rate_limiters;
    keyspaces->limits = limits;
    keyspaces->by_name = table_new();
    keyspaces->counts = table_new();
    keyspaces->more = (struct namespace_counts){0};
    keyspaces->namespaces = namespaces;
}

void keyspaces_fini(struct keyspaces *keyspaces)
{
    CHECK(table_count(keyspaces->by_name) == 0);
    table_free(keyspaces->by_name);
    size_t cursor = 0;
    struct bytes name;
    void *counts;
    while (table_next(keyspaces->counts, &cursor, &name, &counts))
        free(counts);
    table_free(keyspaces->counts);
}

static void keyspace_find_entry(struct keyspaces *keyspaces, struct keyspace *keyspace)
{
    struct namespace_match match;
    bool found =
        keyspace->name.len && namespaces_find(keyspaces->namespaces, keyspace->name, &match);
    keyspace->entry = found ? match.entry : NULL;
    keyspace->is_gone = keyspace->name.len && !found;
    rate_follow(keyspaces->rate_limiters, keyspace);
    limits_follow(keyspaces->limits, keyspace);
}

static struct namespace_counts *counts_of(struct keyspaces *keyspaces, struct bytes name)
{
    struct namespace_counts *counts = table_get(keyspaces->counts, name);
    if (counts)
        return counts;
    if (table_count(keyspaces->counts) >= KEYSPACES_COUNTED_MAX)
        return &keyspaces->more;
    counts = calloc(1, sizeof *counts);
    CHECK(counts);
    (void)table_put(keyspaces->counts, name, counts);
    return counts;
}

void keyspace_count_over_shards(const struct keyspace *keyspace)
{
    keyspace->counts->over_shards++;
    if (keyspace->cell)
        cell_add(keyspace->cell, TENANT_OVER_SHARDS, 1);
}

struct keyspace *keyspaces_get(struct keyspaces *keyspaces, struct bytes name, uint8_t db)
{
    char text[KEYSPACE_KEY_MAX];
    struct bytes key = keyspace_key(text, name, db);
    struct keyspace *keyspace = table_get(keyspaces->by_name, key);
    if (keyspace)
        return keyspace_ref(keyspace);
    keyspace = calloc(1, sizeof(*keyspace) + name.len + 1);
    CHECK(keyspace);
    if (name.len)
        memcpy(keyspace->text, name.data, name.len);
    keyspace->refs = 1;
    keyspace->db = db;
    keyspace->name = (struct bytes){keyspace->text, name.len};
    keyspace->counts = counts_of(keyspaces, name);
    list_init(&keyspace->waiting);
    list_init(&keyspace->rate_link);
    if (keyspaces->labelled)
        keyspace->cell = proxy_metrics_space(keyspaces->labelled, name, keyspaces->thread);
    if (keyspaces->shares)
        keyspace->share = shares_get(keyspaces->shares, name);
    keyspace_find_entry(keyspaces, keyspace);
    (void)table_put(keyspaces->by_name, key, keyspace);
    return keyspace;
}

struct keyspace *keyspace_ref(struct keyspace *keyspace)
{
    CHECK(keyspace->refs > 0);
    keyspace->refs++;
    return keyspace;
}

void keyspace_unref(struct keyspaces *keyspaces, struct keyspace *keyspace)
{
    if (!keyspace || --keyspace->refs > 0)
        return;
    char text[KEYSPACE_KEY_MAX];
    CHECK(keyspace->clients == 0);
    CHECK(list_empty(&keyspace->waiting));
    list_remove(&keyspace->rate_link);
    rate_forget(keyspaces->rate_limiters, keyspace);
    limits_forget(keyspaces->limits, keyspace);
    if (keyspace->share)
        share_unref(keyspaces->shares, keyspace->share);
    CHECK(table_remove(keyspaces->by_name, keyspace_key(text, keyspace->name, keyspace->db)) ==
          keyspace);
    free(keyspace);
}

void keyspaces_update(struct keyspaces *keyspaces, const struct namespaces *namespaces)
{
    size_t cursor = 0;
    struct bytes key;
    void *keyspace;
    keyspaces->namespaces = namespaces;
    while (table_next(keyspaces->by_name, &cursor, &key, &keyspace))
        keyspace_find_entry(keyspaces, keyspace);
}
