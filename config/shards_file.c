/*
 * shards_file.c - reads a shard map from an ini file.
 */
#include "config/shards_file.h"

#include "config/ini_file.h"
#include "config/option.h"
#include "shared/check.h"
#include "shared/map_change.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdlib.h>

/* State while the file is read. */
struct shards_loading {
    struct shard_map *map;
    int shard;      /* index of the current section's shard; -1: the section is [map] */
    int map_line;   /* line of [map]; 0: not read yet */
    int epoch_line; /* line of the epoch; 0: not read yet */
    int shard_line[SHARD_COUNT_MAX];
    int slot_line[SLOT_COUNT]; /* the line that assigns each slot */
};

static bool on_section(void *owner, int line, struct bytes name, char *reason)
{
    struct shards_loading *loading = owner;
    struct bytes rest = name;
    struct bytes word;
    struct bytes shard = {0};
    bool has_name = word_next(&rest, &word) && word_next(&rest, &shard) && rest.len == 0;
    if (bytes_equal(name, BYTES("map"))) {
        loading->shard = -1;
        if (loading->map_line)
            (void)snprintf(reason, INI_REASON_MAX,
                           "expected [map] only once, it is already on line %d", loading->map_line);
        bool first = loading->map_line == 0;
        loading->map_line = line;
        return first;
    }
    if (!has_name || !bytes_equal(word, BYTES("shard"))) {
        (void)snprintf(reason, INI_REASON_MAX, "expected [map] or [shard NAME]");
        return false;
    }
    int existing = shard_map_named(loading->map, shard);
    loading->shard = shard_map_add(loading->map, shard);
    if (loading->shard >= 0) {
        loading->shard_line[loading->shard] = line;
        return true;
    }
    if (existing >= 0)
        (void)snprintf(reason, INI_REASON_MAX,
                       "expected another name: shard %s is already on line %d",
                       loading->map->shards[existing].name, loading->shard_line[existing]);
    else
        (void)snprintf(reason, INI_REASON_MAX,
                       "expected a shard name of 1 to %d letters, digits, '.', '_' or '-', and at "
                       "most %d shards",
                       SHARD_NAME_MAX, SHARD_COUNT_MAX);
    return false;
}

static bool set_epoch(struct shards_loading *loading, const struct ini_value *value, char *reason)
{
    uint64_t epoch;
    if (strcmp(value->name, "epoch") != 0 || loading->epoch_line) {
        (void)snprintf(reason, INI_REASON_MAX, "map.%s: expected only the option epoch, once",
                       value->name);
        return false;
    }
    loading->epoch_line = value->line;
    if (!number_parse_uint64(bytes_of(value->value), &epoch) || epoch == 0) {
        (void)snprintf(reason, INI_REASON_MAX, "map.epoch: expected an integer of at least 1");
        return false;
    }
    loading->map->epoch = epoch;
    return true;
}

/* "7" or "0-5460" */
static bool parse_slot_range(struct bytes word, unsigned *first, unsigned *last)
{
    const char *dash = memchr(word.data, '-', word.len);
    struct bytes low = {word.data, dash ? (size_t)(dash - word.data) : word.len};
    struct bytes high = dash ? (struct bytes){dash + 1, word.len - low.len - 1} : low;
    uint64_t from;
    uint64_t to;
    if (!number_parse_uint64(low, &from) || !number_parse_uint64(high, &to) || from > to ||
        to >= SLOT_COUNT)
        return false;
    *first = (unsigned)from;
    *last = (unsigned)to;
    return true;
}

static bool add_slots(struct shards_loading *loading, const struct ini_value *value, char *reason)
{
    const char *name = loading->map->shards[loading->shard].name;
    struct bytes rest = bytes_of(value->value);
    struct bytes word;
    unsigned first;
    unsigned last;
    while (word_next(&rest, &word)) {
        unsigned taken;
        if (!parse_slot_range(word, &first, &last)) {
            (void)snprintf(reason, INI_REASON_MAX,
                           "shard %s.slots: expected slots such as 0-5460 7000, below %d, found "
                           "'%.*s'",
                           name, SLOT_COUNT, (int)(word.len < 60 ? word.len : 60), word.data);
            return false;
        }
        if (!shard_map_claim(loading->map, loading->shard, first, last, &taken)) {
            int owner = loading->map->slot_shard[taken];
            (void)snprintf(reason, INI_REASON_MAX,
                           "shard %s.slots: expected slots without an owner, slot %u belongs to "
                           "shard %s (line %d)",
                           name, taken, loading->map->shards[owner].name,
                           loading->slot_line[taken]);
            return false;
        }
        for (unsigned slot = first; slot <= last; slot++)
            loading->slot_line[slot] = value->line;
    }
    return true;
}

/* The shard that already has this address, or NULL. Case is ignored, as where a backend looks for its own address. */
static const struct shard *address_owner(const struct shard_map *map, struct bytes address)
{
    for (size_t i = 0; i < map->shard_count; i++)
        for (size_t a = 0; a < map->shards[i].address_count; a++)
            if (bytes_is(address, map->shards[i].addresses[a]))
                return &map->shards[i];
    return NULL;
}

static bool is_unix_address(struct bytes address)
{
    return address.len > 5 && memcmp(address.data, "unix:", 5) == 0;
}

/* Why the shard cannot have this address besides those that it has; NULL: it can. */
static const char *address_refusal(const struct shard *shard, struct bytes address)
{
    bool has_no_port = address.len > 2 && memcmp(address.data + address.len - 2, ":0", 2) == 0;
    if (!address_valid(address) || has_no_port)
        return "host:port, [v6]:port or unix:/path";
    if (shard->address_count == SHARD_ADDRESSES_MAX)
        return "at most 5 addresses";
    if (shard->address_count &&
        (is_unix_address(address) || is_unix_address(bytes_of(shard->addresses[0]))))
        return "no other address beside a unix:/path: the copies of a shard reach each other by "
               "TCP";
    return NULL;
}

