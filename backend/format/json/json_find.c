/*
 * json_find.c - finds the values of a path in a document.
 *
 * Each segment of the path selects children of all matches of the previous segment. ".." visits all values below a match
 * in the order of the document, containers before their content, and selects children of each.
 */
#include "backend/format/json/json_path.h"
#include "backend/format/json/json_segment.h"

enum {
    VISITS_MAX = 1 << 23, /* values that one path may visit */
    VISIT_WORK = 5,       /* in units of 10 ns */
    COMPARE_WORK = 2,
    WORK_COUNTED = 1000, /* work per call of arena_goes_on */
};

struct search {
    struct arena *arena;
    json *root;
    uint64_t visits;
    size_t work;  /* since the last call of arena_goes_on */
    bool is_over; /* VISITS_MAX or JSON_MATCHES_MAX is exceeded, or the arena's meter is over */
};

static void count_work(struct search *search, size_t work)
{
    search->work += work;
    if (search->work < WORK_COUNTED)
        return;
    search->is_over |= !arena_goes_on(search->arena, search->work);
    search->work = 0;
}

static struct json_match *match_new(struct search *search, json *value,
                                    const struct json_match *parent)
{
    struct json_match *match = arena_alloc(search->arena, sizeof *match);
    *match = (struct json_match){.value = value, .parent = parent};
    search->is_over |= ++search->visits > VISITS_MAX;
    count_work(search, VISIT_WORK);
    return match;
}

static void matches_add(struct search *search, struct json_matches *matches,
                        struct json_match *match)
{
    if (matches->count == matches->cap) {
        size_t cap = matches->cap ? matches->cap * 2 : 8;
        struct json_match **items = arena_alloc(search->arena, cap * sizeof(struct json_match *));
        if (matches->count)
            memcpy(items, matches->items, matches->count * sizeof(struct json_match *));
        matches->items = items;
        matches->cap = cap;
    }
    matches->items[matches->count++] = match;
    search->is_over |= matches->count > JSON_MATCHES_MAX;
}

static bool find_matches(struct search *search, const struct json_segment *segments, uint32_t count,
                         json *from, struct json_matches *matches);

/* ---- filters ---- */

/* The value of an operand; NULL: its path has no match. The matches are freed: the value is the document's. */
static json *operand_value(struct search *search, const struct json_operand *operand, json *current)
{
    struct json_matches matches = {0};
    json *value = NULL;
    if (!operand->is_path)
        return operand->literal;
    struct arena_mark mark = arena_mark(search->arena);
    if (find_matches(search, operand->segments, operand->count,
                     operand->from_root ? search->root : current, &matches) &&
        matches.count)
        value = matches.items[0]->value;
    arena_release(search->arena, &mark);
    return value;
}

static bool is_number(const json *value)
{
    enum json_kind kind = json_kind_of(value);
    return kind == JSON_KIND_INTEGER || kind == JSON_KIND_REAL;
}

/* Compares two numbers or two texts. False: they cannot be compared. */
static bool order_of(const json *a, const json *b, int *order)
{
    if (is_number(a) && is_number(b)) {
        if (json_kind_of(a) == JSON_KIND_INTEGER && json_kind_of(b) == JSON_KIND_INTEGER) {
            int64_t x = json_to_integer(a);
            int64_t y = json_to_integer(b);
            *order = (x > y) - (x < y);
        } else {
            double x = json_to_double(a);
            double y = json_to_double(b);
            *order = (x > y) - (x < y);
        }
        return true;
    }
    if (json_kind_of(a) != JSON_KIND_STRING || json_kind_of(b) != JSON_KIND_STRING)
        return false;
    *order = bytes_compare(json_to_string(a), json_to_string(b));
    return true;
}

/* Work of a comparison of two values, except for that of containers, which json_equals counts. */
static size_t work_of(const json *a, const json *b)
{
    if (json_kind_of(a) != JSON_KIND_STRING || json_kind_of(b) != JSON_KIND_STRING)
        return COMPARE_WORK;
    size_t len = json_to_string(a).len;
    size_t other = json_to_string(b).len;
    return COMPARE_WORK + (len < other ? len : other) / 64;
}

