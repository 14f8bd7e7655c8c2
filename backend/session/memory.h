/*
 * memory.h - the memory that the process uses, for INFO and MEMORY.
 */
#pragma once

#include "shared/out.h"

#include <stdbool.h>
#include <stdint.h>

struct partition;

/* In bytes. Without jemalloc (builds with sanitizers) the allocator's statistics are the resident memory of the
 * process. */
struct memory {
    uint64_t allocated; /* allocated by the program */
    uint64_t active;    /* in pages with allocations */
    uint64_t resident;  /* resident pages of the allocator */
    uint64_t rss;       /* resident pages of the process */
    uint64_t peak_rss;
    uint64_t startup; /* allocated when the process began to serve */
    uint64_t block_cache;
    uint64_t memtables; /* of this partition, like `batches` */
    uint64_t table_readers;
    uint64_t batches; /* effects not yet committed */
    uint64_t clients;
};

void memory_read(struct partition *partition, struct memory *memory);
/* Buffers of the partition's connections. */
uint64_t memory_of_clients(const struct partition *partition);
/* Saves the current `allocated` as `startup`. To be called once. */
void memory_started(void);
/* Returns unused pages to the system. False: the allocator cannot. */
bool memory_purge(void);
/* The allocator's own report; false: it has none. */
bool memory_report(struct out *out);
