#include "backend/keyspace/foretold.h"

#include "shared/check.h"
#include "shared/list.h"
#include "shared/number.h"
#include "shared/resp.h"
#include "shared/table.h"

#include <stdlib.h>
#include <string.h>

enum {
    BYTES_MAX = 32 * 1024 * 1024, /* of replies, in an attempt */
    ITEM_MAX = 128,               /* bytes; longer ones are no parts of keys */
    KEY_MAX = 256,
    DIGITS_MAX = 15,
    KINDS_MAX = 64,
    AHEAD_GROWTH = 4, /* so many times as many keys are foretold each time … */
    AHEAD_SURE =
        256, /* … until so many items of a list were used in their order: then it grows … */
    SURE_GROWTH = 16,   /* … so many times, and a list of any length needs few runs more */
    GAP_MAX = 64,       /* between two numbers: keys between them may be of this shard */
    SKIPPED_MAX = 1000, /* keys in succession that are here already */
    PLACE_BYTES = TABLE_ENTRY_BYTES + 32, /* of an item in the table, with a copy of a short text */
};

/* Keys with a common text before and behind an item, or a number. */
struct kind {
    struct list link;
    size_t before, behind; /* lengths of the texts, which follow the struct */
    uint32_t ahead;        /* how many keys were foretold when it was used last */
    bool is_number;
    int64_t last; /* number that was used or foretold */
};

/* Memory with the texts of items. */
struct kept {
    struct kept *next;
    char data[];
};

struct foretold {
    struct kept *kept;
    size_t bytes;
    struct bytes *items; /* in the order in which the script got them */
    uint32_t count, size;
    uint32_t words_from, words_to; /* the items that are arguments of the script */
    struct table *places;          /* item → its place + 1; of the first `indexed` items */
    uint32_t indexed;
    struct list kinds;
    uint32_t kinds_count;
};

struct foretold *foretold_new(void)
{
    struct foretold *foretold = calloc(1, sizeof *foretold);
    CHECK(foretold);
    list_init(&foretold->kinds);
    return foretold;
}

void foretold_begin(struct foretold *foretold)
{
    while (foretold->kept) {
        struct kept *next = foretold->kept->next;
        free(foretold->kept);
        foretold->kept = next;
    }
    table_free(foretold->places);
    foretold->places = NULL;
    foretold->bytes = 0;
    foretold->count = foretold->indexed = 0;
    foretold->words_from = foretold->words_to = 0;
}

void foretold_free(struct foretold *foretold)
{
    struct list *link;
    if (!foretold)
        return;
    foretold_begin(foretold);
    while ((link = list_pop(&foretold->kinds)))
        free(container_of(link, struct kind, link));
    free(foretold->items);
    free(foretold);
}

size_t foretold_memory(const struct foretold *foretold)
{
    return foretold->bytes + foretold->size * sizeof *foretold->items +
           (size_t)foretold->indexed * PLACE_BYTES;
}

/* ---- items ---- */

/* NULL: there is no room. */
static char *keep_item_text(struct foretold *foretold, size_t len)
{
    if (len > BYTES_MAX - foretold->bytes)
        return NULL;
    struct kept *kept = malloc(sizeof *kept + len);
    CHECK(kept);
    kept->next = foretold->kept;
    foretold->kept = kept;
    foretold->bytes += len;
    return kept->data;
}

void foretold_add_item(struct foretold *foretold, struct bytes item)
{
    if (!item.len || item.len > ITEM_MAX)
        return;
    if (foretold->count == foretold->size) {
        foretold->size = foretold->size ? 2 * foretold->size : 16;
        foretold->items = realloc(foretold->items, foretold->size * sizeof *foretold->items);
        CHECK(foretold->items);
    }
    foretold->items[foretold->count++] = item;
}

void foretold_add_reply(struct foretold *foretold, struct bytes frame)
{
    struct resp_value value;
    size_t at = 0;
    bool is_list = frame.len && strchr("*~%>", frame.data[0]);
    char *copy = is_list ? keep_item_text(foretold, frame.len) : NULL;
    if (!copy)
        return;
    memcpy(copy, frame.data, frame.len);
    while (at < frame.len && resp_value_next((struct bytes){copy, frame.len}, &at, &value))
        if (value.type == '$' && !value.is_null)
            foretold_add_item(foretold, value.text);
}

