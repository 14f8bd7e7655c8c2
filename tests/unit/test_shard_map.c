/*
 * test_shard_map.c - shard maps: building, reading from files, errors, printing.
 */
#include "shared/shard_map.h"

#include "config/shards_file.h"
#include "shared/check.h"

#include <stdlib.h>

static char error[1024];

static const char good[] =
    "[map]\nepoch = 7\n"
    "[shard a]\nslots = 0-5460 7000\naddress = h1:1\n"
    "[shard b]\nslots = 5461-6999\n  7001-9000\nslots = 9001-16383\naddress = h2:2\n"
    "[shard spare]\naddress = h4:4\n";

static struct shard_map *parse(const char *text)
{
    return shards_parse("s.ini", bytes_of(text), error, sizeof error);
}

static bool refused(const char *text, const char *expected)
{
    struct shard_map *map = parse(text);
    if (!map && strcmp(error, expected) != 0)
        (void)fprintf(stderr, "%s\n%s\n", error, expected);
    bool ok = !map && strcmp(error, expected) == 0;
    shard_map_unref(map);
    return ok;
}

static void test_a_file_gives_every_slot_its_shard(void)
{
    struct shard_map *map = parse(good);
    CHECK(map);
    CHECK(map->epoch == 7 && map->shard_count == 3);
    CHECK(shard_map_find(map, 0) == 0 && shard_map_find(map, 7000) == 0);
    CHECK(shard_map_find(map, 6999) == 1 && shard_map_find(map, 16383) == 1);
    CHECK(map->shards[0].slot_count == 5462 && map->shards[1].slot_count == 16384 - 5462);
    CHECK(map->shards[1].address_count == 1 && strcmp(map->shards[1].addresses[0], "h2:2") == 0);
    CHECK(shard_map_named(map, BYTES("spare")) == 2 && shard_map_named(map, BYTES("c")) == -1);
    shard_map_unref(map);
}

/* Prints the map and reads the result; the map it returns must be equal. */
static struct shard_map *print_and_parse(const struct shard_map *map)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    CHECK(file);
    shard_map_print(map, file);
    CHECK(fclose(file) == 0);
    struct shard_map *again = parse(text);
    CHECK(again && shard_map_equal(map, again));
    free(text);
    return again;
}

static void test_printed_files_read_back_equal(void)
{
    struct shard_map *map = parse(good);
    struct shard_map *again = print_and_parse(map);
    again->epoch++;
    CHECK(!shard_map_equal(map, again));
    shard_map_unref(map);
    shard_map_unref(again);
}

/* A map with very many ranges is printed in lines that continue. */
static void test_a_scattered_map_prints_and_reads_back(void)
{
    struct shard_map *map = shard_map_new(3);
    unsigned taken;
    (void)shard_map_add(map, BYTES("x"));
    (void)shard_map_add(map, BYTES("y"));
    shard_map_add_address(map, 0, BYTES("h:1"));
    shard_map_add_address(map, 1, BYTES("h:2"));
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        CHECK(shard_map_claim(map, slot % 3 == 0, slot, slot, &taken));
    struct shard_map *again = print_and_parse(map);
    shard_map_unref(map);
    shard_map_unref(again);
}

static void test_refusals_say_the_line(void)
{
    CHECK(refused("[map]\nepoch = 1\n[shard a]\nslots = 0-16382\naddress = h:1\n",
                  "s.ini:4: expected every slot once, slots 16383-16383 have no shard"));
    CHECK(refused(
        "[map]\nepoch = 1\n[shard a]\nslots = 0-16383\naddress = h:1\n[shard b]\nslots = 5\n",
        "s.ini:7: shard b.slots: expected slots without an owner, slot 5 belongs to shard a (line "
        "4)"));
    CHECK(refused("[map]\nepoch = 1\n[shard a]\nslots = 0-16384\n",
                  "s.ini:4: shard a.slots: expected slots such as 0-5460 7000, below 16384, found "
                  "'0-16384'"));
    CHECK(refused(
        "[shard a]\nslots = 9-3\n",
        "s.ini:2: shard a.slots: expected slots such as 0-5460 7000, below 16384, found '9-3'"));
    CHECK(refused("[shard a]\nslots = 0-16383\naddress = h:1\n",
                  "s.ini:1: map.epoch: expected an integer of at least 1"));
    CHECK(refused("[map]\nepoch = x\n", "s.ini:2: map.epoch: expected an integer of at least 1"));
    CHECK(refused("[map]\nepoch = 1\nepoch = 2\n",
                  "s.ini:3: map.epoch: expected only the option epoch, once"));
    CHECK(refused("[map]\n[map]\n", "s.ini:2: expected [map] only once, it is already on line 1"));
    CHECK(refused("[shard a]\n[shard a]\n",
                  "s.ini:2: expected another name: shard a is already on line 1"));
    CHECK(refused("[shards a]\n", "s.ini:1: expected [map] or [shard NAME]"));
    CHECK(refused("[shard a b]\n", "s.ini:1: expected [map] or [shard NAME]"));
    CHECK(refused(
        "[shard a]\naddress = h\n",
        "s.ini:2: shard a.address: expected host:port, [v6]:port or unix:/path, found 'h'"));
    CHECK(refused("[shard a]\naddress = h:0\n",
                  "s.ini:2: shard a.address: expected host:port, [v6]:port or unix:/path, found "
                  "'h:0'"));
    CHECK(refused("[shard a]\naddress = h:1\n[shard b]\naddress = h:1\n",
                  "s.ini:4: shard b.address: expected an address that no other shard has, h:1 "
                  "belongs to shard a"));
    CHECK(refused("[map]\nepoch = 1\n[shard a]\nslots = 0-16383\n",
                  "s.ini:3: shard a.address: missing, expected host:port"));
    CHECK(
        refused("[shard a]\ncolour = red\n", "s.ini:2: shard a.colour: expected slots or address"));
}

