#include "proxy/place.h"

#include "proxy/proxy_metrics.h"
#include "proxy/rate_limiter.h"
#include "shared/check.h"
#include "shared/namespace.h"
#include "shared/table.h"

#include <stdlib.h>

enum { PLACE_KEY_MAX = NAMESPACE_NAME_MAX + 2 };

static struct bytes place_key(char key[PLACE_KEY_MAX], struct bytes name, uint8_t db)
{
    CHECK(name.len <= NAMESPACE_NAME_MAX);
    if (name.len)
        memcpy(key, name.data, name.len);
    key[name.len] = '\0';
    key[name.len + 1] = (char)db;
    return (struct bytes){key, name.len + 2};
}

void places_init(struct places *places, const struct namespaces *namespaces,
                 struct rate_limiters *rate_limiters)
{
    places->rate_limiters = rate_limiters;
    places->by_name = table_new();
    places->requests = table_new();
    places->more_requests = 0;
    places->namespaces = namespaces;
}

void places_fini(struct places *places)
{
    CHECK(table_count(places->by_name) == 0);
    table_free(places->by_name);
    size_t cursor = 0;
    struct bytes name;
    void *requests;
    while (table_next(places->requests, &cursor, &name, &requests))
        free(requests);
    table_free(places->requests);
}

static void place_find_entry(struct places *places, struct place *place)
{
    struct namespace_match match;
    bool found = place->name.len && namespaces_find(places->namespaces, place->name, &match);
    place->entry = found ? match.entry : NULL;
    place->is_gone = place->name.len && !found;
    rate_follow(places->rate_limiters, place);
}

/* Where the namespace's requests are counted. */
static uint64_t *requests_of(struct places *places, struct bytes name)
{
    uint64_t *requests = table_get(places->requests, name);
    if (requests)
        return requests;
    if (table_count(places->requests) >= PLACES_COUNTED_MAX)
        return &places->more_requests;
    requests = calloc(1, sizeof *requests);
    CHECK(requests);
    (void)table_put(places->requests, name, requests);
    return requests;
}

struct place *places_get(struct places *places, struct bytes name, uint8_t db)
{
    char text[PLACE_KEY_MAX];
    struct bytes key = place_key(text, name, db);
    struct place *place = table_get(places->by_name, key);
    if (place)
        return place_ref(place);
    place = calloc(1, sizeof(*place) + name.len + 1);
    CHECK(place);
    if (name.len)
        memcpy(place->text, name.data, name.len);
    place->refs = 1;
    place->db = db;
    place->name = (struct bytes){place->text, name.len};
    place->requests = requests_of(places, name);
    list_init(&place->waiting);
    list_init(&place->rate_link);
    if (places->labelled)
        place->cell = proxy_metrics_space(places->labelled, name, places->thread);
    place_find_entry(places, place);
    (void)table_put(places->by_name, key, place);
    return place;
}

struct place *place_ref(struct place *place)
{
    CHECK(place->refs > 0);
    place->refs++;
    return place;
}

void place_unref(struct places *places, struct place *place)
{
    if (!place || --place->refs > 0)
        return;
    char text[PLACE_KEY_MAX];
    CHECK(place->clients == 0);
    CHECK(list_empty(&place->waiting));
    list_remove(&place->rate_link);
    rate_forget(places->rate_limiters, place);
    CHECK(table_remove(places->by_name, place_key(text, place->name, place->db)) == place);
    free(place);
}

void places_update(struct places *places, const struct namespaces *namespaces)
{
    size_t cursor = 0;
    struct bytes key;
    void *place;
    places->namespaces = namespaces;
    while (table_next(places->by_name, &cursor, &key, &place))
        place_find_entry(places, place);
}
