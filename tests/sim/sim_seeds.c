#include "tests/sim/sim_seeds.h"

#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "shared/table.h"
#include "tests/sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SEEDS_OF_CHILD = 100,   /* seeds in one child process */
    BREAK_SEEDS_MAX = 4000, /* seeds within which a control must be detected */
    SEED_SECONDS_MAX = 60,
    PROGRESS_SEEDS = 500,
};

struct sim_options sim_options;
static const struct sim_simulation *simulation;

/* ---- child processes -------------------------------------------------------------------------- */

struct tally {
    uint64_t passed;
    uint64_t failed;
    uint64_t undecided;
};

/* Runs the seed; every tenth one twice, and both histories must be equal. */
static void run_seed(uint64_t seed, struct sim_result *result)
{
    *result = (struct sim_result){.seed = seed};
    alarm(SEED_SECONDS_MAX);
    simulation->run(result);
    if (!result->has_passed || seed % 10)
        return;
    uint64_t hash = result->hash;
    simulation->run(result);
    if (!result->has_passed || hash == result->hash)
        return;
    result->has_passed = false;
    (void)snprintf(result->why, sizeof(result->why), "the same seed took another course");
}

_Noreturn static void be_child(int to, uint64_t first, uint64_t count)
{
    struct sim_result result;
    if (sim_options.is_breaking)
        CHECK(freopen("/dev/null", "w", stderr));
    for (uint64_t seed = first; seed < first + count; seed++) {
        run_seed(seed, &result);
        (void)fflush(stdout);
        if (write(to, &result, sizeof(result)) != sizeof(result) || !result.has_passed)
            _exit(EXIT_FAILURE);
    }
    exit(EXIT_SUCCESS); /* normal end, so that a leak sanitizer can check */
}

static bool read_result(int from, struct sim_result *result)
{
    size_t got = 0;
    while (got < sizeof(*result)) {
        ssize_t more = read(from, (char *)result + got, sizeof(*result) - got);
        if (more <= 0)
            return false;
        got += (size_t)more;
    }
    return true;
}

static void count_result(const struct sim_result *result, struct tally *tally)
{
    tally->undecided += result->undecided;
    if (result->has_passed) {
        tally->passed++;
        return;
    }
    tally->failed++;
    printf("seed %" PRIu64 ": %s\n", result->seed, result->why);
}

