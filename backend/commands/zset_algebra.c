/*
 * zset_algebra.c - union, intersection and difference of sorted sets and sets.
 *
 * Both types store their members in CF_DATA in byte order, sets without a score (it counts as 1), so one iterator
 * reads both. A union sorts all rows by member and merges equal ones; the others search each row of one input in the
 * remaining inputs.
 */
#include "backend/commands/equal_words.h"
#include "backend/commands/member_lookup.h"
#include "backend/commands/zset.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/merge_sort.h"
#include "shared/number.h"

#include <math.h>
#include <stdlib.h>

static const struct bytes NOTHING = {"", 0};

enum operation { UNION, INTERSECTION, DIFFERENCE };
enum aggregate { SUM, MIN, MAX };

struct input {
    struct entry entry;
    double weight;
    uint32_t first;              /* index of the first input with this key, whose rows are read */
    uint32_t again;              /* index of the next input with this key; NONE: there is none */
    struct member_lookup lookup; /* of the first one, if the operation is no union */
    /* of the first one: has it the member that is being looked at? Its score is `score` */
    bool is_found;
    double score;
};

static const uint32_t NONE = UINT32_MAX;

struct algebra {
    enum operation operation;
    bool is_stored;
    bool is_counted; /* ZINTERCARD */
    struct input *inputs;
    uint32_t count;
    enum aggregate aggregate;
    bool with_scores;
    uint64_t limit; /* 0: unlimited */
};

/* ---- arguments ---- */

static bool find_inputs(struct call *call, struct counted_keys *keys)
{
    switch (counted_keys_find(call->command, call->argv, call->argc, keys)) {
    case COUNTED_OK:
        break;
    case COUNTED_NO_NUMBER:
        call_error(call, ERR_NOT_INTEGER);
        break;
    case COUNTED_TOO_SMALL:
        call_errorf(call, "ERR at least 1 input key is needed for '%s' command",
                    command_full_name(call->command));
        break;
    case COUNTED_TOO_LARGE:
        call_error(call, ERR_SYNTAX);
        break;
    }
    return !call->failed;
}

static bool open_inputs(struct call *call, const struct counted_keys *keys, struct algebra *algebra)
{
    algebra->count = keys->count;
    algebra->inputs = arena_alloc(call->arena, (size_t)keys->count * sizeof *algebra->inputs);
    for (uint32_t i = 0; i < algebra->count; i++) {
        struct input *input = &algebra->inputs[i];
        input->weight = 1;
        if (!keyspace_open(call, call->argv[keys->first + i], OPEN_READ, &input->entry))
            return false;
        if (input->entry.exists && input->entry.meta.type != TYPE_ZSET &&
            input->entry.meta.type != TYPE_SET) {
            call_error(call, ERR_WRONGTYPE);
            return false;
        }
    }
    return true;
}

static bool parse_aggregate(struct call *call, struct bytes word, struct algebra *algebra)
{
    if (bytes_is(word, "sum"))
        algebra->aggregate = SUM;
    else if (bytes_is(word, "min"))
        algebra->aggregate = MIN;
    else if (bytes_is(word, "max"))
        algebra->aggregate = MAX;
    else
        call_error(call, ERR_SYNTAX);
    return !call->failed;
}

static bool parse_weights(struct call *call, uint32_t at, struct algebra *algebra)
{
    for (uint32_t i = 0; i < algebra->count; i++)
        if (!number_parse_double(call->argv[at + i], &algebra->inputs[i].weight)) {
            call_error_text(call, "ERR weight value is not a float");
            return false;
        }
    return true;
}

static bool parse_limit(struct call *call, struct bytes text, struct algebra *algebra)
{
    int64_t limit;
    if (!number_parse_int64(text, &limit) || limit < 0) {
        call_error_text(call, "ERR LIMIT can't be negative");
        return false;
    }
    algebra->limit = (uint64_t)limit;
    return true;
}