static void test_a_shard_has_an_address_for_each_copy(void)
{
    struct shard_map *map = parse("[map]\nepoch = 1\n[shard a]\nslots = 0-16383\n"
                                  "address = h:1 h:2\n  h:3\naddress = h:4 [::1]:5\n");
    CHECK(map && map->shards[0].address_count == SHARD_ADDRESSES_MAX);
    CHECK(strcmp(map->shards[0].addresses[0], "h:1") == 0);
    CHECK(strcmp(map->shards[0].addresses[4], "[::1]:5") == 0);
    shard_map_unref(print_and_parse(map));
    shard_map_unref(map);
}

static void test_copies_have_different_addresses(void)
{
    CHECK(refused("[shard a]\naddress = h:1 h:2 h:3\naddress = h:4 h:5 h:6\n",
                  "s.ini:3: shard a.address: expected at most 5 addresses, found 'h:6'"));
    CHECK(refused("[shard a]\naddress = h:1 H:1\n",
                  "s.ini:2: shard a.address: expected each address once, found 'H:1' again"));
    CHECK(refused("[shard a]\naddress = h:1\n[shard b]\naddress = h:2 H:1\n",
                  "s.ini:4: shard b.address: expected an address that no other shard has, H:1 "
                  "belongs to shard a"));
    CHECK(refused("[shard a]\naddress = h:1 unix:/s\n",
                  "s.ini:2: shard a.address: expected no other address beside a unix:/path: the "
                  "copies of a shard reach each other by TCP, found 'unix:/s'"));
    CHECK(refused("[shard a]\naddress = unix:/s h:1\n",
                  "s.ini:2: shard a.address: expected no other address beside a unix:/path: the "
                  "copies of a shard reach each other by TCP, found 'h:1'"));
}

static void test_an_even_split_covers_all_slots(void)
{
    const char *const addresses[] = {"h:1", "h:2", "h:3"};
    unsigned missing;
    struct shard_map *map = shard_map_even(addresses, 3);
    CHECK(shard_map_complete(map, &missing));
    CHECK(strcmp(map->shards[2].name, "c") == 0);
    CHECK(map->shards[0].slot_count == 5461 && map->shards[1].slot_count == 5461 &&
          map->shards[2].slot_count == 5462);
    shard_map_unref(map);
    const char *many[100];
    for (size_t i = 0; i < 100; i++)
        many[i] = "h:1";
    map = shard_map_even(many, 100);
    CHECK(shard_map_complete(map, &missing) && strcmp(map->shards[99].name, "s99") == 0);
    shard_map_unref(map);
}

static void test_the_last_reference_frees(void)
{
    const char *const addresses[] = {"h:1"};
    struct shard_map *map = shard_map_even(addresses, 1);
    CHECK(shard_map_ref(map) == map);
    shard_map_unref(map);
    CHECK(map->shard_count == 1);
    shard_map_unref(map);
    shard_map_unref(NULL);
}

static void test_names_are_letters_digits_and_marks(void)
{
    struct shard_map *map = shard_map_new(1);
    CHECK(shard_map_add(map, BYTES("backend-0.a_b")) == 0);
    CHECK(shard_map_add(map, BYTES("backend-0.a_b")) == -1);
    CHECK(shard_map_add(map, BYTES("")) == -1);
    CHECK(shard_map_add(map, BYTES("a b")) == -1);
    CHECK(shard_map_add(map, BYTES("a\0")) == -1);
    shard_map_unref(map);
}

int main(void)
{
    test_a_file_gives_every_slot_its_shard();
    test_printed_files_read_back_equal();
    test_a_scattered_map_prints_and_reads_back();
    test_refusals_say_the_line();
    test_a_shard_has_an_address_for_each_copy();
    test_copies_have_different_addresses();
    test_an_even_split_covers_all_slots();
    test_the_last_reference_frees();
    test_names_are_letters_digits_and_marks();
    return 0;
}
