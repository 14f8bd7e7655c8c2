/*
 * topk.h - lists of the most frequent items (HeavyKeeper): sizes, places of buckets, decay and bytes; pure functions.
 *
 *             width
 *          ┌──────────────────────┐
 *   depth  │ .  ab:12  .  xy:3  . │ ◄─ item_mix(hash, 0)      an item has one bucket in each row. A bucket counts one item, the one
 *          │ .  xy:2   .  ab:14 . │ ◄─ item_mix(hash, 1)      with this fingerprint, so all others with the same place compete for it.
 *          └──────────────────────┘
 *               │ the item's highest count
 *               ▼
 *   list    14 ab     9 cd     9 ef                           the k items with the highest counts; of equal counts the one that was
 *                                                             reached last is first
 *
 * An increment of another item decrements the bucket's count with the probability decay ^ count. At 0 the other item gets the
 * bucket. So high counts stay and low ones do not. J. Gong et al., HeavyKeeper: An Accurate Algorithm for Finding Top-k Elephant
 * Flows, USENIX ATC 2018.
 *
 * Rows of CF_DATA. The buckets, row after row, are cut into pages of 64; pages that are all 0 are not stored:
 *
 *   'b' │ u32 page                       → of each bucket: u32 fingerprint │ u32 count
 *   'c' │ u32 2^32-1 - count │ u64 2^64-1 - change │ item      → (empty)                    the list in its order
 *   'i' │ item                                                 → u32 count │ u64 change     finds an item of the list
 *
 * Every change of the list has a number, from 1 on. `change` is the number of the change that gave the item its count, so of
 * items with equal counts the oldest is the last, and the next one that is displaced. Rows that were deleted lie behind the new last
 * item, and no item is ever put there again. So reading the last item visits no deleted rows, however many items have come and gone.
 *
 * The bytes after version and size in the metadata row: u32 k │ u32 width │ u32 depth │ f64 decay │ u32 items in the list │
 * u32 count of the last item of a full list, 0 in one that is not full │ u64 change of this item │ u64 number of changes. An item
 * whose count is below that of the last one changes its buckets only.
 *
 * Lists of older versions have neither of the two last fields nor `change` in their rows: equal counts are in the order of the names.
 * They stay as they are.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum {
    TOPK_PAGE_BUCKETS = 64,
    TOPK_BUCKET_BYTES = 8,
    TOPK_PAGE_BYTES = TOPK_PAGE_BUCKETS * TOPK_BUCKET_BYTES,
    TOPK_BUCKETS_MAX = 1 << 24, /* width x depth */
    TOPK_DEPTH_MAX = 64,        /* pages that an increment may write */
    TOPK_ITEMS_MAX = 100000,    /* k */
    TOPK_PAGE_SUB_BYTES = 5,    /* sub key of a page */
};

/* Where an item is in the list's order. */
struct topk_spot {
    uint32_t count;
    /* number of the change that put it there; 0 if equal counts are ordered by name */
    uint64_t change;
};

struct topk {
    uint32_t k;
    uint32_t width;
    uint32_t depth;
    double decay;
    uint32_t listed;       /* items in the list */
    struct topk_spot last; /* of the full list's last item; zeros: the list is not full */
    uint64_t changes;      /* of the list */
    bool is_by_name; /* a list of an older version, with equal counts in the order of the names */
};

bool topk_size_ok(uint64_t width, uint64_t depth);
/* The number of the item's bucket in a row of the sketch. */
uint32_t topk_place(const struct topk *topk, uint32_t row, uint64_t hash);
uint32_t topk_fingerprint(uint64_t hash);
/* Only the last page may have less than TOPK_PAGE_BYTES. */
size_t topk_page_bytes(const struct topk *topk, uint32_t page);

/* A sequence of random numbers from a seed. */
struct topk_random {
    uint64_t seed;
    uint32_t drawn;
};

/* Counts increments of the item with this fingerprint in one of its buckets. Returns the item's count in it, which stops at
 * UINT32_MAX; 0: the bucket counts another item. */
uint32_t topk_add(char *bucket, uint32_t fingerprint, uint32_t increments, double decay,
                  struct topk_random *random);
/* The item's count in one of its buckets; 0: the bucket counts another item. */
uint32_t topk_count(const char *bucket, uint32_t fingerprint);

/* The bytes of the metadata row. */
struct bytes topk_encode(struct arena *arena, const struct topk *topk);
bool topk_decode(struct bytes data, struct topk *topk);

enum topk_row { TOPK_ROW_PAGE = 'b', TOPK_ROW_ORDER = 'c', TOPK_ROW_ITEM = 'i' };

/* Sub keys. */
struct bytes topk_page_sub(struct arena *arena, uint32_t page);
struct bytes topk_order_sub(struct arena *arena, const struct topk *topk, struct topk_spot spot,
                            struct bytes item);
struct bytes topk_item_sub(struct arena *arena, struct bytes item);
/* False: the list has no such row. */
bool topk_page_decode(const struct topk *topk, struct bytes sub, uint32_t *page);
bool topk_order_decode(const struct topk *topk, struct bytes sub, struct topk_spot *spot,
                       struct bytes *item);
bool topk_item_decode(struct bytes sub, struct bytes *item);
/* The value of the row by item. */
struct bytes topk_item_value(struct arena *arena, const struct topk *topk, struct topk_spot spot);
bool topk_item_value_decode(const struct topk *topk, struct bytes value, struct topk_spot *spot);
