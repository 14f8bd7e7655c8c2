/*
 * test_snapshot.c - a copy fetches files from another one over links that fail (sim_peer.h): connections that are cut, hosts that are down
 * or frozen, frames that are doubled, exchanged or late, and targets that end in the middle.
 *
 *   files of b ──cut──► b: snapshot_source ══ link ══► a: snapshot_target ──► directory of a
 *
 *   test_snapshot [seed]      one world, or SEEDS of them
 *
 * Between attempts b gets new files and loses old ones. In the end the directory of a is equal to the last cut, byte for byte, whole files of
 * earlier attempts were not fetched again, and b has removed all cuts.
 */
#include "backend/context/backend_metrics.h"
#include "backend/replica/snapshot_source.h"
#include "backend/replica/snapshot_target.h"
#include "shared/byte_order.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/path.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_peer.h"
#include "tests/sized.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEEDS = 60, ATTEMPTS = 6, STEPS_MAX = 3000000, FILES_MAX = 24, SECOND_US = 1000000 };

static char root[] = "/dev/shm/scree-snapshot-XXXXXX";
static char live[64], cut[64], fetched[64];

static struct sim_peer target_host, source_host;
static struct snapshot_source *source;
static struct snapshot_target *target;
static struct sim_relays relays;
static struct shard_map *map;
static struct labels *links;

/* The end of the present attempt. */
static struct {
    bool has_ended;
    enum snapshot_result result;
    uint64_t index;
    char reason[256];
} attempt;
/* In all worlds. */
static uint64_t whole, broken, kept_bytes;

static uint64_t cuts_made, cuts_ended, cuts_fetched; /* in this world */
static uint64_t names; /* of files so far, so that none is used twice */

/* ---- the files of b ---- */

static void write_random_file(const char *path, size_t size)
{
    char *data = malloc(size + 8);
    CHECK(data);
    for (size_t at = 0; at < size; at += 8)
        put_le64(data + at, sim_random(UINT64_MAX));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)close(fd);
    free(data);
}

/* Sizes around those of pieces, and empty files. */
static size_t random_size(void)
{
    switch (sim_random(5)) {
    case 0:
        return 0;
    case 1:
        return SNAPSHOT_PIECE_MAX - 1 + sim_random(3);
    case 2:
        return sim_random(3 * SNAPSHOT_PIECE_MAX);
    default:
        return sim_random(5000);
    }
}

static void add_live_file(void)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%06" PRIu64 ".sst", live, ++names);
    write_random_file(path, random_size());
}

/* As RocksDB's CURRENT and a log's `committed`: the same name and size, other contents. */
static void renew_small_file(void)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/CURRENT", live);
    CHECK(unlink(path) == 0 || errno == ENOENT);
    write_random_file(path, 16);
}

static void change_live(void)
{
    struct dirent *entry;
    DIR *dir = opendir(live);
    CHECK(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' && sim_random(4) == 0)
            CHECK(unlinkat(dirfd(dir), entry->d_name, 0) == 0);
    (void)closedir(dir);
    renew_small_file();
    for (uint64_t more = sim_random(FILES_MAX / 2); more; more--)
        add_live_file();
}

/* snapshot_cut.make: hard links, as of a checkpoint. */
static int make_cut(void *owner, const char *path, struct snapshot_list *list, char *error,
                    size_t size)
{
    char from[PATH_MAX], to[PATH_MAX];
    (void)owner;
    if (sim_random(10) == 0) {
        (void)snprintf(error, size, "the disk failed");
        return ERR_STORE;
    }
    CHECK(mkdir(path, 0700) == 0);
    DIR *dir = opendir(live);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        (void)snprintf(from, sizeof from, "%s/%s", live, entry->d_name);
        (void)snprintf(to, sizeof to, "%s/%s", path, entry->d_name);
        CHECK(entry->d_name[0] == '.' || link(from, to) == 0);
    }
    (void)closedir(dir);
    list->origin = 77;
    list->index = ++cuts_made;
    return OK;
}

static void cut_ended(void *owner, uint64_t index)
{
    (void)owner;
    cuts_ended++;
    cuts_fetched += index != 0;
    CHECK(index == 0 || index == cuts_made);
}

static struct refusal handle(void *owner, struct peer_incoming *incoming,
                             const struct peer_frame *frame)
{
    (void)owner;
    if (snapshot_source_handle(source, incoming, frame))
        return NO_REFUSAL;
    return REFUSAL(OTHER, "unknown request");
}

static void closed(void *owner, struct peer_incoming *incoming)
{
    (void)owner;
    snapshot_source_closed(source, incoming);
}

/* ---- attempts of a ---- */

static void attempt_ended(void *owner, enum snapshot_result result,
                          const struct snapshot_list *list, const char *reason)
{
    (void)owner;
    CHECK(!attempt.has_ended);
    attempt.has_ended = true;
    attempt.result = result;
    attempt.index = list->index;
    (void)snprintf(attempt.reason, sizeof attempt.reason, "%s", reason);
    CHECK(result == SNAPSHOT_IS_HERE || reason[0]);
}

static bool is_up(void *owner)
{
    struct peer_link *link = peer_set_find(target_host.set, BYTES("b"));
    (void)owner;
    return link->state == PEER_LINK_UP;
}

static bool is_over(void *owner)
{
    (void)owner;
    return attempt.has_ended;
}

static bool is_source_idle(void *owner)
{
    (void)owner;
    return !snapshot_source_is_busy(source);
}

