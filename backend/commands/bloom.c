/*
 * bloom.c - Bloom filters, as in RedisBloom: BF.RESERVE, BF.ADD and related commands.
 *
 *   metadata row: layers, number of items      CF_DATA: u8 layer | u32 page → the page's bits (format/bloom.h)
 *
 * Pages without bits have no row. `size` counts the rows.
 *
 * https://redis.io/docs/latest/commands/?group=bf
 */
#include "backend/commands/bloom.h"

#include "backend/dispatch/handlers.h"
#include "backend/format/item_hash.h"
#include "backend/session/notify.h"
#include "shared/check.h"
#include "shared/number.h"

enum { CAPACITY_DEFAULT = 100, EXPANSION_DEFAULT = 2, EXPANSION_MAX = 32768 };

#define FULL_ERROR    "ERR non scaling filter is full"
#define TOO_BIG_ERROR "ERR bloom object reached max number of filters"

bool filter_open(struct call *call, enum open_flag flags, struct entry *entry, struct bloom *bloom)
{
    if (!keyspace_open_type(call, call->argv[1], TYPE_BLOOM, flags, entry))
        return false;
    CHECK(!entry->exists ||
          bloom_decode(entry->meta.payload, bloom)); /* decode_metadata checks it */
    return true;
}

void filter_create(struct call *call, struct entry *entry)
{
    CHECK(!entry->exists);
    entry_create(call, entry, TYPE_BLOOM);
}

void filter_save(struct call *call, struct entry *entry, const struct bloom *bloom)
{
    entry->meta.payload = bloom_encode(call->arena, bloom);
    entry_save(call, entry);
}

/* ---- options ---- */

/* How a filter is created. */
struct filter_options {
    double error;
    uint64_t capacity;
    uint32_t expansion;
    bool has_expansion;
    bool is_fixed;
};

static bool error_argument(struct call *call, uint32_t index, double *error)
{
    if (!number_parse_double(call->argv[index], error))
        call_error_text(call, "ERR bad error rate");
    else if (!(*error > 0 && *error < 1))
        call_error_text(call, "ERR (0 < error rate range < 1)");
    else if (*error < BLOOM_ERROR_MIN)
        call_error_text(call, "ERR the error rate is too small: it must be at least 1e-9");
    return !call->failed;
}

static bool capacity_argument(struct call *call, uint32_t index, uint64_t *capacity)
{
    int64_t number = 0;
    if (!number_parse_int64(call->argv[index], &number))
        call_error_text(call, "ERR bad capacity");
    else if (number <= 0)
        call_error_text(call, "ERR (capacity should be larger than 0)");
    else if ((uint64_t)number > BLOOM_FIRST_CAPACITY_MAX)
        call_error_text(call, "ERR the capacity is too large: it must be at most 1073741824");
    *capacity = (uint64_t)number;
    return !call->failed;
}

static bool expansion_argument(struct call *call, uint32_t index, struct filter_options *options)
{
    int64_t number = 0;
    if (!number_parse_int64(call->argv[index], &number))
        call_error_text(call, "ERR bad expansion");
    else if (number < 1)
        call_error_text(call, "ERR expansion should be greater or equal to 1");
    else if (number > EXPANSION_MAX)
        call_error_text(call, "ERR the expansion is too large: it must be at most 32768");
    options->expansion = (uint32_t)number;
    options->has_expansion = true;
    return !call->failed;
}

/* Parses EXPANSION or NONSCALING at *index, which becomes the index of the last word. False: it is neither, or an error was
 * replied. */
static bool growth_option(struct call *call, uint32_t *index, struct filter_options *options)
{
    if (bytes_is(call->argv[*index], "nonscaling")) {
        options->is_fixed = true;
        return true;
    }
    return bytes_is(call->argv[*index], "expansion") && *index + 1 < call->argc &&
           expansion_argument(call, ++*index, options);
}

static bool growth_is_clear(struct call *call, const struct filter_options *options)
{
    if (options->is_fixed && options->has_expansion)
        call_error_text(call, "ERR Nonscaling filters cannot expand");
    return !call->failed;
}

static void init_filter(struct bloom *bloom, const struct filter_options *options)
{
    bloom_init(bloom, options->error, options->capacity,
               options->is_fixed ? 0 : options->expansion);
}

void cmd_bf_reserve(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    struct filter_options options = {.expansion = EXPANSION_DEFAULT};
    if (!error_argument(call, 2, &options.error) || !capacity_argument(call, 3, &options.capacity))
        return;
    for (uint32_t i = 4; i < call->argc; i++) {
        if (growth_option(call, &i, &options))
            continue;
        if (!call->failed)
            call_error(call, ERR_SYNTAX);
        return;
    }
    if (!growth_is_clear(call, &options) || !filter_open(call, OPEN_WRITE, &entry, &bloom))
        return;
    if (entry.exists) {
        call_error_text(call, "ERR item exists");
        return;
    }
    init_filter(&bloom, &options);
    filter_create(call, &entry);
    filter_save(call, &entry, &bloom);
    notify(call, NOTIFY_MODULE, "bloom.reserve", entry.key);
    reply_ok(&call->reply);
}

