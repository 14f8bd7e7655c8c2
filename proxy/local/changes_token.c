#include "proxy/local/changes_token.h"

#include "shared/number.h"
#include "shared/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char version[] = "1";

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
    return numbers[0] <= UINT8_MAX;
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

bool changes_token_read(struct bytes text, struct changes_token *token)
{
    uint32_t at = 0;
    if (!bytes_equal(cut_before(&text, ','), bytes_of(version)) || !text.len)
        return false;
    while (text.len) {
        struct bytes item = cut_before(&text, ',');
        bool is_copy = item.len && item.data[0] == '*';
        if (is_copy ? !read_copy((struct bytes){item.data + 1, item.len - 1}, &token->copy)
                    : !read_token_part(item, token, &at))
            return false;
    }
    return true;
}

void changes_token_write(const struct changes_token *token, struct out *out)
{
    const struct changes_copy *copy = &token->copy;
    out_printf(out, "%s", version);
    for (uint32_t i = 0; i < token->count; i++)
        if (*token->parts[i].position)
            out_printf(out, ",%s=%s", token->parts[i].name, token->parts[i].position);
    if (copy->is_on)
        out_printf(out, ",*%u.%" PRIu64 ".%" PRIu64, copy->database, copy->cursor, copy->filter);
}
