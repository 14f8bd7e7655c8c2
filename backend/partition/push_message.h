/*
 * push_message.h - out-of-band messages of the command being run: to whom they go, and when they may leave.
 *
 *   PUBLISH, notify, tracking, MONITOR ─► push_message_send ─► messages ──the command failed──► dropped
 *                                                            │ its reply has a place
 *                                                            ▼
 *                                                     push_messages_deliver ─► session_push(…, ticket)
 *
 * A message leaves no earlier than the reply of the command that caused it: it waits for the same ticket, and
 * is dropped when that batch fails. Receivers share the bytes of one formatted message.
 */
#pragma once

#include "shared/block.h"
#include "shared/bytes.h"

struct change;
struct out;
struct session;

enum message_flag {
    MESSAGE_BEFORE = 0, /* when the receiver is the sender: it stands before the reply */
    MESSAGE_AFTER = 1,  /* behind the reply */
    MESSAGE_KEPT = 2,   /* it is sent even if the command fails or is rolled back */
    MESSAGE_DONE = 4, /* its command succeeded, in a script: it is sent even if the script fails */
};

/* Frames for a session, or a change (changes.h) that is still to be made into messages. */
struct push_message {
    struct session *session; /* NULL: it has gone */
    struct block *frames;    /* whole frames: data[0..used); NULL: see change */
    struct change *change;   /* heap, with its key behind it; NULL: see frames */
    unsigned flags;          /* enum message_flag */
};

/* All of a partition, in order. */
struct push_messages {
    struct push_message *items;
    uint32_t count;
    uint32_t cap;
    uint32_t changes; /* how many of the items are changes */
    uint32_t open; /* commands that run, one inside the other: what they say is not complete yet */
};

struct push_messages *push_messages_new(void);
void push_messages_free(struct push_messages *messages);
/* Drops all messages and frees what holds them; the struct itself stays usable. */
void push_messages_clear(struct push_messages *messages);
/* Takes its own reference of the frames; NULL frames (no memory for them) are not sent. */
void push_message_send(struct push_messages *messages, struct session *to, struct block *frames,
                       unsigned flags);
/* Adds a change; copies it. The session is the one whose command made it, or NULL. */
void message_change(struct push_messages *messages, struct session *session,
                    const struct change *change);
/* A command failed: drops what came behind the first `count`, except what is to be kept. */
void messages_cut(struct push_messages *messages, uint32_t count);
/* Drops the frames behind the first `count`; changes stay. */
void messages_cut_frames(struct push_messages *messages, uint32_t count);
/* A script's effects were rolled back: drops all messages behind the first `count` but those with MESSAGE_KEPT, also
 * those of commands that succeeded. */
void push_messages_roll_back(struct push_messages *messages, uint32_t count);
/* Drops all that came behind the first `count`: the command is rolled back. */
void push_messages_drop(struct push_messages *messages, uint32_t count);
/* What came behind the first `count` is sent even if the command fails. */
void push_messages_keep(struct push_messages *messages, uint32_t count);
/* The session is about to be freed. */
void push_messages_forget(struct push_messages *messages, const struct session *session);
/* Moves the session's messages that stand before its reply into `to`. */
void push_messages_move_before(struct push_messages *messages, struct session *session,
                               struct out *to);
/* Is there something to deliver, and no command that may still fail? */
static inline bool push_messages_ready(const struct push_messages *messages)
{
    return messages->count && !messages->open;
}
/* Hands everything to the receivers, after changes_tell; who owes too much then is cut at the end of the turn. */
void push_messages_deliver(struct push_messages *messages, uint64_t ticket);

/* A frame of bulk strings, an array or in RESP3 a push; one reference. NULL: no memory for it. */
struct block *push_message_frame(uint8_t resp, const struct bytes *parts, uint32_t count);
/* The out's bytes as a message; the out is emptied. */
struct block *message_of(struct out *out);
