/*
 * sort.c - SORT and SORT_RO: sorts the elements of a list, set or sorted set, by themselves or by the values of other
 * keys.
 *
 *   elements ──BY──► weights ──sort, LIMIT──► elements ──GET──► texts ─┬─ reply
 *                                                                      └─ STORE: a list
 *
 * In a pattern, the first * is replaced by the element: weight_* names a key, object_*->name a field of a hash.
 */
#include "backend/commands/list.h"
#include "backend/commands/types.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"
#include "backend/session/session.h"
#include "shared/acl/acl.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/merge_sort.h"
#include "shared/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const struct bytes NOTHING = {"", 0};
static const struct bytes NONE = {NULL, 0};

struct element {
    struct bytes text;
    struct bytes weight; /* for ALPHA: the text to compare; NONE when the key of BY is missing */
    double score;        /* without ALPHA: the number to compare */
};

struct sort {
    bool is_alpha;
    bool is_descending;
    bool keeps_order; /* BY without *: elements are not sorted */
    bool has_by;
    struct bytes by;
    int64_t offset;
    int64_t count;             /* negative: all */
    const struct bytes *store; /* NULL: reply */
    struct bytes *gets;
    uint32_t gets_count;
    struct element *elements;
    uint64_t size;
    uint64_t bytes; /* memory used by the collected texts */
    uint64_t first; /* result after LIMIT: [first, end) */
    uint64_t end;
};

/* ---- options ---- */

/* Patterns can read any key, so they are only for users that may read all keys. To a client of a cluster they are denied, because
 * these keys may be on other nodes. */
static bool may_follow(struct call *call, const char *option)
{
    const struct acl_user *user = session_user(call->session);
    if (cluster_client(call->session)) {
        call_errorf(call, "ERR %s option of SORT denied in Cluster mode.", option);
        return false;
    }
    if (session_is_trusted(call->session) || !user ||
        acl_reads_all(user, call->command, call->argv, call->argc))
        return true;
    call_errorf(call, "ERR %s option of SORT denied due to insufficient ACL permissions.", option);
    return false;
}

/* Parses the option at *at, and sets *at behind it. */
static bool option_parse(struct call *call, uint32_t *at, bool may_store, struct sort *sort)
{
    int option = option_next(sort_options, call->argv, call->argc, at);
    const struct bytes *last = &call->argv[*at - 1]; /* the option's last value */
    switch (option) {
    case SORT_ASC:
    case SORT_DESC:
        sort->is_descending = option == SORT_DESC;
        return true;
    case SORT_ALPHA:
        sort->is_alpha = true;
        return true;
    case SORT_LIMIT:
        return call_int64(call, *at - 2, &sort->offset) && call_int64(call, *at - 1, &sort->count);
    case SORT_STORE:
        sort->store = last;
        if (may_store)
            return true;
        break;
    case SORT_BY:
        sort->by = *last;
        sort->has_by = sort_pattern_star(sort->by) != NULL;
        sort->keeps_order |= !sort->has_by;
        return !sort->has_by || may_follow(call, "BY");
    case SORT_GET:
        sort->gets[sort->gets_count++] = *last;
        return may_follow(call, "GET");
    }
    call_error(call, ERR_SYNTAX);
    return false;
}

static bool sort_options_parse(struct call *call, bool may_store, struct sort *sort)
{
    *sort = (struct sort){.count = -1};
    sort->gets = arena_alloc(call->arena, call->argc * sizeof *sort->gets);
    for (uint32_t at = 2; at < call->argc;)
        if (!option_parse(call, &at, may_store, sort))
            return false;
    return true;
}

/* reply-limit also limits SORT, which collects its elements in memory. False: an error was replied. */
static bool fits_sort_limit(struct call *call, struct sort *sort, size_t len)
{
    sort->bytes += len;
    if (sort->bytes <= call->partition->snapshot->config.reply_limit_bytes)
        return true;
    call_error(call, ERR_SORT_LIMIT);
    return false;
}

/* ---- patterns ---- */

/* The value of a pattern for an element; NONE: there is no such key or field. False: the store failed. */
static bool pattern_value(struct call *call, struct bytes pattern, struct bytes element,
                          struct bytes *value)
{
    struct entry entry;
    *value = NONE;
    if (bytes_equal(pattern, BYTES("#"))) {
        *value = element;
        return true;
    }
    const char *star = sort_pattern_star(pattern);
    if (!star)
        return true;
    size_t before = (size_t)(star - pattern.data);
    struct bytes after = {star + 1, pattern.len - before - 1};
    const char *arrow = memmem(after.data, strnlen(after.data, after.len), "->", 2);
    struct bytes field = NOTHING;
    if (arrow && arrow + 2 < after.data + after.len) {
        field = (struct bytes){arrow + 2, (size_t)(after.data + after.len - arrow - 2)};
        after.len = (size_t)(arrow - after.data);
    }
    char *name = arena_alloc(call->arena, before + element.len + after.len + 1);
    memcpy(name, pattern.data, before);
    memcpy(name + before, element.data, element.len);
    memcpy(name + before + element.len, after.data, after.len);
    struct bytes key = {name, before + element.len + after.len};
    if (!keyspace_open(call, key, OPEN_READ, &entry))
        return false;
    if (field.len && entry.meta.type == TYPE_HASH)
        return !is_read_failure(sub_get(call, &entry, CF_DATA, field, value));
    return field.len || !text_is(&entry) || text_value(call, &entry, value);
}

