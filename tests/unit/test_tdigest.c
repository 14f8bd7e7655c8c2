/*
 * test_tdigest.c - the bytes of a t-digest, damaged ones, its limits, and its estimates against the exact ones.
 */
#include "backend/format/tdigest.h"

#include "shared/byte_order.h"
#include "tests/sized.h"
#include "tests/unit/arena_fixture.h"
#include "tests/unit/guard.h"
#include "tests/unit/suite.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A digest with its row, as the commands keep it. */
struct kept {
    struct tdigest digest;
    struct bytes row;
};

static void keep_add(struct kept *kept, const double *values, uint32_t count)
{
    struct centroids centroids;
    tdigest_add(&arena, &kept->digest, values, count);
    if (tdigest_unmerged(&kept->digest) < tdigest_buffer(kept->digest.compression))
        return;
    tdigest_load(&arena, &kept->digest, kept->row, &centroids);
    kept->row = tdigest_centroids_encode(&arena, &centroids);
    kept->digest.merged = centroids.count;
    kept->digest.weight = centroids.weight;
    kept->digest.merges++;
    kept->digest.unmerged = (struct bytes){"", 0};
}

static struct centroids load(const struct kept *kept)
{
    struct centroids centroids;
    ck_assert(tdigest_centroids_ok(&kept->digest, kept->row));
    tdigest_load(&arena, &kept->digest, kept->row, &centroids);
    return centroids;
}

static struct kept digest_of(uint32_t compression, const double *values, size_t count)
{
    struct kept kept = {.digest.compression = compression};
    for (size_t i = 0; i < count; i += 10)
        keep_add(&kept, values + i, count - i < 10 ? (uint32_t)(count - i) : 10);
    return kept;
}

