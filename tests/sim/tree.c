/*
 * tree.c - the ordered map of a column family in memory.
 *
 * A node's priority is a hash of its key: the shape depends only on the rows, not on the order of insertion, and the
 * depth is logarithmic, which bounds the recursions below.
 */
#include "tests/sim/tree.h"

#include "shared/check.h"

#include <stdlib.h>

struct row *row_new(struct bytes key, struct bytes value)
{
    struct row *row = malloc(sizeof *row + key.len + value.len);
    CHECK(row);
    *row = (struct row){.refs = 1, .key_len = key.len, .value_len = value.len};
    if (key.len)
        memcpy(row->data, key.data, key.len);
    if (value.len)
        memcpy(row->data + key.len, value.data, value.len);
    return row;
}

void row_unref(struct row *row)
{
    if (--row->refs == 0)
        free(row);
}

uint64_t row_mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

static uint64_t hash(struct bytes key)
{
    uint64_t bits = key.len;
    for (size_t i = 0; i < key.len; i++)
        bits = row_mix(bits + UINT64_C(0x9e3779b97f4a7c15) + (uint8_t)key.data[i]);
    return bits;
}

struct node *tree_ref(struct node *node)
{
    if (node)
        node->refs++;
    return node;
}

void tree_unref(struct node *node)
{
    if (!node || --node->refs)
        return;
    tree_unref(node->left);
    tree_unref(node->right);
    row_unref(node->row);
    free(node);
}

/* Takes ownership of the children; adds a reference to the row. */
static struct node *node_new(struct row *row, uint64_t priority, struct node *left,
                             struct node *right)
{
    struct node *node = malloc(sizeof *node);
    CHECK(node);
    row->refs++;
    *node = (struct node){1, priority, row, left, right};
    return node;
}

/* Rows below `key` (with `or_equal` also the key itself) go left, the others right. `node` stays with the caller. */
static void split(struct node *node, struct bytes key, bool or_equal, struct node **left,
                  struct node **right)
{
    if (!node) {
        *left = *right = NULL;
        return;
    }
    int order = bytes_compare(row_key(node->row), key);
    struct node *middle;
    if (order < 0 || (order == 0 && or_equal)) {
        split(node->right, key, or_equal, &middle, right);
        *left = node_new(node->row, node->priority, tree_ref(node->left), middle);
    } else {
        split(node->left, key, or_equal, left, &middle);
        *right = node_new(node->row, node->priority, middle, tree_ref(node->right));
    }
}

/* All rows of `left` must be below those of `right`. Takes ownership of both. */
static struct node *join(struct node *left, struct node *right)
{
    if (!left || !right)
        return left ? left : right;
    struct node *both;
    if (left->priority >= right->priority) {
        struct node *lower = join(tree_ref(left->right), right);
        both = node_new(left->row, left->priority, tree_ref(left->left), lower);
        tree_unref(left);
    } else {
        struct node *lower = join(left, tree_ref(right->left));
        both = node_new(right->row, right->priority, lower, tree_ref(right->right));
        tree_unref(right);
    }
    return both;
}

void tree_replace(struct node **root, struct bytes from, struct bytes to, bool to_inclusive,
                  struct row *row)
{
    struct node *left, *rest, *middle, *right = NULL;
    split(*root, from, false, &left, &rest);
    middle = rest;
    if (to.len || to_inclusive) {
        split(rest, to, to_inclusive, &middle, &right);
        tree_unref(rest);
    }
    tree_unref(middle);
    tree_unref(*root);
    if (row)
        left = join(left, node_new(row, hash(row_key(row)), NULL, NULL));
    *root = join(left, right);
}

struct row *tree_at_or_after(const struct node *node, struct bytes key, bool or_equal)
{
    struct row *found = NULL;
    while (node) {
        int order = bytes_compare(row_key(node->row), key);
        bool is_candidate = order > 0 || (order == 0 && or_equal);
        if (is_candidate)
            found = node->row;
        node = is_candidate ? node->left : node->right;
    }
    return found;
}

struct row *tree_at_or_before(const struct node *node, struct bytes key, bool or_equal)
{
    struct row *found = NULL;
    while (node) {
        int order = bytes_compare(row_key(node->row), key);
        bool is_candidate = order < 0 || (order == 0 && or_equal);
        if (is_candidate)
            found = node->row;
        node = is_candidate ? node->right : node->left;
    }
    return found;
}

struct row *tree_last(const struct node *node)
{
    while (node && node->right)
        node = node->right;
    return node ? node->row : NULL;
}

uint64_t tree_bytes(const struct node *node)
{
    if (!node)
        return 0;
    return node->row->key_len + node->row->value_len + tree_bytes(node->left) +
           tree_bytes(node->right);
}