static bool parse_options(struct call *call, uint32_t at, struct algebra *algebra)
{
    bool is_combined = algebra->operation != DIFFERENCE && !algebra->is_counted;
    while (at < call->argc) {
        struct bytes word = call->argv[at];
        uint32_t left = call->argc - at - 1;
        if (is_combined && left >= algebra->count && bytes_is(word, "weights")) {
            if (!parse_weights(call, at + 1, algebra))
                return false;
            at += 1 + algebra->count;
        } else if (is_combined && left >= 1 && bytes_is(word, "aggregate")) {
            if (!parse_aggregate(call, call->argv[at + 1], algebra))
                return false;
            at += 2;
        } else if (!algebra->is_stored && !algebra->is_counted && bytes_is(word, "withscores")) {
            algebra->with_scores = true;
            at++;
        } else if (algebra->is_counted && left >= 1 && bytes_is(word, "limit")) {
            if (!parse_limit(call, call->argv[at + 1], algebra))
                return false;
            at += 2;
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* ---- combining ---- */

static uint64_t input_size(const struct input *input)
{
    return input->entry.exists ? input->entry.meta.size : 0;
}

/* merge_compare_fn: by size, equal ones in the order of the arguments, because sums of doubles depend on the order. */
static int input_order(const void *a, const void *b, void *owner)
{
    uint64_t x = input_size(a);
    uint64_t y = input_size(b);
    (void)owner;
    return (x > y) - (x < y);
}

/* Finds inputs with equal keys. */
static void join_inputs(struct call *call, struct algebra *algebra)
{
    struct bytes *keys = arena_alloc(call->arena, (size_t)algebra->count * sizeof *keys);
    for (uint32_t i = 0; i < algebra->count; i++)
        keys[i] = algebra->inputs[i].entry.key;
    const uint32_t *first = first_of_equal(call->arena, keys, algebra->count);
    for (uint32_t i = algebra->count; i-- > 0;) {
        struct input *input = &algebra->inputs[i];
        input->first = first[i];
        if (first[i] == i)
            input->again = NONE;
    }
    for (uint32_t i = algebra->count;
         i-- > 0;) { /* `again` of a first one is that of the last one added */
        struct input *input = &algebra->inputs[i];
        if (input->first == i)
            continue;
        input->again = algebra->inputs[input->first].again;
        algebra->inputs[input->first].again = i;
    }
}

/* The score in the row of a member: 1 in a set. False: the row is damaged, and an error was replied. */
static bool row_score(struct call *call, struct bytes value, double *score)
{
    *score = value.len == sizeof(uint64_t) ? decode_score(get_be64(value.data)) : 1;
    if (!isnan(*score))
        return true;
    call_error(call, ERR_STORE);
    return false;
}

static double combine_scores(enum aggregate aggregate, double a, double b)
{
    if (aggregate == MIN)
        return b < a ? b : a;
    if (aggregate == MAX)
        return b > a ? b : a;
    double sum = a + b;
    return isnan(sum) ? 0 : sum; /* the sum of inf and -inf */
}

static double weighted(double weight, double score)
{
    double product = weight * score;
    return isnan(product) ? 0 : product;
}

/* A row of a union, and its input. */
struct part {
    struct zset_row row;
    uint32_t input;
};

/* merge_compare_fn */
static int part_order(const void *a, const void *b, void *owner)
{
    const struct part *x = a;
    const struct part *y = b;
    (void)owner;
    int order = bytes_compare(x->row.member, y->row.member);
    return order ? order : (x->input > y->input) - (x->input < y->input);
}

/* Reads the rows of each key once. False: the call has failed. */
static bool read_parts(struct call *call, struct algebra *algebra, struct part *parts,
                       uint64_t total, uint64_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < algebra->count; i++) {
        struct input *input = &algebra->inputs[i];
        struct sub_iter it;
        if (!input->entry.exists || input->first != i)
            continue;
        sub_iter_init(call, &input->entry, CF_DATA, NOTHING, &it);
        while (*count < total && sub_iter_next(&it)) {
            struct part *part = &parts[(*count)++];
            part->row.member = arena_copy(call->arena, it.sub);
            part->input = i;
            if (!row_score(call, it.value, &part->row.score))
                break;
        }
        if (!sub_iter_fini(&it) || call->failed)
            return false;
    }
    return true;
}

static int index_order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The score of a member in the union, from its rows. The inputs that have it are combined in their order, because sums of doubles
 * depend on it. `order`: room for the indexes of all inputs. *combined: how many there were. */
static double union_score(struct algebra *algebra, const struct part *parts, uint64_t count,
                          uint32_t *order, uint32_t *combined)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        algebra->inputs[parts[i].input].score = parts[i].row.score;
        for (uint32_t at = parts[i].input; at != NONE; at = algebra->inputs[at].again)
            order[n++] = at;
    }
    if (n > count && count > 1)
        qsort(order, n, sizeof *order, index_order);
    double score = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct input *input = &algebra->inputs[order[i]];
        double more = weighted(input->weight, algebra->inputs[input->first].score);
        score = i ? combine_scores(algebra->aggregate, score, more) : more;
    }
    *combined = n;
    return score;
}

enum { COMBINE_WORK = 2 }; /* of one input of a member */

static bool run_union(struct call *call, struct algebra *algebra, struct zset_rows *result)
{
    uint64_t total = 0;
    uint64_t count;
    for (uint32_t i = 0; i < algebra->count; i++)
        if (algebra->inputs[i].first == i)
            total += input_size(&algebra->inputs[i]);
    struct part *parts = call_array(call, total, sizeof *parts);
    uint32_t *order = arena_alloc(call->arena, (size_t)algebra->count * sizeof *order);
    uint32_t combined = 0;
    if (!parts || !read_parts(call, algebra, parts, total, &count) ||
        !merge_sort(call->arena, parts, count, sizeof *parts, part_order, NULL))
        return false;
    result->row = arena_alloc(call->arena, (count + 1) * sizeof *result->row);
    for (uint64_t i = 0; i < count;) {
        uint64_t end = i + 1;
        while (end < count && bytes_equal(parts[end].row.member, parts[i].row.member))
            end++;
        if (!call_goes_on(call, (size_t)combined * COMBINE_WORK))
            return false;
        result->row[result->count++] = (struct zset_row){
            .member = parts[i].row.member,
            .score = union_score(algebra, &parts[i], end - i, order, &combined),
        };
        i = end;
    }
    return true;
}