static int compare_values(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* ---- bytes ---- */

START_TEST(rows_have_these_bytes)
{
    struct kept kept = {.digest.compression = 1};
    const double first[] = {2.5, -3, 2.5, 2.5};
    const double more[] = {0.25};
    keep_add(&kept, first, 4);
    keep_add(&kept, more, 1);
    ck_assert(bytes_equal(kept.row, BYTES("\xc0\x08\0\0\0\0\0\0\x80\0\0\0\0\0\0\1"
                                          "\x40\x04\0\0\0\0\0\0\x80\0\0\0\0\0\0\3")));
    ck_assert(bytes_equal(tdigest_encode(&arena, &kept.digest), BYTES("\0\0\0\1"
                                                                      "\0\0\0\2"
                                                                      "\0\0\0\0\0\0\0\4"
                                                                      "\0\0\0\0\0\0\0\1"
                                                                      "\xc0\x08\0\0\0\0\0\0"
                                                                      "\x40\x04\0\0\0\0\0\0"
                                                                      "\x3f\xd0\0\0\0\0\0\0")));
}
END_TEST

/* Is the row refused when it is cut at any byte, each time before unreadable memory? */
static void check_cuts(const struct kept *kept)
{
    struct tdigest again;
    struct bytes head = tdigest_encode(&arena, &kept->digest);
    for (size_t len = 0; len < head.len; len++) {
        struct guard guard;
        guard_init(&guard, head.data, len);
        bool is_whole = len >= 40 && (len - 40) % 8 == 0;
        ck_assert(!tdigest_decode((struct bytes){guard.data, len}, &again) ||
                  (is_whole && kept->digest.merged));
        guard_fini(&guard);
    }
    for (size_t len = 0; len < kept->row.len; len++) {
        struct guard guard;
        guard_init(&guard, kept->row.data, len);
        ck_assert(!tdigest_centroids_ok(&kept->digest, (struct bytes){guard.data, len}));
        guard_fini(&guard);
    }
}

START_TEST(a_digest_comes_back_as_it_was_and_cut_rows_are_refused)
{
    double values[200];
    struct tdigest again;
    for (size_t i = 0; i < 200; i++)
        values[i] = (double)(i * 37 % 200);
    for (size_t count = 0; count <= 200; count += 25) {
        struct kept kept = digest_of(10, values, count);
        struct bytes head = tdigest_encode(&arena, &kept.digest);
        ck_assert(tdigest_decode(head, &again));
        ck_assert(bytes_equal(tdigest_encode(&arena, &again), head));
        ck_assert_uint_eq(tdigest_count(&again), count);
        struct centroids centroids = load(&kept);
        ck_assert_uint_eq(centroids.weight, count);
        check_cuts(&kept);
    }
}
END_TEST

/* A copy of `data` with eight bytes replaced. */
static struct bytes changed(struct bytes data, size_t at, uint64_t bits)
{
    char *copy = (char *)(uintptr_t)arena_copy(&arena, data).data;
    put_be64(copy + at, bits);
    return (struct bytes){copy, data.len};
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

START_TEST(damaged_rows_are_refused)
{
    double values[32];
    struct tdigest again;
    for (size_t i = 0; i < 32; i++)
        values[i] = (double)i;
    struct kept kept = digest_of(100, values, 32);
    const double some[] = {3, 5};
    keep_add(&kept, some, 2);
    struct bytes head = tdigest_encode(&arena, &kept.digest);
    ck_assert(tdigest_decode(head, &again) && tdigest_centroids_ok(&again, kept.row));
    const struct {
        size_t at;
        uint64_t bits;
    } heads[] = {
        {0, UINT64_C(0x0000000000000020)}, /* no compression */
        {0, UINT64_C(0x0000271100000020)}, /* compression 10001 */
        {0, UINT64_C(0x0000006400000000)}, /* weight, but no centroids */
        {0, UINT64_C(0x0000006400000195)}, /* 405 centroids */
        {8, 0},                            /* centroids, but no weight */
        {8, 31},                           /* less weight than centroids */
        {8, INT64_MAX - 1},                /* too many values */
        {8, UINT64_MAX},                   /* too many values */
        {24, bits_of(NAN)},                /* min */
        {24, bits_of(-INFINITY)},          /* min */
        {24, bits_of(100)},                /* min > max */
        {32, bits_of(INFINITY)},           /* max */
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        ck_assert(!tdigest_decode(changed(head, heads[i].at, heads[i].bits), &again));
    const struct {
        size_t at;
        uint64_t bits;
    } rows[] = {
        {0, bits_of(-1)},             /* less than min */
        {0, bits_of(0.5)},            /* min is not the least value */
        {16, bits_of(2.5)},           /* not in order */
        {16, bits_of(NAN)},           /* no number */
        {31 * 16, bits_of(INFINITY)}, /* no finite number */
        {31 * 16, bits_of(30.5)},     /* max is not the greatest value */
        {8, UINT64_C(1) << 63},       /* weight 0 */
        {8, 1},                       /* one value, but not exact */
        {8, UINT64_C(2)},             /* more weight than there is */
        {8, UINT64_MAX},              /* more weight than there is */
    };
    ck_assert(tdigest_decode(head, &again));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert(!tdigest_centroids_ok(&again, changed(kept.row, rows[i].at, rows[i].bits)));
    ck_assert(!tdigest_centroids_ok(&again, BYTES("")));
    head = changed(head, 40, bits_of(NAN)); /* an unmerged value */
    ck_assert(tdigest_decode(head, &again) && !tdigest_centroids_ok(&again, kept.row));
    head = changed(head, 40, bits_of(1000));
    ck_assert(tdigest_decode(head, &again) && !tdigest_centroids_ok(&again, kept.row));
}
END_TEST

START_TEST(damaged_rows_without_centroids_are_refused)
{
    struct tdigest again;
    struct kept kept = {.digest.compression = 100};
    struct bytes head = tdigest_encode(&arena, &kept.digest);
    ck_assert(tdigest_decode(head, &again));
    ck_assert(!tdigest_decode(changed(head, 24, bits_of(-1)), &again)); /* nothing has a min */
    ck_assert(!tdigest_decode(changed(head, 32, bits_of(1)), &again));
    double values[32];
    for (size_t i = 0; i < 32; i++)
        values[i] = (double)i;
    tdigest_add(&arena, &kept.digest, values, 31);
    head = tdigest_encode(&arena, &kept.digest);
    ck_assert(tdigest_decode(head, &again));
    ck_assert(!tdigest_decode(changed(head, 24, bits_of(1)), &again));
    ck_assert(!tdigest_decode(changed(head, 40, bits_of(NAN)), &again));
    ck_assert(!tdigest_decode(changed(head, 40, bits_of(-INFINITY)), &again));
    tdigest_add(&arena, &kept.digest, values + 31, 1); /* as many as are merged */
    ck_assert(!tdigest_decode(tdigest_encode(&arena, &kept.digest), &again));
}
END_TEST

/* ---- limits ---- */

START_TEST(centroids_and_unmerged_values_fit_into_the_capacity)
{
    ck_assert_uint_eq(tdigest_capacity(100), 610);
    ck_assert_uint_eq(tdigest_buffer(100), 32);
    for (uint32_t compression = 1; compression <= TDIGEST_COMPRESSION_MAX; compression++)
        ck_assert_uint_le(4 * compression + 4 + tdigest_buffer(compression),
                          tdigest_capacity(compression));
}
END_TEST

/* tdigest_merge() checks the number of centroids. */
START_TEST(centroids_stay_few_with_any_weights)
{
    const uint32_t compressions[] = {1, 2, 3, 10, 100, 1000};
    for (size_t c = 0; c < sizeof compressions / sizeof compressions[0]; c++) {
        uint32_t compression = compressions[c];
        struct kept kept = {.digest.compression = compression};
        for (int i = 0; i < 20 * (int)compression + 50; i++) {
            double value = i % 2 ? i : -i; /* each value is a new min or max */
            keep_add(&kept, &value, 1);
        }
        struct centroids sum = load(&kept);
        while (sum.weight <= INT64_MAX / 2) {
            struct centroids twice;
            tdigest_merge(&arena, compression, &sum, &sum, &twice);
            ck_assert_uint_eq(twice.weight, 2 * sum.weight);
            sum = twice;
        }
        ck_assert(sum.at[0].mean == kept.digest.min);
        ck_assert(sum.at[sum.count - 1].mean == kept.digest.max);
        ck_assert(tdigest_value_at(&sum, (double)sum.weight) == kept.digest.max);
        ck_assert(tdigest_below(&sum, INFINITY) == (double)sum.weight);
    }
}
END_TEST

START_TEST(the_greatest_doubles_stay_finite)
{
    double values[3000];
    for (size_t i = 0; i < 3000; i++)
        values[i] = i % 3 == 0 ? DBL_MAX : i % 3 == 1 ? -DBL_MAX : 5e-324 * (double)i;
    struct kept kept = digest_of(5, values, 3000);
    struct centroids centroids = load(&kept);
    double last = -DBL_MAX;
    for (int place = 0; place <= 3000; place++) {
        double value = tdigest_value_at(&centroids, place);
        ck_assert(isfinite(value) && value >= last);
        last = value;
        double below = tdigest_below(&centroids, value);
        ck_assert(below >= 0 && below <= 3000);
    }
    ck_assert(tdigest_value_at(&centroids, 0) == -DBL_MAX && last == DBL_MAX);
    ck_assert(isfinite(tdigest_mean(&centroids, 0, 3000)));
    ck_assert(tdigest_mean(&centroids, 0, 999) == -DBL_MAX);
    ck_assert(tdigest_mean(&centroids, 2000, 3000) == DBL_MAX);
}
END_TEST

/* Above 2^53 values, the place before the last one is the number of values, as a double. */
START_TEST(the_ends_stay_exact_among_any_number_of_values)
{
    struct centroid ends[] = {{-5, 1, true}, {4, 1, true}, {5, 1, true}};
    struct centroid middle[] = {{-1, INT64_MAX / 2, false}, {1, INT64_MAX / 2 - 2, false}};
    const struct centroids a = {ends, 3, 3};
    const struct centroids b = {middle, 2, INT64_MAX - 3};
    struct centroids sum;
    tdigest_merge(&arena, 1, &a, &b, &sum);
    ck_assert_uint_eq(sum.weight, INT64_MAX);
    ck_assert(sum.at[0].mean == -5 && sum.at[0].weight == 1);
    ck_assert(sum.at[sum.count - 1].mean == 5 && sum.at[sum.count - 1].weight == 1);
}
END_TEST

/* The mean of neighbouring doubles may be rounded to one beyond them; load() checks the order. */
START_TEST(means_of_neighbouring_doubles_stay_in_order)
{
    enum { COUNT = 20000 };
    double *values = arena_alloc(&arena, COUNT * sizeof *values);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = DBL_MAX -
                    (double)(i * i % 97 % 40) * 0x1p971; /* the distance of the greatest doubles */
    struct kept kept = digest_of(3, values, COUNT);
    struct centroids centroids = load(&kept);
    for (uint32_t i = 0; i < centroids.count; i++)
        ck_assert(isfinite(centroids.at[i].mean));
}
END_TEST

/* ---- estimates ---- */

START_TEST(few_different_values_are_exact)
{
    enum { KINDS = 4 * 20 + 4, COUNT = 20000 };
    double *values = arena_alloc(&arena, COUNT * sizeof *values);
    uint64_t counts[KINDS] = {0};
    for (size_t i = 0; i < COUNT; i++) {
        size_t kind = i * i % KINDS * i % KINDS; /* some are frequent */
        values[i] = i < KINDS ? (double)i : (double)kind;
        counts[(size_t)values[i]]++;
    }
    struct kept kept = digest_of(20, values, COUNT);
    struct centroids centroids = load(&kept);
    uint64_t before = 0;
    for (size_t kind = 0; kind < KINDS; kind++) {
        uint64_t half = 2 * before + counts[kind];
        ck_assert(tdigest_below(&centroids, (double)kind) == (double)half / 2);
        ck_assert(tdigest_value_at(&centroids, (double)before) == (double)kind);
        before += counts[kind];
        ck_assert(tdigest_value_at(&centroids, (double)(before - 1)) == (double)kind);
        ck_assert(tdigest_below(&centroids, (double)kind + 0.5) == (double)before);
    }
}
END_TEST

/* A value that is much more frequent than others stays exact among any number of them. */
START_TEST(a_frequent_value_is_exact)
{
    enum { COUNT = 30000 };
    double *values = arena_alloc(&arena, COUNT * sizeof *values);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = i % 3 ? 0 : (double)(i * 7919 % COUNT) - COUNT / 2.0 + 0.5;
    struct kept kept = digest_of(100, values, COUNT);
    struct centroids centroids = load(&kept);
    uint64_t weight = 0;
    for (uint32_t i = 0; i < centroids.count; i++)
        if (centroids.at[i].mean == 0 && centroids.at[i].is_exact)
            weight += centroids.at[i].weight;
    ck_assert_uint_eq(weight, COUNT / 3 * 2);
    ck_assert(tdigest_value_at(&centroids, COUNT * 0.2) == 0);
    ck_assert(tdigest_value_at(&centroids, COUNT * 0.8) == 0);
}
END_TEST

static uint64_t random_state;

/* Evenly distributed in (0, 1): SplitMix64. */
static double random_part(void)
{
    uint64_t mix = random_state += UINT64_C(0x9e3779b97f4a7c15);
    mix = (mix ^ mix >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mix = (mix ^ mix >> 27) * UINT64_C(0x94d049bb133111eb);
    return ((double)((mix ^ mix >> 31) >> 12) + 0.5) / (double)(UINT64_C(1) << 52);
}

static double random_normal(void)
{
    return sqrt(-2 * log(random_part())) * cos(2 * 3.14159265358979 * random_part());
}

enum shape {
    UNIFORM,
    NORMAL,
    ASCENDING,
    DESCENDING,
    EXPONENTIAL,
    PARETO,
    LOGNORMAL,
    ROUNDED,
    SHAPES
};

static double draw(enum shape shape, size_t i)
{
    switch (shape) {
    case UNIFORM:
        return random_part();
    case NORMAL:
        return random_normal();
    case ASCENDING:
        return (double)i;
    case DESCENDING:
        return -(double)i;
    case EXPONENTIAL:
        return -log(random_part());
    case PARETO:
        return 1 / random_part();
    case LOGNORMAL:
        return exp(3 * random_normal());
    default:
        return floor(50 * exp(random_normal())); /* ms, with duplicates */
    }
}

/* The distance of `fraction` from the fractions of the sorted values that are less than, and at most, `value`. */
static double error_of(const double *sorted, size_t count, double value, double fraction)
{
    size_t less = 0;
    size_t most = count;
    for (size_t high = count; less < high;) {
        size_t middle = (less + high) / 2;
        if (sorted[middle] < value)
            less = middle + 1;
        else
            high = middle;
    }
    for (size_t low = less; low < most;) {
        size_t middle = (low + most) / 2;
        if (sorted[middle] <= value)
            low = middle + 1;
        else
            most = middle;
    }
    double least = (double)less / (double)count;
    double greatest = (double)most / (double)count;
    return fraction < least ? least - fraction : fraction > greatest ? fraction - greatest : 0;
}

/* RedisBloom documents, for a compression of 100, parts per million at the ends, and less than 0.1 % in the middle, typically. */
START_TEST(quantiles_are_close_to_the_exact_ones)
{
    size_t count = sized(30000);
    double *values = arena_alloc(&arena, count * sizeof *values);
    random_state = (uint64_t)_i;
    for (size_t i = 0; i < count; i++)
        values[i] = draw((enum shape)_i, i);
    struct kept kept = digest_of(100, values, count);
    struct centroids centroids = load(&kept);
    qsort(values, count, sizeof *values, compare_values);
    double sum = 0;
    double middle =
        _i == ROUNDED ? 0.02 : 0.005; /* a centroid of some rounded values is between them */
    for (int i = 0; i <= 1000; i++) {
        double part = i / 1000.0;
        double error =
            error_of(values, count, tdigest_value_at(&centroids, part * (double)count), part);
        double limit = i <= 1 || i >= 999 ? 0.0001 : i <= 10 || i >= 990 ? 0.001 : middle;
        ck_assert_msg(error <= limit, "shape %d, fraction %g: error %g", _i, part, error);
        sum += error;
        double value = values[(size_t)(part * (double)(count - 1))];
        error = error_of(values, count, value, tdigest_below(&centroids, value) / (double)count);
        ck_assert_msg(error <= middle, "shape %d, value %g: error %g", _i, value, error);
    }
    ck_assert_msg(sum / 1001 < middle / 5, "shape %d: mean error %g", _i, sum / 1001);
    ck_assert(tdigest_value_at(&centroids, 0) == values[0]);
    ck_assert(tdigest_value_at(&centroids, (double)count) == values[count - 1]);
    ck_assert(kept.digest.min == values[0] && kept.digest.max == values[count - 1]);
}
END_TEST

START_TEST(merged_digests_estimate_as_one)
{
    enum { PARTS = 20 };
    size_t count = sized(20000) / PARTS * PARTS;
    double *values = arena_alloc(&arena, count * sizeof *values);
    struct centroids sum = {0};
    random_state = 1;
    for (size_t i = 0; i < count; i++)
        values[i] =
            random_normal() + (double)(i * PARTS / count); /* each part has a mean of its own */
    for (size_t part = 0; part < PARTS; part++) {
        struct centroids merged;
        struct kept kept =
            digest_of(part % 2 ? 100 : 200, values + count / PARTS * part, count / PARTS);
        struct centroids centroids = load(&kept);
        tdigest_merge(&arena, 100, &sum, &centroids, &merged);
        sum = merged;
    }
    ck_assert_uint_eq(sum.weight, count);
    qsort(values, count, sizeof *values, compare_values);
    for (int i = 0; i <= 100; i++) {
        double error =
            error_of(values, count, tdigest_value_at(&sum, i / 100.0 * (double)count), i / 100.0);
        ck_assert_msg(error <= 0.005, "fraction %g: error %g", i / 100.0, error);
    }
}
END_TEST

/* Values that arrive together may arrive in any order; and -0 is not stored, so that equal digests have equal bytes. */
START_TEST(the_same_values_give_the_same_bytes)
{
    double values[500];
    double turned[500];
    random_state = 2;
    for (size_t i = 0; i < 500; i++)
        values[i] = floor(random_normal() * 40);
    for (size_t i = 0; i < 500; i += 10)
        for (size_t j = 0; j < 10; j++)
            turned[i + j] = values[i + 9 - j];
    struct kept one = digest_of(2, values, 500);
    struct kept other = digest_of(2, turned, 500);
    ck_assert_uint_gt(one.digest.merges, 10);
    ck_assert(one.row.len && bytes_equal(one.row, other.row));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tdigest");
    TCase *tests = tcase_create("tdigest");
    tcase_add_checked_fixture(tests, arena_setup, arena_teardown);
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, rows_have_these_bytes);
    tcase_add_test(tests, a_digest_comes_back_as_it_was_and_cut_rows_are_refused);
    tcase_add_test(tests, damaged_rows_are_refused);
    tcase_add_test(tests, damaged_rows_without_centroids_are_refused);
    tcase_add_test(tests, centroids_and_unmerged_values_fit_into_the_capacity);
    tcase_add_test(tests, centroids_stay_few_with_any_weights);
    tcase_add_test(tests, the_greatest_doubles_stay_finite);
    tcase_add_test(tests, the_ends_stay_exact_among_any_number_of_values);
    tcase_add_test(tests, means_of_neighbouring_doubles_stay_in_order);
    tcase_add_test(tests, few_different_values_are_exact);
    tcase_add_test(tests, a_frequent_value_is_exact);
    tcase_add_loop_test(tests, quantiles_are_close_to_the_exact_ones, 0, SHAPES);
    tcase_add_test(tests, merged_digests_estimate_as_one);
    tcase_add_test(tests, the_same_values_give_the_same_bytes);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
