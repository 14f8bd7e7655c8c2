#include "backend/format/hll.h"

#include "shared/check.h"

#include <math.h>

#define COUNT_MAX 0x1p63 /* a higher estimate is no 64-bit integer */

enum {
    INDEX_BITS = 14,
    HASH_BITS = 64 - INDEX_BITS, /* bits that determine the rank: 1 … HASH_BITS + 1 */
    SPARSE_VALUE_MAX = 32,
    SPARSE_VALUES_MAX = 4, /* registers of a run of values */
    SPARSE_ZEROS_MAX = 64, /* registers of a one-byte run of zeros */
    SPLIT_BYTES_MAX = 5,   /* zeros (2), value, zeros (2) */
    JOIN_RUNS = 5,         /* runs that are examined after a split */
};

/* ---- header ---- */

bool hll_is_header(const char header[HLL_HEADER_BYTES], uint64_t len)
{
    if (len < HLL_HEADER_BYTES || memcmp(header, "HYLL", 4) != 0)
        return false;
    if (header[4] == HLL_DENSE)
        return len == HLL_DENSE_BYTES;
    return header[4] == HLL_SPARSE;
}

bool hll_cached(const char *header, uint64_t *cardinality)
{
    *cardinality = 0;
    for (int i = HLL_CACHE_BYTES - 1; i >= 0; i--)
        *cardinality = *cardinality << 8 | (uint8_t)header[HLL_CACHE_AT + i];
    return !(*cardinality >> 63);
}

void hll_cache(char *header, uint64_t cardinality)
{
    for (int i = 0; i < HLL_CACHE_BYTES; i++, cardinality >>= 8)
        header[HLL_CACHE_AT + i] = (char)(uint8_t)cardinality;
}

void hll_uncache(char *header)
{
    header[HLL_CACHE_AT + HLL_CACHE_BYTES - 1] |= (char)0x80;
}

/* ---- elements ---- */

static uint64_t load_little(const char *from, size_t len)
{
    uint64_t word = 0;
    for (size_t i = len; i-- > 0;)
        word = word << 8 | (uint8_t)from[i];
    return word;
}

static uint64_t murmur(struct bytes data, uint64_t seed)
{
    const uint64_t factor = 0xc6a4a7935bd1e995;
    uint64_t hash = seed ^ data.len * factor;
    size_t i = 0;
    for (; i + 8 <= data.len; i += 8) {
        uint64_t word = load_little(data.data + i, 8) * factor;
        word ^= word >> 47;
        hash = (hash ^ word * factor) * factor;
    }
    if (i < data.len)
        hash = (hash ^ load_little(data.data + i, data.len - i)) * factor;
    hash = (hash ^ hash >> 47) * factor;
    return hash ^ hash >> 47;
}

void hll_hash(struct bytes element, uint32_t *index, uint8_t *rank)
{
    uint64_t hash = murmur(element, 0xadc83b19);
    *index = (uint32_t)(hash % HLL_REGISTERS);
    uint64_t rest = hash >> INDEX_BITS | (uint64_t)1 << HASH_BITS;
    *rank = (uint8_t)(__builtin_ctzll(rest) + 1);
}

/* ---- dense ---- */

struct hll_place hll_place(uint32_t index)
{
    CHECK(index < HLL_REGISTERS);
    uint8_t shift = (uint8_t)(index * 6 % 8);
    return (struct hll_place){
        .byte = HLL_HEADER_BYTES + index * 6 / 8, .shift = shift, .bytes = shift > 2 ? 2 : 1};
}

static unsigned place_load(const char *bytes, struct hll_place place)
{
    unsigned both = (uint8_t)bytes[0];
    return place.bytes == 2 ? both | (unsigned)(uint8_t)bytes[1] << 8 : both;
}

uint8_t hll_place_get(const char *bytes, struct hll_place place)
{
    return place_load(bytes, place) >> place.shift & 63;
}

void hll_place_set(char *bytes, struct hll_place place, uint8_t rank)
{
    unsigned both = place_load(bytes, place) & ~(63u << place.shift);
    both |= (unsigned)rank << place.shift;
    bytes[0] = (char)(uint8_t)both;
    if (place.bytes == 2)
        bytes[1] = (char)(uint8_t)(both >> 8);
}

static enum hll_change dense_raise(struct hll *hll, uint32_t index, uint8_t rank)
{
    struct hll_place place = hll_place(index);
    if (hll_place_get(hll->data + place.byte, place) >= rank)
        return HLL_SAME;
    hll_place_set(hll->data + place.byte, place, rank);
    return HLL_CHANGED;
}

/* ---- sparse ---- */