void foretold_add_words(struct foretold *foretold, const struct bytes *words, uint32_t count)
{
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++)
        len += words[i].len;
    char *copy = count > 1 ? keep_item_text(foretold, len) : NULL;
    foretold->words_from = foretold->count;
    for (uint32_t i = 0; copy && i < count; i++)
        foretold_add_item(foretold, bytes_copy_to(&copy, words[i]));
    foretold->words_to = foretold->count;
}

/* The place of the item behind its last occurrence; 0: it is none. */
static uint32_t place_of_item(struct foretold *foretold, struct bytes item)
{
    if (!foretold->places)
        foretold->places = table_new();
    for (; foretold->indexed < foretold->count; foretold->indexed++)
        (void)table_put(foretold->places, foretold->items[foretold->indexed],
                        (void *)((uintptr_t)foretold->indexed + 1));
    return (uint32_t)(uintptr_t)table_get(foretold->places, item);
}

/* ---- kinds ---- */

static char *texts_of(struct kind *kind)
{
    return (char *)(kind + 1);
}

static struct kind *kind_at(struct list *link)
{
    return container_of(link, struct kind, link);
}

/* Is the key of this kind? Then *middle is its item, or number. */
static bool is_of_kind(struct kind *kind, struct bytes key, struct bytes *middle)
{
    size_t fixed = kind->before + kind->behind;
    if (key.len <= fixed || memcmp(key.data, texts_of(kind), kind->before) != 0 ||
        memcmp(key.data + key.len - kind->behind, texts_of(kind) + kind->before, kind->behind) != 0)
        return false;
    *middle = (struct bytes){key.data + kind->before, key.len - fixed};
    return true;
}

static struct kind *kind_new(struct foretold *foretold, struct bytes key, struct bytes middle,
                             bool is_number)
{
    size_t before = (size_t)(middle.data - key.data);
    size_t behind = key.len - before - middle.len;
    if (foretold->kinds_count == KINDS_MAX) /* the one that was used least lately is last */
        free(kind_at(list_pop(&foretold->kinds)));
    else
        foretold->kinds_count++;
    struct kind *kind = malloc(sizeof *kind + before + behind);
    CHECK(kind);
    *kind = (struct kind){.before = before, .behind = behind, .is_number = is_number};
    memcpy(texts_of(kind), key.data, before);
    memcpy(texts_of(kind) + before, key.data + before + middle.len, behind);
    list_push(&foretold->kinds, &kind->link);
    return kind;
}

static void mark_used(struct foretold *foretold, struct kind *kind)
{
    list_remove(&kind->link);
    list_push(&foretold->kinds, &kind->link);
}

/* Is the item at this place, with which the key begins, an argument? Scripts get the prefix of all their keys so. */
static bool is_prefix(const struct foretold *foretold, size_t at, uint32_t place)
{
    return at == 0 && place > foretold->words_from && place <= foretold->words_to;
}

/* Finds the longest item in the key. False: there is none. */
static bool find_longest(struct foretold *foretold, struct bytes key, bool with_prefixes,
                         struct bytes *item)
{
    size_t longest = key.len < ITEM_MAX ? key.len : ITEM_MAX;
    for (size_t len = longest; foretold->count && len > 0; len--)
        for (size_t at = 0; at + len <= key.len; at++) {
            *item = (struct bytes){key.data + at, len};
            uint32_t place = place_of_item(foretold, *item);
            if (place && (with_prefixes || !is_prefix(foretold, at, place)))
                return true;
        }
    return false;
}

/* Finds the item of the key. False: there is none. */
static bool find_listed(struct foretold *foretold, struct bytes key, struct bytes *item)
{
    return find_longest(foretold, key, false, item) || find_longest(foretold, key, true, item);
}

/* The kind of keys with items to which this key belongs; NULL: there is none. *place: of the next item. */
static struct kind *kind_of_items(struct foretold *foretold, struct bytes key, uint32_t *place)
{
    struct bytes item;
    for (struct list *at = foretold->kinds.prev; at != &foretold->kinds; at = at->prev)
        if (!kind_at(at)->is_number && is_of_kind(kind_at(at), key, &item) &&
            (*place = place_of_item(foretold, item)))
            return kind_at(at);
    if (!find_listed(foretold, key, &item))
        return NULL;
    *place = place_of_item(foretold, item);
    return kind_new(foretold, key, item, false);
}

