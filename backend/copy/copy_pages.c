/*
 * copy_pages.c - compares a long collection of the target, which is read by pages, so that memory and replies are bounded.
 *
 *   TYPE k ─► LRANGE k from to │ GETRANGE k from to │ SSCAN, ZSCAN k cursor COUNT n │ HSCAN, then HPEXPIRETIME of these fields │ copy_stream_pages.c
 *             └── into the digest, until the last page ─► equal to the file's? ─► PEXPIRETIME (copy_verify.c)
 *
 * One request is on its way at a time. The number of elements in a page follows from the longest one in the file.
 */
#include "backend/copy/copy_pages.h"

#include "backend/copy/commands.h"
#include "backend/copy/copy.h"
#include "backend/copy/value_reader.h"
#include "shared/check.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE_BYTES = 512 * 1024, PAGE_COUNT_MAX = 1000 };

/* ---- asking ---- */

void copy_pages_ask(struct copy *copy, const struct bytes *words, uint32_t count)
{
    struct destination to = {.lane = lane_of(copy->lanes, copy->parts.key),
                             .db = copy->parts.db,
                             .key = copy->parts.key};
    (void)commands_send(&to, REQUEST_PAGE, words, count);
}

static struct bytes page_number(char to[INT64_TEXT_MAX], uint64_t number)
{
    return (struct bytes){to, number_format_int64(to, (int64_t)number)};
}

static void ask_range(struct copy *copy)
{
    struct copy_pages *pages = &copy->pages;
    char from[INT64_TEXT_MAX];
    char to[INT64_TEXT_MAX];
    struct bytes words[] = {BYTES("LRANGE"), copy->parts.key,
                            page_number(from, pages->digest.index),
                            page_number(to, pages->digest.index + pages->count - 1)};
    pages->step = PAGES_ELEMENTS;
    copy_pages_ask(copy, words, 4);
}

/* Bytes of a long string; digest.index counts those that have been compared. */
static void ask_text(struct copy *copy)
{
    struct copy_pages *pages = &copy->pages;
    char from[INT64_TEXT_MAX];
    char to[INT64_TEXT_MAX];
    struct bytes words[] = {BYTES("GETRANGE"), copy->parts.key,
                            page_number(from, pages->digest.index),
                            page_number(to, pages->digest.index + PAGE_BYTES - 1)};
    pages->step = PAGES_ELEMENTS;
    copy_pages_ask(copy, words, 4);
}

static void ask_scan(struct copy *copy)
{
    struct copy_pages *pages = &copy->pages;
    char count[INT64_TEXT_MAX];
    struct bytes command = pages->type == TYPE_SET    ? BYTES("SSCAN")
                           : pages->type == TYPE_ZSET ? BYTES("ZSCAN")
                                                      : BYTES("HSCAN");
    struct bytes words[] = {command, copy->parts.key, bytes_of(pages->cursor), BYTES("COUNT"),
                            page_number(count, pages->count)};
    pages->step = PAGES_ELEMENTS;
    copy_pages_ask(copy, words, 5);
}

/* Asks when the fields of the page expire. */
static void ask_times(struct copy *copy, uint32_t fields)
{
    struct copy_pages *pages = &copy->pages;
    struct bytes *words = malloc((fields + 4) * sizeof *words);
    char count[INT64_TEXT_MAX];
    size_t at = pages->held_at;
    CHECK(words);
    words[0] = BYTES("HPEXPIRETIME");
    words[1] = copy->parts.key;
    words[2] = BYTES("FIELDS");
    words[3] = page_number(count, fields);
    for (uint32_t i = 0; i < fields; i++) {
        words[4 + i] = value_text(pages->held, &at);
        (void)value_text(pages->held, &at);
    }
    pages->step = PAGES_TIMES;
    copy_pages_ask(copy, words, fields + 4);
    free(words);
}

/* ---- start and end ---- */

static uint32_t page_count(const struct digest *digest)
{
    uint64_t count = PAGE_BYTES / (digest->longest + 1);
    return count < 1 ? 1 : count > PAGE_COUNT_MAX ? PAGE_COUNT_MAX : (uint32_t)count;
}

void copy_pages_begin(struct copy *copy, enum type type)
{
    struct copy_pages *pages = &copy->pages;
    const struct digest *file = &copy->parts.digest;
    copy_pages_hold(pages, BYTES(""));
    pages->type = type;
    pages->step = PAGES_TYPE;
    pages->count = page_count(file);
    pages->digest = (struct digest){
        .is_old_stream = file->is_old_stream, .is_paged = file->is_paged, .cut_ms = file->cut_ms};
    (void)strcpy(pages->cursor, "0");
    pages->last = STREAM_ID_MIN;
    copy->parts.state = PARTS_COMPARED;
    copy_pages_ask(copy, (struct bytes[]){BYTES("TYPE"), copy->parts.key}, 2);
}

