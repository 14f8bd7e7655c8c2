/*
 * plain_keys.h - which keys are strings without TTL in RocksDB's tables, so that a command that replaces such a key need not
 * read its row.
 *
 *   SET key ─► write buffers: not there ─► plain_keys_has: yes ─► the key exists, as a string without TTL
 *                                                          no  ─► the row is read, from the row cache or the store
 *
 * A key takes 8 to 16 bytes, its value none. As the row cache it describes rows of the tables, without effects that are only in
 * write buffers, and the overlay updates both at the same moments. A key that is not here may still exist.
 *
 * A key is represented by the seeded hash of its row, of 64 bits. If a new key had the hash of another one, it would be taken for
 * an existing key and not be counted: among 100 million keys one in 200 thousand million new ones has.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plain_keys;

/* Reserves addresses; memory is used as keys are added. */
struct plain_keys *plain_keys_new(size_t bytes);
void plain_keys_free(struct plain_keys *keys); /* NULL is allowed */
/* In all functions `hash` is hash_row(CF_METADATA, key). */
bool plain_keys_has(const struct plain_keys *keys, uint64_t hash);
/* Replaces another key when there is no space. */
void plain_keys_add(struct plain_keys *keys, uint64_t hash);
void plain_keys_remove(struct plain_keys *keys, uint64_t hash);
void plain_keys_clear(struct plain_keys *keys);
size_t plain_keys_count(const struct plain_keys *keys);
size_t plain_keys_bytes(const struct plain_keys *keys); /* in use */
