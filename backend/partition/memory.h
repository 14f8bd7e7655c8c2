/*
 * memory.h - what the process' memory is used for.
 */
#pragma once

#include "shared/out.h"

#include <stdbool.h>
#include <stdint.h>

struct partition;

/* All in bytes. Without jemalloc (a build with sanitizers) the allocator's figures are the process' resident ones. */
struct memory {
    uint64_t allocated; /* asked for by the program */
    uint64_t active;    /* in pages that hold some of it */
    uint64_t resident;  /* of the allocator's pages, in memory */
    uint64_t rss;       /* of the process */
    uint64_t peak_rss;
    uint64_t startup; /* allocated when the process began to serve */
    uint64_t block_cache;
    uint64_t memtables; /* of this partition, as the next */
    uint64_t table_readers;
    uint64_t batches; /* effects not yet committed */
    uint64_t clients;
};

void memory_read(struct partition *partition, struct memory *memory);
/* Buffers of the partition's connections. */
uint64_t memory_of_clients(const struct partition *partition);
/* Remembers `allocated` as what the process needs without data. Once. */
void memory_started(void);
/* Gives unused pages back to the system. False: the allocator cannot. */
bool memory_purge(void);
/* The allocator's own report; false: it has none. */
bool memory_report(struct out *out);