/* Finds the last number in the key. False: there is none, or it begins with 0. */
static bool find_number(struct bytes key, struct bytes *digits, int64_t *number)
{
    size_t end = key.len;
    while (end > 0 && (key.data[end - 1] < '0' || key.data[end - 1] > '9'))
        end--;
    size_t begin = end;
    while (begin > 0 && key.data[begin - 1] >= '0' && key.data[begin - 1] <= '9')
        begin--;
    *digits = (struct bytes){key.data + begin, end - begin};
    bool has_zero = digits->len > 1 && digits->data[0] == '0';
    return digits->len && digits->len <= DIGITS_MAX && !has_zero &&
           number_parse_int64(*digits, number);
}

/* The kind of keys with numbers that this key continues; NULL: there is none yet. */
static struct kind *kind_of_numbers(struct foretold *foretold, struct bytes key, int64_t *number)
{
    struct bytes digits;
    struct bytes middle;
    if (!find_number(key, &digits, number))
        return NULL;
    for (struct list *at = foretold->kinds.prev; at != &foretold->kinds; at = at->prev) {
        struct kind *kind = kind_at(at);
        if (!kind->is_number || !is_of_kind(kind, key, &middle) || middle.data != digits.data ||
            middle.len != digits.len)
            continue;
        bool continues = *number > kind->last && *number <= kind->last + GAP_MAX;
        kind->ahead = continues ? kind->ahead : 0;
        kind->last = *number;
        return continues ? kind : NULL;
    }
    kind_new(foretold, key, digits, true)->last = *number;
    return NULL;
}

/* ---- keys that follow ---- */

/* Calls the function with the key that has this item or number. True: it was counted. */
static bool foretell(struct kind *kind, struct bytes middle, foretold_fn *on_key, void *owner)
{
    char key[KEY_MAX + ITEM_MAX];
    memcpy(key, texts_of(kind), kind->before);
    memcpy(key + kind->before, middle.data, middle.len);
    memcpy(key + kind->before + middle.len, texts_of(kind) + kind->before, kind->behind);
    return on_key(owner, (struct bytes){key, kind->before + middle.len + kind->behind});
}

static void foretell_items(struct foretold *foretold, struct kind *kind, uint32_t place,
                           uint32_t max, foretold_fn *on_key, void *owner)
{
    uint32_t skipped = 0;
    for (uint32_t count = 0; place < foretold->count && count < max && skipped < SKIPPED_MAX;
         place++) {
        bool is_new = foretell(kind, foretold->items[place], on_key, owner);
        count += is_new;
        skipped = is_new ? 0 : skipped + 1;
    }
}

static void foretell_numbers(struct kind *kind, int64_t number, uint32_t max, foretold_fn *on_key,
                             void *owner)
{
    char text[INT64_TEXT_MAX];
    uint32_t skipped = 0;
    for (uint32_t count = 0; count < max && skipped < SKIPPED_MAX;) {
        size_t len = number_format_int64(text, ++number);
        bool is_new = foretell(kind, (struct bytes){text, len}, on_key, owner);
        count += is_new;
        skipped = is_new ? 0 : skipped + 1;
    }
    kind->last = number;
}

void foretold_next(struct foretold *foretold, struct bytes key, uint32_t max, foretold_fn *on_key,
                   void *owner)
{
    uint32_t place = 0;
    int64_t number = 0;
    if (!key.len || key.len > KEY_MAX)
        return;
    struct kind *kind = kind_of_items(foretold, key, &place);
    if (!kind)
        kind = kind_of_numbers(foretold, key, &number);
    if (!kind)
        return;
    mark_used(foretold, kind);
    uint32_t growth = !kind->is_number && kind->ahead >= AHEAD_SURE ? SURE_GROWTH : AHEAD_GROWTH;
    uint32_t ahead = kind->ahead ? kind->ahead : 1;
    if (kind->ahead)
        ahead = ahead < max / growth ? growth * ahead : max;
    kind->ahead = ahead < max ? ahead : max;
    if (kind->is_number)
        foretell_numbers(kind, number, kind->ahead, on_key, owner);
    else
        foretell_items(foretold, kind, place, kind->ahead, on_key, owner);
}