bool hll_run_next(struct bytes value, size_t *at, struct hll_run *run)
{
    if (*at >= value.len)
        return false;
    uint8_t byte = (uint8_t)value.data[*at];
    *run = (struct hll_run){.kind = 'z', .bytes = 1, .length = (byte & 63) + 1u};
    if (byte & 0x80) {
        run->kind = 'v';
        run->value = (uint8_t)((byte >> 2 & 31) + 1);
        run->length = (byte & 3) + 1u;
    } else if (byte & 0x40) {
        bool is_whole = value.len - *at >= 2;
        run->kind = 'Z';
        run->bytes = is_whole ? 2 : 1;
        run->length = ((byte & 63u) << 8 | (is_whole ? (uint8_t)value.data[*at + 1] : 0)) + 1;
    }
    *at += run->bytes;
    return true;
}

static size_t write_zeros(char *to, uint32_t length)
{
    if (length == 0)
        return 0;
    if (length <= SPARSE_ZEROS_MAX) {
        to[0] = (char)(length - 1);
        return 1;
    }
    to[0] = (char)(0x40 | (length - 1) >> 8);
    to[1] = (char)(uint8_t)(length - 1);
    return 2;
}

static size_t write_values(char *to, uint8_t value, uint32_t length)
{
    if (length == 0)
        return 0;
    to[0] = (char)(uint8_t)(0x80u | (value - 1u) << 2 | (length - 1));
    return 1;
}

void hll_init(struct hll *hll, struct arena *arena)
{
    char header[HLL_HEADER_BYTES + 2] = "HYLL";
    header[4] = HLL_SPARSE;
    size_t zeros = write_zeros(header + HLL_HEADER_BYTES, HLL_REGISTERS);
    hll_init_copy(hll, arena, (struct bytes){header, HLL_HEADER_BYTES + zeros});
}

void hll_init_copy(struct hll *hll, struct arena *arena, struct bytes value)
{
    CHECK(value.len >= HLL_HEADER_BYTES);
    *hll = (struct hll){.arena = arena, .len = value.len, .cap = value.len + 64};
    hll->data = arena_alloc(arena, hll->cap);
    memcpy(hll->data, value.data, value.len);
}

/* Replaces `old_len` bytes at `at` by others. */
static void splice(struct hll *hll, size_t at, size_t old_len, const char *bytes, size_t len)
{
    size_t new_len = hll->len - old_len + len;
    if (new_len > hll->cap) {
        char *old = hll->data;
        hll->cap = new_len * 2;
        hll->data = arena_alloc(hll->arena, hll->cap);
        memcpy(hll->data, old, hll->len);
    }
    memmove(hll->data + at + len, hll->data + at + old_len, hll->len - at - old_len);
    memcpy(hll->data + at, bytes, len);
    hll->len = new_len;
}

/* Position of a register among the runs. */
struct spot {
    size_t before; /* offset of the run before it, or of the same run if it is the first */
    size_t at;
    uint32_t first; /* register of the run */
    struct hll_run run;
};

static bool spot_find(const struct hll *hll, uint32_t index, struct spot *spot)
{
    size_t at = HLL_HEADER_BYTES;
    *spot = (struct spot){.before = at, .at = at};
    while (hll_run_next(hll_bytes(hll), &at, &spot->run)) {
        if (index < spot->first + spot->run.length)
            return true;
        spot->first += spot->run.length;
        spot->before = spot->at;
        spot->at = at;
    }
    return false;
}

/* Writes the run of `spot` with one register changed; returns its length in bytes. */
static size_t split_run(const struct spot *spot, uint32_t index, uint8_t rank, char *to)
{
    uint32_t before = index - spot->first;
    uint32_t behind = spot->run.length - before - 1;
    size_t len = 0;
    if (spot->run.kind == 'v') {
        len += write_values(to, spot->run.value, before);
        len += write_values(to + len, rank, 1);
        return len + write_values(to + len, spot->run.value, behind);
    }
    len += write_zeros(to, before);
    len += write_values(to + len, rank, 1);
    return len + write_zeros(to + len, behind);
}

/* Joins neighbouring runs of the same value that a split may have made. */
static void join(struct hll *hll, size_t at)
{
    for (int runs = 0; runs < JOIN_RUNS; runs++) {
        struct hll_run run;
        struct hll_run next;
        size_t behind = at;
        if (!hll_run_next(hll_bytes(hll), &behind, &run))
            return;
        size_t end = behind;
        bool joins = run.kind == 'v' && hll_run_next(hll_bytes(hll), &end, &next) &&
                     next.kind == 'v' && next.value == run.value &&
                     run.length + next.length <= SPARSE_VALUES_MAX;
        if (!joins) {
            at = behind;
            continue;
        }
        char both;
        write_values(&both, run.value, run.length + next.length);
        splice(hll, at, 2, &both, 1);
    }
}

static enum hll_change promote(struct hll *hll, uint32_t index, uint8_t rank)
{
    return hll_make_dense(hll) ? dense_raise(hll, index, rank) : HLL_BAD;
}

