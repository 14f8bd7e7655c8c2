/*
 * test_map_change.c - which slots move when one map replaces another.
 */
#include "shared/map_change.h"

#include "config/shards_file.h"
#include "shared/check.h"

#include <stdlib.h>

static struct shard_map *parse(const char *text)
{
    char error[256];
    struct shard_map *map = shards_parse("m.ini", bytes_of(text), error, sizeof error);
    CHECK(map);
    return map;
}

static const char before_text[] = "[map]\nepoch = 1\n[shard a]\nslots = 0-8191\naddress = h:1\n"
                                  "[shard b]\nslots = 8192-16383\naddress = h:2\n";

static void test_flows_are_counted_by_name(void)
{
    struct shard_map *before = parse(before_text);
    struct shard_map *after =
        parse("[map]\nepoch = 2\n[shard c]\nslots = 16000-16383 0\naddress = h:3\n"
              "[shard b]\nslots = 8191-15999\naddress = h:9\n"
              "[shard a]\nslots = 1-8190\naddress = h:1\n");
    struct map_change change = map_change_find(before, after);
    char text[200];
    CHECK(change.count == 3 && change.slots == 386 && change.unknown == 0);
    map_change_print(&change, text, sizeof text);
    CHECK(strcmp(text, "1 slot from a to c, 1 slot from a to b, 384 slots from b to c") == 0);
    CHECK(map_change_keeps(before, after, 1) && !map_change_keeps(before, after, 0));
    map_change_print(&change, text, 50);
    CHECK(strcmp(text, "1 slot from a to c and 2 more") == 0);
    map_change_free(&change);
    shard_map_unref(before);
    shard_map_unref(after);
}

static void test_other_addresses_and_orders_move_nothing(void)
{
    struct shard_map *before = parse(before_text);
    struct shard_map *after =
        parse("[map]\nepoch = 2\n[shard b]\nslots = 8192-16383\naddress = h:7\n"
              "[shard a]\nslots = 0-8191\naddress = h:1\n");
    struct map_change change = map_change_find(before, after);
    char text[40];
    CHECK(change.count == 0 && change.slots == 0);
    map_change_print(&change, text, sizeof text);
    CHECK(strcmp(text, "nothing") == 0);
    map_change_free(&change);
    shard_map_unref(before);
    shard_map_unref(after);
}

static void test_slots_without_a_known_owner_are_counted_apart(void)
{
    struct shard_map *before = shard_map_new(1);
    struct shard_map *after = parse(before_text);
    unsigned taken;
    char text[100];
    CHECK(shard_map_claim(before, shard_map_add(before, BYTES("a")), 0, 9000, &taken));
    struct map_change change = map_change_find(before, after);
    CHECK(change.count == 2 && change.slots == 8192 && change.unknown == 16383 - 9000);
    map_change_print(&change, text, sizeof text);
    CHECK(strcmp(text, "809 slots from a to b, 7383 slots from an unknown owner to b") == 0);
    map_change_free(&change);
    shard_map_unref(before);
    shard_map_unref(after);
}

int main(void)
{
    test_flows_are_counted_by_name();
    test_other_addresses_and_orders_move_nothing();
    test_slots_without_a_known_owner_are_counted_apart();
    return 0;
}
