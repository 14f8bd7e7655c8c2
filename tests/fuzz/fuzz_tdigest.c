/*
 * fuzz_tdigest.c - random bytes as the rows of a t-digest: what the reader accepts is written as it was read, and every
 * estimate of it is finite and between the least and the greatest value.
 *
 * Input: the length of the metadata row's part in two bytes, this part, then the row of centroids.
 */
#include "backend/format/tdigest.h"
#include "shared/byte_order.h"
#include "shared/check.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_estimates(const struct tdigest *digest, const struct centroids *centroids)
{
    double count = (double)centroids->weight;
    double last = digest->min;
    for (int i = 0; i <= 8; i++) {
        double value = tdigest_value_at(centroids, count * i / 8);
        CHECK(value >= last && value <= digest->max);
        last = value;
        double below = tdigest_below(centroids, value);
        CHECK(below >= 0 && below <= count);
    }
    CHECK(tdigest_below(centroids, -INFINITY) == 0 && tdigest_below(centroids, INFINITY) == count);
    CHECK(isfinite(tdigest_mean(centroids, 0, count)));
}

static void check_digest(struct arena *arena, const struct tdigest *digest, struct bytes row)
{
    struct centroids centroids;
    struct centroids twice;
    tdigest_load(arena, digest, row, &centroids);
    CHECK(centroids.weight == tdigest_count(digest));
    if (digest->unmerged.len == 0)
        CHECK(bytes_equal(tdigest_centroids_encode(arena, &centroids), row));
    if (centroids.count == 0)
        return;
    CHECK(centroids.at[0].mean == digest->min &&
          centroids.at[centroids.count - 1].mean == digest->max);
    check_estimates(digest, &centroids);
    if (centroids.weight > INT64_MAX / 2)
        return;
    tdigest_merge(arena, 1 + digest->compression / 3, &centroids, &centroids, &twice);
    CHECK(twice.weight == 2 * centroids.weight);
    check_estimates(digest, &twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct tdigest digest;
    if (size < 2)
        return 0;
    struct bytes rest = {(const char *)data + 2, size - 2};
    size_t len = get_be16((const char *)data);
    struct bytes head = {rest.data, len < rest.len ? len : rest.len};
    struct bytes row = {rest.data + head.len, rest.len - head.len};
    if (!tdigest_decode(head, &digest))
        return 0;
    arena_init(&arena);
    CHECK(bytes_equal(tdigest_encode(&arena, &digest), head));
    if (tdigest_centroids_ok(&digest, row))
        check_digest(&arena, &digest, row);
    arena_fini(&arena);
    return 0;
}
