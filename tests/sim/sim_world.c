/*
 * sim_world.c - events, random numbers, time and hosts of a simulated world; implements clock.h.
 *
 * There are two generators of random numbers: one for what the world does, one for the programs' clock_random. So a
 * program that draws one number more does not change what the world does.
 */
#include "tests/sim/sim_world.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 64, SLOW_FACTOR = 50, PPM = 1000000 };

static const uint64_t start_mono_us = 1000000000;
static const uint64_t start_wall_us = 1767225600000000; /* 2026-01-01 */

struct world {
    uint64_t seed;
    bool is_ready;
    bool is_stepping;
    uint64_t now_us;
    int64_t wall_offset_us;
    uint64_t chance;       /* generator of the world */
    uint64_t clock_chance; /* generator of clock_random */
    uint64_t hash;
    uint64_t scheduled; /* events so far */
    uint64_t numbers;
    struct sim_event **heap; /* 1-based */
    size_t heap_count;
    size_t heap_size;
    struct sim_host hosts[HOSTS_MAX];
    unsigned host_count;
    struct sim_host *host_now;
    struct sim_host *running; /* the host of the event that runs; NULL: between events */
    struct sim_knobs knobs;
};

static struct world world;
struct list sim_loops;
struct list sim_streams;
struct list sim_listeners;

/* ---- random numbers --------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

uint64_t sim_random(uint64_t below)
{
    CHECK(world.is_ready);
    CHECK(below > 0);
    return draw(&world.chance) % below;
}

bool sim_chance(unsigned ppm)
{
    return ppm > 0 && sim_random(PPM) < ppm;
}

uint64_t sim_delay(uint64_t min_us, uint64_t max_us)
{
    uint64_t delay = min_us + sim_random(max_us - min_us + 1);
    return sim_chance(world.knobs.slow_ppm) ? delay * SLOW_FACTOR : delay;
}

uint64_t sim_wire_delay(void)
{
    return sim_delay(world.knobs.delay_us_min, world.knobs.delay_us_max);
}

static void mix(uint64_t value)
{
    for (int i = 0; i < 64; i += 8)
        world.hash = (world.hash ^ ((value >> i) & 0xff)) * 0x100000001b3;
}

void sim_note(const char *what, uint64_t value)
{
    for (const char *at = what; *at; at++)
        world.hash = (world.hash ^ (unsigned char)*at) * 0x100000001b3;
    mix(value);
}

uint64_t sim_hash(void)
{
    return world.hash;
}

uint64_t sim_number(void)
{
    return ++world.numbers;
}

/* ---- the heap --------------------------------------------------------------------------------- */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->tie < b->tie;
}

static void heap_put(size_t place, struct sim_event *event)
{
    world.heap[place] = event;
    event->place = place;
}

static void heap_up(size_t place)
{
    struct sim_event *event = world.heap[place];
    for (; place > 1 && is_before(event, world.heap[place / 2]); place /= 2)
        heap_put(place, world.heap[place / 2]);
    heap_put(place, event);
}

static void heap_down(size_t place)
{
    struct sim_event *event = world.heap[place];
    for (size_t child; (child = place * 2) <= world.heap_count; place = child) {
        if (child < world.heap_count && is_before(world.heap[child + 1], world.heap[child]))
            child++;
        if (!is_before(world.heap[child], event))
            break;
        heap_put(place, world.heap[child]);
    }
    heap_put(place, event);
}

void sim_unschedule(struct sim_event *event)
{
    size_t place = event->place;
    if (!place)
        return;
    CHECK(world.heap[place] == event);
    event->place = 0;
    struct sim_event *last = world.heap[world.heap_count--];
    if (last == event)
        return;
    heap_put(place, last);
    heap_up(place);
    heap_down(last->place);
}

void sim_event_init(struct sim_event *event, const char *name, struct loop *loop,
                    void (*run)(struct sim_event *event))
{
    *event = (struct sim_event){.name = name, .loop = loop, .run = run, .id = sim_number()};
}

void sim_schedule(struct sim_event *event, uint64_t after_us)
{
    CHECK(world.is_ready);
    sim_unschedule(event);
    if (event->loop && event->loop->is_dead)
        return;
    if (world.heap_count + 1 >= world.heap_size) {
        world.heap_size = world.heap_size ? world.heap_size * 2 : 256;
        world.heap = realloc(world.heap, world.heap_size * sizeof(struct sim_event *));
        CHECK(world.heap);
    }
    event->at_us = world.now_us + after_us;
    event->tie = (draw(&world.chance) << 32) | (uint32_t)world.scheduled++;
    heap_put(++world.heap_count, event);
    heap_up(world.heap_count);
}

