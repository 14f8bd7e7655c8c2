/*
 * push_message.h - push messages that the running command causes, kept until they can be sent.
 *
 *   PUBLISH, notify, tracking, MONITOR ─► push_message_send ─► messages ──the command failed──► dropped
 *                                                            │ the reply was queued
 *                                                            ▼
 *                                                     push_messages_deliver ─► session_push(…, ticket)
 *
 * A message is not sent before the reply of its command: it waits for the same ticket, and is dropped when that batch
 * fails. Receivers share the bytes of one formatted message.
 */
#pragma once

#include "shared/block.h"
#include "shared/bytes.h"

struct call_budget;
struct change;
struct channel_relay;
struct out;
struct partition;
struct session;

enum message_flag {
    MESSAGE_BEFORE = 0, /* if the receiver sent the command, the message precedes the reply */
    MESSAGE_AFTER = 1,  /* the message follows the reply */
    MESSAGE_KEPT = 2,   /* sent even if the command fails or is rolled back */
    MESSAGE_DONE = 4,   /* its command succeeded inside a script: sent even if the script fails */
    MESSAGE_RELAYED =
        8, /* for other shards and for no session; the frames are those of channel_relay.h */
};

/* A message for a session, or a change (changes.h) that changes_tell() turns into messages. */
struct push_message {
    struct session *session; /* NULL: the session was closed */
    struct block *frames;    /* complete frames: data[0..used); NULL: this is a change */
    struct change *change;   /* heap, with its key after it; NULL: these are frames */
    unsigned flags;          /* enum message_flag */
};

/* The messages of a partition, in order. */
struct push_messages {
    struct push_message *items;
    uint32_t count;
    uint32_t cap;
    uint32_t changes; /* number of items that are changes */
    uint32_t open;    /* nesting depth of running commands: 0 when messages are complete */
    struct channel_relay *relay; /* sends those with MESSAGE_RELAYED */
    struct call_budget *budget;  /* of the running call, which holds them; NULL: not counted */
};

struct push_messages *push_messages_new(struct partition *partition);
void push_messages_free(struct push_messages *messages);
/* Drops all messages and frees their memory; the struct stays usable. */
void push_messages_clear(struct push_messages *messages);
/* Adds a message; takes a reference of the frames. NULL frames (out of memory) are not sent. */
void push_message_send(struct push_messages *messages, struct session *to, struct block *frames,
                       unsigned flags);
/* Adds a copy of a change. `session`: the session whose command made the change, or NULL. */
void message_change(struct push_messages *messages, struct session *session,
                    const struct change *change);
/* A command failed: drops the items after the first `count` without MESSAGE_KEPT or MESSAGE_DONE. */
void messages_cut(struct push_messages *messages, uint32_t count);
/* Drops the frames after the first `count`; changes stay. */
void messages_cut_frames(struct push_messages *messages, uint32_t count);
/* A script was rolled back: drops all items after the first `count` without MESSAGE_KEPT, also those of commands that
 * succeeded. */
void push_messages_roll_back(struct push_messages *messages, uint32_t count);
/* The command was rolled back: drops all items after the first `count`. */
void push_messages_drop(struct push_messages *messages, uint32_t count);
/* Marks the items after the first `count` to be sent even if the command fails. */
void push_messages_keep(struct push_messages *messages, uint32_t count);
/* Drops one item. */
void push_messages_erase(struct push_messages *messages, uint32_t index);
/* Moves the items after the first `count` to `to`, which is empty. */
void push_messages_take(struct push_messages *messages, uint32_t count, struct push_messages *to);
/* Moves all items of `from` behind those of `messages`. */
void push_messages_give(struct push_messages *messages, struct push_messages *from);
/* To be called before the session is freed: messages for it are dropped, and changes that it made have no session any more. */
void push_messages_forget(struct push_messages *messages, const struct session *session);
/* Moves the session's messages that precede its reply to `to`. */
void push_messages_move_before(struct push_messages *messages, struct session *session,
                               struct out *to);
/* True when there are messages and no running command can still fail. */
static inline bool push_messages_ready(const struct push_messages *messages)
{
    return messages->count && !messages->open;
}
/* Delivers all messages, after changes_tell. Receivers with too many unread bytes are closed at the end of the turn. */
void push_messages_deliver(struct push_messages *messages, uint64_t ticket);

/* Makes a frame of bulk strings with one reference: a push in RESP3, else an array. NULL: out of memory. */
struct block *push_message_frame(uint8_t resp, const struct bytes *parts, uint32_t count);
/* Moves the bytes of `out` into a message. */
struct block *message_of(struct out *out);
