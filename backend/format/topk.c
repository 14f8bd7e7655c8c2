#include "backend/format/topk.h"

#include "backend/format/item_hash.h"
#include "shared/byte_order.h"

#include <math.h>

enum {
    META_BYTES_BY_NAME = 4 + 4 + 4 + 8 + 4 + 4,
    META_BYTES = META_BYTES_BY_NAME + 8 + 8,
    FINGERPRINT_ROUND = TOPK_DEPTH_MAX,
    DECREMENTS_MIN = 64, /* that are drawn as one random number */
};

bool topk_size_ok(uint64_t width, uint64_t depth)
{
    return width && depth && depth <= TOPK_DEPTH_MAX && width <= TOPK_BUCKETS_MAX / depth;
}

uint32_t topk_place(const struct topk *topk, uint32_t row, uint64_t hash)
{
    return item_place(hash, row, topk->width);
}

uint32_t topk_fingerprint(uint64_t hash)
{
    return (uint32_t)item_mix(hash, FINGERPRINT_ROUND);
}

size_t topk_page_bytes(const struct topk *topk, uint32_t page)
{
    uint32_t left = topk->width * topk->depth - page * TOPK_PAGE_BUCKETS;
    return left < TOPK_PAGE_BUCKETS ? (size_t)left * TOPK_BUCKET_BYTES : TOPK_PAGE_BYTES;
}

/* ---- buckets ---- */

/* Not negative and below 1. */
static double random_uniform(struct topk_random *random)
{
    return ldexp((double)(item_mix(random->seed, random->drawn++) >> 11), -53);
}

/* A number with the standard normal distribution (Box and Muller). */
static double random_normal(struct topk_random *random)
{
    double length = sqrt(-2 * log1p(-random_uniform(random)));
    return length * cos(2 * M_PI * random_uniform(random));
}

/* For how many decrements of a bucket one random number is drawn, so that an update needs at most about a thousand numbers. It is 1,
 * or a number so large that the tries for all these decrements together have nearly a normal distribution. It is small enough that
 * the chance of a decrement grows to at most e times its value while they happen, and that they use up about half of the
 * increments. */
static uint32_t decrements_at_once(uint32_t count, uint32_t increments, double decay)
{
    double most = increments / 2.0 * pow(decay, count);
    if (decay == 1)
        return count < increments ? count : increments;
    if (most * -log(decay) > 1)
        most = -1 / log(decay);
    if (most < DECREMENTS_MIN || count < DECREMENTS_MIN)
        return 1;
    return most < count ? (uint32_t)most : count;
}

/* The number of tries until a bucket with this count is decremented so often. A try has the chance decay ^ count, so the number for one
 * decrement has a geometric distribution. At most UINT32_MAX. */
static uint32_t tries_until(uint32_t decrements, uint32_t count, double decay,
                            struct topk_random *random)
{
    double chance = pow(decay, count);
    double tries;
    if (decay == 1)
        return decrements;
    if (decrements == 1) {
        tries = 1 + floor(log1p(-random_uniform(random)) / log1p(-chance));
    } else {
        double mean = -expm1(decrements * log(decay)) / (1 - decay) / chance;
        double squares =
            -expm1(2 * decrements * log(decay)) / (1 - decay * decay) / (chance * chance);
        tries = round(mean + sqrt(fmax(squares - mean, 0)) * random_normal(random));
    }
    tries = tries < decrements ? decrements : tries;
    return tries < UINT32_MAX ? (uint32_t)tries : UINT32_MAX;
}

/* Increments of another item decrement *count. Returns how many of them are left when it is 0, with the one that made it 0; 0: it
 * is not 0. */
static uint32_t decay_count(uint32_t *count, uint32_t increments, double decay,
                            struct topk_random *random)
{
    while (increments) {
        uint32_t decrements = decrements_at_once(*count, increments, decay);
        uint32_t tries = tries_until(decrements, *count, decay, random);
        if (tries > increments)
            return 0;
        increments -= tries;
        *count -= decrements;
        if (*count == 0)
            return increments + 1;
    }
    return 0;
}

uint32_t topk_count(const char *bucket, uint32_t fingerprint)
{
    return get_be32(bucket) == fingerprint ? get_be32(bucket + 4) : 0;
}

uint32_t topk_add(char *bucket, uint32_t fingerprint, uint32_t increments, double decay,
                  struct topk_random *random)
{
    uint32_t count = get_be32(bucket + 4);
    bool is_other = count && get_be32(bucket) != fingerprint;
    if (is_other)
        increments = decay_count(&count, increments, decay, random);
    if (increments) {
        put_be32(bucket, fingerprint);
        count = increments > UINT32_MAX - count ? UINT32_MAX : count + increments;
    }
    put_be32(bucket + 4, count);
    return is_other && !increments ? 0 : count;
}

/* ---- bytes ---- */