void sim_unschedule_all(const struct loop *loop)
{
    size_t count = world.heap_count;
    world.heap_count = 0;
    for (size_t place = 1; place <= count; place++) {
        struct sim_event *event = world.heap[place];
        event->place = 0;
        if (event->loop == loop)
            continue;
        heap_put(++world.heap_count, event);
        heap_up(world.heap_count);
    }
}

/* ---- stepping --------------------------------------------------------------------------------- */

bool sim_is_between_steps(void)
{
    return !world.is_stepping;
}

bool sim_step(void)
{
    CHECK(sim_is_between_steps());
    if (world.heap_count == 0)
        return false;
    struct sim_event *event = world.heap[1];
    struct loop *loop = event->loop;
    bool is_callback = event->is_callback;
    world.now_us = event->at_us;
    sim_unschedule(event);
    /* the event waits until the loop runs again, or is freed */
    if (is_callback && loop->is_stopped) {
        sim_schedule(event, 1000);
        return true;
    }
    if (loop && loop->host->frozen_until_us > world.now_us) {
        sim_schedule(event, loop->host->frozen_until_us - world.now_us + sim_random(100));
        return true;
    }
    sim_note(event->name, event->id);
    mix(world.now_us);
    world.is_stepping = true;
    if (is_callback && !sim_is_scheduled(&loop->turn))
        sim_schedule(&loop->turn, sim_random(world.knobs.turn_us_max + 1));
    world.running = loop ? loop->host : NULL;
    event->run(event);
    world.running = NULL;
    world.is_stepping = false;
    sim_streams_bury();
    return true;
}

bool sim_run_until(bool (*is_true)(void *owner), void *owner, uint64_t max_steps)
{
    for (uint64_t step = 0; step < max_steps; step++) {
        if (is_true(owner))
            return true;
        if (!sim_step())
            return is_true(owner);
    }
    return is_true(owner);
}

void sim_run_for(uint64_t us)
{
    uint64_t end_us = world.now_us + us;
    while (world.heap_count > 0 && world.heap[1]->at_us <= end_us)
        sim_step();
    world.now_us = end_us;
}

uint64_t sim_now_us(void)
{
    return world.now_us;
}

void sim_wall_step(int64_t us)
{
    world.wall_offset_us += us;
}

void sim_clock_skew(const char *name, int64_t us)
{
    sim_note("skew", (uint64_t)us);
    sim_host_find(name)->skew_us = us;
}

void sim_clock_rate(const char *name, unsigned per_mille)
{
    sim_note("rate", per_mille);
    sim_host_find(name)->rate = per_mille;
}

/* ---- the world -------------------------------------------------------------------------------- */

uint64_t sim_seed(void)
{
    return world.seed;
}

void sim_init(uint64_t seed)
{
    CHECK(!world.is_ready);
    world = (struct world){
        .is_ready = true, .seed = seed, .now_us = start_mono_us, .hash = 0xcbf29ce484222325};
    world.chance = seed * 2 + 1;
    world.clock_chance = draw(&world.chance);
    world.knobs = (struct sim_knobs){.delay_us_min = 20,
                                     .delay_us_max = 300,
                                     .turn_us_max = 50,
                                     .job_us_min = 50,
                                     .job_us_max = 1000,
                                     .pipe_bytes = 262144,
                                     .partial_ppm = 100000,
                                     .slow_ppm = 2000};
    list_init(&sim_loops);
    list_init(&sim_streams);
    list_init(&sim_listeners);
    sim_set_host("test");
}

void sim_fini(void)
{
    CHECK(world.is_ready);
    CHECK(sim_is_between_steps());
    CHECK(list_empty(&sim_loops));
    CHECK(list_empty(&sim_listeners));
    while (!list_empty(&sim_streams) &&
           sim_step()) { /* closed streams still flush, for at most 5 s */
    }
    sim_streams_bury();
    CHECK(list_empty(&sim_streams));
    sim_loop_fini();
    sim_bound_reset();
    free(world.heap);
    world = (struct world){0};
}

