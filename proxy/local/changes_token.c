#include "proxy/local/changes_token.h"

#include "shared/number.h"
#include "shared/out.h"
#include "shared/slot_ranges.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char version[] = "1";
/* The first characters of what stands beside the positions. */
static const char marks[] = "*?#";

/* The proxy writes no token with more items. A client could send a quarter of a million, each of which takes time. */
enum { SUM_DIGITS = 16, ITEMS_MAX = SHARD_COUNT_MAX + sizeof marks - 1 };

/* Cuts the text before the next `mark`, and sets *rest behind it; without one the rest is empty. */
static struct bytes cut_before(struct bytes *rest, char mark)
{
    struct bytes text = *rest;
    const char *at = text.len ? memchr(text.data, mark, text.len) : NULL;
    if (!at) {
        rest->len = 0;
        return text;
    }
    struct bytes head = {text.data, (size_t)(at - text.data)};
    *rest = (struct bytes){at + 1, text.len - head.len - 1};
    return head;
}

bool changes_part_set(struct changes_part *part, struct bytes position)
{
    if (position.len > CHANGES_POSITION_MAX)
        return false;
    memcpy(part->position, position.data, position.len);
    part->position[position.len] = 0;
    return true;
}

/* Ascending ranges, which a text of any length cannot repeat. */
struct copied_slots {
    bool *is_in;
    unsigned next; /* the least slot that may follow */
    bool is_good;
};

/* slot_range_fn */
static void note_listed(void *owner, uint16_t first, uint16_t last)
{
    struct copied_slots *slots = owner;
    slots->is_good = slots->is_good && first >= slots->next;
    for (unsigned slot = first; slots->is_good && slot <= last; slot++)
        slots->is_in[slot] = true;
    slots->next = last + 1U;
}

/* Ranges with a plus between them. */
static bool read_copied_slots(struct bytes text, struct changes_copy *copy)
{
    struct copied_slots slots = {.is_in = copy->is_in, .is_good = true};
    copy->is_part = text.len > 0;
    while (text.len && slots.is_good) {
        struct bytes range = cut_before(&text, '+');
        slots.is_good = range.len && slot_ranges_each(range, note_listed, &slots) && slots.is_good;
    }
    return slots.is_good;
}

static bool read_copy(struct bytes text, struct changes_copy *copy)
{
    int64_t numbers[3];
    for (int i = 0; i < 3; i++)
        if (!number_parse_int64(cut_before(&text, '.'), &numbers[i]) || numbers[i] < 0)
            return false;
    *copy = (struct changes_copy){.is_on = true,
                                  .database = (uint8_t)numbers[0],
                                  .cursor = (uint64_t)numbers[1],
                                  .filter = (uint64_t)numbers[2]};
    return numbers[0] <= UINT8_MAX && read_copied_slots(text, copy);
}

static bool read_sum(struct bytes text, uint64_t *sum)
{
    char digits[SUM_DIGITS + 1] = "", *end;
    if (text.len != SUM_DIGITS || !isxdigit((unsigned char)text.data[0]))
        return false;
    memcpy(digits, text.data, text.len);
    *sum = strtoull(digits, &end, 16);
    return !*end;
}

/* What stands beside the positions, by its first character. */
static bool read_mark(struct bytes item, struct changes_token *token)
{
    struct bytes text = {item.data + 1, item.len - 1};
    switch (item.data[0]) {
    case '*':
        return read_copy(text, &token->copy);
    case '?':
        return read_sum(text, &token->owners.seen);
    default:
        return read_sum(text, &token->owners.settled);
    }
}

/* The part with this name; the search begins at *at, where it most often is. */
static struct changes_part *find_part(struct changes_token *token, struct bytes name, uint32_t *at)
{
    for (uint32_t tries = 0; tries < token->count; tries++) {
        struct changes_part *part = &token->parts[*at];
        *at = *at + 1 < token->count ? *at + 1 : 0;
        if (bytes_equal(bytes_of(part->name), name))
            return part;
    }
    return NULL;
}

static bool read_token_part(struct bytes text, struct changes_token *token, uint32_t *at)
{
    struct bytes name = cut_before(&text, '=');
    struct changes_part *part = find_part(token, name, at);
    if (!name.len || name.len > SHARD_NAME_MAX || !text.len)
        return false;
    if (part)
        return changes_part_set(part, text);
    memcpy(token->removed, name.data, name.len);
    token->removed[name.len] = 0;
    return true;
}

/* Reads a mark, which may come once, or a part. */
static bool read_token_item(struct bytes item, struct changes_token *token, bool *is_seen,
                            uint32_t *at)
{
    const char *mark = item.len ? memchr(marks, item.data[0], sizeof marks - 1) : NULL;
    if (!mark)
        return read_token_part(item, token, at);
    if (is_seen[mark - marks])
        return false;
    is_seen[mark - marks] = true;
    return read_mark(item, token);
}

bool changes_token_read(struct bytes text, struct changes_token *token)
{
    uint32_t at = 0;
    bool is_seen[sizeof marks] = {false};
    if (!bytes_equal(cut_before(&text, ','), bytes_of(version)) || !text.len)
        return false;
    for (uint32_t items = 0; text.len; items++)
        if (items == ITEMS_MAX || !read_token_item(cut_before(&text, ','), token, is_seen, &at))
            return false;
    return true;
}

void changes_token_write(const struct changes_token *token, struct out *out)
{
    const struct changes_copy *copy = &token->copy;
    out_printf(out, "%s", version);
    for (uint32_t i = 0; i < token->count; i++)
        if (*token->parts[i].position)
            out_printf(out, ",%s=%s", token->parts[i].name, token->parts[i].position);
    if (token->owners.seen)
        out_printf(out, ",?%016" PRIx64, token->owners.seen);
    if (token->owners.settled)
        out_printf(out, ",#%016" PRIx64, token->owners.settled);
    if (copy->is_on)
        out_printf(out, ",*%u.%" PRIu64 ".%" PRIu64, copy->database, copy->cursor, copy->filter);
    if (copy->is_on && copy->is_part) {
        out_printf(out, ".");
        slot_ranges_write(copy->is_in, '+', out);
    }
}