static void begin_attempt(void)
{
    static const struct snapshot_target_events events = {.on_end = attempt_ended};
    CHECK(sim_run_until(is_up, NULL, STEPS_MAX));
    attempt.has_ended = false;
    sim_set_host("a");
    target = snapshot_target_new(target_host.loop, peer_set_find(target_host.set, BYTES("b")),
                                 fetched, &events);
    CHECK(target);
}

static void make_fault(void)
{
    switch (sim_random(5)) {
    case 0:
        sim_cut(sim_random(2) ? "a" : "b");
        break;
    case 1:
        sim_freeze(sim_random(2) ? "a" : "b", 1000 * sim_random(3000));
        break;
    case 2:
        sim_host_down("b");
        sim_run_for(sim_random(SECOND_US));
        sim_host_up("b");
        break;
    default:
        sim_relays_mute(&relays);
        break;
    }
}

/* Ends before it has all files, mostly: the link fails, or the target is freed. */
static void try_once(void)
{
    begin_attempt();
    sim_run_for(sim_random(SECOND_US / 2));
    if (sim_random(3))
        make_fault();
    if (sim_random(3))
        CHECK(sim_run_until(is_over, NULL, STEPS_MAX));
    whole += attempt.has_ended && attempt.result == SNAPSHOT_IS_HERE;
    broken += !attempt.has_ended || attempt.result != SNAPSHOT_IS_HERE;
    snapshot_target_free(target);
}

/* ---- the end of a world ---- */

static void check_equal(void)
{
    char command[256];
    (void)snprintf(command, sizeof command, "diff -r -x .origin %s %s", live, fetched);
    CHECK(system(command) == 0);
}

/* Without faults the next attempt succeeds, and fetches only what is missing. */
static void fetch_all(void)
{
    do {
        begin_attempt();
        CHECK(sim_run_until(is_over, NULL, STEPS_MAX));
        uint64_t bytes, total;
        snapshot_target_progress(target, &bytes, &total);
        CHECK(attempt.result != SNAPSHOT_IS_HERE || bytes == total);
        CHECK(attempt.result == SNAPSHOT_IS_HERE || attempt.result == SNAPSHOT_PEER_FAILED);
        snapshot_target_free(target);
        CHECK(sim_run_until(is_source_idle, NULL, STEPS_MAX));
    } while (attempt.result != SNAPSHOT_IS_HERE);
    uint64_t sent, total;
    snapshot_source_progress(source, &sent, &total);
    CHECK(sent <= total);
    kept_bytes += total - sent;
    CHECK(attempt.index == cuts_made);
    check_equal();
    CHECK(!path_exists(cut));
    CHECK(cuts_ended >= cuts_made && cuts_fetched > 0);
}

static void start_world(uint64_t seed)
{
    static const char *const addresses[] = {"relay-a:1", "relay-b:1"};
    static const struct snapshot_cut cuts = {.make = make_cut, .on_end = cut_ended};
    struct sim_peer_options options = {.name = "a",
                                       .links = links = labels_new(LINK_WORDS, 2),
                                       .map = map = shard_map_even(addresses, 2),
                                       .relays = &relays,
                                       .options = {.output_max = 32 << 20, .requests_max = 64}};
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->delay_us_max = 5000;
    sim_knobs()->pipe_bytes = 256 << 10;
    sim_relays_init(&relays);
    sim_peer_start(&target_host, &options);
    options.name = "b";
    options.index = 1;
    options.requests = (struct peer_requests){.handle = handle, .on_closed = closed};
    sim_peer_start(&source_host, &options);
    source = snapshot_source_new(source_host.loop, cut, &cuts);
    snapshot_source_set_rate(source, sim_random(2) ? 0 : 4 << 20);
}

static void end_world(void)
{
    sim_peer_stop(&target_host);
    sim_peer_stop(&source_host);
    snapshot_source_free(source);
    sim_relays_stop(&relays);
    sim_run_for(SECOND_US);
    sim_peer_fini(&target_host);
    sim_peer_fini(&source_host);
    sim_relays_fini(&relays);
    shard_map_unref(map);
    labels_free(links);
    sim_fini();
}

static void run_world(uint64_t seed)
{
    cuts_made = cuts_ended = cuts_fetched = 0;
    CHECK(path_remove(live) && path_remove(fetched) && path_remove(cut));
    CHECK(mkdir(live, 0700) == 0);
    start_world(seed);
    for (uint64_t count = sim_random(FILES_MAX); count; count--)
        add_live_file();
    renew_small_file();
    relays.is_faulty = true;
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        try_once();
        if (sim_random(2))
            change_live();
    }
    relays.is_faulty = false;
    sim_knobs()->slow_ppm = 0;
    sim_run_for(10 * SECOND_US);
    fetch_all();
    end_world();
}

int main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    CHECK(mkdtemp(root));
    (void)snprintf(live, sizeof live, "%s/live", root);
    (void)snprintf(cut, sizeof cut, "%s/cut", root);
    (void)snprintf(fetched, sizeof fetched, "%s/fetched", root);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t last = argc > 1 ? first : sized(SEEDS);
    for (uint64_t seed = first; seed <= last; seed++) {
        fflush(stdout);
        run_world(seed);
    }
    CHECK(path_remove(root));
    if (argc > 1)
        return 0;
    CHECK(whole && broken && kept_bytes);
    printf("test_snapshot: %" PRIu64 " attempts came to their end, %" PRIu64
           " broke off; the next ones kept %" PRIu64 " bytes\n",
           whole, broken, kept_bytes);
    return 0;
}
