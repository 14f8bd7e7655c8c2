/*
 * plain_keys.h - remembers which keys in RocksDB's tables are strings without TTL: a command that replaces such a key need not read
 * its row.
 *
 *   SET key ─► write buffers: not there ─► plain_keys_has: yes ─► the key exists, as a string without TTL
 *                                                          no  ─► the row is read, from the row cache or the store
 *
 * A key takes 8 to 16 bytes, whatever the size of its value. Like the row cache, the set describes the tables without the effects in
 * write buffers, and the overlay updates both together. A key that is not in the set may still exist.
 *
 * A key is represented by a seeded 64-bit hash of its row key. A new key with the hash of another one would be mistaken for an existing
 * key and not be counted; with 100 million keys in the set this happens to one new key in 200 thousand million.
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
/* Adds the key; replaces another one if there is no space. */
void plain_keys_add(struct plain_keys *keys, uint64_t hash);
void plain_keys_remove(struct plain_keys *keys, uint64_t hash);
void plain_keys_clear(struct plain_keys *keys);
size_t plain_keys_count(const struct plain_keys *keys);
size_t plain_keys_bytes(const struct plain_keys *keys); /* in use */
