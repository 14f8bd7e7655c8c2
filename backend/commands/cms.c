/*
 * cms.c - count-min sketches, as in RedisBloom: CMS.INITBYDIM, CMS.INCRBY and related commands.
 *
 *   metadata row: sum of increments, width, depth      CF_DATA: u32 page → 128 counters (format/sketch.h)
 *
 * Pages without counts have no row. `size` counts the rows.
 *
 * https://redis.io/docs/latest/commands/?group=cms
 */
#include "backend/commands/module_value.h"
#include "backend/commands/sketch_page.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/item_hash.h"
#include "backend/format/sketch.h"
#include "backend/session/notify.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

#define CMS_MODULE "CMSk-TYPE"
#define CMS_MARK   "screeCM1"

enum {
    MERGED_COUNTERS_MAX = 1 << 22,
    VISITS_MAX = 1 << 22, /* counters of all items of a command */
};

/* Opens the sketch. False: it does not exist or is none, and an error was replied. */
static bool cms_open(struct call *call, struct bytes key, enum open_flag flags, struct entry *entry,
                     struct sketch *sketch)
{
    if (!keyspace_open_type(call, key, TYPE_CMS, flags, entry))
        return false;
    if (!entry->exists) {
        call_error_text(call, "CMS: key does not exist");
        return false;
    }
    CHECK(sketch_decode(entry->meta.payload, sketch)); /* decode_metadata checks it */
    return true;
}

static void cms_save(struct call *call, struct entry *entry, const struct sketch *sketch)
{
    entry->meta.payload = sketch_encode(call->arena, sketch);
    entry_save(call, entry);
}

/* ---- CMS.INITBYDIM, CMS.INITBYPROB ---- */

/* As in RedisBloom a key of any type is in the way. */
static bool open_missing(struct call *call, struct entry *entry)
{
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, entry))
        return false;
    if (entry->exists)
        call_error_text(call, "CMS: key already exists");
    return !call->failed;
}

static void create_cms(struct call *call, struct entry *entry, uint64_t width, uint64_t depth)
{
    if (depth > SKETCH_DEPTH_MAX) {
        call_error_text(call, "CMS: the depth is too large: it must be at most 64");
        return;
    }
    if (!sketch_size_ok(width, depth)) {
        call_error_text(
            call, "CMS: the sketch is too large: width * depth must be at most 16777216 counters");
        return;
    }
    struct sketch sketch = {.width = (uint32_t)width, .depth = (uint32_t)depth};
    entry_create(call, entry, TYPE_CMS);
    cms_save(call, entry, &sketch);
    notify(call, NOTIFY_MODULE, "cms.init", entry->key);
    reply_ok(&call->reply);
}

void cmd_cms_initbydim(struct call *call)
{
    struct entry entry;
    int64_t width;
    int64_t depth;
    if (!open_missing(call, &entry))
        return;
    if (!number_parse_int64(call->argv[2], &width) || width < 1)
        call_error_text(call, "CMS: invalid width");
    else if (!number_parse_int64(call->argv[3], &depth) || depth < 1)
        call_error_text(call, "CMS: invalid depth");
    else
        create_cms(call, &entry, (uint64_t)width, (uint64_t)depth);
}

void cmd_cms_initbyprob(struct call *call)
{
    struct entry entry;
    double error;
    double probability;
    if (!open_missing(call, &entry))
        return;
    if (!number_parse_double(call->argv[2], &error) || !(error > 0 && error < 1)) {
        call_error_text(call, "CMS: invalid overestimation value");
        return;
    }
    if (!number_parse_double(call->argv[3], &probability) ||
        !(probability > 0 && probability < 1)) {
        call_error_text(call, "CMS: invalid prob value");
        return;
    }
    double width = sketch_width(error);
    double depth = sketch_depth(probability);
    if (!(depth >= 1 && depth < (double)INT64_MAX && width < (double)INT64_MAX))
        call_error_text(call, "CMS: invalid init arguments");
    else
        create_cms(call, &entry, (uint64_t)width, (uint64_t)depth);
}

/* ---- counting ---- */

/* Items in the arguments of a command. */
struct items {
    const struct bytes *argv;
    uint32_t count;
    uint32_t step; /* 2: each is followed by its increment, which is valid; 1: without */
};

