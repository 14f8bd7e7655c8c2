/*
 * replica_record.h - what a copy of a shard has promised to the other copies, as the two equal blocks of the file `replica`.
 *
 *   "scree replica 1\n" | u64 number | fields: generation to election_us | u64 XXH3 of all that | fields: time | u64 XXH3 of these | zeros
 *
 * Numbers are little-endian. 1 is the format. `number` counts the saves of the file, so of two blocks the newer one is known. Programs that
 * do not know the time of the group write zeros there, which is no time.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPLICA_BLOCK_BYTES = 4096 };

/* The time of the group (group_clock.h) at a moment of this machine; all 0: it is not known. */
struct replica_time {
    uint64_t group_us;
    uint64_t boot_us, system_us; /* clock_boot_us and clock_system_us then */
};

struct replica_record {
    /* The group of copies: a random number, and how often an operator has forced a survivor to go on alone. */
    uint32_t generation;
    uint64_t group;
    uint64_t id; /* of this copy; random, never 0, a new one for each new disk */
    /* of the processes that had this file: a disk that was set back to an older state has fewer */
    uint64_t starts;
    uint64_t term, vote; /* vote 0: none in this term */
    /* The log begins behind this record; 0: with the first one. */
    uint64_t base, base_term;
    uint64_t committed; /* records up to here are committed; there may be more */
    /* The tables may have rows of records up to here, since they came as files from a copy that was writing: nothing is read from them
     * before all records up to here are applied. */
    uint64_t whole_at;
    uint64_t election_us;     /* the election timeout to which this copy's promises refer */
    struct replica_time time; /* as it was heard, or was this copy's own when it led */
};

enum replica_read {
    REPLICA_READ,
    REPLICA_DAMAGED, /* no block of this format, or its checksum differs */
    REPLICA_NEWER,   /* the format of a newer program */
};

void replica_record_write(const struct replica_record *record, uint64_t number,
                          char block[REPLICA_BLOCK_BYTES]);
enum replica_read replica_record_read(const char block[REPLICA_BLOCK_BYTES],
                                      struct replica_record *record, uint64_t *number);
