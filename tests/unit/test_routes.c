/*
 * test_routes.c - owners of slots that a proxy learns from bounces, copies that lead, and the map that it makes of them and of shards.ini.
 */
#include "proxy/core/routes.h"

#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

static struct shard_map *two_shards(uint64_t epoch)
{
    struct shard_map *map = shard_map_even((const char *const[]){"h:1", "h:2"}, 2);
    map->epoch = epoch;
    return map;
}

static struct shard_map *one_shard(void)
{
    return shard_map_even((const char *const[]){"h:1"}, 1);
}

/* Learns from a bounce of a shard that has all slots. */
static bool learn(struct routes *routes, unsigned first, unsigned last, uint64_t epoch,
                  const char *shard, const char *address)
{
    uint64_t version;
    const struct bounce bounce = {.slot = (uint16_t)first,
                                  .first = (uint16_t)first,
                                  .last = (uint16_t)last,
                                  .epoch = epoch,
                                  .shard = bytes_of(shard),
                                  .address = bytes_of(address)};
    struct shard_map *map = one_shard();
    bool is_new = routes_learn(routes, &(struct route_source){.map = map}, &bounce, &version);
    shard_map_unref(map);
    CHECK(version == routes_version(routes));
    return is_new;
}

static const char *owner(const struct shard_map *map, uint16_t slot)
{
    return map->shards[shard_map_find(map, slot)].name;
}

static struct shard_map *merge(struct routes *routes, struct shard_map *wish)
{
    uint64_t version;
    struct shard_map *map = routes_merge(routes, wish, &version);
    CHECK(version == routes_version(routes));
    return map;
}

