#include "proxy/core/routes.h"

#include "config/option.h"
#include "shared/check.h"
#include "shared/table.h"

#include <pthread.h>
#include <stdlib.h>

/* As many as slots can name: a shard that gives each of its slots to another name leaves room for the names that others give. */
enum { ROUTE_SHARDS_MAX = SLOT_COUNT };

/* A shard that owns slots, at the address that its slots' bounces gave. */
struct route_shard {
    char *name;
    char *address; /* NULL: not known, so a map must name the shard */
    uint32_t slot_count;
};

/* The copy that leads a shard, as struct route_leader. */
struct led_shard {
    char *name;
    char *address; /* NULL: not known */
    uint32_t generation;
    uint64_t term;
    bool is_gone;   /* shards.ini does not have the address */
    bool has_ended; /* the copy leads no more, by its own word */
};

struct routes {
    pthread_mutex_t mutex;
    uint64_t version; /* counts changes */
    struct led_shard *led;
    size_t led_count;
    struct route_shard *shards;
    size_t count;
    uint16_t owner[SLOT_COUNT]; /* 1 + index in shards; 0: nothing was learned */
    uint64_t epoch[SLOT_COUNT]; /* of this owner */
};

struct routes *routes_new(void)
{
    struct routes *routes = calloc(1, sizeof *routes);
    CHECK(routes);
    CHECK(pthread_mutex_init(&routes->mutex, NULL) == 0);
    return routes;
}

static void shard_fini(struct route_shard *shard)
{
    free(shard->name);
    free(shard->address);
}

void routes_free(struct routes *routes)
{
    for (size_t i = 0; i < routes->count; i++)
        shard_fini(&routes->shards[i]);
    free(routes->shards);
    for (size_t i = 0; i < routes->led_count; i++) {
        free(routes->led[i].name);
        free(routes->led[i].address);
    }
    free(routes->led);
    (void)pthread_mutex_destroy(&routes->mutex);
    free(routes);
}

static void routes_lock(struct routes *routes)
{
    CHECK(pthread_mutex_lock(&routes->mutex) == 0);
}

static void routes_unlock(struct routes *routes)
{
    CHECK(pthread_mutex_unlock(&routes->mutex) == 0);
}

/* ---- learning ---- */

static char *text_new(struct bytes text)
{
    char *copy = strndup(text.data, text.len);
    CHECK(copy);
    return copy;
}

/* Only addresses to which any program could connect: a backend must not make a proxy open files. */
static bool is_address_good(struct bytes address)
{
    return address.len && memcmp(address.data, "unix:", address.len < 5 ? address.len : 5) != 0 &&
           address_valid(address);
}

static bool is_route_to(const struct route_shard *shard, struct bytes name)
{
    return shard->slot_count && bytes_equal(bytes_of(shard->name), name);
}

/* Of a bounce without a good address, any route to the shard will do. */
static struct route_shard *find_route(struct routes *routes, struct bytes name,
                                      struct bytes address)
{
    for (size_t i = 0; i < routes->count; i++) {
        struct route_shard *shard = &routes->shards[i];
        if (is_route_to(shard, name) &&
            (!address.len || (shard->address && bytes_equal(bytes_of(shard->address), address))))
            return shard;
    }
    return NULL;
}

/* A shard without slots, whose place can be used again, or a new place. NULL: there are too many. */
static struct route_shard *free_place(struct routes *routes)
{
    for (size_t i = 0; i < routes->count; i++)
        if (!routes->shards[i].slot_count) {
            shard_fini(&routes->shards[i]);
            return &routes->shards[i];
        }
    if (routes->count == ROUTE_SHARDS_MAX)
        return NULL;
    struct route_shard *shards =
        reallocarray(routes->shards, routes->count + 1, sizeof *routes->shards);
    CHECK(shards);
    routes->shards = shards;
    return &shards[routes->count++];
}

/* The shard of the bounce, at its address. NULL: there are too many. */
static struct route_shard *shard_of_bounce(struct routes *routes, const struct bounce *bounce)
{
    struct bytes address = is_address_good(bounce->address) ? bounce->address : (struct bytes){0};
    struct route_shard *shard = find_route(routes, bounce->shard, address);
    if (shard)
        return shard;
    shard = free_place(routes);
    if (shard)
        *shard = (struct route_shard){.name = text_new(bounce->shard),
                                      .address = address.len ? text_new(address) : NULL};
    return shard;
}

