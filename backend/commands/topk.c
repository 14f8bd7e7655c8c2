/*
 * topk.c - lists of the most frequent items, as in RedisBloom: TOPK.RESERVE, TOPK.ADD and related commands.
 *
 *   TOPK.ADD item ─► its bucket in each row of the sketch ─► highest count ── at least that of the list's last item? ──► list
 *
 *   metadata row: sizes, last item's count      CF_DATA: pages of buckets; the list in its order; the list by item (format/topk.h)
 *
 * `size` counts all these rows. Random numbers decide which counts decay; the batch has the rows that follow.
 *
 * https://redis.io/docs/latest/commands/?group=topk
 */
#include "backend/format/topk.h"
#include "backend/commands/module_value.h"
#include "backend/commands/sketch_pages.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/item_hash.h"
#include "backend/session/notify.h"
#include "backend/session/reply_stream.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/number.h"

#define TOPK_MODULE "TopK-TYPE"
#define TOPK_MARK   "screeTK1"

#define INCREMENT_ERROR                                                                            \
    "TopK: increment must be an integer greater or equal to 0 and smaller or equal to 100,000"

enum {
    WIDTH_DEFAULT = 8,
    DEPTH_DEFAULT = 7,
    INCREMENT_MAX = 100000,
    LIST_ROWS = 2, /* of an item in the list */
};

static const double DECAY_DEFAULT = 0.9;

/* An open list, and what its metadata row says until it is written. */
struct top {
    struct call *call;
    struct entry *entry;
    struct topk topk;
    uint64_t stored_size;
    struct sketch_pages *pages;
    struct topk_random random;
    bool is_list_changed;
};

/* Opens argument 1. False: it does not exist or is no list, and an error was replied. */
static bool top_open(struct call *call, enum open_flag flags, struct entry *entry, struct top *top)
{
    if (!keyspace_open_type(call, call->argv[1], TYPE_TOPK, flags, entry))
        return false;
    if (!entry->exists) {
        call_error_text(call, "TopK: key does not exist");
        return false;
    }
    *top = (struct top){.call = call, .entry = entry, .stored_size = entry->meta.size};
    CHECK(topk_decode(entry->meta.payload, &top->topk)); /* decode_metadata checks it */
    (void)entry_prefix(call, entry);                     /* before any mark of the arena */
    top->pages = sketch_pages_new(call, entry, topk_page_sub);
    return true;
}

static void top_close(struct top *top)
{
    sketch_pages_free(top->pages);
}

/* Writes what was changed, and reports it as this event. */
static void top_save(struct top *top, const char *event)
{
    struct entry *entry = top->entry;
    if (!sketch_pages_save(top->pages) && !top->is_list_changed)
        return;
    if (entry->meta.size != top->stored_size || top->is_list_changed) {
        entry->meta.payload = topk_encode(top->call->arena, &top->topk);
        entry_save(top->call, entry);
    } else {
        entry_touch(top->call, entry);
    }
    notify(top->call, NOTIFY_MODULE, event, entry->key);
}

/* ---- TOPK.RESERVE ---- */

/* Parses the arguments after the key. False: an error was replied. */
static bool parse_sizes(struct call *call, struct topk *topk)
{
    uint64_t k;
    uint64_t width = WIDTH_DEFAULT;
    uint64_t depth = DEPTH_DEFAULT;
    double decay = DECAY_DEFAULT;
    if (!call_positive(call, 2, "TopK: invalid k", &k))
        return false;
    if (call->argc > 3) {
        if (!call_positive(call, 3, "TopK: invalid width", &width) ||
            !call_positive(call, 4, "TopK: invalid depth", &depth))
            return false;
        if (!number_parse_double(call->argv[5], &decay) || !(decay > 0 && decay <= 1))
            call_error_text(call, "TopK: invalid decay value. must be '<= 1' & '> 0'");
    }
    if (!call->failed && k > TOPK_ITEMS_MAX)
        call_error_text(call, "TopK: k is too large: it must be at most 100000");
    if (!call->failed && depth > TOPK_DEPTH_MAX)
        call_error_text(call, "TopK: the depth is too large: it must be at most 64");
    if (!call->failed && !topk_size_ok(width, depth))
        call_error_text(
            call, "TopK: the sketch is too large: width * depth must be at most 16777216 counters");
    *topk = (struct topk){
        .k = (uint32_t)k, .width = (uint32_t)width, .depth = (uint32_t)depth, .decay = decay};
    return !call->failed;
}

