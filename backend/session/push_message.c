#include "backend/session/push_message.h"

#include "backend/context/change.h"
#include "backend/context/partition.h"
#include "backend/session/channel_relay.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "shared/check.h"
#include "shared/number.h"

#include <stdlib.h>

enum { KEPT_MAX = 1024, HEADER_MAX = 1 + INT64_TEXT_MAX + 2 };

/* Memory of the item. Its frames count once, as those of the item that has their only reference besides `others`. */
static size_t item_memory(const struct push_message *item, uint32_t others)
{
    size_t bytes = item->change || item->frames ? sizeof *item : 0; /* 0: it was erased */
    if (item->change)
        bytes += sizeof *item->change + item->change->key.len;
    if (item->frames && item->frames->refs == 1 + others)
        bytes += item->frames->size;
    return bytes;
}

static void item_free(struct push_messages *messages, struct push_message *message)
{
    if (messages->budget)
        budget_give_back(messages->budget, item_memory(message, 0));
    if (message->frames)
        block_unref(message->frames);
    messages->changes -= message->change != NULL;
    free(message->change);
}

void push_messages_clear(struct push_messages *messages)
{
    push_messages_drop(messages, 0);
    free(messages->items);
    *messages = (struct push_messages){.relay = messages->relay, .budget = messages->budget};
}

struct push_messages *push_messages_new(struct partition *partition)
{
    struct push_messages *messages = calloc(1, sizeof *messages);
    CHECK(messages);
    messages->relay = channel_relay_new(partition);
    messages->budget = &partition->running.budget;
    return messages;
}

void push_messages_free(struct push_messages *messages)
{
    if (!messages)
        return;
    push_messages_clear(messages);
    channel_relay_free(messages->relay);
    free(messages);
}

static void add_item(struct push_messages *messages, struct push_message message)
{
    if (messages->count == messages->cap) {
        messages->cap = messages->cap ? messages->cap * 2 : 16;
        messages->items = realloc(messages->items, messages->cap * sizeof *messages->items);
        CHECK(messages->items);
    }
    messages->items[messages->count++] = message;
    if (messages->budget) /* the caller of push_message_send has a reference to the frames */
        budget_hold(messages->budget, item_memory(&message, 1));
}

void push_message_send(struct push_messages *messages, struct session *to, struct block *frames,
                       unsigned flags)
{
    if (frames)
        add_item(messages,
                 (struct push_message){.session = to, .frames = block_ref(frames), .flags = flags});
}

static bool repeats_last(const struct push_messages *messages, const struct change *change)
{
    const struct change *last =
        messages->count ? messages->items[messages->count - 1].change : NULL;
    return last && last->kind == change->kind && last->type == change->type &&
           last->by_client == change->by_client && last->space == change->space &&
           bytes_equal(last->key, change->key);
}

void message_change(struct push_messages *messages, struct session *session,
                    const struct change *change)
{
    if (repeats_last(
            messages,
            change)) /* equal consecutive changes are stored once, e.g. of a script that increments a
                                         * key */
        return;
    struct change *copy = malloc(sizeof *copy + change->key.len);
    CHECK(copy);
    *copy = *change;
    copy->key.data = (char *)(copy + 1);
    if (change->key.len)
        memcpy(copy + 1, change->key.data, change->key.len);
    unsigned flags = change->kind == CHANGE_READ
                         /* the key was read even if the command fails */
                         ? MESSAGE_DONE
                         : 0;
    messages->changes++;
    add_item(messages, (struct push_message){.session = session, .change = copy, .flags = flags});
}

/* Drops the items after the first `count`, except those with one of these flags and, if keeps_changes, changes. */
static void truncate_messages(struct push_messages *messages, uint32_t count, unsigned flags,
                              bool keeps_changes)
{
    uint32_t kept = count;
    for (uint32_t i = count; i < messages->count; i++) {
        const struct push_message *item = &messages->items[i];
        if (item->flags & flags || (keeps_changes && item->change))
            messages->items[kept++] = *item;
        else
            item_free(messages, &messages->items[i]);
    }
    if (kept < messages->count)
        messages->count = kept;
}