/* Is the source the owner that was learned last? Then its word counts whatever the epoch: it may have named a too high one before. */
static bool is_learned_owner(const struct routes *routes, const struct route_source *source,
                             unsigned slot)
{
    return routes->owner[slot] && source->shard < source->map->shard_count &&
           strcmp(routes->shards[routes->owner[slot] - 1].name,
                  source->map->shards[source->shard].name) == 0;
}

static bool names_itself(const struct route_source *source, const struct bounce *bounce)
{
    return source->shard < source->map->shard_count &&
           bytes_equal(bounce->shard, bytes_of(source->map->shards[source->shard].name));
}

/* Does the bounce teach the owner of this slot? */
static bool teaches_owner(const struct routes *routes, const struct route_source *source,
                          const struct bounce *bounce, unsigned slot)
{
    return source->map->slot_shard[slot] == source->shard &&
           (bounce->epoch > routes->epoch[slot] ||
            (is_learned_owner(routes, source, slot) && !names_itself(source, bounce)));
}

static bool teaches_any(const struct routes *routes, const struct route_source *source,
                        const struct bounce *bounce)
{
    for (unsigned slot = bounce->first; slot <= bounce->last; slot++)
        if (teaches_owner(routes, source, bounce, slot))
            return true;
    return false;
}

static void set_owner(struct routes *routes, unsigned slot, size_t shard, uint64_t epoch)
{
    if (routes->owner[slot])
        routes->shards[routes->owner[slot] - 1].slot_count--;
    routes->owner[slot] = (uint16_t)(shard + 1);
    routes->epoch[slot] = epoch;
    routes->shards[shard].slot_count++;
}

bool routes_learn(struct routes *routes, const struct route_source *source,
                  const struct bounce *bounce, uint64_t *version)
{
    routes_lock(routes);
    struct route_shard *shard =
        teaches_any(routes, source, bounce) ? shard_of_bounce(routes, bounce) : NULL;
    for (unsigned slot = bounce->first; shard && slot <= bounce->last; slot++)
        if (teaches_owner(routes, source, bounce, slot))
            set_owner(routes, slot, (size_t)(shard - routes->shards), bounce->epoch);
    routes->version += shard != NULL;
    *version = routes->version;
    routes_unlock(routes);
    return shard != NULL;
}

static void forget_shard(struct routes *routes, size_t index)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (routes->owner[slot] == index + 1)
            routes->owner[slot] = 0, routes->epoch[slot] = 0;
    routes->shards[index].slot_count = 0;
}

bool routes_forget(struct routes *routes, struct bytes name)
{
    bool has_forgotten = false;
    routes_lock(routes);
    for (size_t i = 0; i < routes->count; i++)
        if (is_route_to(&routes->shards[i], name)) {
            forget_shard(routes, i);
            has_forgotten = true;
        }
    routes->version += has_forgotten;
    routes_unlock(routes);
    return has_forgotten;
}

/* ---- leaders ---- */

static struct led_shard *find_led(struct routes *routes, const char *name)
{
    for (size_t i = 0; i < routes->led_count; i++)
        if (strcmp(routes->led[i].name, name) == 0)
            return &routes->led[i];
    return NULL;
}

/* The place of a shard whose leader may be known; a new one if there is none. */
static struct led_shard *led_place(struct routes *routes, const char *name)
{
    struct led_shard *found = find_led(routes, name);
    if (found)
        return found;
    struct led_shard *led = reallocarray(routes->led, routes->led_count + 1, sizeof *led);
    CHECK(led);
    routes->led = led;
    led[routes->led_count] = (struct led_shard){.name = text_new(bytes_of(name))};
    return &led[routes->led_count++];
}

static bool is_led_by(const struct led_shard *led, const char *address)
{
    return led->address && strcmp(led->address, address) == 0;
}

static bool is_of_earlier_term(const struct route_leader *leader, const struct led_shard *than)
{
    return leader->generation != than->generation ? leader->generation < than->generation
                                                  : leader->term < than->term;
}