static enum hll_change sparse_raise(struct hll *hll, uint32_t index, uint8_t rank,
                                    uint64_t bytes_max)
{
    struct spot spot;
    char runs[SPLIT_BYTES_MAX];
    if (rank > SPARSE_VALUE_MAX)
        return promote(hll, index, rank);
    if (!spot_find(hll, index, &spot))
        return HLL_BAD;
    if (spot.run.kind == 'v' && spot.run.value >= rank)
        return HLL_SAME;
    size_t len = split_run(&spot, index, rank, runs);
    if (len > spot.run.bytes && hll->len + len - spot.run.bytes > bytes_max)
        return promote(hll, index, rank);
    splice(hll, spot.at, spot.run.bytes, runs, len);
    join(hll, spot.before);
    return HLL_CHANGED;
}

enum hll_change hll_raise(struct hll *hll, uint32_t index, uint8_t rank, uint64_t sparse_bytes_max)
{
    CHECK(index < HLL_REGISTERS);
    if (hll_encoding(hll->data) == HLL_DENSE)
        return dense_raise(hll, index, rank);
    return sparse_raise(hll, index, rank, sparse_bytes_max);
}

bool hll_make_dense(struct hll *hll)
{
    struct hll_run run;
    uint32_t first = 0;
    size_t at = HLL_HEADER_BYTES;
    if (hll_encoding(hll->data) == HLL_DENSE)
        return true;
    struct hll dense = {.arena = hll->arena, .len = HLL_DENSE_BYTES, .cap = HLL_DENSE_BYTES};
    dense.data = arena_alloc(hll->arena, HLL_DENSE_BYTES);
    memset(dense.data, 0, HLL_DENSE_BYTES);
    memcpy(dense.data, hll->data, HLL_HEADER_BYTES);
    dense.data[4] = HLL_DENSE;
    while (hll_run_next(hll_bytes(hll), &at, &run)) {
        if (run.length > HLL_REGISTERS - first)
            return false;
        for (uint32_t i = 0; run.kind == 'v' && i < run.length; i++)
            dense_raise(&dense, first + i, run.value);
        first += run.length;
    }
    if (first != HLL_REGISTERS)
        return false;
    *hll = dense;
    return true;
}

/* ---- counting ---- */

static void merge_dense(uint8_t *registers, const char *bytes)
{
    for (uint32_t i = 0; i < HLL_REGISTERS; i += 4, bytes += 3) {
        uint32_t four = (uint32_t)load_little(bytes, 3);
        for (uint32_t k = 0; k < 4; k++, four >>= 6)
            if ((four & 63) > registers[i + k])
                registers[i + k] = four & 63;
    }
}

bool hll_merge(uint8_t *registers, struct bytes value)
{
    struct hll_run run;
    uint32_t first = 0;
    size_t at = HLL_HEADER_BYTES;
    if (hll_encoding(value.data) == HLL_DENSE) {
        merge_dense(registers, value.data + HLL_HEADER_BYTES);
        return true;
    }
    while (hll_run_next(value, &at, &run)) {
        if (run.length > HLL_REGISTERS - first)
            return false;
        for (uint32_t i = 0; run.kind == 'v' && i < run.length; i++)
            if (run.value > registers[first + i])
                registers[first + i] = run.value;
        first += run.length;
    }
    return first == HLL_REGISTERS;
}

/* Ertl's sigma: the estimate for registers of rank 0. */
static double sigma(double x)
{
    double sum = x;
    double weight = 1;
    double last;
    if (x == 1)
        return INFINITY;
    do {
        last = sum;
        x *= x;
        sum += x * weight;
        weight += weight;
    } while (sum != last);
    return sum;
}

/* Ertl's tau: the estimate for registers of the greatest rank. */
static double tau(double x)
{
    double sum = 1 - x;
    double weight = 1;
    double last;
    if (x == 0 || x == 1)
        return 0;
    do {
        last = sum;
        x = sqrt(x);
        weight *= 0.5;
        sum -= pow(1 - x, 2) * weight;
    } while (sum != last);
    return sum / 3;
}

/* Elements give ranks up to HASH_BITS + 1. The registers of a value that was restored or set as a string may have higher ones, which
 * makes the estimate infinite. */
uint64_t hll_count(const uint8_t *registers)
{
    const double alpha = 0.721347520444481703680; /* 1 / (2 ln 2) */
    const double m = HLL_REGISTERS;
    uint32_t ranks[64] = {0};
    for (uint32_t i = 0; i < HLL_REGISTERS; i++)
        ranks[registers[i] & 63]++;
    double z = m * tau((m - ranks[HASH_BITS + 1]) / m);
    for (int rank = HASH_BITS; rank >= 1; rank--) {
        z += ranks[rank];
        z *= 0.5;
    }
    z += m * sigma(ranks[0] / m);
    double count = alpha * m * m / z;
    return count < COUNT_MAX ? (uint64_t)llroundl(count) : (uint64_t)INT64_MAX;
}