static uint64_t increment_of(const struct items *items, uint32_t i)
{
    uint64_t increment = 0;
    if (items->step == 2)
        CHECK(number_parse_uint64(items->argv[(size_t)i * 2 + 1], &increment));
    return increment;
}

/* A visit of a counter is a number: its page, the number of the item, and its place in the page. So sorted visits read and write each
 * page once, and the items that share a counter have their order. */
enum {
    VISIT_PAGE_SHIFT = 32,
    DIGIT_BITS = 9, /* of a page's number, which has two digits */
    DIGITS = 1 << DIGIT_BITS,
};

_Static_assert((uint64_t)VISITS_MAX *SKETCH_PAGE_COUNTERS <= 1ULL << VISIT_PAGE_SHIFT, "an item");
_Static_assert(SKETCH_COUNTERS_MAX / SKETCH_PAGE_COUNTERS <= DIGITS * DIGITS, "a page");

static uint64_t visit_of(uint32_t place, uint32_t item)
{
    return (uint64_t)(place / SKETCH_PAGE_COUNTERS) << VISIT_PAGE_SHIFT |
           (uint64_t)item * SKETCH_PAGE_COUNTERS | place % SKETCH_PAGE_COUNTERS;
}

/* Sorts by one digit of the page; visits that are equal in it keep their order. */
static void sort_by_digit(const uint64_t *from, uint64_t *to, size_t count, unsigned shift)
{
    size_t ends[DIGITS] = {0};
    size_t end = 0;
    for (size_t i = 0; i < count; i++)
        ends[from[i] >> shift & (DIGITS - 1)]++;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t here = ends[digit];
        ends[digit] = end;
        end += here;
    }
    for (size_t i = 0; i < count; i++)
        to[ends[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

/* The sorted visits of all counters of the items, in the call's arena. */
static const uint64_t *sorted_visits(struct call *call, const struct sketch *sketch,
                                     const struct items *items)
{
    size_t count = 0;
    size_t size = (size_t)items->count * sketch->depth * sizeof(uint64_t);
    uint64_t *visits = arena_alloc(call->arena, size);
    for (uint32_t i = 0; i < items->count; i++) {
        uint64_t hash = item_hash(items->argv[(size_t)i * items->step]);
        for (uint32_t row = 0; row < sketch->depth; row++)
            visits[count++] = visit_of(sketch_place(sketch, row, hash), i);
    }
    if (items->count == 1)
        return visits; /* the rows of the sketch lie one behind the other */
    uint64_t *other = arena_alloc(call->arena, size);
    sort_by_digit(visits, other, count, VISIT_PAGE_SHIFT);
    sort_by_digit(other, visits, count, VISIT_PAGE_SHIFT + DIGIT_BITS);
    return visits;
}

/* Increments the counter, which stops at UINT32_MAX, and returns its value. */
static uint32_t increase(struct sketch_page *page, uint32_t place, uint64_t increment)
{
    char *counter = page->data + (size_t)place * 4;
    uint32_t old = get_be32(counter);
    uint32_t value = increment > UINT32_MAX - old ? UINT32_MAX : old + (uint32_t)increment;
    if (value != old) {
        put_be32(counter, value);
        page->is_changed = true;
    }
    return value;
}

/* Increments the counters of all items; least[i]: the least of those of item i. False: the call has failed. */
static bool visit_all(struct sketch_page *page, const struct sketch *sketch,
                      const struct items *items, uint32_t *least)
{
    const uint64_t *visits = sorted_visits(page->call, sketch, items);
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < (size_t)items->count * sketch->depth; i++) {
        uint32_t number = (uint32_t)(visits[i] >> VISIT_PAGE_SHIFT);
        uint32_t item = (uint32_t)visits[i] / SKETCH_PAGE_COUNTERS;
        if (number != last && !sketch_page_turn(page, sketch_sub(page->call->arena, number),
                                                sketch_page_bytes(sketch, number)))
            return false;
        last = number;
        uint32_t value =
            increase(page, (uint32_t)visits[i] % SKETCH_PAGE_COUNTERS, increment_of(items, item));
        least[item] = value < least[item] ? value : least[item];
    }
    sketch_page_close(page);
    return true;
}

/* Increments the counters of all items. Returns the least counter of each, in the call's arena; NULL: the call has failed. The shard
 * answers nothing else until then, so the number of counters is bounded. */
static const uint32_t *count_items(struct call *call, struct entry *entry,
                                   const struct sketch *sketch, const struct items *items)
{
    struct sketch_page page;
    if (items->count > VISITS_MAX / sketch->depth) {
        call_error_text(call,
                        "CMS: too many items: items * depth must be at most 4194304 counters");
        return NULL;
    }
    uint32_t *least = arena_alloc(call->arena, items->count * sizeof *least);
    memset(least, 0xff, items->count * sizeof *least);
    sketch_page_init(&page, call, entry);
    return visit_all(&page, sketch, items, least) ? least : NULL;
}

static bool increments_ok(struct call *call)
{
    int64_t increment;
    for (uint32_t i = 3; i < call->argc && !call->failed; i += 2) {
        if (!number_parse_int64(call->argv[i], &increment))
            call_error_text(call, "CMS: Cannot parse number");
        else if (increment < 0)
            call_error_text(call, "CMS: Number cannot be negative");
    }
    return !call->failed;
}

void cmd_cms_incrby(struct call *call)
{
    struct entry entry;
    struct sketch sketch;
    if (call->argc % 2) {
        call_error_arity(call);
        return;
    }
    if (!cms_open(call, call->argv[1], OPEN_WRITE, &entry, &sketch) || !increments_ok(call))
        return;
    const struct items items = {call->argv + 2, (call->argc - 2) / 2, 2};
    const uint32_t *least = count_items(call, &entry, &sketch, &items);
    if (!least)
        return;
    bool is_changed = false; /* the sum may be at its limit, and stay the same */
    reply_array(&call->reply, items.count);
    for (uint32_t i = 0; i < items.count; i++) {
        uint64_t increment = increment_of(&items, i);
        is_changed |= increment > 0;
        sketch.count = increment > INT64_MAX - sketch.count ? INT64_MAX : sketch.count + increment;
        if (least[i] == UINT32_MAX)
            reply_error(&call->reply, "CMS: INCRBY overflow");
        else
            reply_int(&call->reply, least[i]);
    }
    if (!is_changed)
        return;
    cms_save(call, &entry, &sketch);
    notify(call, NOTIFY_MODULE, "cms.incrby", entry.key);
}

void cmd_cms_query(struct call *call)
{
    struct entry entry;
    struct sketch sketch;
    if (!cms_open(call, call->argv[1], OPEN_READ, &entry, &sketch))
        return;
    const struct items items = {call->argv + 2, call->argc - 2, 1};
    const uint32_t *least = count_items(call, &entry, &sketch, &items);
    if (!least)
        return;
    reply_array(&call->reply, items.count);
    for (uint32_t i = 0; i < items.count; i++)
        reply_int(&call->reply, least[i]);
}

void cmd_cms_info(struct call *call)
{
    struct entry entry;
    struct sketch sketch;
    if (!cms_open(call, call->argv[1], OPEN_READ, &entry, &sketch))
        return;
    reply_map(&call->reply, 3);
    reply_status(&call->reply, "width");
    reply_int(&call->reply, sketch.width);
    reply_status(&call->reply, "depth");
    reply_int(&call->reply, sketch.depth);
    reply_status(&call->reply, "count");
    reply_int(&call->reply, (int64_t)sketch.count);
}

/* ---- CMS.MERGE ---- */

/* A sketch that is merged. The destination is the first one, with weight 0: so its pages are visited too. */
struct source {
    struct entry entry;
    struct sketch sketch;
    int64_t weight;
    struct sub_iter it;
    bool live; /* the iterator has a current page */
};

struct merge {
    struct source *sources;
    uint32_t count;
    bool is_safe; /* the weights are so small that no sum of counters overflows 64 bits */
    bool is_over; /* a counter does not fit */
};

/* A page of the result; the counters are in the call's arena. */
struct merged_page {
    struct merged_page *next;
    struct bytes sub;
    struct bytes counters; /* empty: all are 0, so the page has no row */
};

static bool sum_add(int64_t *sum, uint64_t number, int64_t weight)
{
    int64_t product;
    return !__builtin_mul_overflow((int64_t)number, weight, &product) &&
           !__builtin_add_overflow(*sum, product, sum);
}

/* Is the sum of the weights, without signs, below 2^31? Then sums of counters stay below 2^63. */
static bool weights_are_small(const struct merge *merge)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < merge->count; i++) {
        int64_t weight = merge->sources[i].weight;
        if (weight < -INT32_MAX || weight > INT32_MAX)
            return false;
        sum += (uint64_t)(weight < 0 ? -weight : weight);
    }
    return sum <= INT32_MAX;
}

