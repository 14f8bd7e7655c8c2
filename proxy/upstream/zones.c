#include "proxy/upstream/zones.h"

#include "shared/check.h"
#include "shared/table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct zones {
    pthread_mutex_t mutex;
    struct table *by_address; /* names of zones, from malloc */
    _Atomic uint64_t version;
};

struct zones *zones_new(void)
{
    struct zones *zones = calloc(1, sizeof *zones);
    CHECK(zones);
    CHECK(pthread_mutex_init(&zones->mutex, NULL) == 0);
    zones->by_address = table_new();
    atomic_store(&zones->version, 1);
    return zones;
}

void zones_free(struct zones *zones)
{
    table_free_values(zones->by_address);
    (void)pthread_mutex_destroy(&zones->mutex);
    free(zones);
}

/* The mutex is held. */
static void replace_zone(struct zones *zones, struct bytes address, const char *zone)
{
    char *copy = *zone ? strdup(zone) : NULL;
    CHECK(copy || !*zone);
    free(copy ? table_put(zones->by_address, address, copy)
              : table_remove(zones->by_address, address));
    atomic_fetch_add(&zones->version, 1);
}

void zones_put(struct zones *zones, const char *address, const char *zone)
{
    CHECK(pthread_mutex_lock(&zones->mutex) == 0);
    const char *before = table_get(zones->by_address, bytes_of(address));
    if (strcmp(before ? before : "", zone) != 0)
        replace_zone(zones, bytes_of(address), zone);
    CHECK(pthread_mutex_unlock(&zones->mutex) == 0);
}

void zones_get(struct zones *zones, struct bytes address, char to[ZONE_NAME_MAX + 1])
{
    CHECK(pthread_mutex_lock(&zones->mutex) == 0);
    const char *found = table_get(zones->by_address, address);
    (void)snprintf(to, ZONE_NAME_MAX + 1, "%s", found ? found : "");
    CHECK(pthread_mutex_unlock(&zones->mutex) == 0);
}

uint64_t zones_version(const struct zones *zones)
{
    return atomic_load_explicit(&zones->version, memory_order_acquire);
}