/* As in RedisBloom a key of any type is in the way. */
void cmd_topk_reserve(struct call *call)
{
    struct entry entry;
    struct topk topk;
    if (call->argc != 3 && call->argc != 6) {
        call_error_arity(call);
        return;
    }
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    if (entry.exists) {
        call_error_text(call, "TopK: key already exists");
        return;
    }
    if (!parse_sizes(call, &topk))
        return;
    entry_create(call, &entry, TYPE_TOPK);
    entry.meta.payload = topk_encode(call->arena, &topk);
    entry_save(call, &entry);
    notify(call, NOTIFY_MODULE, "topk.reserve", entry.key);
    reply_ok(&call->reply);
}

/* ---- the sketch ---- */

enum { BUCKET_WORK = 6 };

/* The page of the item's bucket in a row of the sketch, and the bucket in it. NULL: the call has failed. */
static struct sketch_held_page *page_of_bucket(struct top *top, uint32_t row, uint64_t hash,
                                               char **bucket)
{
    uint32_t place = topk_place(&top->topk, row, hash);
    uint32_t number = place / TOPK_PAGE_BUCKETS;
    if (!call_goes_on(top->call, BUCKET_WORK))
        return NULL;
    struct sketch_held_page *page =
        sketch_pages_at(top->pages, number, topk_page_bytes(&top->topk, number));
    if (page)
        *bucket = page->data + (size_t)(place % TOPK_PAGE_BUCKETS) * TOPK_BUCKET_BYTES;
    return page;
}

/* Work of the random numbers that were drawn while the bucket changed: at most one for each decrement. */
static size_t draws_between(const char *old, const char *now)
{
    enum { DRAW_WORK = 10 };
    uint32_t before = get_be32(old + 4);
    uint32_t after = get_be32(now + 4);
    return DRAW_WORK * (size_t)(after < before ? before - after : 1);
}

/* Counts increments of the item in all its buckets. *count becomes the highest count. False: the call has failed. */
static bool add_to_sketch(struct top *top, struct bytes item, uint32_t increments, uint32_t *count)
{
    uint64_t hash = item_hash(item);
    uint32_t fingerprint = topk_fingerprint(hash);
    *count = 0;
    for (uint32_t row = 0; row < top->topk.depth; row++) {
        char old[TOPK_BUCKET_BYTES];
        char *bucket;
        struct sketch_held_page *page = page_of_bucket(top, row, hash, &bucket);
        if (!page)
            return false;
        memcpy(old, bucket, sizeof old);
        uint32_t here = topk_add(bucket, fingerprint, increments, top->topk.decay, &top->random);
        call_count_work(top->call, draws_between(old, bucket));
        page->is_changed |= memcmp(old, bucket, sizeof old) != 0;
        if (here > *count)
            *count = here;
    }
    return true;
}

static bool count_in_sketch(struct top *top, struct bytes item, uint32_t *count)
{
    uint64_t hash = item_hash(item);
    uint32_t fingerprint = topk_fingerprint(hash);
    *count = 0;
    for (uint32_t row = 0; row < top->topk.depth; row++) {
        char *bucket;
        if (!page_of_bucket(top, row, hash, &bucket))
            return false;
        uint32_t here = topk_count(bucket, fingerprint);
        if (here > *count)
            *count = here;
    }
    return true;
}

/* ---- the list ---- */

/* Where the item is in the list; count 0: it is not in it. False: the call has failed. */
static bool list_get(struct top *top, struct bytes item, struct topk_spot *spot)
{
    struct bytes value;
    *spot = (struct topk_spot){0};
    int err =
        sub_get(top->call, top->entry, CF_DATA, topk_item_sub(top->call->arena, item), &value);
    if (err == OK && !topk_item_value_decode(&top->topk, value, spot))
        call_error(top->call, ERR_STORE);
    return !top->call->failed;
}

static struct bytes order_sub(const struct top *top, struct topk_spot spot, struct bytes item)
{
    return topk_order_sub(top->call->arena, &top->topk, spot, item);
}