static bool merge_parse(struct call *call, struct merge *merge)
{
    static const struct counted_errors errors = {"CMS: invalid numkeys",
                                                 "CMS: Number of keys must be positive",
                                                 "CMS: wrong number of keys"};
    struct counted_keys keys;
    bool has_weights = false;
    if (!call_counted_keys(call, &errors, &keys))
        return false;
    uint32_t count = keys.count;
    if (call->argc > keys.behind) {
        has_weights = bytes_is(call->argv[keys.behind], "weights");
        if (!has_weights)
            call_error_text(call, "CMS: wrong number of keys");
        else if (call->argc != 4 + 2 * count)
            call_error_text(call, "CMS: wrong number of keys/weights");
    }
    merge->count = count + 1;
    merge->sources = arena_alloc(call->arena, merge->count * sizeof *merge->sources);
    memset(merge->sources, 0, merge->count * sizeof *merge->sources);
    for (uint32_t i = 1; i <= count && !call->failed; i++) {
        struct source *source = &merge->sources[i];
        source->weight = 1;
        if (has_weights && !number_parse_int64(call->argv[keys.behind + i], &source->weight))
            call_error_text(call, "CMS: invalid weight value");
    }
    merge->is_safe = weights_are_small(merge);
    return !call->failed;
}

/* The shard answers nothing else during a merge, so its size is bounded. False: it is too large, and an error was replied. */
static bool merge_size_ok(struct call *call, const struct merge *merge)
{
    const struct sketch *sketch = &merge->sources[0].sketch;
    uint64_t counters = (uint64_t)(merge->count - 1) * sketch->width * sketch->depth;
    if (counters <= MERGED_COUNTERS_MAX)
        return true;
    call_error_text(call, "CMS: MERGE is too large: numkeys * width * depth must be at most "
                          "4194304 counters");
    return false;
}

