/*
 * memory_plan.h - [store] memory divided into caches and buffers.
 *
 *   memory ─┬─ the program itself                        32 MB, or half of memory if that is less
 *           └─ the rest ─┬─ 6/16  block cache            of the process
 *                        ├─ 4/16  row cache              of the process, divided among its partitions
 *                        ├─ 2/16  memtables              of the process, divided among its partitions
 *                        ├─ 3/64  write buffers          three times as much as one, for each partition
 *                        ├─ 1/32  range cache, 1/32 rank cache
 *                        ├─ 1/64  keys that need not be read when they are replaced (backend/storage/plain_keys.h)
 *                        └─ the rest: clients, scripts, indexes and filters of data files, the allocator
 *
 * An option with a size of its own has this size; `auto` options have their share. If the sizes given leave less than these
 * shares, each share becomes smaller by the same factor.
 */
#pragma once

#include "config/config.h"

/* The active and the immutable write buffer of a partition together have at most so many times the size of one. */
enum { WRITE_BUFFERS = 3 };

struct memory_plan {
    uint64_t memory; /* the bytes that were divided */
    uint64_t block_cache;
    uint64_t row_cache;
    uint64_t range_cache;
    uint64_t rank_cache;
    uint64_t plain_keys;
    uint64_t memtable;     /* one memtable: of a partition and column family */
    uint64_t memtables;    /* all memtables of a partition together */
    uint64_t write_buffer; /* of a partition */
    uint64_t command;      /* for one command, out of the rest */
    uint64_t excess;       /* by which the sizes given exceed `memory`; 0: they fit */
};

/* Memory for all calls of the process that run at the same time, at different partitions. */
static inline uint64_t memory_plan_calls(const struct memory_plan *plan)
{
    return plan->command * 2;
}

/* The sizes in force. `machine` is what machine_memory.h returned: `auto` is half, and percentages refer to it. */
struct memory_plan memory_plan_of(const struct backend_config *config, uint64_t machine);
/* As memory_plan_of, with the memory of this machine. */
struct memory_plan memory_plan_here(const struct backend_config *config);
