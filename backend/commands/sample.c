#include "backend/commands/sample.h"

#include "backend/context/goes_on.h"
#include "backend/rank/rank.h"
#include "shared/check.h"
#include "shared/merge_sort.h"

enum { DRAW_WORK = 3 };
enum { STEPS_MAX = 512 }; /* rows further ahead are found with the ranks instead of one by one */

/* ---- arguments ---- */

static bool out_of_range(struct call *call)
{
    call_error_text(call, "ERR value is out of range");
    return false;
}

bool sample_parse(struct call *call, const char *option, struct sample_wish *wish)
{
    int64_t wanted;
    *wish = (struct sample_wish){.count = 1};
    if (call->argc == 2)
        return true;
    if (!call_int64(call, 2, &wanted))
        return false;
    if (wanted < -INT64_MAX) {
        call_errorf(call, "ERR value is out of range, value must between %lld and %lld",
                    (long long)-INT64_MAX, (long long)INT64_MAX);
        return false;
    }
    wish->has_count = true;
    wish->has_option = call->argc == 4;
    if (call->argc > 4 || (wish->has_option && !bytes_is(call->argv[3], option))) {
        call_error(call, ERR_SYNTAX);
        return false;
    }
    wish->repeats = wanted < 0;
    wish->count = wish->repeats ? (uint64_t)-wanted : (uint64_t)wanted;
    return !wish->has_option || wish->count <= INT64_MAX / 2 || out_of_range(call);
}

bool sample_bound(struct call *call, const struct entry *entry, struct sample_wish *wish)
{
    if (!entry->exists)
        wish->count = 0;
    else if (!wish->repeats && wish->count > entry->meta.size)
        wish->count = entry->meta.size;
    return !wish->repeats || wish->count <= SAMPLE_REPEATS_MAX || out_of_range(call);
}

/* ---- rows ---- */