/* Runs seeds in one child process until one fails; returns the first seed that was not run. */
static uint64_t run_child(uint64_t first, uint64_t count, struct tally *tally)
{
    int ends[2];
    struct sim_result result;
    uint64_t seed = first;
    int status = 0;
    CHECK(pipe(ends) == 0);
    (void)fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[0]);
        be_child(ends[1], first, count);
    }
    close(ends[1]);
    bool is_good = true;
    while (seed < first + count && is_good && read_result(ends[0], &result)) {
        CHECK(result.seed == seed++);
        count_result(&result, tally);
        is_good = result.has_passed;
    }
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    if (!is_good || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return seed;
    result = (struct sim_result){.seed = seed};
    (void)snprintf(result.why, sizeof(result.why), "the process ended with %s %d%s",
                   WIFSIGNALED(status) ? "signal" : "code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                   seed == first + count ? ", after the last of its seeds: leaks" : "");
    count_result(&result, tally);
    return seed == first + count ? seed : seed + 1;
}

/* Is the next piece of work in this process' part? Pieces are dealt out in turn. */
static bool is_mine(void)
{
    static uint32_t pieces;
    return pieces++ % sim_options.parts == sim_options.part;
}

static void run_seeds(uint64_t first, uint64_t count, struct tally *tally)
{
    for (uint64_t seed = first, end; seed < first + count; seed = end) {
        uint64_t left = first + count - seed;
        end = seed + (left < SEEDS_OF_CHILD ? left : SEEDS_OF_CHILD);
        if (!is_mine())
            continue;
        while (seed < end)
            seed = run_child(seed, end - seed, tally);
        if ((end - first) % PROGRESS_SEEDS == 0)
            printf("%" PRIu64 " seeds, %" PRIu64 " failed\n", end - first, tally->failed);
    }
}

/* ---- which worlds to run ---------------------------------------------------------------------- */

static void run_known(struct tally *tally)
{
    for (size_t i = 0; i < simulation->known_count; i++)
        run_seeds(simulation->known[i], 1, tally);
}

/* Runs worlds with a control of sim_break.h until the checks detect it. */
static void run_control(enum sim_break broken, struct tally *tally)
{
    struct tally found = {0};
    sim_broken = broken;
    sim_options.is_breaking = true;
    printf("%s, noticed: ", sim_break_name(broken));
    uint64_t end = simulation->break_seed + BREAK_SEEDS_MAX;
    for (uint64_t seed = simulation->break_seed; seed < end && found.failed == 0;)
        seed = run_child(seed, end - seed, &found);
    tally->passed += found.failed > 0;
    tally->failed += found.failed == 0;
    if (found.failed == 0)
        printf("never, in %d seeds\n", BREAK_SEEDS_MAX);
    sim_broken = BREAK_NONE;
    sim_options.is_breaking = false;
}

/* Runs the seeds in this process, to watch or debug them. */
static void run_here(struct tally *tally)
{
    struct sim_result result = {.has_passed = true};
    (void)log_set_file(sim_options.is_verbose ? NULL : "/dev/null");
    for (uint64_t i = 0; i < sim_options.seeds && result.has_passed; i++) {
        run_seed(sim_options.seed + i, &result);
        printf("seed %" PRIu64 ": hash %016" PRIx64 "\n", result.seed, result.hash);
        count_result(&result, tally);
    }
}

_Noreturn static void usage(void)
{
    (void)fprintf(
        stderr,
        "program [--seed N] [--seeds COUNT] [--steps N] [--break NAME] [--part I/N] [-v]\n");
    exit(2);
}

static uint64_t number_of(const char *text)
{
    char *end = NULL;
    uint64_t number = text ? strtoull(text, &end, 10) : 0;
    if (!text || !*text || *end)
        usage();
    return number;
}

static void parse_part(const char *text)
{
    unsigned part;
    if (!text || sscanf(text, "%u/%u", &part, &sim_options.parts) != 2 || part < 1 ||
        part > sim_options.parts)
        usage();
    sim_options.part = part - 1;
}

static void parse(int argc, char **argv)
{
    bool has_seeds = false;
    bool has_seed = false;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "-v") == 0) {
            sim_options.is_verbose = true;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--seed") == 0) {
            sim_options.seed = number_of(next);
            has_seed = true;
        } else if (strcmp(argv[i - 1], "--seeds") == 0) {
            sim_options.seeds = number_of(next);
            has_seeds = true;
        } else if (strcmp(argv[i - 1], "--steps") == 0) {
            sim_options.steps = number_of(next);
        } else if (strcmp(argv[i - 1], "--part") == 0) {
            parse_part(next);
        } else if (strcmp(argv[i - 1], "--break") != 0 || !next ||
                   !sim_break_find(next, &sim_broken)) {
            usage();
        }
    }
    if (has_seed && !has_seeds)
        sim_options.seeds = 1;
    sim_options.is_default = argc == 1 || (argc == 3 && strcmp(argv[1], "--part") == 0);
}

/* Makes the process draw the hash seed of its tables before the first world, so that it is not taken from a world's
 * random numbers. */
static void draw_seed_of_tables(void)
{
    sim_init(0);
    struct table *table = table_new();
    (void)table_get(table, BYTES("key"));
    table_free(table);
    sim_fini();
}

int sim_seeds_main(int argc, char **argv, const struct sim_simulation *of)
{
    struct tally tally = {0};
    simulation = of;
    sim_options =
        (struct sim_options){.seed = 1, .seeds = of->seeds, .steps = of->steps, .parts = 1};
    parse(argc, argv);
    command_init();
    draw_seed_of_tables();
    (void)log_set_file("/dev/null");
    if (sim_options.is_default)
        run_known(&tally);
    if (sim_options.seeds == 1 || sim_options.is_verbose)
        run_here(&tally);
    else
        run_seeds(sim_options.seed, sim_options.seeds, &tally);
    if (tally.undecided > 0)
        printf("%" PRIu64 " keys undecided\n", tally.undecided);
    for (int i = of->first_break; sim_options.is_default && i < (int)of->end_break; i++)
        if (is_mine())
            run_control((enum sim_break)i, &tally);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", tally.passed, tally.failed);
    return tally.failed > 0;
}
