/*
 * test_peer_leaders.c - peer/leaders.h: of two leaders of a shard the newer one counts, whatever came first; which addresses are tried.
 */
#include "backend/peer/leaders.h"
#include "config/shards_file.h"
#include "shared/check.h"

#include <stdio.h>
#include <string.h>

static char error[256];
static unsigned newer; /* calls of on_newer */

static struct shard_map *map_of(const char *addresses_of_b)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "[map]\nepoch = 1\n[shard a]\nslots = 0-8191\naddress = a:1\n"
                   "[shard b]\nslots = 8192-16383\naddress = %s\n",
                   addresses_of_b);
    struct shard_map *map = shards_parse("s.ini", bytes_of(text), error, sizeof error);
    CHECK(map);
    return map;
}

static void on_newer(void *owner, const char *shard)
{
    CHECK(owner == &newer && strcmp(shard, "b") == 0);
    newer++;
}

static void configure(struct peer_leaders *leaders, const char *addresses_of_b)
{
    struct shard_map *map = map_of(addresses_of_b);
    peer_leaders_configure(leaders, map);
    shard_map_unref(map);
}

static struct peer_leaders *leaders_with(const char *addresses_of_b)
{
    struct peer_leaders *leaders = peer_leaders_new(on_newer, &newer);
    newer = 0;
    configure(leaders, addresses_of_b);
    return leaders;
}

static struct peer_identity identity_of(const char *shard, const char *address, uint32_t generation,
                                        uint64_t term)
{
    struct peer_identity identity = {.leadership = {generation, term}};
    (void)snprintf(identity.shard, sizeof identity.shard, "%s", shard);
    (void)snprintf(identity.address, sizeof identity.address, "%s", address);
    return identity;
}

static enum peer_leader_heard hear(struct peer_leaders *leaders, const char *address,
                                   uint32_t generation, uint64_t term)
{
    const struct peer_identity identity = identity_of("b", address, generation, term);
    enum peer_leader_heard expected = peer_leaders_compare(leaders, &identity);
    enum peer_leader_heard heard = peer_leaders_hear(leaders, &identity, address);
    CHECK(heard == expected);
    return heard;
}

static bool leads(const struct peer_leaders *leaders, const char *address)
{
    const char *known = peer_leaders_address(leaders, "b");
    return known ? strcmp(known, address) == 0 : !*address;
}

static void test_a_forced_copy_is_newer_than_any_term_of_the_group_before(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1 z:1");
    CHECK(leads(leaders, ""));
    CHECK(hear(leaders, "x:1", 1, 5) == PEER_LEADER_NEWER && leads(leaders, "x:1"));
    CHECK(hear(leaders, "x:1", 1, 5) == PEER_LEADER_SAME && newer == 1);
    CHECK(hear(leaders, "y:1", 1, 7) == PEER_LEADER_NEWER && leads(leaders, "y:1"));
    CHECK(hear(leaders, "x:1", 1, 6) == PEER_LEADER_OLDER && leads(leaders, "y:1"));
    CHECK(hear(leaders, "z:1", 2, 1) == PEER_LEADER_NEWER && leads(leaders, "z:1"));
    CHECK(hear(leaders, "y:1", 1, 9) == PEER_LEADER_OLDER && leads(leaders, "z:1"));
    CHECK(hear(leaders, "y:1", 0, 0) == PEER_LEADER_OLDER && newer == 3);
    peer_leaders_free(leaders);
}

static void test_a_leader_is_where_it_was_reached(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1");
    const struct peer_identity identity = identity_of("b", "behind-a-forwarder:1", 1, 1);
    CHECK(peer_leaders_hear(leaders, &identity, "y:1") == PEER_LEADER_NEWER);
    CHECK(leads(leaders, "y:1"));
    CHECK(hear(leaders, "X:1", 1, 2) == PEER_LEADER_NEWER && leads(leaders, "x:1"));
    peer_leaders_free(leaders);
}

