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

/* A set of row numbers: open addressing, UINT64_MAX marks a free slot. */
struct numbers {
    uint64_t *slots;
    uint64_t mask;
};

static bool numbers_add(struct numbers *numbers, uint64_t number)
{
    uint64_t i = number * 0x9e3779b97f4a7c15ULL >> 20 & numbers->mask;
    for (; numbers->slots[i] != UINT64_MAX; i = (i + 1) & numbers->mask)
        if (numbers->slots[i] == number)
            return false;
    numbers->slots[i] = number;
    return true;
}

/* Draws `count` (<= size) different row numbers, in ascending order: only `row` is set. NULL: the call must end (replied). */
static struct sample *draw_rows(struct call *call, uint64_t size, uint64_t count)
{
    struct sample *picks = call_array(call, count + 1, sizeof *picks);
    struct numbers numbers = {.mask = 15};
    CHECK(count <= size);
    while (numbers.mask < count * 2)
        numbers.mask = numbers.mask * 2 + 1;
    numbers.slots = call_array(call, numbers.mask + 1, sizeof *numbers.slots);
    if (!picks || !numbers.slots)
        return NULL;
    memset(numbers.slots, 0xff, (numbers.mask + 1) * sizeof *numbers.slots);
    /* Floyd's sampling: Bentley, "Programming pearls: a sample of brilliance", CACM 30(9), 1987. */
    for (uint64_t i = 0; i < count; i++) {
        if (!call_goes_on(call, DRAW_WORK))
            return NULL;
        uint64_t last = size - count + i;
        uint64_t row = call_random(call) % (last + 1);
        if (!numbers_add(&numbers, row)) {
            row = last;
            (void)numbers_add(&numbers, row);
        }
        picks[i] = (struct sample){.row = row};
    }
    return sort_picks(call, picks, count, by_row) ? picks : NULL;
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