void copy_pages_hold(struct copy_pages *pages, struct bytes frame)
{
    char *copied = malloc(frame.len + 1);
    CHECK(copied);
    char *end = copied;
    free((char *)pages->held.data);
    pages->held = bytes_copy_to(&end, frame);
    pages->held_at = 0;
}

void copy_pages_end(struct copy *copy)
{
    copy_verify_pages(copy, copy->pages.digest.sum == copy->parts.digest.sum ? NULL
                                                                             : "its value differs");
}

static void compare_type(struct copy *copy, struct bytes frame)
{
    size_t at = 0;
    struct bytes name = value_text(frame, &at);
    if (bytes_is(name, "none"))
        copy_verify_pages(copy, MISSING_IN_TARGET);
    else if (!bytes_is(name, type_rows[copy->pages.type].name))
        copy_verify_pages(copy, "it has another type in the target");
    else if (copy->pages.type == TYPE_LIST)
        ask_range(copy);
    else if (copy->pages.type == TYPE_STRING)
        ask_text(copy);
    else if (copy->pages.type == TYPE_STREAM)
        copy_stream_pages_begin(copy);
    else
        ask_scan(copy);
}

/* ---- pages ---- */

static void add_list_page(struct copy *copy, struct bytes frame)
{
    size_t at = 0;
    uint64_t count = values_count(frame, &at);
    for (uint64_t i = 0; i < count; i++)
        digest_element(&copy->pages.digest, TYPE_LIST,
                       &(struct rdb_element){.name = value_text(frame, &at)});
    if (count < copy->pages.count)
        copy_pages_end(copy);
    else
        ask_range(copy);
}

static void add_text_page(struct copy *copy, struct bytes frame)
{
    struct digest *digest = &copy->pages.digest;
    size_t at = 0;
    struct bytes text = value_text(frame, &at);
    digest_text(digest, digest->index, text);
    digest->index += text.len;
    if (text.len < PAGE_BYTES)
        copy_pages_end(copy);
    else
        ask_text(copy);
}

static void next_scan(struct copy *copy)
{
    if (strcmp(copy->pages.cursor, "0") == 0)
        copy_pages_end(copy);
    else
        ask_scan(copy);
}

/* Adds members of a set, or members with their scores. */
static void add_scanned(struct copy_pages *pages, struct bytes frame, size_t at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct rdb_element element = {.name = value_text(frame, &at)};
        if (pages->type == TYPE_ZSET) {
            i++;
            (void)number_parse_double(value_text(frame, &at), &element.score);
        }
        digest_element(&pages->digest, pages->type, &element);
    }
}

static void add_scan(struct copy *copy, struct bytes frame)
{
    struct copy_pages *pages = &copy->pages;
    size_t at = 0;
    (void)values_count(frame, &at);
    struct bytes cursor = value_text(frame, &at);
    (void)snprintf(pages->cursor, sizeof pages->cursor, "%.*s", (int)cursor.len, cursor.data);
    uint64_t count = values_count(frame, &at);
    if (pages->type == TYPE_HASH && count >= 2) {
        copy_pages_hold(pages, (struct bytes){frame.data + at, frame.len - at});
        ask_times(copy, (uint32_t)(count / 2));
        return;
    }
    add_scanned(pages, frame, at, pages->type == TYPE_HASH ? 0 : count);
    next_scan(copy);
}

/* Adds the fields that are held, with the times of the reply. */
static void add_fields(struct copy *copy, struct bytes frame)
{
    struct copy_pages *pages = &copy->pages;
    size_t at = 0;
    size_t held_at = 0;
    for (uint64_t count = values_count(frame, &at); count > 0; count--) {
        struct rdb_element element = {.name = value_text(pages->held, &held_at)};
        element.value = value_text(pages->held, &held_at);
        int64_t time = value_number(frame, &at);
        element.expire_ms = time > 0 ? (uint64_t)time : 0;
        if (time > -2) /* it has not expired since */
            digest_element(&pages->digest, TYPE_HASH, &element);
    }
    next_scan(copy);
}

void copy_pages_reply(struct copy *copy, struct bytes frame)
{
    struct copy_pages *pages = &copy->pages;
    if (copy->parts.state != PARTS_COMPARED)
        return;
    if (pages->step == PAGES_TYPE)
        compare_type(copy, frame);
    else if (pages->type == TYPE_STREAM)
        copy_stream_pages_reply(copy, frame);
    else if (pages->type == TYPE_LIST)
        add_list_page(copy, frame);
    else if (pages->type == TYPE_STRING)
        add_text_page(copy, frame);
    else if (pages->step == PAGES_TIMES)
        add_fields(copy, frame);
    else
        add_scan(copy, frame);
}