/* A copy's own newest word counts, whatever it has said before. One that leads no more has said in which term it follows: the leader of
 * that term is its successor. */
static bool is_newer_leader(const struct led_shard *now, const struct route_leader *leader)
{
    if (!now->address || is_led_by(now, leader->address))
        return true;
    bool is_same = leader->generation == now->generation && leader->term == now->term;
    return !is_of_earlier_term(leader, now) && (!is_same || now->has_ended);
}

static bool is_outside(const struct shard_map *map, const struct led_shard *led)
{
    int shard = shard_map_named(map, bytes_of(led->name));
    return shard >= 0 && shard_address_place(&map->shards[shard], bytes_of(led->address)) < 0;
}

bool routes_lead(struct routes *routes, const struct shard_map *wish,
                 const struct route_leader *leader)
{
    routes_lock(routes);
    struct led_shard *led = led_place(routes, leader->shard);
    bool is_leader = is_newer_leader(led, leader);
    bool is_new = is_leader && !is_led_by(led, leader->address);
    if (is_new) {
        free(led->address);
        led->address = text_new(bytes_of(leader->address));
        led->is_gone = is_outside(wish, led);
        routes->version++;
    }
    if (is_leader) {
        led->generation = leader->generation;
        led->term = leader->term;
        led->has_ended = false;
    }
    routes_unlock(routes);
    return is_new;
}

bool routes_has_leaders(struct routes *routes, const struct shard_map *wish)
{
    bool has_all = true;
    routes_lock(routes);
    for (size_t i = 0; i < wish->shard_count; i++) {
        const struct led_shard *led = find_led(routes, wish->shards[i].name);
        has_all &= wish->shards[i].address_count < 2 || (led && led->address);
    }
    routes_unlock(routes);
    return has_all;
}

static void forget_leader(struct routes *routes, struct led_shard *led)
{
    free(led->address);
    *led = (struct led_shard){.name = led->name};
    routes->version++;
}

/* It leads no more. The term in which it follows is at least that of its lead, unless it has joined another group, which counts from 1: then
 * what it says is the limit. Of no group, it says nothing: generation 0. */
static void end_lead(struct led_shard *led, const struct route_leader *copy)
{
    led->has_ended = true;
    if (!copy->generation || !is_of_earlier_term(copy, led))
        return;
    led->generation = copy->generation;
    led->term = copy->term;
}

bool routes_end_lead(struct routes *routes, const struct route_leader *copy, bool is_lost)
{
    routes_lock(routes);
    struct led_shard *led = find_led(routes, copy->shard);
    bool is_leader = led && is_led_by(led, copy->address);
    bool is_forgotten = is_leader && led->is_gone && is_lost;
    if (is_leader && !is_lost)
        end_lead(led, copy);
    if (is_forgotten)
        forget_leader(routes, led);
    routes_unlock(routes);
    return is_forgotten;
}

/* Notes which leaders' addresses the map does not have, and forgets those of shards that it does not have. */
static void note_gone_leaders(struct routes *routes, const struct shard_map *map)
{
    routes_lock(routes);
    for (size_t i = 0; i < routes->led_count; i++) {
        struct led_shard *led = &routes->led[i];
        if (led->address && shard_map_named(map, bytes_of(led->name)) < 0)
            forget_leader(routes, led);
        else if (led->address)
            led->is_gone = is_outside(map, led);
    }
    routes_unlock(routes);
}

/* ---- shards that are removed ---- */

void routes_forget_removed(struct routes *routes, const struct shard_map *before,
                           const struct shard_map *now)
{
    for (size_t i = 0; before != now && i < before->shard_count; i++) {
        struct bytes name = bytes_of(before->shards[i].name);
        if (shard_map_named(now, name) < 0)
            (void)routes_forget(routes, name);
    }
    if (before != now)
        note_gone_leaders(routes, now);
}

uint64_t routes_version(struct routes *routes)
{
    routes_lock(routes);
    uint64_t version = routes->version;
    routes_unlock(routes);
    return version;
}

/* ---- merging ---- */

/* A map that is being made. */
struct merging {
    struct shard_map *map;
    size_t wished;       /* number of shards that shards.ini names: those behind them were added */
    struct table *names; /* of its shards, and their addresses → place_value(index) */
    struct table *addresses;
};