static bool compare_values(struct search *search, const json *a, const json *b,
                           enum filter_operator operator)
{
    int order;
    if (!a || !b)
        return operator== OP_NE && a != b;
    count_work(search, work_of(a, b));
    if (!order_of(a, b, &order)) {
        bool equal = json_equals(search->arena, a, b);
        return (operator== OP_EQ && equal) || (operator== OP_NE && !equal);
    }
    switch (operator) {
    case OP_EQ:
        return order == 0;
    case OP_NE:
        return order != 0;
    case OP_LT:
        return order < 0;
    case OP_LE:
        return order <= 0;
    case OP_GT:
        return order > 0;
    case OP_GE:
        break;
    }
    return order >= 0;
}

/* Its recursion is as deep as the path has terms: JSON_FILTER_TERMS_MAX and JSON_FILTER_DEPTH_MAX. */
static bool filter_holds(struct search *search, const struct json_filter *filter, json *current)
{
    count_work(search, 1);
    switch (filter->kind) {
    case FILTER_OR:
        return filter_holds(search, filter->a, current) || filter_holds(search, filter->b, current);
    case FILTER_AND:
        return filter_holds(search, filter->a, current) && filter_holds(search, filter->b, current);
    case FILTER_NOT:
        return !filter_holds(search, filter->a, current);
    case FILTER_EXISTS:
        return operand_value(search, &filter->left, current) != NULL;
    case FILTER_COMPARE:
        break;
    }
    json *left = operand_value(search, &filter->left, current);
    json *right = operand_value(search, &filter->right, current);
    return compare_values(search, left, right, filter->operator);
}

/* ---- selectors ---- */

static struct json_match *child_at(struct search *search, const struct json_match *match, size_t i)
{
    struct json_match *child = match_new(search, json_at(match->value, i), match);
    child->index = i;
    return child;
}

static struct json_match *child_named(struct search *search, const struct json_match *match,
                                      struct bytes name, json *value)
{
    struct json_match *child = match_new(search, value, match);
    child->name = name;
    return child;
}

static void select_name(struct search *search, const struct json_match *match, struct bytes name,
                        struct json_matches *to)
{
    if (json_kind_of(match->value) != JSON_KIND_OBJECT)
        return;
    json *value = json_member(match->value, name);
    if (value)
        matches_add(search, to, child_named(search, match, name, value));
}

static void select_index(struct search *search, const struct json_match *match, int64_t index,
                         struct json_matches *to)
{
    if (json_kind_of(match->value) != JSON_KIND_ARRAY)
        return;
    int64_t len = (int64_t)json_length(match->value);
    if (index < -len || index >= len)
        return;
    matches_add(search, to, child_at(search, match, (size_t)(index < 0 ? index + len : index)));
}

/* Resolves a bound of a slice, negative from the array's end, and limits it to [low, high]. */
static int64_t slice_end(int64_t at, int64_t len, int64_t low, int64_t high)
{
    if (at < 0)
        at = at < -len ? low : at + len;
    return at < low ? low : at > high ? high : at;
}

/* Indexes of a slice: from, from + step, … without `end`. */
struct run {
    int64_t from, end, step;
};

/* False: the slice is empty. */
static bool run_of(const struct json_selector *slice, int64_t len, struct run *run)
{
    run->step = slice->step > len + 1 ? len + 1 : slice->step < -len - 1 ? -len - 1 : slice->step;
    if (run->step > 0) {
        run->from = slice->has_from ? slice_end(slice->from, len, 0, len) : 0;
        run->end = slice->has_to ? slice_end(slice->to, len, 0, len) : len;
        return run->from < run->end;
    }
    run->from = slice->has_from ? slice_end(slice->from, len, -1, len - 1) : len - 1;
    run->end = slice->has_to ? slice_end(slice->to, len, -1, len - 1) : -1;
    return run->step < 0 && run->from > run->end;
}

static void select_slice(struct search *search, const struct json_match *match,
                         const struct json_selector *slice, struct json_matches *to)
{
    struct run run;
    if (json_kind_of(match->value) != JSON_KIND_ARRAY ||
        !run_of(slice, (int64_t)json_length(match->value), &run))
        return;
    for (int64_t i = run.from; (run.step > 0 ? i < run.end : i > run.end) && !search->is_over;
         i += run.step)
        matches_add(search, to, child_at(search, match, (size_t)i));
}