static bool merge_open(struct call *call, struct merge *merge)
{
    struct source *to = &merge->sources[0];
    for (uint32_t i = 0; i < merge->count; i++) {
        struct source *source = &merge->sources[i];
        if (!cms_open(call, call->argv[i ? 2 + i : 1], i ? OPEN_READ : OPEN_WRITE, &source->entry,
                      &source->sketch))
            return false;
        if (source->sketch.width != to->sketch.width || source->sketch.depth != to->sketch.depth) {
            call_error_text(call, "CMS: width/depth is not equal");
            return false;
        }
    }
    return merge_size_ok(call, merge);
}

/* Adds the weighted counters of the source's current page to the sums, and goes on to its next page. */
static void add_source_page(struct call *call, struct merge *merge, struct source *source,
                            size_t len, int64_t *sums)
{
    if (source->it.value.len != len) {
        call_error(call, ERR_STORE);
        return;
    }
    const char *counters = source->it.value.data;
    if (merge->is_safe && source->weight)
        for (size_t at = 0; at < len / 4; at++)
            sums[at] += (int64_t)get_be32(counters + at * 4) * source->weight;
    else if (source->weight)
        for (size_t at = 0; at < len / 4; at++)
            merge->is_over |= !sum_add(&sums[at], get_be32(counters + at * 4), source->weight);
    source->live = sub_iter_next(&source->it);
}

/* The weighted sum of one page of all sketches, with this sub key. NULL: a row is damaged, and an error was replied. */
static struct merged_page *merge_page(struct call *call, struct merge *merge, struct bytes sub)
{
    int64_t sums[SKETCH_PAGE_COUNTERS] = {0};
    uint32_t number;
    if (!sketch_sub_decode(&merge->sources[0].sketch, sub, &number)) {
        call_error(call, ERR_STORE);
        return NULL;
    }
    size_t len = sketch_page_bytes(&merge->sources[0].sketch, number);
    struct merged_page *page = arena_alloc(call->arena, sizeof *page);
    *page = (struct merged_page){.sub = arena_copy(call->arena, sub)};
    for (uint32_t i = 0; i < merge->count && !call->failed; i++)
        if (merge->sources[i].live && bytes_equal(merge->sources[i].it.sub, page->sub))
            add_source_page(call, merge, &merge->sources[i], len, sums);
    char *counters = arena_alloc(call->arena, len);
    bool is_empty = true;
    for (size_t at = 0; at < len / 4; at++) {
        merge->is_over |= sums[at] < 0 || sums[at] > UINT32_MAX;
        is_empty &= sums[at] == 0;
        put_be32(counters + at * 4, (uint32_t)sums[at]);
    }
    page->counters = (struct bytes){counters, is_empty ? 0 : len};
    return page;
}