/* Is the member in the input, and with which score? False: the store failed. */
static bool find_score(struct call *call, struct input *input, struct bytes member, bool *is_in,
                       double *score)
{
    struct bytes value;
    int err = member_lookup_find(&input->lookup, member, &value);
    *is_in = err == OK;
    return err == OK ? row_score(call, value, score) : !is_read_failure(err);
}

/* Is the row of the first input in the result? Combines its score with those of the other inputs. */
static bool stays(struct call *call, struct algebra *algebra, struct bytes member, double *score,
                  bool *is_in)
{
    double first = *score;
    algebra->inputs[0].is_found = true;
    algebra->inputs[0].score = first;
    bool is_difference = algebra->operation == DIFFERENCE;
    if (!is_difference)
        *score = weighted(algebra->inputs[0].weight, first);
    for (uint32_t i = 1; i < algebra->count; i++) {
        double other;
        struct input *input = &algebra->inputs[i];
        struct input *read = &algebra->inputs[input->first];
        if (!call_goes_on(call, 1) ||
            (input->first == i &&
             !find_score(call, input, member, &input->is_found, &input->score)))
            return false;
        *is_in = read->is_found;
        other = read->score;
        if (*is_in == is_difference) {
            *is_in = false;
            return true;
        }
        if (!is_difference)
            *score = combine_scores(algebra->aggregate, *score, algebra->inputs[i].weight * other);
    }
    *is_in = true;
    return true;
}

/* Adds a row of the first input that stays to the result. False: it is the last one, or the call has failed. */
static bool add_if_it_stays(struct call *call, struct algebra *algebra, const struct sub_iter *it,
                            struct zset_rows *result)
{
    bool is_in;
    double score;
    if (!row_score(call, it->value, &score) || !stays(call, algebra, it->sub, &score, &is_in))
        return false;
    if (!is_in)
        return true;
    if (algebra->is_counted)
        result->count++;
    else
        zset_rows_add(call, result, it->sub, score);
    return !algebra->limit || result->count < algebra->limit;
}

static bool run_filter(struct call *call, struct algebra *algebra, struct zset_rows *result)
{
    struct sub_iter it;
    struct entry *walked = &algebra->inputs[0].entry;
    if (!walked->exists)
        return true;
    for (uint32_t i = 1; i < algebra->count; i++)
        member_lookup_init(&algebra->inputs[i].lookup, call, &algebra->inputs[i].entry,
                           walked->meta.size);
    sub_iter_init(call, walked, CF_DATA, NOTHING, &it);
    while (sub_iter_next(&it) && add_if_it_stays(call, algebra, &it, result))
        continue;
    bool is_good = sub_iter_fini(&it);
    for (uint32_t i = 1; i < algebra->count; i++)
        is_good = member_lookup_fini(&algebra->inputs[i].lookup) && is_good;
    return is_good && !call->failed;
}

static void run_algebra(struct call *call, struct algebra algebra)
{
    struct zset_rows result = {0};
    struct counted_keys keys;
    if (!find_inputs(call, &keys) || !open_inputs(call, &keys, &algebra) ||
        !parse_options(call, keys.behind, &algebra))
        return;
    if (algebra.operation != DIFFERENCE && !merge_sort(call->arena, algebra.inputs, algebra.count,
                                                       sizeof *algebra.inputs, input_order, NULL))
        return;
    join_inputs(call, &algebra);
    if (!(algebra.operation == UNION ? run_union(call, &algebra, &result)
                                     : run_filter(call, &algebra, &result)))
        return;
    if (algebra.is_counted) {
        reply_int(&call->reply, (int64_t)result.count);
        return;
    }
    if (algebra.is_stored) {
        zset_store(call, call->argv[1], &result,
                   algebra.operation == UNION          ? "zunionstore"
                   : algebra.operation == INTERSECTION ? "zinterstore"
                                                       : "zdiffstore");
        return;
    }
    if (zset_rows_sort(call, &result))
        zset_rows_reply(call, &result, algebra.with_scores);
}

void cmd_zunion(struct call *call)
{
    run_algebra(call, (struct algebra){.operation = UNION});
}

void cmd_zunionstore(struct call *call)
{
    run_algebra(call, (struct algebra){.operation = UNION, .is_stored = true});
}

void cmd_zinter(struct call *call)
{
    run_algebra(call, (struct algebra){.operation = INTERSECTION});
}

void cmd_zinterstore(struct call *call)
{
    run_algebra(call, (struct algebra){.operation = INTERSECTION, .is_stored = true});
}

void cmd_zintercard(struct call *call)
{
    run_algebra(call, (struct algebra){.operation = INTERSECTION, .is_counted = true});
}

void cmd_zdiff(struct call *call)
{
    run_algebra(call, (struct algebra){.operation = DIFFERENCE});
}

void cmd_zdiffstore(struct call *call)
{
    run_algebra(call, (struct algebra){.operation = DIFFERENCE, .is_stored = true});
}