/* Anybody with the secret can connect and claim any term, or listen at another address. */
static void test_what_is_said_elsewhere_than_the_map_says_is_not_noted(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1");
    const struct peer_identity outside = identity_of("b", "q:1", UINT32_MAX, UINT64_MAX);
    const struct peer_identity claim = identity_of("b", "Y:1", UINT32_MAX, UINT64_MAX);
    CHECK(hear(leaders, "x:1", 1, 5) == PEER_LEADER_NEWER);
    CHECK(peer_leaders_hear(leaders, &outside, "q:1") == PEER_LEADER_NEWER && newer == 1);
    CHECK(!peer_leaders_claimed(leaders, &outside));
    CHECK(strcmp(peer_leaders_claimed(leaders, &claim), "y:1") == 0);
    CHECK(hear(leaders, "x:1", 1, 5) == PEER_LEADER_SAME && leads(leaders, "x:1"));
    CHECK(hear(leaders, "y:1", 1, 6) == PEER_LEADER_NEWER && newer == 2);
    peer_leaders_free(leaders);
}

static void test_a_leader_that_a_new_map_drops_leads_until_a_newer_one_does(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1");
    CHECK(hear(leaders, "x:1", 1, 5) == PEER_LEADER_NEWER);
    configure(leaders, "y:1 x:1 z:1");
    CHECK(leads(leaders, "x:1") && hear(leaders, "y:1", 1, 4) == PEER_LEADER_OLDER);
    configure(leaders, "y:1 z:1");
    CHECK(leads(leaders, "x:1") && hear(leaders, "y:1", 1, 4) == PEER_LEADER_OLDER);
    CHECK(hear(leaders, "x:1", 1, 5) == PEER_LEADER_SAME);
    CHECK(peer_leaders_addresses(leaders, "b") == 3);
    CHECK(strcmp(peer_leaders_at(leaders, "b", 2), "x:1") == 0);
    configure(leaders, "y:1");
    CHECK(leads(leaders, "x:1"));
    configure(leaders, "y:1 z:1");
    CHECK(hear(leaders, "y:1", 1, 6) == PEER_LEADER_NEWER && leads(leaders, "y:1"));
    CHECK(peer_leaders_addresses(leaders, "b") == 2);
    peer_leaders_configure(leaders, NULL);
    CHECK(leads(leaders, "") && hear(leaders, "y:1", 1, 4) == PEER_LEADER_SAME);
    peer_leaders_free(leaders);
}

/* Whoever claims to have succeeded a shard with one copy does not lock it out. */
static void test_a_shard_with_one_copy_is_never_older(void)
{
    struct peer_leaders *leaders = leaders_with("x:1");
    CHECK(hear(leaders, "x:1", 0, 0) == PEER_LEADER_SAME);
    CHECK(hear(leaders, "x:1", UINT32_MAX, UINT64_MAX) == PEER_LEADER_NEWER);
    CHECK(hear(leaders, "x:1", 0, 0) == PEER_LEADER_SAME);
    CHECK(hear(leaders, "x:1", 1, 1) == PEER_LEADER_OLDER);
    const struct peer_identity unknown = identity_of("c", "x:1", 1, 1);
    CHECK(peer_leaders_hear(leaders, &unknown, "x:1") == PEER_LEADER_SAME);
    peer_leaders_free(leaders);
}

static bool names(struct peer_leaders *leaders, const char *line, const char *address)
{
    const char *named = peer_leaders_named(leaders, "b", bytes_of(line));
    return named ? strcmp(named, address) == 0 : !*address;
}