/* ---- adding ---- */

enum added { ADDED_NEW, ADDED_BEFORE, ADDED_FULL, ADDED_TOO_BIG, ADDED_FAILED };

/* Reads the page of an item in a layer. page->data NULL: it has no row, or the call has failed. */
static bool page_of(struct call *call, struct entry *entry, const struct bloom *bloom,
                    uint8_t layer, uint64_t hash, struct bytes *sub, struct bytes *page)
{
    const struct bloom_layer *at = &bloom->layers[layer];
    *sub = bloom_sub(call->arena, layer, bloom_page(at, hash));
    int err = sub_get(call, entry, CF_DATA, *sub, page);
    if (err == ERR_NOT_FOUND)
        *page = (struct bytes){NULL, 0};
    else if (err == OK && page->len != bloom_page_bytes(at))
        call_error(call, ERR_STORE);
    return !is_read_failure(err) && !call->failed;
}

/* Is the item in the filter? `sub` and `page` become those of its page in the last layer that was read. */
static bool find_in_filter(struct call *call, struct entry *entry, const struct bloom *bloom,
                           uint64_t hash, struct bytes *sub, struct bytes *page)
{
    for (uint8_t layer = 0; layer < bloom->count; layer++) {
        if (!page_of(call, entry, bloom, layer, hash, sub, page))
            return false;
        if (page->data && bloom_has(&bloom->layers[layer], page->data, hash))
            return true;
    }
    return false;
}

/* Adds an item to the last layer of the filter, or to a new one. */
static enum added add_to_filter(struct call *call, struct entry *entry, struct bloom *bloom,
                                struct bytes item)
{
    struct bytes sub;
    struct bytes page;
    uint64_t hash = item_hash(item);
    if (find_in_filter(call, entry, bloom, hash, &sub, &page))
        return ADDED_BEFORE;
    if (call->failed)
        return ADDED_FAILED;
    struct bloom_layer *layer = &bloom->layers[bloom->count - 1];
    if (layer->items == layer->capacity) {
        if (!bloom->expansion)
            return ADDED_FULL;
        if (!bloom_grow(bloom))
            return ADDED_TOO_BIG;
        layer++;
        sub = bloom_sub(call->arena, (uint8_t)(bloom->count - 1), bloom_page(layer, hash));
        page = (struct bytes){NULL, 0};
    }
    size_t len = bloom_page_bytes(layer);
    char changed[BLOOM_PAGE_BYTES] = {0};
    if (page.data)
        memcpy(changed, page.data, len);
    else
        entry->meta.size++;
    bloom_add(layer, changed, hash);
    sub_put(call, entry, CF_DATA, sub, (struct bytes){changed, len});
    layer->items++;
    return ADDED_NEW;
}

static const char *added_error(enum added added)
{
    return added == ADDED_FULL ? FULL_ERROR : TOO_BIG_ERROR;
}

/* Adds the items from argument `first` on, and replies an array. As in RedisBloom it ends with the first error. */
static void add_items(struct call *call, struct entry *entry, struct bloom *bloom, uint32_t first)
{
    uint8_t *added = arena_alloc(call->arena, call->argc - first);
    uint32_t count = 0;
    bool has_new = false;
    bool is_full = false;
    for (uint32_t i = first; i < call->argc && !is_full; i++) {
        enum added result = add_to_filter(call, entry, bloom, call->argv[i]);
        if (result == ADDED_FAILED)
            return;
        added[count++] = (uint8_t)result;
        has_new |= result == ADDED_NEW;
        is_full = result == ADDED_FULL || result == ADDED_TOO_BIG;
    }
    if (has_new) {
        filter_save(call, entry, bloom);
        notify(call, NOTIFY_MODULE, "bloom.add", entry->key);
    }
    reply_array(&call->reply, count);
    for (uint32_t i = 0; i < count; i++) {
        if (added[i] == ADDED_NEW || added[i] == ADDED_BEFORE)
            reply_bool(&call->reply, added[i] == ADDED_NEW);
        else
            reply_error(&call->reply, added_error((enum added)added[i]));
    }
}

static const struct filter_options DEFAULTS = {
    .error = 0.01, .capacity = CAPACITY_DEFAULT, .expansion = EXPANSION_DEFAULT};

/* Opens the filter for adding items; creates it if it does not exist. */
static bool open_or_create(struct call *call, const struct filter_options *options,
                           struct entry *entry, struct bloom *bloom)
{
    if (!filter_open(call, OPEN_WRITE, entry, bloom))
        return false;
    if (!entry->exists) {
        init_filter(bloom, options);
        filter_create(call, entry);
    }
    return true;
}

void cmd_bf_add(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    if (!open_or_create(call, &DEFAULTS, &entry, &bloom))
        return;
    enum added added = add_to_filter(call, &entry, &bloom, call->argv[2]);
    if (added == ADDED_FAILED)
        return;
    if (added == ADDED_FULL || added == ADDED_TOO_BIG) {
        call_error_text(call, added_error(added));
        return;
    }
    if (added == ADDED_NEW) {
        filter_save(call, &entry, &bloom);
        notify(call, NOTIFY_MODULE, "bloom.add", entry.key);
    }
    reply_bool(&call->reply, added == ADDED_NEW);
}

