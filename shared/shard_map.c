/*
 * shard_map.c - implementation of shard_map.h.
 */
#include "shared/shard_map.h"

#include "shared/check.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

struct shard_map *shard_map_new(uint64_t epoch)
{
    struct shard_map *map = calloc(1, sizeof *map);
    CHECK(map);
    map->refs = 1;
    map->epoch = epoch;
    memset(map->slot_shard, 0xff, sizeof map->slot_shard);
    return map;
}

struct shard_map *shard_map_ref(struct shard_map *map)
{
    CHECK(atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed) > 0);
    return map;
}

void shard_map_unref(struct shard_map *map)
{
    if (!map)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel);
    CHECK(before > 0);
    if (before > 1)
        return;
    for (size_t i = 0; i < map->shard_count; i++) {
        struct shard *shard = &map->shards[i];
        for (size_t a = 0; a < shard->address_count; a++)
            free(shard->addresses[a]);
        free(shard->addresses);
        free(shard->name);
    }
    free(map->shards);
    free(map);
}

bool shard_name_valid(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.data[i]) && !memchr("._-", name.data[i], 3))
            return false;
    return name.len > 0 && name.len <= SHARD_NAME_MAX;
}

struct shard_map *shard_map_without_slots(const struct shard_map *map)
{
    struct shard_map *copy = shard_map_new(map->epoch);
    copy->shards = calloc(map->shard_count + 1, sizeof *copy->shards);
    CHECK(copy->shards);
    copy->shard_count = map->shard_count;
    for (size_t i = 0; i < map->shard_count; i++) {
        const struct shard *shard = &map->shards[i];
        copy->shards[i].name = strdup(shard->name);
        CHECK(copy->shards[i].name);
        for (size_t n = 0; n < shard->address_count; n++)
            shard_map_add_address(copy, (int)i, bytes_of(shard->addresses[n]));
    }
    return copy;
}

int shard_map_add(struct shard_map *map, struct bytes name)
{
    if (!shard_name_valid(name) || map->shard_count == SHARD_COUNT_MAX ||
        shard_map_named(map, name) >= 0)
        return -1;
    struct shard *shards = reallocarray(map->shards, map->shard_count + 1, sizeof *shards);
    CHECK(shards);
    map->shards = shards;
    shards[map->shard_count] = (struct shard){.name = strndup(name.data, name.len)};
    CHECK(shards[map->shard_count].name);
    return (int)map->shard_count++;
}

void shard_map_add_address(struct shard_map *map, int shard, struct bytes address)
{
    CHECK(shard >= 0 && (size_t)shard < map->shard_count);
    struct shard *to = &map->shards[shard];
    char **addresses = reallocarray(to->addresses, to->address_count + 1, sizeof *addresses);
    CHECK(addresses);
    to->addresses = addresses;
    addresses[to->address_count] = strndup(address.data, address.len);
    CHECK(addresses[to->address_count]);
    to->address_count++;
}

bool shard_map_claim(struct shard_map *map, int shard, unsigned first, unsigned last,
                     unsigned *taken)
{
    CHECK(shard >= 0 && (size_t)shard < map->shard_count);
    CHECK(first <= last && last < SLOT_COUNT);
    for (unsigned slot = first; slot <= last; slot++)
        if (map->slot_shard[slot] != SHARD_NONE) {
            *taken = slot;
            return false;
        }
    for (unsigned slot = first; slot <= last; slot++)
        map->slot_shard[slot] = (uint16_t)shard;
    map->shards[shard].slot_count += last - first + 1;
    return true;
}

bool shard_map_complete(const struct shard_map *map, unsigned *missing)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (map->slot_shard[slot] == SHARD_NONE) {
            *missing = slot;
            return false;
        }
    return true;
}

struct shard_map *shard_map_even(const char *const *addresses, size_t count)
{
    CHECK(count > 0 && count <= SHARD_COUNT_MAX);
    struct shard_map *map = shard_map_new(1);
    for (size_t i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, i < 26 ? "%c" : "s%d", i < 26 ? 'a' + (int)i : (int)i);
        int shard = shard_map_add(map, bytes_of(name));
        unsigned taken;
        shard_map_add_address(map, shard, bytes_of(addresses[i]));
        CHECK(shard_map_claim(map, shard, (unsigned)(SLOT_COUNT * i / count),
                              (unsigned)(SLOT_COUNT * (i + 1) / count) - 1, &taken));
    }
    return map;
}