/* A map has dropped the leader before this partition heard any. */
static void test_a_copy_names_a_leader_that_the_map_does_not_have(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1");
    const struct peer_identity leader = identity_of("b", "w:1", 1, 5);
    CHECK(!peer_leaders_claimed(leaders, &leader));
    CHECK(names(leaders, "-NOTLEADER w:1 it does", "w:1") && leads(leaders, ""));
    CHECK(strcmp(peer_leaders_claimed(leaders, &leader), "w:1") == 0);
    CHECK(hear(leaders, "w:1", 1, 5) == PEER_LEADER_NEWER && leads(leaders, "w:1"));
    CHECK(names(leaders, "-NOTLEADER W:1", "w:1") && leads(leaders, "w:1"));
    CHECK(hear(leaders, "y:1", 1, 6) == PEER_LEADER_NEWER && leads(leaders, "y:1"));
    CHECK(peer_leaders_addresses(leaders, "b") == 2);
    peer_leaders_free(leaders);
}

/* The map here is older than that of the copies. What was heard before counts. */
static void test_a_copy_names_a_newer_leader_that_the_map_does_not_have_yet(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1");
    CHECK(hear(leaders, "x:1", 1, 5) == PEER_LEADER_NEWER);
    CHECK(names(leaders, "-NOTLEADER w:1", "w:1") && leads(leaders, "x:1"));
    CHECK(peer_leaders_addresses(leaders, "b") == 3);
    CHECK(hear(leaders, "w:1", 1, 4) == PEER_LEADER_OLDER && leads(leaders, "x:1"));
    CHECK(hear(leaders, "w:1", 1, 6) == PEER_LEADER_NEWER && leads(leaders, "w:1"));
    CHECK(names(leaders, "-NOTLEADER v:1", "v:1") && leads(leaders, ""));
    CHECK(hear(leaders, "v:1", 1, 5) == PEER_LEADER_OLDER);
    CHECK(hear(leaders, "v:1", 1, 7) == PEER_LEADER_NEWER && leads(leaders, "v:1"));
    peer_leaders_free(leaders);
}

static void test_a_copy_names_an_address_of_the_map_or_none(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1");
    char line[PEER_REDIRECTION_MAX + 1] = "-";
    CHECK(
        names(leaders, strcat(line, peer_redirect((char[PEER_REDIRECTION_MAX]){0}, "Y:1")), "y:1"));
    line[1] = 0;
    CHECK(names(leaders, strcat(line, peer_redirect((char[PEER_REDIRECTION_MAX]){0}, "")), ""));
    CHECK(names(leaders, "-NOTLEADER x:1", "x:1"));
    CHECK(names(leaders, "-NOTLEADER ", "") && names(leaders, "-NOTLEADER", ""));
    CHECK(names(leaders, "-NOTLEADER a:1 it is another shard's", ""));
    CHECK(names(leaders, "-NOTLEADER x: that is none", ""));
    CHECK(names(leaders, "-NOTLEADER unix:/x", "") && names(leaders, "-NOTLEADER -", ""));
    CHECK(names(leaders, "-ERR NOTLEADER x:1", "") && names(leaders, "", ""));
    CHECK(!peer_leaders_named(leaders, "c", BYTES("-NOTLEADER x:1")));
    peer_leaders_free(leaders);
}

static void test_links_try_the_addresses_of_their_shard(void)
{
    struct peer_leaders *leaders = leaders_with("x:1 y:1");
    CHECK(peer_leaders_addresses(leaders, "b") == 2 && peer_leaders_addresses(leaders, "a") == 1);
    CHECK(peer_leaders_addresses(leaders, "c") == 1);
    CHECK(strcmp(peer_leaders_at(leaders, "b", 1), "y:1") == 0);
    peer_leaders_free(leaders);
    peer_leaders_free(NULL);
}

int main(void)
{
    test_a_forced_copy_is_newer_than_any_term_of_the_group_before();
    test_a_leader_is_where_it_was_reached();
    test_what_is_said_elsewhere_than_the_map_says_is_not_noted();
    test_a_leader_that_a_new_map_drops_leads_until_a_newer_one_does();
    test_a_shard_with_one_copy_is_never_older();
    test_a_copy_names_a_leader_that_the_map_does_not_have();
    test_a_copy_names_a_newer_leader_that_the_map_does_not_have_yet();
    test_a_copy_names_an_address_of_the_map_or_none();
    test_links_try_the_addresses_of_their_shard();
    return 0;
}
