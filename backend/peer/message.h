/*
 * message.h - writes and reads the fields of payloads between backends (frame.h): integers are little-endian, byte strings
 * follow their length (u32).
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct out;

void message_put_u8(struct out *out, uint8_t value);
void message_put_u32(struct out *out, uint32_t value);
void message_put_u64(struct out *out, uint64_t value);
void message_put_bytes(struct out *out, struct bytes value);

/* Reads from the front. After a read beyond the end is_good is false, and results are 0 or empty. */
struct message_reader {
    struct bytes rest;
    bool is_good;
};

struct message_reader message_read(struct bytes payload);
uint8_t message_u8(struct message_reader *reader);
uint32_t message_u32(struct message_reader *reader);
uint64_t message_u64(struct message_reader *reader);
/* Borrowed from the payload. */
struct bytes message_bytes(struct message_reader *reader);
/* Bytes of a message in parts, at most: more than the longest key and value together. */
#define MESSAGE_JOINED_MAX ((uint64_t)2 << 30)

/* Appends a part to a message of `len` bytes at `heap`, and returns where the message is afterwards. `heap` is NULL, or comes from this
 * function: it allocates powers of two, so that a long message is not copied for each of its parts. */
char *message_join(char *heap, size_t len, struct bytes part);
/* Were all reads good, and is nothing left? */
bool message_is_read(const struct message_reader *reader);
