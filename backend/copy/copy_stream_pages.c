/*
 * copy_stream_pages.c - compares a long stream of the target page by page.
 *
 *   XRANGE k (id + COUNT n │ … │ XINFO STREAM k │ XINFO GROUPS k │ of each group: XINFO CONSUMERS k g, XPENDING k g (id + n │ …
 *
 * XPENDING says how long ago a message was delivered, not when: so this time is not compared.
 */
#include "backend/copy/copy.h"
#include "backend/copy/copy_pages.h"
#include "backend/copy/value_reader.h"
#include "backend/format/stream_id.h"
#include "shared/number.h"

enum { PAGE_PENDING = 1000 };

/* ---- values ---- */

/* Reads "ms-seq". */
static struct stream_id id_of_text(struct bytes text)
{
    struct stream_id id = STREAM_ID_MIN;
    const char *dash = text.len ? memchr(text.data, '-', text.len) : NULL;
    if (dash) {
        size_t len = (size_t)(dash - text.data);
        (void)number_parse_uint64((struct bytes){text.data, len}, &id.ms);
        (void)number_parse_uint64((struct bytes){dash + 1, text.len - len - 1}, &id.seq);
    }
    return id;
}

static struct bytes range_start(char to[STREAM_ID_TEXT_MAX + 1], struct stream_id last)
{
    if (stream_id_is_zero(last))
        return BYTES("-");
    *to = '(';
    return (struct bytes){to, 1 + stream_id_format(to + 1, last)};
}

/* Finds a field in a list of names and values, which begins at `at`: where its value is. */
static bool find_field(struct bytes frame, size_t at, const char *name, size_t *found)
{
    for (uint64_t count = values_count(frame, &at) / 2; count > 0; count--) {
        bool is_it = bytes_is(value_text(frame, &at), name);
        *found = at;
        if (is_it)
            return true;
        if (!resp_value_skip(frame, &at))
            return false;
    }
    return false;
}

static struct bytes text_field(struct bytes frame, size_t at, const char *name)
{
    size_t found;
    return find_field(frame, at, name, &found) ? value_text(frame, &found) : BYTES("");
}

static int64_t number_field(struct bytes frame, size_t at, const char *name)
{
    size_t found;
    return find_field(frame, at, name, &found) ? value_number(frame, &found) : -1;
}

/* ---- entries ---- */

void copy_stream_pages_begin(struct copy *copy)
{
    char from[STREAM_ID_TEXT_MAX + 1];
    char count[INT64_TEXT_MAX];
    struct bytes words[] = {
        BYTES("XRANGE"), copy->parts.key, range_start(from, copy->pages.last),
        BYTES("+"),      BYTES("COUNT"),  {count, number_format_int64(count, copy->pages.count)},
    };
    copy->pages.step = PAGES_ELEMENTS;
    copy_pages_ask(copy, words, 6);
}

static void add_stream_entry(struct copy_pages *pages, struct bytes frame, size_t *at)
{
    struct arena arena;
    arena_init(&arena);
    (void)values_count(frame, at);
    struct rdb_entry entry = {.id = id_of_text(value_text(frame, at))};
    uint64_t strings = values_count(frame, at);
    entry.strings = arena_alloc(&arena, strings * sizeof *entry.strings + 1);
    for (; entry.count < strings; entry.count++)
        entry.strings[entry.count] = value_text(frame, at);
    digest_entry(&pages->digest, &entry);
    pages->last = entry.id;
    arena_fini(&arena);
}

static void ask_info(struct copy *copy, enum pages_step step, struct bytes what)
{
    struct bytes words[] = {BYTES("XINFO"), what, copy->parts.key, copy->pages.group};
    copy->pages.step = step;
    copy_pages_ask(copy, words, step == PAGES_CONSUMERS ? 4 : 3);
}

static void add_stream_entries(struct copy *copy, struct bytes frame)
{
    size_t at = 0;
    uint64_t count = values_count(frame, &at);
    for (uint64_t i = 0; i < count; i++)
        add_stream_entry(&copy->pages, frame, &at);
    if (count == copy->pages.count)
        copy_stream_pages_begin(copy);
    else
        ask_info(copy, PAGES_IDS, BYTES("STREAM"));
}