static void test_without_bounces_the_map_is_the_wish(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = two_shards(1);
    struct shard_map *map = merge(routes, wish);
    CHECK(map == wish && routes_count(map, wish) == 0);
    shard_map_unref(map);
    CHECK(learn(routes, 5, 5, 1, "a", "h:1")); /* what the wish says */
    map = merge(routes, wish);
    CHECK(map == wish);
    shard_map_unref(map);
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_the_higher_epoch_counts_and_a_reload_keeps_it(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = two_shards(1);
    CHECK(learn(routes, 10, 20, 3, "b", "h:2"));
    CHECK(!learn(routes, 10, 20, 3, "a", "h:1"));
    CHECK(!learn(routes, 12, 12, 2, "a", "h:1"));
    CHECK(learn(routes, 15, 25, 4, "a", "h:1"));
    struct shard_map *map = merge(routes, wish);
    CHECK(strcmp(owner(map, 14), "b") == 0 && strcmp(owner(map, 15), "a") == 0);
    CHECK(strcmp(owner(map, 21), "a") == 0 && routes_count(map, wish) == 5);
    CHECK(map->epoch == 1 && map->shards[0].slot_count == 8192 - 5);
    shard_map_unref(map);
    shard_map_unref(wish);
    wish = two_shards(9);
    map = merge(routes, wish);
    CHECK(map->epoch == 9 && strcmp(owner(map, 10), "b") == 0);
    shard_map_unref(map);
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_an_owner_that_the_wish_does_not_name_is_there_while_it_owns_slots(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = two_shards(1);
    CHECK(learn(routes, 0, 1, 2, "new", "10.0.0.9:7000"));
    CHECK(learn(routes, 2, 2, 2, "other-name", "h:2")); /* a shard of the wish, by its address */
    CHECK(learn(routes, 3, 3, 2, "nowhere", ""));
    CHECK(learn(routes, 4, 4, 2, "file", "unix:/etc/passwd"));
    struct shard_map *map = merge(routes, wish);
    CHECK(map->shard_count == 3 && strcmp(map->shards[2].addresses[0], "10.0.0.9:7000") == 0);
    CHECK(strcmp(owner(map, 0), "new") == 0 && strcmp(owner(map, 2), "b") == 0);
    CHECK(strcmp(owner(map, 3), "a") == 0 && strcmp(owner(map, 4), "a") == 0);
    shard_map_unref(map);
    CHECK(learn(routes, 0, 1, 3, "a", "h:1"));
    map = merge(routes, wish);
    CHECK(map->shard_count == 2);
    shard_map_unref(map);
    CHECK(learn(routes, 0, 1, 4, "new", "10.0.0.9:7000"));
    CHECK(routes_forget(routes, BYTES("new")) && !routes_forget(routes, BYTES("new")));
    map = merge(routes, wish);
    CHECK(map->shard_count == 2 && strcmp(owner(map, 0), "a") == 0);
    shard_map_unref(map);
    CHECK(learn(routes, 0, 1, 1, "b", "h:2")); /* forgotten epochs do not count */
    struct shard_map *now =
        shard_map_without_slots(wish); /* the operator removes b, which was drained */
    free(now->shards[1].name);
    now->shards[1].name = strdup("c");
    routes_forget_removed(routes, wish, now);
    shard_map_unref(now);
    CHECK(!routes_forget(routes, BYTES("b")));
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_a_shard_gives_away_only_its_own_slots(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = two_shards(1);
    const struct bounce bounce = {.slot = 9000,
                                  .last = SLOT_COUNT - 1,
                                  .epoch = INT64_MAX,
                                  .shard = BYTES("b"),
                                  .address = BYTES("h:2")};
    const struct bounce away = {.slot = 9000,
                                .last = SLOT_COUNT - 1,
                                .epoch = 7,
                                .shard = BYTES("c"),
                                .address = BYTES("h:3")};
    uint64_t version;
    CHECK(!routes_learn(routes, &(struct route_source){.map = wish, .shard = SHARD_NONE}, &bounce,
                        &version));
    CHECK(routes_learn(routes, &(struct route_source){.map = wish, .shard = 1}, &away, &version));
    struct shard_map *map = merge(routes, wish);
    CHECK(strcmp(owner(map, 0), "a") == 0 && strcmp(owner(map, 8191), "a") == 0);
    CHECK(strcmp(owner(map, 8192), "c") == 0 && strcmp(owner(map, SLOT_COUNT - 1), "c") == 0);
    CHECK(!routes_learn(routes, &(struct route_source){.map = map, .shard = 1}, &bounce, &version));
    shard_map_unref(map);
    shard_map_unref(wish);
    routes_free(routes);
}

/* Learns from a bounce of the shard source of the map. */
static bool learn_from(struct routes *routes, const struct shard_map *map, uint32_t source,
                       unsigned slot, uint64_t epoch, const char *shard, const char *address)
{
    uint64_t version;
    const struct bounce bounce = {.slot = (uint16_t)slot,
                                  .first = (uint16_t)slot,
                                  .last = (uint16_t)slot,
                                  .epoch = epoch,
                                  .shard = bytes_of(shard),
                                  .address = bytes_of(address)};
    return routes_learn(routes, &(struct route_source){.map = map, .shard = source}, &bounce,
                        &version);
}

static void test_a_shard_cannot_redirect_the_slots_that_another_one_gives_to_a_new_shard(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = two_shards(1);
    CHECK(learn_from(routes, wish, 0, 5, 2, "new", "evil:1"));
    CHECK(learn_from(routes, wish, 1, 9000, 2, "new", "good:1"));
    struct shard_map *map = merge(routes, wish);
    CHECK(strcmp(owner(map, 5), "new") == 0 &&
          strcmp(map->shards[shard_map_find(map, 5)].addresses[0], "evil:1") == 0);
    CHECK(strcmp(owner(map, 9000), "b") == 0); /* it bounces, but no other shard gets the request */
    shard_map_unref(map);
    CHECK(learn_from(routes, wish, 1, 9001, 2, "b2", "evil:1"));
    CHECK(learn_from(routes, wish, 0, 6, 2, "b", "evil:2")); /* shards.ini has its address */
    map = merge(routes, wish);
    CHECK(strcmp(owner(map, 6), "b") == 0 && strcmp(map->shards[1].addresses[0], "h:2") == 0);
    shard_map_unref(map);
    CHECK(routes_forget(routes, BYTES("new")));
    CHECK(learn_from(routes, wish, 1, 9000, 2, "new", "good:1"));
    map = merge(routes, wish);
    CHECK(strcmp(map->shards[shard_map_find(map, 9000)].addresses[0], "good:1") == 0);
    shard_map_unref(map);
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_an_epoch_that_a_shard_forged_does_not_outlive_its_slots(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = two_shards(1);
    CHECK(learn_from(routes, wish, 0, 5, UINT64_MAX, "b", "h:2"));
    struct shard_map *map = merge(routes, wish);
    CHECK(!learn_from(routes, wish, 0, 5, 4, "a", "h:1")); /* late: a is the owner no more */
    CHECK(!learn_from(routes, map, 1, 5, 4, "b", "h:2"));
    CHECK(learn_from(routes, map, 1, 5, 4, "c", "h:3"));
    shard_map_unref(map);
    map = merge(routes, wish);
    CHECK(strcmp(owner(map, 5), "c") == 0);
    shard_map_unref(map);
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_backends_cannot_make_a_map_with_more_shards_than_it_may_have(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = two_shards(1);
    char name[32];
    char address[32];
    unsigned learned = 0;
    for (unsigned i = 0; i < 2 * SHARD_COUNT_MAX; i++) {
        (void)snprintf(name, sizeof name, "s%u", i);
        (void)snprintf(address, sizeof address, "x:%u", i + 1);
        learned += learn(routes, i, i, 2, name, address);
    }
    CHECK(learned == 2 * SHARD_COUNT_MAX);
    CHECK(learn(routes, SLOT_COUNT - 1, SLOT_COUNT - 1, 2, "b", "h:2"));
    struct shard_map *map = merge(routes, wish);
    CHECK(map->shard_count == SHARD_COUNT_MAX && strcmp(owner(map, SLOT_COUNT - 1), "b") == 0);
    shard_map_unref(map);
    CHECK(routes_forget(routes, BYTES("s1")));
    /* places of shards without slots are used again */
    for (unsigned i = 0; i < 3 * SHARD_COUNT_MAX; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        CHECK(learn(routes, 0, 0, 3 + i, name, "x:1"));
    }
    shard_map_unref(wish);
    routes_free(routes);
}

/* Shard a with copies at h:1, h:2 and h:3, and shard b at h:4. */
static struct shard_map *copied_shard(uint64_t epoch)
{
    struct shard_map *map = shard_map_even((const char *const[]){"h:1", "h:4"}, 2);
    map->epoch = epoch;
    shard_map_add_address(map, 0, BYTES("h:2"));
    shard_map_add_address(map, 0, BYTES("h:3"));
    return map;
}

/* The wish is copied_shard. */
static bool lead(struct routes *routes, const char *address, uint32_t generation, uint64_t term)
{
    struct shard_map *wish = copied_shard(1);
    bool is_new = routes_lead(routes, wish, &(struct route_leader){"a", address, generation, term});
    shard_map_unref(wish);
    return is_new;
}

static bool end_lead(struct routes *routes, const char *address, uint32_t generation, uint64_t term)
{
    return routes_end_lead(routes, &(struct route_leader){"a", address, generation, term}, false);
}

static bool lose(struct routes *routes, const char *address)
{
    return routes_end_lead(routes, &(struct route_leader){"a", address, 0, 0}, true);
}

/* Does the merged map have these addresses of shard a, in this order? */
static bool has_addresses(struct routes *routes, struct shard_map *wish, const char *addresses)
{
    char text[64] = "";
    struct shard_map *map = merge(routes, wish);
    CHECK(strcmp(map->shards[1].addresses[0], "h:4") == 0);
    for (size_t n = 0; n < map->shards[0].address_count; n++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), n ? " %s" : "%s",
                       map->shards[0].addresses[n]);
    shard_map_unref(map);
    return strcmp(text, addresses) == 0;
}

static void test_the_leader_of_the_highest_generation_and_term_is_the_first_address(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = copied_shard(1);
    CHECK(lead(routes, "h:1", 1, 4));
    struct shard_map *map = merge(routes, wish);
    CHECK(map == wish); /* as shards.ini says */
    shard_map_unref(map);
    CHECK(lead(routes, "h:3", 1, 5));
    CHECK(has_addresses(routes, wish, "h:3 h:1 h:2"));
    CHECK(!lead(routes, "h:3", 1, 5) && !lead(routes, "h:3", 1, 6));
    CHECK(!lead(routes, "h:1", 1, 4) && !lead(routes, "h:2", 1, 6));
    CHECK(lead(routes, "h:2", 2, 1)); /* survivors were made a group of their own */
    CHECK(!lead(routes, "h:3", 1, 1000));
    CHECK(has_addresses(routes, wish, "h:2 h:1 h:3"));
    CHECK(routes_lead(routes, wish, &(struct route_leader){"unknown", "h:9", 1, 1}));
    CHECK(has_addresses(routes, wish, "h:2 h:1 h:3"));
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_a_copy_corrects_what_it_has_said_itself(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = copied_shard(1);
    CHECK(lead(routes, "h:2", 7, 9));
    CHECK(!lead(routes, "h:2", 1, 1)); /* its group was founded anew */
    CHECK(lead(routes, "h:3", 1, 2));
    CHECK(has_addresses(routes, wish, "h:3 h:1 h:2"));
    shard_map_unref(wish);
    routes_free(routes);
}

/* copied_shard without h:3. */
static struct shard_map *without_third(void)
{
    struct shard_map *map = shard_map_even((const char *const[]){"h:1", "h:4"}, 2);
    shard_map_add_address(map, 0, BYTES("h:2"));
    return map;
}

static void test_a_leader_that_the_map_drops_leads_until_another_copy_does(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = copied_shard(1), *now = without_third();
    CHECK(lead(routes, "h:3", 2, 5));
    routes_forget_removed(routes, wish, now);
    CHECK(has_addresses(routes, now, "h:3 h:1 h:2"));
    CHECK(!lead(routes, "h:1", 2, 4)); /* it led before */
    CHECK(!end_lead(routes, "h:3", 2, 5));
    CHECK(has_addresses(routes, now, "h:3 h:1 h:2")); /* it is handing over */
    CHECK(!lead(routes, "h:1", 2, 4));     /* it has not heard yet that it was replaced */
    CHECK(!end_lead(routes, "h:3", 2, 6)); /* it follows */
    CHECK(lead(routes, "h:2", 2, 6) && has_addresses(routes, now, "h:2 h:1"));
    routes_forget_removed(routes, now, wish);
    CHECK(has_addresses(routes, wish, "h:2 h:1 h:3"));
    shard_map_unref(now);
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_a_leader_that_the_map_drops_is_forgotten_when_it_does_not_answer(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = copied_shard(1), *now = without_third();
    CHECK(lead(routes, "h:3", 2, 5));
    CHECK(!lose(routes, "h:3")); /* the map has it: its successor will say so */
    CHECK(has_addresses(routes, wish, "h:3 h:1 h:2"));
    routes_forget_removed(routes, wish, now);
    CHECK(!lose(routes, "h:1"));
    CHECK(lose(routes, "h:3"));
    CHECK(has_addresses(routes, now, "h:1 h:2"));
    shard_map_unref(now);
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_a_new_group_counts_when_the_leader_of_the_old_one_has_joined_it(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = copied_shard(1);
    CHECK(lead(routes, "h:3", 2, 5));
    CHECK(!lead(routes, "h:1", 1, 1));
    CHECK(!end_lead(routes, "h:3", 0, 0)); /* its disk was lost, and an old leader may be left */
    CHECK(!lead(routes, "h:1", 1, 1));
    CHECK(!end_lead(routes, "h:3", 1, 1));
    CHECK(lead(routes, "h:1", 1, 1) && has_addresses(routes, wish, "h:1 h:2 h:3"));
    CHECK(!lead(routes, "h:2", 1, 1));
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_a_leader_that_the_map_does_not_have_leads_while_it_answers(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = copied_shard(1);
    CHECK(lead(routes, "h:9", 2, 5) && has_addresses(routes, wish, "h:9 h:1 h:2 h:3"));
    CHECK(lose(routes, "h:9") && has_addresses(routes, wish, "h:1 h:2 h:3"));
    CHECK(lead(routes, "h:9", 2, 5) && has_addresses(routes, wish, "h:9 h:1 h:2 h:3"));
    CHECK(lead(routes, "h:2", 2, 6) && has_addresses(routes, wish, "h:2 h:1 h:3"));
    shard_map_unref(wish);
    routes_free(routes);
}

static void test_a_leader_is_forgotten_with_its_shard(void)
{
    struct routes *routes = routes_new();
    struct shard_map *wish = copied_shard(1);
    struct shard_map *now = shard_map_new(2);
    CHECK(lead(routes, "h:3", 2, 5));
    routes_forget_removed(routes, wish, now);
    CHECK(has_addresses(routes, wish, "h:1 h:2 h:3"));
    shard_map_unref(now);
    shard_map_unref(wish);
    routes_free(routes);
}

int main(void)
{
    test_without_bounces_the_map_is_the_wish();
    test_the_higher_epoch_counts_and_a_reload_keeps_it();
    test_an_owner_that_the_wish_does_not_name_is_there_while_it_owns_slots();
    test_a_shard_gives_away_only_its_own_slots();
    test_a_shard_cannot_redirect_the_slots_that_another_one_gives_to_a_new_shard();
    test_an_epoch_that_a_shard_forged_does_not_outlive_its_slots();
    test_backends_cannot_make_a_map_with_more_shards_than_it_may_have();
    test_the_leader_of_the_highest_generation_and_term_is_the_first_address();
    test_a_copy_corrects_what_it_has_said_itself();
    test_a_leader_that_the_map_drops_leads_until_another_copy_does();
    test_a_leader_that_the_map_drops_is_forgotten_when_it_does_not_answer();
    test_a_new_group_counts_when_the_leader_of_the_old_one_has_joined_it();
    test_a_leader_that_the_map_does_not_have_leads_while_it_answers();
    test_a_leader_is_forgotten_with_its_shard();
    return 0;
}