void cmd_bf_madd(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    if (open_or_create(call, &DEFAULTS, &entry, &bloom))
        add_items(call, &entry, &bloom, 2);
}

/* Parses the options of BF.INSERT. Returns the index of the first item; 0: an error was replied. */
static uint32_t parse_insert(struct call *call, struct filter_options *options, bool *creates)
{
    *options = DEFAULTS;
    *creates = true;
    for (uint32_t i = 2; i < call->argc; i++) {
        bool has_value = i + 1 < call->argc;
        if (bytes_is(call->argv[i], "items"))
            return has_value && growth_is_clear(call, options) ? i + 1 : 0;
        if (bytes_is(call->argv[i], "nocreate"))
            *creates = false;
        else if (has_value && bytes_is(call->argv[i], "capacity"))
            (void)capacity_argument(call, ++i, &options->capacity);
        else if (has_value && bytes_is(call->argv[i], "error"))
            (void)error_argument(call, ++i, &options->error);
        else if (!growth_option(call, &i, options) && !call->failed)
            call_error_text(call, "ERR Unknown argument received");
        if (call->failed)
            return 0;
    }
    return 0;
}

void cmd_bf_insert(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    struct filter_options options;
    bool creates;
    uint32_t first = parse_insert(call, &options, &creates);
    if (call->failed)
        return;
    if (!first) {
        call_error_arity(call);
        return;
    }
    if (!creates) {
        if (!filter_open(call, OPEN_WRITE, &entry, &bloom))
            return;
        if (!entry.exists) {
            call_error(call, ERR_NOT_FOUND);
            return;
        }
    } else if (!open_or_create(call, &options, &entry, &bloom)) {
        return;
    }
    add_items(call, &entry, &bloom, first);
}

/* ---- reading ---- */

void cmd_bf_exists(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    struct bytes sub;
    struct bytes page;
    if (!filter_open(call, OPEN_READ, &entry, &bloom))
        return;
    bool is_in =
        entry.exists && find_in_filter(call, &entry, &bloom, item_hash(call->argv[2]), &sub, &page);
    if (!call->failed)
        reply_bool(&call->reply, is_in);
}

void cmd_bf_mexists(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    struct bytes sub;
    struct bytes page;
    if (!filter_open(call, OPEN_READ, &entry, &bloom))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc && !call->failed; i++) {
        bool is_in = entry.exists &&
                     find_in_filter(call, &entry, &bloom, item_hash(call->argv[i]), &sub, &page);
        if (!call->failed)
            reply_bool(&call->reply, is_in);
    }
}

void cmd_bf_card(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    if (filter_open(call, OPEN_READ, &entry, &bloom))
        reply_int(&call->reply, entry.exists ? (int64_t)bloom_sums(&bloom).items : 0);
}

enum info_field { INFO_CAPACITY, INFO_SIZE, INFO_FILTERS, INFO_ITEMS, INFO_EXPANSION, INFO_FIELDS };

static void reply_info_field(struct call *call, const struct bloom *bloom, enum info_field field)
{
    const struct bloom_sums sums = bloom_sums(bloom);
    const uint64_t numbers[INFO_FIELDS] = {
        [INFO_CAPACITY] = sums.capacity,     [INFO_SIZE] = sums.bytes,
        [INFO_FILTERS] = bloom->count,       [INFO_ITEMS] = sums.items,
        [INFO_EXPANSION] = bloom->expansion,
    };
    if (field == INFO_EXPANSION && !bloom->expansion)
        reply_null(&call->reply);
    else
        reply_int(&call->reply, (int64_t)numbers[field]);
}

void cmd_bf_info(struct call *call)
{
    static const struct {
        const char *name;
        const char *word;
    } FIELDS[INFO_FIELDS] = {
        [INFO_CAPACITY] = {"Capacity", "capacity"},
        [INFO_SIZE] = {"Size", "size"},
        [INFO_FILTERS] = {"Number of filters", "filters"},
        [INFO_ITEMS] = {"Number of items inserted", "items"},
        [INFO_EXPANSION] = {"Expansion rate", "expansion"},
    };
    struct entry entry;
    struct bloom bloom;
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    if (!filter_open(call, OPEN_READ, &entry, &bloom))
        return;
    if (!entry.exists) {
        call_error(call, ERR_NOT_FOUND);
        return;
    }
    if (call->argc == 2)
        reply_map(&call->reply, INFO_FIELDS);
    for (unsigned i = 0; i < INFO_FIELDS; i++) {
        if (call->argc == 2) {
            reply_status(&call->reply, FIELDS[i].name);
            reply_info_field(call, &bloom, (enum info_field)i);
        } else if (bytes_is(call->argv[2], FIELDS[i].word)) {
            reply_array(&call->reply, 1);
            reply_info_field(call, &bloom, (enum info_field)i);
            return;
        }
    }
    if (call->argc == 3)
        call_error_text(call, "ERR Invalid information value");
}