void messages_cut(struct push_messages *messages, uint32_t count)
{
    truncate_messages(messages, count, MESSAGE_KEPT | MESSAGE_DONE, false);
}

void messages_cut_frames(struct push_messages *messages, uint32_t count)
{
    truncate_messages(messages, count, 0, true);
}

void push_messages_roll_back(struct push_messages *messages, uint32_t count)
{
    truncate_messages(messages, count, MESSAGE_KEPT, false);
}

void push_messages_drop(struct push_messages *messages, uint32_t count)
{
    while (messages->count > count)
        item_free(messages, &messages->items[--messages->count]);
}

void push_messages_keep(struct push_messages *messages, uint32_t count)
{
    for (uint32_t i = count; i < messages->count; i++)
        messages->items[i].flags |= MESSAGE_DONE;
}

void push_messages_erase(struct push_messages *messages, uint32_t index)
{
    item_free(messages, &messages->items[index]);
    messages->items[index] = (struct push_message){0};
}

void push_messages_take(struct push_messages *messages, uint32_t count, struct push_messages *to)
{
    for (uint32_t i = count; i < messages->count; i++) {
        if (!messages->items[i].frames && !messages->items[i].change)
            continue;
        to->changes += messages->items[i].change != NULL;
        messages->changes -= messages->items[i].change != NULL;
        add_item(to, messages->items[i]);
    }
    if (count < messages->count)
        messages->count = count;
}

void push_messages_give(struct push_messages *messages, struct push_messages *from)
{
    messages->changes += from->changes;
    for (uint32_t i = 0; i < from->count; i++)
        add_item(messages, from->items[i]);
    free(from->items);
    *from = (struct push_messages){0};
}

void push_messages_forget(struct push_messages *messages, const struct session *session)
{
    for (uint32_t i = 0; i < messages->count; i++)
        if (messages->items[i].session == session)
            messages->items[i].session = NULL;
}

void push_messages_move_before(struct push_messages *messages, struct session *session,
                               struct out *to)
{
    for (uint32_t i = 0; i < messages->count; i++) {
        struct push_message *message = &messages->items[i];
        if (message->session != session || message->flags & MESSAGE_AFTER)
            continue;
        out_write_block(to, message->frames, message->frames->data, message->frames->used);
        message->session = NULL;
    }
}

void push_messages_deliver(struct push_messages *messages, uint64_t ticket)
{
    CHECK(!messages->open && !messages->changes);
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct push_message *item = &messages->items[i];
        if (item->session)
            session_push(item->session, item->frames, ticket);
        else if (item->flags & MESSAGE_RELAYED)
            channel_relay_send(messages->relay, item->frames, ticket);
    }
    push_messages_drop(messages, 0);
    if (messages->cap > KEPT_MAX)
        push_messages_clear(messages);
}

/* ---- frames ---- */

static size_t put_header(char *to, char kind, size_t number)
{
    to[0] = kind;
    size_t len = 1 + number_format_int64(to + 1, (int64_t)number);
    to[len++] = '\r';
    to[len++] = '\n';
    return len;
}

struct block *push_message_frame(uint8_t resp, const struct bytes *parts, uint32_t count)
{
    size_t size = HEADER_MAX;
    for (uint32_t i = 0; i < count; i++)
        size += HEADER_MAX + parts[i].len + 2;
    struct block *block = block_new_exact(size);
    if (!block)
        return NULL;
    char *at = block->data;
    at += put_header(at, resp > 2 ? '>' : '*', count);
    for (uint32_t i = 0; i < count; i++) {
        at += put_header(at, '$', parts[i].len);
        if (parts[i].len)
            memcpy(at, parts[i].data, parts[i].len);
        at += parts[i].len;
        *at++ = '\r';
        *at++ = '\n';
    }
    block->used = (size_t)(at - block->data);
    return block;
}

struct block *message_of(struct out *out)
{
    struct block *block = block_new_exact(out->bytes);
    if (block) {
        out_copy(out, block->data);
        block->used = out->bytes;
    }
    out_clear(out);
    return block;
}