/* Puts the item at this spot; `old`: its row there is deleted; count 0: it has none. */
static void list_put(struct top *top, struct bytes item, struct topk_spot old,
                     struct topk_spot spot)
{
    if (old.count)
        sub_delete(top->call, top->entry, CF_DATA, order_sub(top, old, item));
    sub_put(top->call, top->entry, CF_DATA, order_sub(top, spot, item), BYTES(""));
    sub_put(top->call, top->entry, CF_DATA, topk_item_sub(top->call->arena, item),
            topk_item_value(top->call->arena, &top->topk, spot));
    top->is_list_changed = true;
}

/* The end of the list. The items are in the arena. */
struct list_end {
    struct bytes last;
    struct topk_spot last_spot;
    struct bytes before;          /* the item before the last one */
    struct topk_spot before_spot; /* count 0: the list has one item */
};

/* A key behind all rows of the list, and before those that were deleted at its end. */
static struct bytes behind_list(const struct top *top)
{
    struct topk_spot spot = top->topk.last;
    if (spot.change)
        spot.change--; /* a higher change comes first */
    else if (spot.count)
        spot.count--; /* by name: the last item may be any with this count */
    return order_sub(top, spot, BYTES(""));
}

/* Reads the next item of the order, into the arena. False: there is none. */
static bool list_next(struct top *top, struct sub_iter *it, struct topk_spot *spot,
                      struct bytes *item)
{
    if (!sub_iter_next(it) || !topk_order_decode(&top->topk, it->sub, spot, item))
        return false;
    *item = arena_copy(top->call->arena, *item);
    return true;
}

/* Reads the end of a list that is not empty. False: the call has failed. */
static bool list_end(struct top *top, struct list_end *end)
{
    struct sub_iter it;
    *end = (struct list_end){0};
    sub_iter_init_reverse(top->call, top->entry, CF_DATA, behind_list(top), &it);
    bool is_found = list_next(top, &it, &end->last_spot, &end->last);
    if (!is_found || !list_next(top, &it, &end->before_spot, &end->before))
        end->before_spot = (struct topk_spot){0};
    if (!sub_iter_fini(&it))
        return false;
    if (!is_found)
        call_error(top->call, ERR_STORE);
    return is_found;
}

/* An item is put at this spot of the full list, and was its last one or has displaced it: which is the last one now? */
static void choose_last(struct top *top, const struct list_end *end, struct bytes item,
                        struct topk_spot spot)
{
    bool is_before_last =
        end->before_spot.count && bytes_compare(order_sub(top, end->before_spot, end->before),
                                                order_sub(top, spot, item)) > 0;
    top->topk.last = is_before_last ? end->before_spot : spot;
}

/* Puts an item into a full list, in which it has the spot `old`; count 0: it displaces the last one, `expelled`. False: the call has
 * failed. */
static bool update_full(struct top *top, struct bytes item, struct topk_spot old,
                        struct topk_spot spot, struct bytes *expelled)
{
    struct call *call = top->call;
    struct list_end end;
    bool may_be_last = old.count == top->topk.last.count && old.change == top->topk.last.change;
    if (old.count && !may_be_last) {
        list_put(top, item, old, spot);
        return true;
    }
    if (!list_end(top, &end))
        return false;
    if (!old.count) {
        *expelled = end.last;
        sub_delete(call, top->entry, CF_DATA, order_sub(top, end.last_spot, end.last));
        sub_delete(call, top->entry, CF_DATA, topk_item_sub(call->arena, end.last));
    }
    list_put(top, item, old, spot);
    if (!old.count || bytes_equal(end.last, item))
        choose_last(top, &end, item, spot);
    return true;
}

/* Puts an item into a list that is not full. False: the call has failed. */
static bool update_open(struct top *top, struct bytes item, struct topk_spot old,
                        struct topk_spot spot)
{
    struct list_end end;
    list_put(top, item, old, spot);
    if (old.count)
        return true;
    top->entry->meta.size += LIST_ROWS;
    if (++top->topk.listed < top->topk.k)
        return true;
    if (!list_end(top, &end))
        return false;
    top->topk.last = end.last_spot;
    return true;
}

/* The item has this count in the sketch now: changes the list if it belongs there. `expelled`: the item that it displaces, in the
 * arena; data NULL: none. False: the call has failed. */