/* All pages that any of the sketches has. False: the call has failed. */
static bool merge_pages(struct call *call, struct merge *merge, struct merged_page **pages)
{
    bool good = true;
    *pages = NULL;
    for (uint32_t i = 0; i < merge->count; i++) {
        struct source *source = &merge->sources[i];
        sub_iter_init(call, &source->entry, CF_DATA, (struct bytes){"", 0}, &source->it);
        source->live = sub_iter_next(&source->it);
    }
    while (!merge->is_over && !call->failed) {
        const struct source *least = NULL;
        for (uint32_t i = 0; i < merge->count; i++) {
            const struct source *source = &merge->sources[i];
            if (source->live && (!least || bytes_compare(source->it.sub, least->it.sub) < 0))
                least = source;
        }
        if (!least)
            break;
        struct merged_page *page = merge_page(call, merge, least->it.sub);
        if (!page)
            break;
        page->next = *pages;
        *pages = page;
    }
    for (uint32_t i = 0; i < merge->count; i++)
        good = sub_iter_fini(&merge->sources[i].it) && good;
    return good && !call->failed;
}

void cmd_cms_merge(struct call *call)
{
    struct merge merge = {0};
    struct merged_page *pages;
    int64_t count = 0;
    if (!merge_parse(call, &merge) || !merge_open(call, &merge) ||
        !merge_pages(call, &merge, &pages))
        return;
    for (uint32_t i = 0; i < merge.count; i++)
        merge.is_over |= !sum_add(&count, merge.sources[i].sketch.count, merge.sources[i].weight);
    if (merge.is_over || count < 0) {
        call_error_text(call, "CMS: MERGE overflow");
        return;
    }
    struct entry *entry = &merge.sources[0].entry;
    struct sketch *sketch = &merge.sources[0].sketch;
    entry->meta.size = 0;
    for (; pages; pages = pages->next) {
        if (pages->counters.len) {
            entry->meta.size++;
            sub_put(call, entry, CF_DATA, pages->sub, pages->counters);
        } else {
            sub_delete(call, entry, CF_DATA, pages->sub);
        }
    }
    sketch->count = (uint64_t)count;
    cms_save(call, entry, sketch);
    notify(call, NOTIFY_MODULE, "cms.merge", entry->key);
    reply_ok(&call->reply);
}

/* ---- DUMP, RESTORE ---- */

static bool save_cms(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    return module_save(call, entry, writer, CMS_MODULE, CMS_MARK, BYTES(""));
}

/* module_row_fn */
static bool put_cms_page(struct call *call, struct entry *entry, void *object, struct bytes row)
{
    const struct sketch *sketch = object;
    uint32_t page;
    if (row.len < SKETCH_SUB_BYTES)
        return false;
    struct bytes sub = {row.data, SKETCH_SUB_BYTES};
    struct bytes counters = {row.data + SKETCH_SUB_BYTES, row.len - SKETCH_SUB_BYTES};
    return sketch_sub_decode(sketch, sub, &page) &&
           counters.len == sketch_page_bytes(sketch, page) &&
           module_put_row(call, entry, sub, counters);
}

static bool load_cms(struct call *call, struct entry *entry, struct rdb_reader *reader,
                     enum rdb_type form, uint64_t expire_ms)
{
    (void)form;
    (void)expire_ms;
    struct bytes head;
    struct sketch sketch;
    if (!module_read_head(reader, CMS_MARK, &head) || !sketch_decode(head, &sketch))
        return false;
    entry_create(call, entry, TYPE_CMS);
    entry->meta.payload = sketch_encode(call->arena, &sketch);
    return module_read_rows(call, entry, reader, put_cms_page, &sketch);
}

const struct type_functions type_CMS_functions = {
    .module = CMS_MODULE,
    .save = save_cms,
    .load = load_cms,
    .encoding = encoding_raw,
};