/* merge_compare_fn */
static int by_row(const void *a, const void *b, void *owner)
{
    (void)owner;
    const struct sample *x = a;
    const struct sample *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

/* merge_compare_fn */
static int by_request_order(const void *a, const void *b, void *owner)
{
    (void)owner;
    const struct sample *x = a;
    const struct sample *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Advances the iterator to row `wanted`; *row is its current row, UINT64_MAX before the first. */
static bool iter_to(struct sub_iter *it, enum cf cf, uint64_t wanted, uint64_t *row)
{
    struct bytes from;
    uint64_t skip;
    if (*row == UINT64_MAX || wanted - *row > STEPS_MAX) {
        if (!rank_seek(it->call, it->entry, cf, wanted, &from, &skip))
            return false;
        sub_iter_seek(it, from);
        *row = wanted - skip;
        if (!sub_iter_next(it))
            return false;
    }
    for (; *row < wanted; ++*row)
        if (!sub_iter_next(it))
            return false;
    return true;
}

/* False: the call must end. */
static bool sort_picks(struct call *call, struct sample *picks, uint64_t count,
                       merge_compare_fn *compare)
{
    return merge_sort(call->arena, picks, count, sizeof *picks, compare, NULL) &&
           call_goes_on(call, 0);
}

/* Reads the rows of `picks`, which are sorted by row. */
static bool fetch(struct call *call, struct entry *entry, enum cf cf, struct sample *picks,
                  uint64_t count)
{
    struct sub_iter it;
    uint64_t row = UINT64_MAX;
    bool good = true;
    sub_iter_init(call, entry, cf, BYTES(""), &it);
    for (uint64_t i = 0; good && i < count; i++) {
        good = call_goes_on(call, 1);
        if (i > 0 && picks[i].row == picks[i - 1].row) {
            picks[i].sub = picks[i - 1].sub;
            picks[i].value = picks[i - 1].value;
            continue;
        }
        good = good && iter_to(&it, cf, picks[i].row, &row);
        if (good) {
            picks[i].sub = arena_copy(call->arena, it.sub);
            picks[i].value = arena_copy(call->arena, it.value);
        }
    }
    good = sub_iter_fini(&it) && good;
    if (!good && !call->failed)
        call_error(call, ERR_STORE); /* inconsistent: fewer rows than the size in the metadata */
    return good;
}

/* With fewer rows for each pick, a bit for each row takes less memory than the picks. */
enum { DENSE_ROWS = 64 };

/* A set of row numbers: a bit for each row, or open addressing, where UINT64_MAX marks a free slot. */
struct numbers {
    bool is_dense;
    uint64_t *slots;
    uint64_t count; /* of slots */
};

/* False: the call must end (replied). */
static bool numbers_make(struct call *call, struct numbers *numbers, uint64_t size, uint64_t count)
{
    *numbers = (struct numbers){.is_dense = size / DENSE_ROWS < count, .count = 16};
    while (!numbers->is_dense && numbers->count <= count * 2)
        numbers->count *= 2;
    if (numbers->is_dense)
        numbers->count = size / 64 + 1;
    numbers->slots = call_array(call, numbers->count, sizeof *numbers->slots);
    if (numbers->slots)
        memset(numbers->slots, numbers->is_dense ? 0 : 0xff,
               numbers->count * sizeof *numbers->slots);
    return numbers->slots != NULL;
}

/* False: the set has it. */
static bool numbers_add(struct numbers *numbers, uint64_t number)
{
    uint64_t mask = numbers->count - 1;
    uint64_t i = number * 0x9e3779b97f4a7c15ULL >> 20 & mask;
    if (numbers->is_dense) {
        uint64_t bit = 1ULL << number % 64;
        bool is_new = !(numbers->slots[number / 64] & bit);
        numbers->slots[number / 64] |= bit;
        return is_new;
    }
    for (; numbers->slots[i] != UINT64_MAX; i = (i + 1) & mask)
        if (numbers->slots[i] == number)
            return false;
    numbers->slots[i] = number;
    return true;
}

/* The numbers of a dense set, in ascending order. */
static void numbers_list(const struct numbers *numbers, struct sample *picks)
{
    for (uint64_t i = 0; i < numbers->count; i++)
        for (uint64_t bits = numbers->slots[i]; bits; bits &= bits - 1)
            *picks++ = (struct sample){.row = i * 64 + (uint64_t)__builtin_ctzll(bits)};
}

/* Floyd's sampling: Bentley, "Programming pearls: a sample of brilliance", CACM 30(9), 1987. False: the call must end. */
static bool draw(struct call *call, struct numbers *numbers, struct sample *picks, uint64_t size,
                 uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!call_goes_on(call, DRAW_WORK))
            return false;
        uint64_t last = size - count + i;
        uint64_t row = call_random(call) % (last + 1);
        if (!numbers_add(numbers, row)) {
            row = last;
            (void)numbers_add(numbers, row);
        }
        picks[i] = (struct sample){.row = row};
    }
    return true;
}

/* Draws `count` (<= size) different row numbers, in ascending order: only `row` is set. NULL: the call must end (replied). */
static struct sample *draw_rows(struct call *call, uint64_t size, uint64_t count)
{
    struct sample *picks = call_array(call, count + 1, sizeof *picks);
    struct numbers numbers;
    CHECK(count <= size);
    if (!picks || !numbers_make(call, &numbers, size, count) ||
        !draw(call, &numbers, picks, size, count))
        return NULL;
    if (numbers.is_dense)
        numbers_list(&numbers, picks);
    else if (!sort_picks(call, picks, count, by_row))
        return NULL;
    return picks;
}

struct sample *sample_distinct(struct call *call, struct entry *entry, enum cf cf, uint64_t count)
{
    struct sample *picks = draw_rows(call, entry->meta.size, count);
    return picks && fetch(call, entry, cf, picks, count) ? picks : NULL;
}

struct sample *sample_repeated(struct call *call, struct entry *entry, enum cf cf, uint64_t count)
{
    struct sample *picks = arena_alloc(call->arena, (count + 1) * sizeof *picks);
    CHECK(count <= SAMPLE_REPEATS_MAX);
    for (uint64_t i = 0; i < count; i++)
        picks[i] = (struct sample){.row = call_random(call) % entry->meta.size, .at = i};
    if (!sort_picks(call, picks, count, by_row) || !fetch(call, entry, cf, picks, count))
        return NULL;
    return sort_picks(call, picks, count, by_request_order) ? picks : NULL;
}