struct bytes topk_encode(struct arena *arena, const struct topk *topk)
{
    size_t len = topk->is_by_name ? META_BYTES_BY_NAME : META_BYTES;
    char *data = arena_alloc(arena, len);
    uint64_t decay;
    memcpy(&decay, &topk->decay, sizeof decay);
    put_be32(data, topk->k);
    put_be32(data + 4, topk->width);
    put_be32(data + 8, topk->depth);
    put_be64(data + 12, decay);
    put_be32(data + 20, topk->listed);
    put_be32(data + 24, topk->last.count);
    if (!topk->is_by_name) {
        put_be64(data + 28, topk->last.change);
        put_be64(data + 36, topk->changes);
    }
    return (struct bytes){data, len};
}

static bool spot_ok(const struct topk *topk, struct topk_spot spot)
{
    return spot.count && !spot.change == topk->is_by_name && spot.change <= topk->changes;
}

bool topk_decode(struct bytes data, struct topk *topk)
{
    if (data.len != META_BYTES && data.len != META_BYTES_BY_NAME)
        return false;
    uint64_t decay = get_be64(data.data + 12);
    *topk = (struct topk){
        .k = get_be32(data.data),
        .width = get_be32(data.data + 4),
        .depth = get_be32(data.data + 8),
        .listed = get_be32(data.data + 20),
        .last.count = get_be32(data.data + 24),
        .is_by_name = data.len == META_BYTES_BY_NAME,
    };
    memcpy(&topk->decay, &decay, sizeof decay);
    if (!topk->is_by_name) {
        topk->last.change = get_be64(data.data + 28);
        topk->changes = get_be64(data.data + 36);
    }
    return topk->k && topk->k <= TOPK_ITEMS_MAX && topk_size_ok(topk->width, topk->depth) &&
           topk->decay > 0 && topk->decay <= 1 && topk->listed <= topk->k &&
           (topk->listed < topk->k ? !topk->last.count && !topk->last.change
                                   : spot_ok(topk, topk->last));
}

/* kind | len - 1 bytes, to be filled in | item */
static char *sub_of(struct arena *arena, enum topk_row kind, size_t len, struct bytes item,
                    struct bytes *sub)
{
    char *data = arena_alloc(arena, len + item.len);
    data[0] = (char)kind;
    memcpy(data + len, item.data, item.len);
    *sub = (struct bytes){data, len + item.len};
    return data;
}

struct bytes topk_page_sub(struct arena *arena, uint32_t page)
{
    struct bytes sub;
    put_be32(sub_of(arena, TOPK_ROW_PAGE, TOPK_PAGE_SUB_BYTES, (struct bytes){"", 0}, &sub) + 1,
             page);
    return sub;
}

/* Bytes of a row in the order, before the item. */
static size_t order_bytes(const struct topk *topk)
{
    return topk->is_by_name ? 1 + 4 : 1 + 4 + 8;
}

struct bytes topk_order_sub(struct arena *arena, const struct topk *topk, struct topk_spot spot,
                            struct bytes item)
{
    struct bytes sub;
    char *data = sub_of(arena, TOPK_ROW_ORDER, order_bytes(topk), item, &sub);
    put_be32(data + 1, UINT32_MAX - spot.count);
    if (!topk->is_by_name)
        put_be64(data + 5, UINT64_MAX - spot.change);
    return sub;
}

struct bytes topk_item_sub(struct arena *arena, struct bytes item)
{
    struct bytes sub;
    (void)sub_of(arena, TOPK_ROW_ITEM, 1, item, &sub);
    return sub;
}

bool topk_page_decode(const struct topk *topk, struct bytes sub, uint32_t *page)
{
    if (sub.len != TOPK_PAGE_SUB_BYTES || sub.data[0] != TOPK_ROW_PAGE)
        return false;
    *page = get_be32(sub.data + 1);
    return *page < (topk->width * topk->depth + TOPK_PAGE_BUCKETS - 1) / TOPK_PAGE_BUCKETS;
}

bool topk_order_decode(const struct topk *topk, struct bytes sub, struct topk_spot *spot,
                       struct bytes *item)
{
    size_t len = order_bytes(topk);
    if (sub.len < len || sub.data[0] != TOPK_ROW_ORDER)
        return false;
    spot->count = UINT32_MAX - get_be32(sub.data + 1);
    spot->change = topk->is_by_name ? 0 : UINT64_MAX - get_be64(sub.data + 5);
    *item = (struct bytes){sub.data + len, sub.len - len};
    return spot_ok(topk, *spot);
}

bool topk_item_decode(struct bytes sub, struct bytes *item)
{
    if (sub.len < 1 || sub.data[0] != TOPK_ROW_ITEM)
        return false;
    *item = (struct bytes){sub.data + 1, sub.len - 1};
    return true;
}

struct bytes topk_item_value(struct arena *arena, const struct topk *topk, struct topk_spot spot)
{
    size_t len = topk->is_by_name ? 4 : 4 + 8;
    char *value = arena_alloc(arena, len);
    put_be32(value, spot.count);
    if (!topk->is_by_name)
        put_be64(value + 4, spot.change);
    return (struct bytes){value, len};
}

bool topk_item_value_decode(const struct topk *topk, struct bytes value, struct topk_spot *spot)
{
    if (value.len != (topk->is_by_name ? 4 : 4 + 8))
        return false;
    spot->count = get_be32(value.data);
    spot->change = topk->is_by_name ? 0 : get_be64(value.data + 4);
    return spot_ok(topk, *spot);
}