int shard_map_named(const struct shard_map *map, struct bytes name)
{
    for (size_t i = 0; i < map->shard_count; i++)
        if (bytes_equal(bytes_of(map->shards[i].name), name))
            return (int)i;
    return -1;
}

int shard_address_place(const struct shard *shard, struct bytes address)
{
    for (size_t n = 0; n < shard->address_count; n++)
        if (bytes_equal(bytes_of(shard->addresses[n]), address))
            return (int)n;
    return -1;
}

void shard_map_put_first(struct shard_map *map, int shard, struct bytes address)
{
    char **addresses = map->shards[shard].addresses;
    int place = shard_address_place(&map->shards[shard], address);
    if (place <= 0)
        return;
    char *first = addresses[place];
    memmove(addresses + 1, addresses, (size_t)place * sizeof *addresses);
    addresses[0] = first;
}

bool shard_map_equal(const struct shard_map *a, const struct shard_map *b)
{
    if (a->epoch != b->epoch || a->shard_count != b->shard_count ||
        memcmp(a->slot_shard, b->slot_shard, sizeof a->slot_shard) != 0)
        return false;
    for (size_t i = 0; i < a->shard_count; i++) {
        const struct shard *left = &a->shards[i];
        const struct shard *right = &b->shards[i];
        if (strcmp(left->name, right->name) != 0 || left->address_count != right->address_count)
            return false;
        for (size_t n = 0; n < left->address_count; n++)
            if (strcmp(left->addresses[n], right->addresses[n]) != 0)
                return false;
    }
    return true;
}

/* Continues an FNV-1a hash. */
static uint64_t hash_on(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t shard_map_hash(const struct shard_map *map)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = hash_on(hash, &map->epoch, sizeof map->epoch);
    hash = hash_on(hash, map->slot_shard, sizeof map->slot_shard);
    for (size_t i = 0; i < map->shard_count; i++) {
        const struct shard *shard = &map->shards[i];
        hash = hash_on(hash, shard->name, strlen(shard->name) + 1);
        for (size_t n = 0; n < shard->address_count; n++)
            hash = hash_on(hash, shard->addresses[n], strlen(shard->addresses[n]) + 1);
    }
    return hash;
}

uint64_t shard_map_slots_hash(const struct shard_map *map)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        bool is_first = slot == 0 || map->slot_shard[slot] != map->slot_shard[slot - 1];
        const char *name = map->shards[map->slot_shard[slot]].name;
        if (is_first) {
            hash = hash_on(hash, &slot, sizeof slot);
            hash = hash_on(hash, name, strlen(name) + 1);
        }
    }
    return hash;
}

bool shard_map_next_range(const struct shard_map *map, int shard, unsigned *slot, unsigned *first,
                          unsigned *last)
{
    while (*slot < SLOT_COUNT && map->slot_shard[*slot] != shard)
        ++*slot;
    if (*slot == SLOT_COUNT)
        return false;
    *first = *slot;
    while (*slot < SLOT_COUNT && map->slot_shard[*slot] == shard)
        ++*slot;
    *last = *slot - 1;
    return true;
}

static void print_shard(const struct shard_map *map, int index, FILE *to)
{
    enum { RANGES_PER_LINE = 12 };
    const struct shard *shard = &map->shards[index];
    (void)fprintf(to, "\n[shard %s]\nslots =", shard->name);
    unsigned slot = 0;
    unsigned first;
    unsigned last;
    for (int n = 1; shard_map_next_range(map, index, &slot, &first, &last); n++) {
        (void)fprintf(to, first == last ? " %u" : " %u-%u", first, last);
        if (n % RANGES_PER_LINE == 0)
            (void)fputs("\n   ", to);
    }
    (void)fputs("\naddress =", to);
    for (size_t i = 0; i < shard->address_count; i++)
        (void)fprintf(to, " %s", shard->addresses[i]);
    (void)fputs("\n", to);
}

void shard_map_print(const struct shard_map *map, FILE *to)
{
    (void)fprintf(to, "[map]\nepoch = %" PRIu64 "\n", map->epoch);
    for (size_t i = 0; i < map->shard_count; i++)
        print_shard(map, (int)i, to);
}