static bool list_update(struct top *top, struct bytes item, uint32_t count, struct bytes *expelled)
{
    struct topk *topk = &top->topk;
    struct topk_spot old;
    *expelled = (struct bytes){NULL, 0};
    if (!count || count < topk->last.count)
        return true;
    if (!list_get(top, item, &old))
        return false;
    if (old.count == count)
        return true;
    struct topk_spot spot = {count, topk->is_by_name ? 0 : ++topk->changes};
    return topk->listed < topk->k ? update_open(top, item, old, spot)
                                  : update_full(top, item, old, spot, expelled);
}

/* ---- TOPK.ADD, TOPK.INCRBY ---- */

/* Counts increments of the item and replies the item that it displaces in the list, or null. */
static void count_and_list(struct top *top, struct bytes item, uint32_t increments)
{
    struct call *call = top->call;
    struct call_mark mark = keyspace_mark(call);
    struct bytes expelled;
    uint32_t count;
    if (!add_to_sketch(top, item, increments, &count) || !list_update(top, item, count, &expelled))
        return;
    if (expelled.data)
        reply_bulk(&call->reply, expelled);
    else
        reply_null(&call->reply);
    keyspace_release(call, &mark);
}

void cmd_topk_add(struct call *call)
{
    struct entry entry;
    struct top top;
    if (!top_open(call, OPEN_WRITE, &entry, &top))
        return;
    top.random.seed = call_random(call);
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc && !call->failed; i++)
        count_and_list(&top, call->argv[i], 1);
    if (!call->failed)
        top_save(&top, "topk.add");
    top_close(&top);
}

/* As in RedisBloom an increment that is not valid is an error in its place of the reply; the others are counted. */
void cmd_topk_incrby(struct call *call)
{
    struct entry entry;
    struct top top;
    if (call->argc % 2) {
        call_error_arity(call);
        return;
    }
    if (!top_open(call, OPEN_WRITE, &entry, &top))
        return;
    top.random.seed = call_random(call);
    reply_array(&call->reply, (call->argc - 2) / 2);
    for (uint32_t i = 2; i < call->argc && !call->failed; i += 2) {
        int64_t increments;
        if (!number_parse_int64(call->argv[i + 1], &increments) || increments < 0 ||
            increments > INCREMENT_MAX)
            reply_error(&call->reply, INCREMENT_ERROR);
        else if (!increments)
            reply_null(&call->reply);
        else
            count_and_list(&top, call->argv[i], (uint32_t)increments);
    }
    if (!call->failed)
        top_save(&top, "topk.incrby");
    top_close(&top);
}

/* ---- reading ---- */

/* Replies whether the item is in the list, or its count in the sketch. */
static void reply_item(struct top *top, struct bytes item, bool in_list)
{
    struct call *call = top->call;
    struct topk_spot spot;
    struct call_mark mark = keyspace_mark(call);
    if (!(in_list ? list_get(top, item, &spot) : count_in_sketch(top, item, &spot.count)))
        return;
    if (in_list)
        reply_bool(&call->reply, spot.count > 0);
    else
        reply_int(&call->reply, spot.count);
    keyspace_release(call, &mark);
}

static void reply_items(struct call *call, bool in_list)
{
    struct entry entry;
    struct top top;
    if (!top_open(call, OPEN_READ, &entry, &top))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc && !call->failed; i++)
        reply_item(&top, call->argv[i], in_list);
    top_close(&top);
}

void cmd_topk_query(struct call *call)
{
    reply_items(call, true);
}

void cmd_topk_count(struct call *call)
{
    reply_items(call, false);
}

enum { LIST_COUNTS = 1, LIST_BY_NAME = 2 };

/* reply_stream_row_fn; a damaged row is replied as an empty item. `how`: LIST_COUNTS, LIST_BY_NAME. */
static void reply_listed(struct reply *reply, struct bytes sub, struct bytes value, unsigned how)
{
    const struct topk form = {.changes = UINT64_MAX, .is_by_name = how & LIST_BY_NAME};
    struct bytes item;
    struct topk_spot spot;
    (void)value;
    bool good = topk_order_decode(&form, sub, &spot, &item);
    reply_bulk(reply, good ? item : BYTES(""));
    if (how & LIST_COUNTS)
        reply_int(reply, good ? spot.count : 0);
}