static void *place_value(int index)
{
    return (void *)(intptr_t)(index + 1);
}

static int merged_place(const struct table *places, const char *text)
{
    return (int)(intptr_t)table_get(places, bytes_of(text)) - 1;
}

/* Of several shards with one address, the first counts. */
static void index_shard(struct merging *merging, int index)
{
    const struct shard *shard = &merging->map->shards[index];
    (void)table_put(merging->names, bytes_of(shard->name), place_value(index));
    for (size_t n = 0; n < shard->address_count; n++)
        if (merged_place(merging->addresses, shard->addresses[n]) < 0)
            (void)table_put(merging->addresses, bytes_of(shard->addresses[n]), place_value(index));
}

/* Begins with the shards of `wish`, without slots. */
static void merging_init(struct merging *merging, const struct shard_map *wish)
{
    merging->map = shard_map_without_slots(wish);
    merging->wished = wish->shard_count;
    merging->names = table_new();
    merging->addresses = table_new();
    for (int i = 0; i < (int)wish->shard_count; i++)
        index_shard(merging, i);
}

static void merging_fini(struct merging *merging)
{
    table_free(merging->names);
    table_free(merging->addresses);
}

/* Was the shard added by a bounce that named another address? Then one of both bounces lies: a shard that shards.ini does not name must
 * not get slots at an address that another shard has chosen. */
static bool is_at_other_address(const struct merging *merging, int index,
                                const struct route_shard *shard)
{
    return (size_t)index >= merging->wished && shard->address &&
           strcmp(merging->map->shards[index].addresses[0], shard->address) != 0;
}

/* The shard of the map that has this name, or this address under another name; it is added if there is none. -1: it cannot be
 * added. */
static int place_in_map(struct merging *merging, const struct route_shard *shard)
{
    int index = merged_place(merging->names, shard->name);
    if (index >= 0 && is_at_other_address(merging, index, shard))
        return -1;
    if (index < 0 && shard->address)
        index = merged_place(merging->addresses, shard->address);
    if (index < 0 && shard->address) {
        index = shard_map_add(merging->map, bytes_of(shard->name));
        if (index >= 0) {
            shard_map_add_address(merging->map, index, bytes_of(shard->address));
            index_shard(merging, index);
        }
    }
    return index;
}

/* The leader of a shard of shards.ini is its first address, also one that shards.ini has dropped. */
static void lead_shards(const struct merging *merging, const struct routes *routes)
{
    for (size_t i = 0; i < routes->led_count; i++) {
        const struct led_shard *led = &routes->led[i];
        int index = led->address ? merged_place(merging->names, led->name) : -1;
        if (index >= 0 && led->is_gone)
            shard_map_add_address(merging->map, index, bytes_of(led->address));
        if (index >= 0)
            shard_map_put_first(merging->map, index, bytes_of(led->address));
    }
}

struct shard_map *routes_merge(struct routes *routes, struct shard_map *wish, uint64_t *version)
{
    struct merging merging;
    merging_init(&merging, wish);
    struct shard_map *map = merging.map;
    routes_lock(routes);
    *version = routes->version;
    lead_shards(&merging, routes);
    int *places = calloc(routes->count + 1, sizeof *places);
    CHECK(places);
    for (size_t i = 0; i < routes->count; i++)
        places[i] = routes->shards[i].slot_count ? place_in_map(&merging, &routes->shards[i]) : -1;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        int place = routes->owner[slot] ? places[routes->owner[slot] - 1] : -1;
        unsigned taken;
        CHECK(
            shard_map_claim(map, place >= 0 ? place : wish->slot_shard[slot], slot, slot, &taken));
    }
    routes_unlock(routes);
    free(places);
    merging_fini(&merging);
    if (!shard_map_equal(map, wish))
        return map;
    shard_map_unref(map);
    return shard_map_ref(wish);
}

uint32_t routes_count(const struct shard_map *map, const struct shard_map *wish)
{
    uint32_t count = 0;
    for (unsigned slot = 0; map != wish && slot < SLOT_COUNT; slot++)
        count += strcmp(map->shards[map->slot_shard[slot]].name,
                        wish->shards[wish->slot_shard[slot]].name) != 0;
    return count;
}