/* ---- elements ---- */

struct sort_source sort_source_list(struct call *call, const struct entry *entry, bool in_order,
                                    bool is_descending)
{
    bool is_reverse = in_order && is_descending;
    uint64_t first = is_reverse ? entry->meta.tail - 1 : entry->meta.head;
    return (struct sort_source){
        .cf = CF_DATA, .from = list_row(call, first), .is_reverse = is_reverse, .is_value = true};
}

struct sort_source sort_source_set(struct call *call, const struct entry *entry, bool in_order,
                                   bool is_descending)
{
    (void)call;
    (void)entry;
    (void)in_order;
    (void)is_descending;
    return (struct sort_source){.cf = CF_DATA, .from = NOTHING};
}

struct sort_source sort_source_zset(struct call *call, const struct entry *entry, bool in_order,
                                    bool is_descending)
{
    enum { SCORE_BYTES = 8 };
    if (!in_order)
        return sort_source_set(call, entry, in_order, is_descending);
    return (struct sort_source){
        .cf = CF_ZSET_SCORE, .from = NOTHING, .is_reverse = is_descending, .skip = SCORE_BYTES};
}

/* Collects an element per row. */
static bool read_sort_rows(struct call *call, struct entry *entry, const struct sort_source *source,
                           struct sort *sort)
{
    struct sub_iter it;
    uint64_t size = 0;
    if (source->is_reverse)
        sub_iter_init_reverse(call, entry, source->cf, source->from, &it);
    else
        sub_iter_init(call, entry, source->cf, source->from, &it);
    while (size < sort->size && sub_iter_next(&it)) {
        if (!source->is_value && !call_rows_end(call, it.sub.len < source->skip))
            break;
        struct bytes text = source->is_value ? it.value
                                             : (struct bytes){it.sub.data + source->skip,
                                                              it.sub.len - source->skip};
        if (!fits_sort_limit(call, sort, text.len))
            break;
        sort->elements[size++] = (struct element){.text = arena_copy(call->arena, text)};
    }
    sort->size = size;
    return sub_iter_fini(&it) && !call->failed;
}

static bool elements_read(struct call *call, struct entry *entry, struct sort *sort)
{
    sort->size = entry->exists ? entry->meta.size : 0;
    if (!fits_sort_limit(call, sort, sort->size * sizeof *sort->elements))
        return false;
    sort->elements = arena_alloc(call->arena, (sort->size + 1) * sizeof *sort->elements);
    if (!entry->exists)
        return true;
    struct sort_source source =
        type_functions_of(entry->meta.type)
            ->sort_source(call, entry, sort->keeps_order, sort->is_descending);
    return read_sort_rows(call, entry, &source, sort);
}

/* ---- sorting ---- */

/* Parses a number like Redis: strtod's formats, and "" as 0. */
static bool score_parse(struct call *call, struct bytes text, double *score)
{
    char *copy = arena_alloc(call->arena, text.len + 1);
    char *end;
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    errno = 0;
    *score = strtod(copy, &end);
    return *end == 0 && errno != ERANGE && !isnan(*score);
}

/* A pattern's value could not be read for an element. If its key is to be fetched from another shard, the keys of the next
 * elements are requested too: otherwise the command would run again for each of them. */
static void request_next_keys(struct call *call, const struct sort *sort,
                              const struct bytes *patterns, uint32_t count, uint64_t first,
                              uint64_t end)
{
    enum { KEYS_MAX = 100000 }; /* requested in one attempt */
    struct bytes value;
    for (uint64_t i = first; i < end; i++)
        for (uint32_t pattern = 0; pattern < count; pattern++) {
            if (!call->borrow || !call->borrow->needs.first ||
                call->borrow->needs.count >= KEYS_MAX)
                return;
            (void)pattern_value(call, patterns[pattern], sort->elements[i].text, &value);
        }
}

static bool weigh(struct call *call, struct sort *sort)
{
    for (uint64_t i = 0; i < sort->size; i++) {
        struct element *element = &sort->elements[i];
        element->weight = element->text;
        if (sort->has_by && !pattern_value(call, sort->by, element->text, &element->weight)) {
            request_next_keys(call, sort, &sort->by, 1, i + 1, sort->size);
            return false;
        }
        if (sort->has_by && !fits_sort_limit(call, sort, element->weight.len))
            return false;
        if (sort->is_alpha || !element->weight.data)
            continue;
        if (!score_parse(call, element->weight, &element->score)) {
            call_error_text(call, "ERR One or more scores can't be converted into double");
            return false;
        }
    }
    return true;
}