static void add_ids(struct copy *copy, struct bytes frame)
{
    struct rdb_tail tail = {
        .length = (uint64_t)number_field(frame, 0, "length"),
        .last = id_of_text(text_field(frame, 0, "last-generated-id")),
        .max_deleted = id_of_text(text_field(frame, 0, "max-deleted-entry-id")),
        .entries_added = (uint64_t)number_field(frame, 0, "entries-added"),
    };
    digest_ids(&copy->pages.digest, &tail);
    ask_info(copy, PAGES_GROUPS, BYTES("GROUPS"));
}

/* ---- groups ---- */

static void next_group(struct copy *copy)
{
    struct copy_pages *pages = &copy->pages;
    if (pages->groups_left == 0) {
        copy_pages_end(copy);
        return;
    }
    struct rdb_group group = {
        .name = text_field(pages->held, pages->held_at, "name"),
        .last = id_of_text(text_field(pages->held, pages->held_at, "last-delivered-id")),
        .entries_read = number_field(pages->held, pages->held_at, "entries-read"),
    };
    digest_group(&pages->digest, &group);
    pages->groups_left = resp_value_skip(pages->held, &pages->held_at) ? pages->groups_left - 1 : 0;
    pages->group = group.name;
    pages->last = STREAM_ID_MIN;
    ask_info(copy, PAGES_CONSUMERS, BYTES("CONSUMERS"));
}

static void add_groups(struct copy *copy, struct bytes frame)
{
    copy_pages_hold(&copy->pages, frame);
    copy->pages.groups_left = values_count(copy->pages.held, &copy->pages.held_at);
    next_group(copy);
}

static void ask_pending(struct copy *copy)
{
    char from[STREAM_ID_TEXT_MAX + 1];
    char count[INT64_TEXT_MAX];
    struct bytes words[] = {
        BYTES("XPENDING"), copy->parts.key,
        copy->pages.group, range_start(from, copy->pages.last),
        BYTES("+"),        {count, number_format_int64(count, PAGE_PENDING)},
    };
    copy->pages.step = PAGES_PENDING;
    copy_pages_ask(copy, words, 6);
}

static void add_consumers(struct copy *copy, struct bytes frame)
{
    size_t at = 0;
    for (uint64_t count = values_count(frame, &at); count > 0; count--) {
        digest_consumer(&copy->pages.digest, copy->pages.group, text_field(frame, at, "name"));
        if (!resp_value_skip(frame, &at))
            break;
    }
    ask_pending(copy);
}

/* id, consumer, milliseconds since the delivery, deliveries */
static void add_pending(struct copy_pages *pages, struct bytes frame, size_t *at)
{
    (void)values_count(frame, at);
    struct rdb_pending pending = {.id = id_of_text(value_text(frame, at))};
    struct bytes consumer = value_text(frame, at);
    (void)value_number(frame, at);
    pending.deliveries = (uint64_t)value_number(frame, at);
    digest_pending(&pages->digest, pages->group, &pending);
    digest_given(&pages->digest, pages->group, consumer, pending.id);
    pages->last = pending.id;
}

static void add_all_pending(struct copy *copy, struct bytes frame)
{
    size_t at = 0;
    uint64_t count = values_count(frame, &at);
    for (uint64_t i = 0; i < count; i++)
        add_pending(&copy->pages, frame, &at);
    if (count == PAGE_PENDING)
        ask_pending(copy);
    else
        next_group(copy);
}

void copy_stream_pages_reply(struct copy *copy, struct bytes frame)
{
    switch (copy->pages.step) {
    case PAGES_IDS:
        add_ids(copy, frame);
        break;
    case PAGES_GROUPS:
        add_groups(copy, frame);
        break;
    case PAGES_CONSUMERS:
        add_consumers(copy, frame);
        break;
    case PAGES_PENDING:
        add_all_pending(copy, frame);
        break;
    default:
        add_stream_entries(copy, frame);
    }
}