/* Selects all children, or those that satisfy the filter (NULL: all). */
static void select_children(struct search *search, const struct json_match *match,
                            const struct json_filter *filter, struct json_matches *to)
{
    json *value = match->value;
    if (json_kind_of(value) == JSON_KIND_ARRAY) {
        for (size_t i = 0; i < json_length(value) && !search->is_over; i++)
            if (!filter || filter_holds(search, filter, json_at(value, i)))
                matches_add(search, to, child_at(search, match, i));
    } else if (json_kind_of(value) == JSON_KIND_OBJECT) {
        for (void *it = json_first(value); it && !search->is_over; it = json_next(value, it))
            if (!filter || filter_holds(search, filter, json_it_value(it)))
                matches_add(search, to,
                            child_named(search, match, json_it_name(it), json_it_value(it)));
    }
}

static void select_all(struct search *search, const struct json_match *match,
                       const struct json_segment *segment, struct json_matches *to)
{
    for (uint32_t i = 0; i < segment->count && !search->is_over; i++) {
        const struct json_selector *selector = &segment->selectors[i];
        switch (selector->kind) {
        case SELECT_NAME:
            select_name(search, match, selector->name, to);
            break;
        case SELECT_INDEX:
            select_index(search, match, selector->index, to);
            break;
        case SELECT_SLICE:
            select_slice(search, match, selector, to);
            break;
        case SELECT_ALL:
            select_children(search, match, NULL, to);
            break;
        case SELECT_FILTER:
            select_children(search, match, selector->filter, to);
            break;
        }
    }
}

/* ---- descendants ---- */

static bool slice_has(const struct json_selector *slice, int64_t len, int64_t index)
{
    struct run run;
    if (!run_of(slice, len, &run))
        return false;
    return (run.step > 0 ? index >= run.from && index < run.end
                         : index <= run.from && index > run.end) &&
           (index - run.from) % run.step == 0;
}

static bool selects(struct search *search, const struct json_selector *selector,
                    const struct json_match *child)
{
    bool is_element = child->name.data == NULL;
    int64_t len = is_element ? (int64_t)json_length(child->parent->value) : 0;
    int64_t index = (int64_t)child->index;
    switch (selector->kind) {
    case SELECT_NAME:
        return !is_element && bytes_equal(selector->name, child->name);
    case SELECT_INDEX:
        return is_element && (selector->index == index || selector->index == index - len);
    case SELECT_SLICE:
        return is_element && slice_has(selector, len, index);
    case SELECT_ALL:
        return true;
    case SELECT_FILTER:
        break;
    }
    return filter_holds(search, selector->filter, child->value);
}

/* The depth is bounded by JSON_DEPTH_MAX, the work by VISITS_MAX. */
static void select_deep(struct search *search, const struct json_match *match,
                        const struct json_segment *segment, struct json_matches *to)
{
    struct json_matches children = {0};
    select_children(search, match, NULL, &children);
    for (size_t i = 0; i < children.count && !search->is_over; i++) {
        search->visits += segment->count - 1;
        count_work(search, segment->count);
        for (uint32_t j = 0; j < segment->count && !search->is_over; j++)
            if (selects(search, &segment->selectors[j], children.items[i]))
                matches_add(search, to, children.items[i]);
        select_deep(search, children.items[i], segment, to);
    }
}

/* ---- paths ---- */

static bool find_matches(struct search *search, const struct json_segment *segments, uint32_t count,
                         json *from, struct json_matches *matches)
{
    *matches = (struct json_matches){0};
    matches_add(search, matches, match_new(search, from, NULL));
    for (uint32_t i = 0; i < count && !search->is_over; i++) {
        struct json_matches next = {0};
        for (size_t j = 0; j < matches->count && !search->is_over; j++) {
            if (segments[i].is_deep)
                select_deep(search, matches->items[j], &segments[i], &next);
            else
                select_all(search, matches->items[j], &segments[i], &next);
        }
        *matches = next;
    }
    return !search->is_over;
}

bool json_path_find(struct arena *arena, const struct json_path *path, json *root,
                    struct json_matches *matches)
{
    struct search search = {.arena = arena, .root = root};
    return find_matches(&search, path->segments, path->count, root, matches);
}
