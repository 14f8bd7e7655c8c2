/*
 * tdigest.h - t-digests: estimates of quantiles from few centroids; pure functions.
 *
 *   values ──► unmerged values ──when there are enough──► sorted, neighbours joined ──► centroids
 *
 *   mean      1   2    4      9         20             47         61      70   74  75
 *   weight    1   1    3      8         16             17          8       3    1   1     few values at both ends,
 *                                                                                         many in the middle
 *
 * T. Dunning and O. Ertl, Computing extremely accurate quantiles using t-digests, arXiv:1902.04023: the merging digest with their
 * scale k2. Of n values, those from place a to place b may become one centroid if k(b) - k(a) <= 1, where
 *
 *   k(x) = compression * ln(x / (n - x)) / ln(n)
 *
 * RedisBloom has this scale too, with 2 * pi * ln(n) instead of ln(n), so that its centroids have 6 times the weight of ours.
 * There are at most 4 * compression + 4 centroids: k grows by 2 * compression from the second to the last value, and any two
 * neighbours take more than 1 of that, else they would have been joined. They fit into the capacity that RedisBloom documents.
 *
 * k is infinite at 0 and n: the least and the greatest value are joined to no other value.
 *
 * A centroid is exact if all of its values are equal. Equal values are always joined, and different ones only when there are more
 * than 4 * compression + 4, or when some have been joined before. So a digest of few different values is exact, and so are frequent
 * values of any digest. The values of other centroids lie on both sides of the mean, half and half; between two means they are taken
 * as evenly distributed.
 *
 * The bytes after version and size in the metadata row:
 *
 *   u32 compression │ u32 centroids │ u64 weight of the centroids │ u64 merges │ f64 min │ f64 max │ unmerged values: f64 each
 *
 * The centroids are one row with an empty sub key: f64 mean │ u64 weight, each; bit 63 of the weight: the centroid is exact. All
 * numbers are big-endian, values are finite.
 * min and max include the unmerged values, and are 0 in an empty digest. The weights add up to at most INT64_MAX.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum {
    TDIGEST_COMPRESSION = 100, /* the default */
    TDIGEST_COMPRESSION_MAX = 10000,
    TDIGEST_CENTROID_BYTES = 16,
};

struct tdigest {
    uint32_t compression;
    uint32_t merged; /* centroids */
    uint64_t weight; /* of the centroids */
    uint64_t merges; /* since the digest was created or reset */
    double min;
    double max;
    struct bytes unmerged; /* values as in the row; borrowed from it */
};

struct centroid {
    double mean;
    uint64_t weight;
    bool is_exact; /* all of its values are equal */
};

/* In the order of their means. */
struct centroids {
    struct centroid *at;
    uint32_t count;
    uint64_t weight;
};

/* Centroids and unmerged values of a digest are never more: 6 * compression + 10, as in RedisBloom. */
uint32_t tdigest_capacity(uint32_t compression);
/* The number of unmerged values at which they are merged. */
uint32_t tdigest_buffer(uint32_t compression);
/* All values, merged or not. */
uint64_t tdigest_count(const struct tdigest *digest);
uint32_t tdigest_unmerged(const struct tdigest *digest);
/* Adds finite values to the unmerged ones, which are then in the arena and may be more than tdigest_encode() takes. The digest
 * has at most INT64_MAX values afterwards. */
void tdigest_add(struct arena *arena, struct tdigest *digest, const double *values, uint32_t count);

/* The bytes of the metadata row, and of the row of centroids. The decoded digest borrows its unmerged values from `data`.
 * False: the bytes are damaged. */
struct bytes tdigest_encode(struct arena *arena, const struct tdigest *digest);
bool tdigest_decode(struct bytes data, struct tdigest *digest);
struct bytes tdigest_centroids_encode(struct arena *arena, const struct centroids *centroids);
bool tdigest_centroids_ok(const struct tdigest *digest, struct bytes row);

/* All values of the digest as centroids, in the arena. `row` was found ok; it is empty if nothing was merged yet. */
void tdigest_load(struct arena *arena, const struct tdigest *digest, struct bytes row,
                  struct centroids *centroids);
/* Merges two lists into `to`, which is in the arena. The weights add up to at most INT64_MAX. */
void tdigest_merge(struct arena *arena, uint32_t compression, const struct centroids *a,
                   const struct centroids *b, struct centroids *to);

/* Estimates; there is at least one centroid. `place`: 0 is that of the least value. */
double tdigest_value_at(const struct centroids *centroids, double place);
/* The number of smaller values and half of the equal ones. */
double tdigest_below(const struct centroids *centroids, double value);
/* The mean of the values from a place to one before another; from < to. */
double tdigest_mean(const struct centroids *centroids, double from, double to);
