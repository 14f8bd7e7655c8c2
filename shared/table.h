/*
 * table.h - hash table from bytes to a pointer: open addressing, power-of-two sizes, seeded hash against flooding.
 *
 * Keys are copied. The order of iteration is unspecified.
 */
#pragma once

#include "shared/bytes.h"

/* Memory of an entry, besides its key and value, where it is counted: table.c keeps a quarter of the places free at least, and copies the
 * key. A table that has just grown has its old places too, up to 48 bytes for each entry. */
enum { TABLE_ENTRY_BYTES = 80 };

struct table;

struct table *table_new(void);
/* Frees the table and its copies of keys, but not the values. NULL is allowed. */
void table_free(struct table *table);
/* The same, and frees the values, which come from malloc. */
void table_free_values(struct table *table);
/* NULL when absent. */
void *table_get(const struct table *table, struct bytes key);
/* Returns the replaced value, or NULL. `value` must not be NULL. */
void *table_put(struct table *table, struct bytes key, void *value);
/* Returns the removed value, or NULL. */
void *table_remove(struct table *table, struct bytes key);
size_t table_count(const struct table *table);
/* Iterates: start with *cursor = 0; false at the end. The table must not change during an iteration. */
bool table_next(const struct table *table, size_t *cursor, struct bytes *key, void **value);
/* How many places a table that has grown or shrunk has still to move: each put and remove of a key moves some. For tests. */
size_t table_moves_left(const struct table *table);
/* 64-bit seeded hash, for other tables. */
uint64_t hash_bytes(struct bytes data);