void cmd_topk_list(struct call *call)
{
    struct entry entry;
    struct top top;
    struct sub_iter it;
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    bool with_counts = call->argc == 3;
    if (with_counts && !bytes_is(call->argv[2], "withcount")) {
        call_error_text(call, "WITHCOUNT keyword expected");
        return;
    }
    if (!top_open(call, OPEN_READ, &entry, &top))
        return;
    top_close(&top);
    reply_array(&call->reply, (int64_t)top.topk.listed * (with_counts ? 2 : 1));
    if (!top.topk.listed)
        return;
    struct bytes first = order_sub(&top, (struct topk_spot){UINT32_MAX, UINT64_MAX}, BYTES(""));
    unsigned how = (with_counts ? LIST_COUNTS : 0u) | (top.topk.is_by_name ? LIST_BY_NAME : 0u);
    sub_iter_init(call, &entry, CF_DATA, first, &it);
    (void)reply_stream_rows(call, &it, top.topk.listed, reply_listed, how);
}

void cmd_topk_info(struct call *call)
{
    struct entry entry;
    struct top top;
    if (!top_open(call, OPEN_READ, &entry, &top))
        return;
    top_close(&top);
    reply_map(&call->reply, 4);
    reply_status(&call->reply, "k");
    reply_int(&call->reply, top.topk.k);
    reply_status(&call->reply, "width");
    reply_int(&call->reply, top.topk.width);
    reply_status(&call->reply, "depth");
    reply_int(&call->reply, top.topk.depth);
    reply_status(&call->reply, "decay");
    reply_double(&call->reply, top.topk.decay);
}

/* ---- DUMP, RESTORE ---- */

/* The rows of the list by item follow from its order, and are the last ones. */
static bool save_topk(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    return module_save(call, entry, writer, TOPK_MODULE, TOPK_MARK,
                       topk_item_sub(call->arena, BYTES("")));
}

/* Does the spot not come before that of the item that was restored last? */
static bool is_in_order(const struct topk *topk, struct topk_spot spot)
{
    return !topk->listed || spot.count < topk->last.count ||
           (spot.count == topk->last.count && spot.change <= topk->last.change);
}

/* Puts both rows of an item; items come in the list's order. False: they do not, the list is full or has the item, or the call has
 * failed. */
static bool restore_item(struct top *top, struct topk_spot spot, struct bytes item)
{
    struct topk *topk = &top->topk;
    struct topk_spot old;
    if (topk->listed == topk->k || !is_in_order(topk, spot) || !list_get(top, item, &old) ||
        old.count)
        return false;
    list_put(top, item, old, spot);
    top->entry->meta.size += LIST_ROWS;
    topk->last = spot;
    topk->listed++;
    return true;
}

/* module_row_fn */
static bool put_topk_row(struct call *call, struct entry *entry, void *object, struct bytes row)
{
    struct top *top = object;
    struct bytes item;
    struct topk_spot spot;
    uint32_t number;
    if (topk_order_decode(&top->topk, row, &spot, &item))
        return restore_item(top, spot, item);
    if (row.len < TOPK_PAGE_SUB_BYTES)
        return false;
    struct bytes sub = {row.data, TOPK_PAGE_SUB_BYTES};
    struct bytes buckets = {row.data + TOPK_PAGE_SUB_BYTES, row.len - TOPK_PAGE_SUB_BYTES};
    return topk_page_decode(&top->topk, sub, &number) &&
           buckets.len == topk_page_bytes(&top->topk, number) &&
           module_put_row(call, entry, sub, buckets);
}

static bool load_topk(struct call *call, struct entry *entry, struct rdb_reader *reader,
                      enum rdb_type form, uint64_t expire_ms)
{
    (void)form;
    (void)expire_ms;
    struct bytes head;
    struct topk topk;
    if (!module_read_head(reader, TOPK_MARK, &head) || !topk_decode(head, &topk))
        return false;
    entry_create(call, entry, TYPE_TOPK);
    struct top top = {.call = call, .entry = entry, .topk = topk};
    top.topk.listed = 0;
    if (!module_read_rows(call, entry, reader, put_topk_row, &top) ||
        top.topk.listed != topk.listed ||
        (topk.listed == topk.k &&
         (top.topk.last.count != topk.last.count || top.topk.last.change != topk.last.change)))
        return false;
    entry->meta.payload = topk_encode(call->arena, &topk);
    return true;
}

const struct type_functions type_TOPK_functions = {
    .module = TOPK_MODULE,
    .save = save_topk,
    .load = load_topk,
    .encoding = encoding_raw,
};