struct sim_knobs *sim_knobs(void)
{
    return &world.knobs;
}

void sim_knobs_shuffle(void)
{
    static const size_t pipes[] = {100, 4096, 65536, 1048576};
    struct sim_knobs *knobs = &world.knobs;
    knobs->delay_us_min = 1 + sim_random(100);
    knobs->delay_us_max = knobs->delay_us_min + sim_random(10000);
    knobs->turn_us_max = sim_random(500);
    knobs->job_us_min = 1 + sim_random(100);
    knobs->job_us_max = knobs->job_us_min + sim_random(20000);
    knobs->pipe_bytes = pipes[sim_random(sizeof(pipes) / sizeof(*pipes))];
    knobs->partial_ppm = (unsigned)sim_random(PPM / 2);
    knobs->slow_ppm = (unsigned)sim_random(20000);
}

/* ---- hosts ------------------------------------------------------------------------------------ */

static struct sim_host *host_named(const char *name)
{
    for (unsigned i = 0; i < world.host_count; i++) {
        if (strcmp(world.hosts[i].name, name) == 0)
            return &world.hosts[i];
    }
    return NULL;
}

struct sim_host *sim_host_now(void)
{
    return world.host_now;
}

void sim_set_host(const char *name)
{
    struct sim_host *host = host_named(name);
    if (!host) {
        CHECK(world.host_count < HOSTS_MAX);
        CHECK(strlen(name) < SIM_NAME_MAX);
        host = &world.hosts[world.host_count];
        host->number = world.host_count++;
        memcpy(host->name, name, strlen(name));
    }
    world.host_now = host;
}

struct sim_host *sim_host_find(const char *name)
{
    struct sim_host *host = host_named(name);
    if (!host)
        host = sim_bound_host(name);
    CHECK(host);
    return host;
}

void sim_cut(const char *name)
{
    sim_note("cut", 0);
    sim_streams_reset(sim_host_find(name));
}

void sim_freeze(const char *name, uint64_t us)
{
    sim_note("freeze", us);
    sim_host_find(name)->frozen_until_us = world.now_us + us;
}

void sim_hang_disk(const char *name, uint64_t us)
{
    sim_note("hang", us);
    sim_host_find(name)->hung_until_us = world.now_us + us;
}

void sim_host_down(const char *name)
{
    sim_note("down", 0);
    sim_host_find(name)->is_down = true;
    sim_streams_reset(sim_host_find(name));
}

void sim_host_up(const char *name)
{
    sim_note("up", 0);
    sim_host_find(name)->is_down = false;
}

void sim_crash_host(const char *name)
{
    CHECK(sim_is_between_steps());
    struct sim_host *host = sim_host_find(name);
    sim_note("crash", host->number);
    host->wall_offset_us = 0;
    for (struct list *link = sim_loops.next; link != &sim_loops; link = link->next) {
        struct loop *loop = container_of(link, struct loop, link);
        if (loop->host != host || loop->is_dead)
            continue;
        sim_loop_crash(loop);
        sim_streams_crash(loop);
        sim_unschedule_all(loop);
    }
}

/* ---- clock.h ---------------------------------------------------------------------------------- */

uint64_t clock_system_us(void)
{
    int64_t skew_us = world.running ? world.running->skew_us : 0;
    return start_wall_us + (world.now_us - start_mono_us) +
           (uint64_t)(world.wall_offset_us + skew_us);
}

uint64_t clock_wall_us(void)
{
    int64_t offset_us = world.running ? world.running->wall_offset_us : 0;
    return offset_us ? clock_mono_us() + (uint64_t)offset_us : clock_system_us();
}

void clock_set_wall(int64_t offset_us)
{
    if (world.running)
        world.running->wall_offset_us = offset_us;
}

uint64_t clock_mono_us(void)
{
    uint64_t rate = world.running ? world.running->rate : 0;
    return world.now_us + world.now_us / 1000 * rate;
}

uint64_t clock_boot_us(void)
{
    return clock_mono_us();
}

uint64_t clock_thread_us(void)
{
    return world.now_us;
}

uint64_t clock_random(void)
{
    return draw(&world.clock_chance);
}

void clock_random_bytes(void *to, unsigned long len)
{
    unsigned char *at = to;
    for (unsigned long i = 0; i < len; i++)
        at[i] = (unsigned char)clock_random();
}
