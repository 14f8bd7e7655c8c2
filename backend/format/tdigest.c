#include "backend/format/tdigest.h"

#include "shared/byte_order.h"
#include "shared/check.h"

#include <math.h>
#include <stdlib.h>

enum { HEAD_BYTES = 4 + 4 + 8 + 8 + 8 + 8, VALUE_BYTES = 8 };

#define EXACT (UINT64_C(1) << 63)

uint32_t tdigest_capacity(uint32_t compression)
{
    return 6 * compression + 10;
}

static uint32_t centroids_max(uint32_t compression)
{
    return 4 * compression + 4;
}

/* With n of them, adding a value writes 4 * n bytes of values on average, and about 42 * compression / n bytes of centroids: the sum is
 * least near the root of 10 * compression. */
uint32_t tdigest_buffer(uint32_t compression)
{
    uint32_t buffer = 4;
    while (buffer * buffer < 10 * compression)
        buffer *= 2;
    return buffer;
}

uint32_t tdigest_unmerged(const struct tdigest *digest)
{
    return (uint32_t)(digest->unmerged.len / VALUE_BYTES);
}

uint64_t tdigest_count(const struct tdigest *digest)
{
    return digest->weight + tdigest_unmerged(digest);
}

/* ---- bytes ---- */

static void put_double(char *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_be64(to, bits);
}

