/*
 * traffic.h - how many requests there were and how long they took: one for each command, one for each shard.
 *
 *   µs:  … 32 ─┬─ 48 ─┬─ 64 ─┬─ 96 ─┬─ 128 … 8 s        two parts for each power of two
 *
 * Plain counters of one worker, which only grow; others see copies that the worker made (status/share.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TRAFFIC_FIRST_OCTAVE = 5, TRAFFIC_OCTAVES = 18, TRAFFIC_BUCKETS = 1 + 2 * TRAFFIC_OCTAVES };

struct traffic {
    uint64_t requests;
    uint64_t errors; /* answered with an error by a shard, or not at all */
    uint64_t usec;   /* of the requests that were timed */
    uint64_t buckets[TRAFFIC_BUCKETS];
};

/* The bucket of a time; the last has all that are longer. */
static inline unsigned traffic_bucket(uint64_t usec)
{
    if (usec < 1u << TRAFFIC_FIRST_OCTAVE)
        return 0;
    unsigned octave = 63u - (unsigned)__builtin_clzll(usec);
    unsigned bucket =
        1 + 2 * (octave - TRAFFIC_FIRST_OCTAVE) + (unsigned)(usec >> (octave - 1) & 1);
    return bucket < TRAFFIC_BUCKETS ? bucket : TRAFFIC_BUCKETS - 1;
}

/* The time that ends a bucket: the first that belongs to the next. */
static inline uint64_t traffic_bucket_end(unsigned bucket)
{
    unsigned octave = TRAFFIC_FIRST_OCTAVE + (bucket + 1) / 2 - 1;
    return bucket == 0  ? 1u << TRAFFIC_FIRST_OCTAVE
           : bucket % 2 ? UINT64_C(3) << (octave - 1)
                        : UINT64_C(2) << octave;
}

/* A request that waited because it was asked to (BLPOP) is not timed. */
static inline void traffic_add(struct traffic *traffic, uint64_t usec, bool is_error, bool is_timed)
{
    traffic->requests++;
    traffic->errors += is_error;
    if (!is_timed)
        return;
    traffic->usec += usec;
    traffic->buckets[traffic_bucket(usec)]++;
}

void traffic_sum(struct traffic *to, const struct traffic *from);
