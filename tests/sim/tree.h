/*
 * tree.h - a persistent ordered map: nodes never change; a write makes new nodes along a path and shares the rest. So a
 * snapshot is one reference.
 *
 *      before: b ─┬─ a            after a change at c:   b' ─┬─ a  (shared)
 *                 └─ d ─┬─ c                                └─ d' ─┬─ c'
 *                       └─ e                                       └─ e  (shared)
 *
 * An empty tree is NULL.
 */
#pragma once

#include "shared/bytes.h"

/* Shared by all nodes and readers that have a reference. */
struct row {
    uint32_t refs;
    size_t key_len, value_len;
    char data[]; /* key | value */
};

struct node {
    uint32_t refs;
    uint64_t priority;
    struct row *row;
    struct node *left, *right;
};

static inline struct bytes row_key(const struct row *row)
{
    return (struct bytes){row->data, row->key_len};
}

static inline struct bytes row_value(const struct row *row)
{
    return (struct bytes){row->data + row->key_len, row->value_len};
}

/* Makes a row with one reference, for the caller; copies key and value. */
struct row *row_new(struct bytes key, struct bytes value);
void row_unref(struct row *row);

struct node *tree_ref(struct node *tree);
void tree_unref(struct node *tree);
/* Replaces the rows from <= k < to (`to_inclusive`: k <= to; empty `to`: to the end) by `row`, which may be NULL;
 * the tree takes a reference of its own to it. The caller's reference to the tree becomes one to the new tree. */
void tree_replace(struct node **root, struct bytes from, struct bytes to, bool to_inclusive,
                  struct row *row);
/* The first row k >= key (`or_equal` false: k > key), or NULL; borrowed from the tree. */
struct row *tree_at_or_after(const struct node *tree, struct bytes key, bool or_equal);
/* The last row k <= key (`or_equal` false: k < key), or NULL. */
struct row *tree_at_or_before(const struct node *tree, struct bytes key, bool or_equal);
struct row *tree_last(const struct node *tree);
/* Bytes of all keys and values. */
uint64_t tree_bytes(const struct node *tree);
/* Scrambles 64 bits; different inputs give different results. For hashes and seeded random numbers. */
uint64_t row_mix(uint64_t bits);