static int compare_elements(const void *a, const void *b, void *owner)
{
    const struct element *x = a;
    const struct element *y = b;
    const struct sort *sort = owner;
    int order;
    if (!sort->is_alpha)
        order = x->score != y->score ? (x->score > y->score) - (x->score < y->score)
                                     : bytes_compare(x->text, y->text);
    else if (!x->weight.data || !y->weight.data)
        order = (x->weight.data != NULL) - (y->weight.data != NULL);
    else
        order = bytes_compare(x->weight, y->weight);
    return sort->is_descending ? -order : order;
}

/* Applies LIMIT like Redis: the range is clipped to the elements, a negative count means all. */
static void apply_limit(struct sort *sort)
{
    int64_t size = (int64_t)sort->size;
    int64_t first = sort->offset < 0 ? 0 : sort->offset < size ? sort->offset : size;
    int64_t count = sort->count < 0 ? size : sort->count < size ? sort->count : size;
    sort->first = (uint64_t)first;
    sort->end = (uint64_t)(first + count < size ? first + count : size);
}

/* ---- results ---- */

static void result_reply(struct call *call, const struct sort *sort)
{
    uint64_t each = sort->gets_count ? sort->gets_count : 1;
    struct bytes value;
    reply_array(&call->reply, (int64_t)((sort->end - sort->first) * each));
    for (uint64_t i = sort->first; i < sort->end && call_goes_on(call, BUDGET_ROW); i++) {
        if (!sort->gets_count)
            reply_bulk(&call->reply, sort->elements[i].text);
        for (uint32_t get = 0; get < sort->gets_count; get++) {
            if (call_refuse_reply(call))
                return;
            if (!pattern_value(call, sort->gets[get], sort->elements[i].text, &value)) {
                request_next_keys(call, sort, sort->gets, sort->gets_count, i, sort->end);
                return;
            }
            if (value.data)
                reply_bulk(&call->reply, value);
            else
                reply_null(&call->reply);
        }
    }
}

/* Reads all texts before the destination is changed, because it may be one of the keys that patterns read. */
static bool result_read(struct call *call, struct sort *sort, struct bytes *texts)
{
    for (uint64_t i = sort->first; i < sort->end; i++) {
        if (!sort->gets_count)
            *texts++ = sort->elements[i].text;
        for (uint32_t get = 0; get < sort->gets_count; get++, texts++) {
            if (!pattern_value(call, sort->gets[get], sort->elements[i].text, texts)) {
                request_next_keys(call, sort, sort->gets, sort->gets_count, i, sort->end);
                return false;
            }
            if (!fits_sort_limit(call, sort, texts->len))
                return false;
            *texts = texts->data ? arena_copy(call->arena, *texts) : NOTHING;
        }
    }
    return true;
}

static void result_store(struct call *call, struct sort *sort)
{
    uint64_t each = sort->gets_count ? sort->gets_count : 1;
    uint64_t count = sort->end - sort->first;
    struct entry entry;
    if (count && each > SIZE_MAX / sizeof(struct bytes) / (count + 1))
        /* more than the limit allows in any case */
        each = SIZE_MAX / sizeof(struct bytes) / (count + 1);
    count *= each;
    if (!fits_sort_limit(call, sort, count * sizeof(struct bytes)))
        return;
    struct bytes *texts = arena_alloc(call->arena, (count + 1) * sizeof *texts);
    if (!result_read(call, sort, texts) || !keyspace_open(call, *sort->store, OPEN_WRITE, &entry))
        return;
    reply_int(&call->reply, (int64_t)count);
    if (count) {
        entry_create(call, &entry, TYPE_LIST);
        list_push_tails(call, &entry, texts, count);
        entry_save(call, &entry);
        call_changes(call, (int64_t)count - 1);
        notify(call, NOTIFY_LIST, "sortstore", *sort->store);
    } else if (entry.exists) {
        entry_delete(call, &entry);
        notify(call, NOTIFY_GENERIC, "del", *sort->store);
    }
}

static void sort_run(struct call *call, bool may_store)
{
    struct sort sort;
    struct entry entry;
    if (!sort_options_parse(call, may_store, &sort) ||
        !keyspace_open(call, call->argv[1], OPEN_READ, &entry))
        return;
    const struct type_functions *type = entry.exists ? type_functions_of(entry.meta.type) : NULL;
    if (type && !type->sort_source) {
        call_error(call, ERR_WRONGTYPE);
        return;
    }
    if (type && type->has_no_order && sort.keeps_order && (sort.store || call->in_exec)) {
        /* as Redis does: it sorts the set for a stored result */
        sort.keeps_order = sort.has_by = false;
        sort.is_alpha = true;
    }
    if (!elements_read(call, &entry, &sort))
        return;
    if (!sort.keeps_order) {
        if (!weigh(call, &sort))
            return;
        if (!merge_sort(call->arena, sort.elements, sort.size, sizeof *sort.elements,
                        compare_elements, &sort))
            return;
    }
    apply_limit(&sort);
    if (sort.store)
        result_store(call, &sort);
    else
        result_reply(call, &sort);
}

void cmd_sort(struct call *call)
{
    sort_run(call, true);
}

void cmd_sort_ro(struct call *call)
{
    sort_run(call, false);
}
