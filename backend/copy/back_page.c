/*
 * back_page.c - reads a page of the change stream.
 */
#include "backend/copy/back.h"
#include "backend/copy/selection.h"
#include "backend/copy/value_reader.h"
#include "shared/check.h"
#include "shared/number.h"

#include <stdlib.h>

/* ---- keys ---- */

/* Rows of scree-copy itself are of one server, and are not copied. */
static bool is_row_of_tool(struct bytes key)
{
    static const char start[] = "scree-copy:";
    return key.len >= strlen(start) && memcmp(key.data, start, strlen(start)) == 0;
}

static struct back_key *new_key(struct back_keys *keys)
{
    if (keys->count == keys->room) {
        keys->room = keys->room * 2 + 64;
        keys->all = realloc(keys->all, keys->room * sizeof *keys->all);
        CHECK(keys->all);
    }
    return &keys->all[keys->count++];
}

void back_add_key(struct back *back, struct back_keys *keys, struct arena *arena, uint64_t db,
                  struct bytes key)
{
    struct bytes name;
    int64_t to = selection_db(back->options, db);
    if (to < 0 || is_row_of_tool(key) || !selection_key(back->options, arena, key, &name) ||
        is_row_of_tool(name))
        return;
    *new_key(keys) =
        (struct back_key){.from = db, .to = (uint64_t)to, .key = key, .name = name, .until_ms = -1};
}

static int compare_page_keys(const void *left, const void *right)
{
    const struct back_key *a = left;
    const struct back_key *b = right;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return bytes_compare(a->name, b->name);
}

/* A key that has changed several times is copied once. */
static void drop_doubles(struct back_keys *keys)
{
    size_t kept = 0;
    if (keys->count == 0)
        return;
    qsort(keys->all, keys->count, sizeof *keys->all, compare_page_keys);
    for (size_t i = 1; i < keys->count; i++)
        if (compare_page_keys(&keys->all[kept], &keys->all[i]) != 0)
            keys->all[++kept] = keys->all[i];
    keys->count = kept + 1;
}

/* ---- events ---- */

/* Takes the event's kind and what follows its database. False: it is unknown. The slots of `flush` and `again` do not count: they are those of
 * the namespace's slot-rule, which the tool does not know. So all keys are looked at. */
static bool take_page_event(struct back *back, struct back_page *page, int64_t db, uint64_t rest,
                            size_t *at)
{
    struct bytes kind = value_text(page->frame, at);
    struct bytes key = value_text(page->frame, at);
    for (; rest > 0; rest--)
        (void)value_text(page->frame, at);
    if (bytes_is(kind, "changed") || bytes_is(kind, "del"))
        back_add_key(back, &page->keys, &page->arena, (uint64_t)db, key);
    else if (bytes_is(kind, "flush") || bytes_is(kind, "again"))
        page->must_sweep = true;
    else if (bytes_is(kind, "function"))
        page->has_functions = true;
    else if (bytes_is(kind, "swapdb"))
        page->begins_anew = true;
    else
        return false;
    return true;
}

/* An event is [id, database, kind, key, …]. */
static bool take_page_events(struct back *back, struct back_page *page, size_t *at)
{
    uint64_t count = values_count(page->frame, at);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t parts = values_count(page->frame, at);
        (void)value_text(page->frame, at);
        int64_t db = value_number(page->frame, at);
        if (parts < 4 || !take_page_event(back, page, db, parts - 4, at))
            return false;
    }
    return true;
}

static bool take_page_reply(struct back *back, struct back_page *page)
{
    size_t at = 0;
    if (values_count(page->frame, &at) != 3)
        return false;
    page->token = value_text(page->frame, &at);
    if (!take_page_events(back, page, &at))
        return false;
    page->lag_ms = value_number(page->frame, &at);
    return page->token.len > 0;
}

/* ---- a page ---- */

static bool call_read(struct back *back, struct bytes *frame)
{
    const struct copy_options *options = back->options;
    char number[INT64_TEXT_MAX];
    struct bytes db = {number, number_format_int64(number, (int64_t)options->dbs.from[0])};
    struct bytes words[] = {BYTES("SCREE"), BYTES("CHANGES"),
                            BYTES("READ"),  bytes_of(back->row.token),
                            BYTES("DB"),    options->dbs.count == 1 ? db : BYTES("*"),
                            BYTES("BLOCK"), options->follows ? BYTES("1000") : BYTES("0"),
                            BYTES("LOST"),  BYTES("copy")};
    return wire_call(&back->source, words, COUNT_OF(words), frame);
}

bool back_read_page(struct back *back, struct back_page *page)
{
    struct bytes frame;
    *page = (struct back_page){.lag_ms = -1};
    arena_init(&page->arena);
    if (!call_read(back, &frame))
        return false;
    page->frame = wire_take(&back->source);
    if (strcmp(back->row.token, "0") == 0) { /* the target may have keys of before */
        page->must_sweep = true;
        page->has_functions = true;
    }
    if (!take_page_reply(back, page))
        return back_fail(back, EXIT_SOURCE, back->options->from.address,
                         "SCREE CHANGES READ has an event or a form that this version of "
                         "scree-copy does not know");
    page->must_sweep |= page->begins_anew;
    drop_doubles(&page->keys);
    return true;
}

void back_free_page(struct back_page *page)
{
    free((char *)page->frame.data);
    free(page->keys.all);
    arena_fini(&page->arena);
}