static void refuse_owned(const struct shard *shard, const struct shard *owner, struct bytes address,
                         char *reason)
{
    if (owner == shard)
        (void)snprintf(reason, INI_REASON_MAX,
                       "shard %s.address: expected each address once, found '%.*s' again",
                       shard->name, (int)address.len, address.data);
    else
        (void)snprintf(reason, INI_REASON_MAX,
                       "shard %s.address: expected an address that no other shard has, %.*s "
                       "belongs to shard %s",
                       shard->name, (int)address.len, address.data, owner->name);
}

/* Further addresses are those of the shard's other copies. */
static bool add_addresses(struct shards_loading *loading, const struct ini_value *value,
                          char *reason)
{
    const struct shard *shard = &loading->map->shards[loading->shard];
    struct bytes rest = bytes_of(value->value);
    struct bytes word;
    while (word_next(&rest, &word)) {
        const struct shard *owner = address_owner(loading->map, word);
        const char *expected = address_refusal(shard, word);
        if (owner) {
            refuse_owned(shard, owner, word, reason);
            return false;
        }
        if (expected) {
            (void)snprintf(reason, INI_REASON_MAX, "shard %s.address: expected %s, found '%.*s'",
                           shard->name, expected, (int)(word.len < 60 ? word.len : 60), word.data);
            return false;
        }
        shard_map_add_address(loading->map, loading->shard, word);
    }
    return true;
}

static bool on_value(void *owner, const struct ini_value *value, char *reason)
{
    struct shards_loading *loading = owner;
    if (loading->shard < 0)
        return set_epoch(loading, value, reason);
    if (strcmp(value->name, "slots") == 0)
        return add_slots(loading, value, reason);
    if (strcmp(value->name, "address") == 0)
        return add_addresses(loading, value, reason);
    (void)snprintf(reason, INI_REASON_MAX, "shard %s.%s: expected slots or address",
                   loading->map->shards[loading->shard].name, value->name);
    return false;
}

/* Checks at the end of the file that nothing is missing: the epoch, a shard's address, a slot. */
static bool check_coverage(const struct shards_loading *loading, const char *path, char *error,
                           size_t size)
{
    unsigned missing;
    int line;
    if (!loading->epoch_line) {
        (void)snprintf(error, size, "%s:%d: map.epoch: expected an integer of at least 1", path,
                       loading->map_line ? loading->map_line : 1);
        return false;
    }
    for (size_t i = 0; i < loading->map->shard_count; i++) {
        const struct shard *shard = &loading->map->shards[i];
        if (shard->address_count > 0)
            continue;
        (void)snprintf(error, size, "%s:%d: shard %s.address: missing, expected host:port", path,
                       loading->shard_line[i], shard->name);
        return false;
    }
    if (shard_map_complete(loading->map, &missing))
        return true;
    unsigned last = missing;
    while (last + 1 < SLOT_COUNT && loading->map->slot_shard[last + 1] == SHARD_NONE)
        last++;
    line = missing ? loading->slot_line[missing - 1] : loading->map_line;
    (void)snprintf(error, size, "%s:%d: expected every slot once, slots %u-%u have no shard", path,
                   line, missing, last);
    return false;
}

/* Checks that the map may replace the one in force: epochs never decrease, and slots move only with a higher one. */
static bool check_epoch(const struct shards_loading *loading, const struct shard_map *in_force,
                        const char *path, char *error, size_t size)
{
    const struct shard_map *map = loading->map;
    char moves[160];
    if (!in_force || map->epoch > in_force->epoch)
        return true;
    if (map->epoch < in_force->epoch) {
        (void)snprintf(error, size,
                       "%s:%d: map.epoch: expected at least %" PRIu64
                       ", the epoch in force, found %" PRIu64,
                       path, loading->epoch_line, in_force->epoch, map->epoch);
        return false;
    }
    struct map_change change = map_change_find(in_force, map);
    bool is_same = change.slots == 0;
    map_change_print(&change, moves, sizeof moves);
    map_change_free(&change);
    if (!is_same)
        (void)snprintf(error, size,
                       "%s:%d: map.epoch: expected more than %" PRIu64
                       ", the epoch in force, because the new map moves %s",
                       path, loading->epoch_line, in_force->epoch, moves);
    return is_same;
}

static struct shard_map *parse_after(const char *path, struct bytes text,
                                     const struct shard_map *in_force, char *error, size_t size)
{
    static const struct ini_events events = {on_section, on_value};
    struct shards_loading *loading = calloc(1, sizeof *loading);
    CHECK(loading);
    loading->map = shard_map_new(0);
    bool ok = ini_each(path, text, &events, loading, error, size) &&
              check_coverage(loading, path, error, size) &&
              check_epoch(loading, in_force, path, error, size);
    struct shard_map *map = loading->map;
    free(loading);
    if (ok)
        return map;
    shard_map_unref(map);
    return NULL;
}

struct shard_map *shards_parse(const char *path, struct bytes text, char *error, size_t size)
{
    return parse_after(path, text, NULL, error, size);
}

struct shard_map *shards_load(const char *path, const struct shard_map *in_force, char *error,
                              size_t size)
{
    size_t len;
    char *text = file_read(path, &len, error, size);
    if (!text)
        return NULL;
    struct shard_map *map = parse_after(path, (struct bytes){text, len}, in_force, error, size);
    free(text);
    return map;
}
