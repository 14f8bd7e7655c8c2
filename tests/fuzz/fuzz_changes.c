/*
 * fuzz_changes.c - what a reader of changes brings back: tokens (changes_token.h), positions (feed_position.h) and options
 * (changes_options.h) of any bytes. One that is taken is written again as a text which means the same; and any bytes as a record of the log give
 * whole events or none (feed_batch.h).
 *
 *   input:  one byte that says as what the rest is read
 */
#include "backend/feed/feed_batch.h"
#include "backend/feed/feed_position.h"
#include "proxy/local/changes_token.h"
#include "shared/changes_options.h"
#include "shared/check.h"
#include "shared/resp.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS = 3, TEXT_MAX = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct changes_part parts[2][SHARDS];
static struct changes_token tokens[2];
static char texts[2][TEXT_MAX];

static struct changes_token *new_token(int number)
{
    memset(parts[number], 0, sizeof parts[number]);
    for (int i = 0; i < SHARDS; i++)
        parts[number][i].name[0] = (char)('a' + i);
    tokens[number] = (struct changes_token){.count = SHARDS, .parts = parts[number]};
    return &tokens[number];
}

static struct bytes write_token(int number)
{
    struct out out;
    out_init(&out);
    changes_token_write(&tokens[number], &out);
    CHECK(out.bytes <= TEXT_MAX);
    out_copy(&out, texts[number]);
    struct bytes text = {texts[number], out.bytes};
    out_clear(&out);
    return text;
}

/* A token without any position is none, so it cannot be read again. */
static void check_token(struct bytes input)
{
    if (!changes_token_read(input, new_token(0)))
        return;
    struct bytes text = write_token(0);
    if (text.len == 1)
        return;
    CHECK(changes_token_read(text, new_token(1)));
    CHECK(bytes_equal(write_token(1), text));
}

static void check_position(struct bytes input)
{
    struct feed_position position, again;
    char text[FEED_POSITION_MAX];
    if (!feed_position_read(input, &position))
        return;
    CHECK(feed_position_read(feed_position_write(&position, text), &again));
    CHECK(memcmp(&position, &again, sizeof position) == 0);
}

/* Words are parted by zero bytes. */
static void check_options(struct bytes input)
{
    static struct changes_options options;
    struct bytes words[16];
    uint32_t count = 0;
    while (input.len && count < 16) {
        size_t len = strnlen(input.data, input.len);
        words[count++] = (struct bytes){input.data, len};
        len += len < input.len;
        input = (struct bytes){input.data + len, input.len - len};
    }
    if (!changes_options_read(words, count, &options))
        CHECK(options.count >= 1 && options.bytes >= 1 && options.database < DATABASES_MAX);
}

/* Pages of one event each have as many events as one page with all. */
static void check_record(struct bytes record)
{
    static struct feed_filter filter = {.database = -1};
    struct feed_page page = {.count_max = UINT32_MAX,
                             .bytes_max = SIZE_MAX,
                             .past_us = FEED_PAST_ALL,
                             .memory = feed_events_new()};
    uint64_t number = 0;
    uint32_t left;
    out_init(&page.events);
    enum feed_read read = feed_batch_read(record, 1, &filter, &number, &page);
    left = page.count;
    CHECK(read != FEED_FULL && (read == FEED_WHOLE || !left));
    for (page.count_max = 1; read != FEED_UNREADABLE && left; left--) {
        out_clear(&page.events);
        page.count = 0;
        read = feed_batch_read(record, 1, &filter, &number, &page);
        CHECK(page.count == 1 && read == (left > 1 ? FEED_FULL : FEED_WHOLE));
    }
    out_clear(&page.events);
    feed_events_free(page.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct bytes input) = {check_token, check_position, check_options,
                                                         check_record};
    if (size)
        checks[data[0] % 4]((struct bytes){(const char *)data + 1, size - 1});
    return 0;
}
