#include "config/memory_plan.h"

#include "shared/machine_memory.h"

#define KB ((uint64_t)1 << 10)
#define MB ((uint64_t)1 << 20)

enum {
    PARTS = 64, /* shares are in 64ths */
    BLOCK_CACHE_PARTS = 24,
    ROW_CACHE_PARTS = 16,
    MEMTABLES_PARTS = 8,
    WRITE_BUFFERS_PARTS = 3,
    RANGE_CACHE_PARTS = 2,
    RANK_CACHE_PARTS = 2,
    PLAIN_KEYS_PARTS = 1,
    MEMTABLES_OF_SIZE = 4, /* a partition's memtables have the size of four of one column family */
};

#define PROGRAM_BYTES      (32 * MB)
#define UNKNOWN_MACHINE    (2048 * MB) /* a machine whose memory is not known */
#define BLOCK_CACHE_MIN    MB
#define MEMTABLE_MIN       (256 * KB)
#define MEMTABLE_MAX       (128 * MB)
#define WRITE_BUFFER_MIN   (256 * KB)
#define WRITE_BUFFER_MAX   (64 * MB)
#define COMMAND_PART       8
#define COMMAND_MIN        (256 * MB)
#define COMMAND_MAX        (1024 * MB)
#define MEMTABLES_SIZE_MAX (12 * MEMTABLE_MAX)

static uint64_t bounded(uint64_t bytes, uint64_t min, uint64_t max)
{
    bytes = bytes < min ? min : bytes > max ? max : bytes;
    return bytes >= MB ? bytes / MB * MB : bytes;
}

/* What is divided, and what is left. */
struct division {
    uint64_t rest;  /* for shares and for sizes that were given */
    uint64_t given; /* sum of the sizes that were given */
    uint64_t parts; /* sum of the parts of `auto` options */
};

static void count_size(struct division *division, uint64_t option_bytes, uint64_t times,
                       uint64_t parts)
{
    if (option_bytes == BYTES_AUTO)
        division->parts += parts;
    else if (__builtin_add_overflow(division->given, option_bytes * times, &division->given))
        division->given = UINT64_MAX;
}

/* The share of an `auto` option. */
static uint64_t auto_share(const struct division *division, uint64_t parts)
{
    uint64_t full = division->rest / PARTS;
    uint64_t left = division->given < division->rest ? division->rest - division->given : 0;
    if (division->parts && left / division->parts < full)
        full = left / division->parts;
    return full * parts;
}

static uint64_t given_or(uint64_t option_bytes, uint64_t otherwise)
{
    return option_bytes == BYTES_AUTO ? otherwise : option_bytes;
}

static uint64_t memory_of(uint64_t option_bytes, uint64_t machine)
{
    if (!machine)
        machine = UNKNOWN_MACHINE;
    if (option_bytes == BYTES_AUTO)
        return machine / 2;
    if (BYTES_IS_PART(option_bytes))
        return machine / 100 * BYTES_PERCENT(option_bytes);
    return option_bytes;
}

struct memory_plan memory_plan_of(const struct backend_config *config, uint64_t machine)
{
    uint64_t partitions = (uint64_t)config->partitions;
    struct memory_plan plan = {.memory = memory_of(config->store_memory_bytes, machine)};
    uint64_t program = plan.memory / 2 < PROGRAM_BYTES ? plan.memory / 2 : PROGRAM_BYTES;
    struct division division = {.rest = plan.memory - program};
    count_size(&division, config->store_block_cache_bytes, 1, BLOCK_CACHE_PARTS);
    count_size(&division, config->store_row_cache_bytes, 1, ROW_CACHE_PARTS);
    count_size(&division, config->store_range_cache_bytes, 1, RANGE_CACHE_PARTS);
    count_size(&division, config->store_rank_cache_bytes, 1, RANK_CACHE_PARTS);
    count_size(&division, BYTES_AUTO, 1, PLAIN_KEYS_PARTS);
    count_size(&division, config->store_memtable_bytes, MEMTABLES_OF_SIZE * partitions,
               MEMTABLES_PARTS);
    count_size(&division, config->store_write_buffer_bytes, WRITE_BUFFERS * partitions,
               WRITE_BUFFERS_PARTS);
    plan.excess = division.given > division.rest ? division.given - division.rest : 0;
    plan.block_cache =
        given_or(config->store_block_cache_bytes,
                 bounded(auto_share(&division, BLOCK_CACHE_PARTS), BLOCK_CACHE_MIN, UINT64_MAX));
    plan.row_cache = given_or(config->store_row_cache_bytes,
                              bounded(auto_share(&division, ROW_CACHE_PARTS), 0, UINT64_MAX));
    plan.range_cache = given_or(config->store_range_cache_bytes,
                                bounded(auto_share(&division, RANGE_CACHE_PARTS), 0, UINT64_MAX));
    plan.rank_cache = given_or(config->store_rank_cache_bytes,
                               bounded(auto_share(&division, RANK_CACHE_PARTS), 0, UINT64_MAX));
    plan.plain_keys = auto_share(&division, PLAIN_KEYS_PARTS);
    plan.memtables = config->store_memtable_bytes == BYTES_AUTO
                         ? bounded(auto_share(&division, MEMTABLES_PARTS) / partitions,
                                   MEMTABLES_OF_SIZE * MEMTABLE_MIN, MEMTABLES_SIZE_MAX)
                         : config->store_memtable_bytes * (uint64_t)config->store_memtables * 2;
    plan.memtable =
        given_or(config->store_memtable_bytes,
                 bounded(plan.memtables / MEMTABLES_OF_SIZE, MEMTABLE_MIN, MEMTABLE_MAX));
    plan.write_buffer =
        given_or(config->store_write_buffer_bytes,
                 bounded(auto_share(&division, WRITE_BUFFERS_PARTS) / WRITE_BUFFERS / partitions,
                         WRITE_BUFFER_MIN, WRITE_BUFFER_MAX));
    plan.command = given_or(config->command_memory_bytes,
                            bounded(plan.memory / COMMAND_PART, COMMAND_MIN, COMMAND_MAX));
    return plan;
}

struct memory_plan memory_plan_here(const struct backend_config *config)
{
    return memory_plan_of(config, machine_memory(""));
}