static double get_double(const char *from)
{
    uint64_t bits = get_be64(from);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct bytes tdigest_encode(struct arena *arena, const struct tdigest *digest)
{
    size_t len = HEAD_BYTES + digest->unmerged.len;
    char *data = arena_alloc(arena, len);
    put_be32(data, digest->compression);
    put_be32(data + 4, digest->merged);
    put_be64(data + 8, digest->weight);
    put_be64(data + 16, digest->merges);
    put_double(data + 24, digest->min);
    put_double(data + 32, digest->max);
    if (digest->unmerged.len)
        memcpy(data + HEAD_BYTES, digest->unmerged.data, digest->unmerged.len);
    return (struct bytes){data, len};
}

static double unmerged_value(const struct tdigest *digest, uint32_t i)
{
    return get_double(digest->unmerged.data + (size_t)i * VALUE_BYTES);
}

void tdigest_add(struct arena *arena, struct tdigest *digest, const double *values, uint32_t count)
{
    bool is_empty = tdigest_count(digest) == 0;
    size_t old = digest->unmerged.len;
    char *data = arena_alloc(arena, old + (size_t)count * VALUE_BYTES);
    if (old)
        memcpy(data, digest->unmerged.data, old);
    for (uint32_t i = 0; i < count; i++) {
        digest->min = is_empty ? values[i] : fmin(digest->min, values[i]);
        digest->max = is_empty ? values[i] : fmax(digest->max, values[i]);
        is_empty = false;
        put_double(data + old + (size_t)i * VALUE_BYTES, values[i]);
    }
    digest->unmerged = (struct bytes){data, old + (size_t)count * VALUE_BYTES};
}

/* Are min and max those of the unmerged values and of others, which are between `min` and `max`? False also if a value is not
 * finite. */
static bool bounds_ok(const struct tdigest *digest, double min, double max)
{
    bool finite = true;
    for (uint32_t i = 0; i < tdigest_unmerged(digest); i++) {
        double value = unmerged_value(digest, i);
        finite = finite && isfinite(value);
        min = fmin(min, value);
        max = fmax(max, value);
    }
    return finite && digest->min == min && digest->max == max;
}

static bool counts_ok(const struct tdigest *digest)
{
    uint32_t compression = digest->compression;
    if (compression == 0 || compression > TDIGEST_COMPRESSION_MAX)
        return false;
    uint32_t unmerged = tdigest_unmerged(digest);
    return unmerged < tdigest_buffer(compression) && digest->merged <= centroids_max(compression) &&
           (digest->merged > 0) == (digest->weight > 0) && digest->weight >= digest->merged &&
           digest->weight <= (uint64_t)INT64_MAX - unmerged;
}

bool tdigest_decode(struct bytes data, struct tdigest *digest)
{
    if (data.len < HEAD_BYTES || (data.len - HEAD_BYTES) % VALUE_BYTES ||
        data.len > HEAD_BYTES + (size_t)VALUE_BYTES * TDIGEST_COMPRESSION_MAX)
        return false;
    *digest = (struct tdigest){
        .compression = get_be32(data.data),
        .merged = get_be32(data.data + 4),
        .weight = get_be64(data.data + 8),
        .merges = get_be64(data.data + 16),
        .min = get_double(data.data + 24),
        .max = get_double(data.data + 32),
        .unmerged = {data.data + HEAD_BYTES, data.len - HEAD_BYTES},
    };
    if (!counts_ok(digest) || !isfinite(digest->min) || !isfinite(digest->max))
        return false;
    if (digest->merged) /* their row says what its bounds are */
        return digest->min <= digest->max;
    if (tdigest_unmerged(digest))
        return bounds_ok(digest, INFINITY, -INFINITY);
    return digest->min == 0 && digest->max == 0;
}

struct bytes tdigest_centroids_encode(struct arena *arena, const struct centroids *centroids)
{
    size_t len = (size_t)centroids->count * TDIGEST_CENTROID_BYTES;
    char *data = arena_alloc(arena, len);
    for (uint32_t i = 0; i < centroids->count; i++) {
        const struct centroid *centroid = &centroids->at[i];
        char *to = data + (size_t)i * TDIGEST_CENTROID_BYTES;
        put_double(to, centroid->mean);
        put_be64(to + 8, centroid->weight | (centroid->is_exact ? EXACT : 0));
    }
    return (struct bytes){data, len};
}

static struct centroid row_centroid(struct bytes row, uint32_t i)
{
    const char *from = row.data + (size_t)i * TDIGEST_CENTROID_BYTES;
    uint64_t weight = get_be64(from + 8);
    return (struct centroid){
        .mean = get_double(from), .weight = weight & ~EXACT, .is_exact = weight & EXACT};
}

bool tdigest_centroids_ok(const struct tdigest *digest, struct bytes row)
{
    if (row.len != (size_t)digest->merged * TDIGEST_CENTROID_BYTES)
        return false;
    if (digest->merged == 0)
        return true;
    uint64_t left = digest->weight;
    double last = -INFINITY;
    for (uint32_t i = 0; i < digest->merged; i++) {
        struct centroid centroid = row_centroid(row, i);
        if (!isfinite(centroid.mean) || centroid.mean < last || centroid.weight == 0 ||
            centroid.weight > left || (centroid.weight == 1 && !centroid.is_exact))
            return false;
        last = centroid.mean;
        left -= centroid.weight;
    }
    return left == 0 && bounds_ok(digest, row_centroid(row, 0).mean, last);
}

/* ---- merging ---- */

static int compare_centroids(const void *left, const void *right)
{
    const struct centroid *a = left;
    const struct centroid *b = right;
    if (a->mean != b->mean)
        return a->mean < b->mean ? -1 : 1;
    if (a->is_exact != b->is_exact)
        return a->is_exact ? -1 : 1;
    return (a->weight > b->weight) - (a->weight < b->weight);
}

static void sort_centroids(const struct centroids *centroids)
{
    qsort(centroids->at, centroids->count, sizeof *centroids->at, compare_centroids);
}

static struct centroids room_for(struct arena *arena, uint64_t count)
{
    CHECK(count <= UINT32_MAX);
    return (struct centroids){.at = arena_alloc(arena, count * sizeof(struct centroid))};
}

/* A digest stands for `count` sorted values. May one centroid stand for those at the places `from` to `to`? It may if the scale
 * function k grows by at most ln(growth) between the two places. k is ln(q / (1 - q)) for the quantile q, so e^k at a place is
 * place / (count - place). The inequality is written without a division, and its differences are of integers, so it is never true
 * by rounding for the first or the last value. */
static bool may_join(uint64_t count, double growth, uint64_t from, uint64_t to)
{
    return (double)to * (double)(count - from) <= growth * (double)from * (double)(count - to);
}

/* The sum of the products may be rounded beyond the two means, or overflow. */
static struct centroid centroids_joined(struct centroid low, struct centroid high)
{
    double weight = (double)(low.weight + high.weight);
    double mean =
        low.mean * ((double)low.weight / weight) + high.mean * ((double)high.weight / weight);
    return (struct centroid){
        .mean = fmin(fmax(mean, low.mean), high.mean),
        .weight = low.weight + high.weight,
    };
}

/* Are all centroids exact afterwards? */
static bool join_equal_centroids(struct centroids *centroids)
{
    struct centroid *at = centroids->at;
    bool is_exact = true;
    uint32_t count = 0;
    for (uint32_t i = 0; i < centroids->count; i++) {
        is_exact = is_exact && at[i].is_exact;
        if (count && at[i].is_exact && at[count - 1].is_exact && at[count - 1].mean == at[i].mean)
            at[count - 1].weight += at[i].weight;
        else
            at[count++] = at[i];
    }
    centroids->count = count;
    return is_exact;
}

static void join_neighbours(struct centroids *centroids, uint32_t compression)
{
    struct centroid *at = centroids->at;
    double growth = exp(log((double)centroids->weight) / compression);
    uint64_t before = 0;
    uint32_t last = 0;
    for (uint32_t i = 1; i < centroids->count; i++) {
        if (may_join(centroids->weight, growth, before, before + at[last].weight + at[i].weight)) {
            at[last] = centroids_joined(at[last], at[i]);
        } else {
            before += at[last].weight;
            at[++last] = at[i];
        }
    }
    if (centroids->count)
        centroids->count = last + 1;
}

void tdigest_merge(struct arena *arena, uint32_t compression, const struct centroids *a,
                   const struct centroids *b, struct centroids *to)
{
    uint32_t i = 0;
    uint32_t j = 0;
    *to = room_for(arena, (uint64_t)a->count + b->count);
    to->weight = a->weight + b->weight;
    CHECK(to->weight <= INT64_MAX);
    while (i < a->count || j < b->count) {
        bool is_a = j == b->count || (i < a->count && compare_centroids(&a->at[i], &b->at[j]) <= 0);
        to->at[to->count++] = is_a ? a->at[i++] : b->at[j++];
    }
    if (!join_equal_centroids(to) || to->count > centroids_max(compression))
        join_neighbours(to, compression);
    CHECK(to->count <= centroids_max(compression));
}

void tdigest_load(struct arena *arena, const struct tdigest *digest, struct bytes row,
                  struct centroids *centroids)
{
    struct centroids merged = room_for(arena, digest->merged);
    for (; merged.count < digest->merged; merged.count++)
        merged.at[merged.count] = row_centroid(row, merged.count);
    merged.weight = digest->weight;
    *centroids = merged;
    if (digest->unmerged.len == 0)
        return;
    struct centroids unmerged = room_for(arena, tdigest_unmerged(digest));
    for (; unmerged.count < tdigest_unmerged(digest); unmerged.count++)
        unmerged.at[unmerged.count] =
            (struct centroid){unmerged_value(digest, unmerged.count), 1, true};
    unmerged.weight = unmerged.count;
    sort_centroids(&unmerged);
    tdigest_merge(arena, digest->compression, &merged, &unmerged, centroids);
}

/* ---- estimates ---- */

/* Between the values of two neighbours there are others from one place to another. */
struct gap {
    double from;
    double to;
};

static struct gap gap_after(uint64_t before, struct centroid low, struct centroid high)
{
    double between = (double)(before + low.weight);
    return (struct gap){
        .from = low.is_exact ? between : between - (double)low.weight / 2,
        .to = high.is_exact ? between : between + (double)high.weight / 2,
    };
}

static double limited(double value, double min, double max)
{
    return fmin(fmax(value, min), max);
}

double tdigest_value_at(const struct centroids *centroids, double place)
{
    const struct centroid *at = centroids->at;
    uint64_t before = 0;
    for (uint32_t i = 0; i + 1 < centroids->count; i++) {
        struct gap gap = gap_after(before, at[i], at[i + 1]);
        if (place < gap.from)
            return at[i].mean;
        if (place < gap.to) {
            double part = (place - gap.from) / (gap.to - gap.from);
            return limited(at[i].mean * (1 - part) + at[i + 1].mean * part, at[i].mean,
                           at[i + 1].mean);
        }
        before += at[i].weight;
    }
    return at[centroids->count - 1].mean;
}

double tdigest_below(const struct centroids *centroids, double value)
{
    const struct centroid *at = centroids->at;
    uint64_t before = 0;
    uint64_t equal = 0;
    uint32_t i = 0;
    for (; i < centroids->count && at[i].mean < value; i++)
        before += at[i].weight;
    for (uint32_t same = i; same < centroids->count && at[same].mean == value; same++)
        equal += at[same].weight;
    if (equal || i == 0 || i == centroids->count)
        return (double)before + (double)equal / 2;
    struct gap gap = gap_after(before - at[i - 1].weight, at[i - 1], at[i]);
    /* halves: the difference of two finite numbers may overflow */
    double part = (value / 2 - at[i - 1].mean / 2) / (at[i].mean / 2 - at[i - 1].mean / 2);
    return limited(gap.from + (gap.to - gap.from) * part, gap.from, gap.to);
}

double tdigest_mean(const struct centroids *centroids, double from, double to)
{
    long double sum = 0; /* has a greater range than a double, so that it does not overflow */
    long double count = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < centroids->count && (double)before < to; i++) {
        uint64_t after = before + centroids->at[i].weight;
        double part = fmin((double)after, to) - fmax((double)before, from);
        if (part > 0) {
            sum += (long double)centroids->at[i].mean * part;
            count += part;
        }
        before = after;
    }
    return (double)(sum / count);
}
