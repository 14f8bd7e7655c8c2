#include "proxy/core/hotkeys.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

struct hotkeys *hotkeys_new(uint64_t now_ms)
{
    struct hotkeys *hotkeys = calloc(1, sizeof *hotkeys);
    CHECK(hotkeys);
    hotkeys->began_ms = now_ms;
    return hotkeys;
}

static void drop_name(struct hotkeys *hotkeys, uint32_t i)
{
    free(hotkeys->names[i].text);
    hotkeys->names[i] = hotkeys->names[--hotkeys->name_count];
}

void hotkeys_reset(struct hotkeys *hotkeys, uint64_t now_ms)
{
    while (hotkeys->name_count)
        drop_name(hotkeys, hotkeys->name_count - 1);
    *hotkeys = (struct hotkeys){.began_ms = now_ms};
}

void hotkeys_free(struct hotkeys *hotkeys)
{
    if (!hotkeys)
        return;
    hotkeys_reset(hotkeys, 0);
    free(hotkeys);
}

/* ---- the sketch ------------------------------------------------------------------------------- */

/* Index of the name's counter in a row: two halves of the hash give one hash for each row. */
static uint32_t column_of(uint64_t hash, uint32_t row)
{
    return ((uint32_t)hash + row * ((uint32_t)(hash >> 32) | 1)) % HOTKEYS_WIDTH;
}

static uint64_t estimate_of(const struct hotkeys *hotkeys, uint64_t hash)
{
    uint64_t total = 0;
    for (int window = 0; window < 2; window++) {
        uint32_t least = UINT32_MAX;
        for (uint32_t row = 0; row < HOTKEYS_ROWS; row++) {
            uint32_t count = hotkeys->counts[window][row][column_of(hash, row)];
            least = count < least ? count : least;
        }
        total += least;
    }
    return total;
}

static struct bytes cut_name(struct bytes name)
{
    return (struct bytes){name.data, name.len < HOTKEYS_NAME_MAX ? name.len : HOTKEYS_NAME_MAX};
}

uint64_t hotkeys_estimate(const struct hotkeys *hotkeys, struct bytes name)
{
    return estimate_of(hotkeys, hash_bytes(cut_name(name)));
}

/* ---- windows ---------------------------------------------------------------------------------- */

static void begin_window(struct hotkeys *hotkeys)
{
    hotkeys->current ^= 1;
    memset(hotkeys->counts[hotkeys->current], 0, sizeof hotkeys->counts[0]);
    hotkeys->began_ms += HOTKEYS_WINDOW_MS;
    hotkeys->has_before = true;
    hotkeys->least = 0;
    for (uint32_t i = hotkeys->name_count; i-- > 0;)
        if (estimate_of(hotkeys, hotkeys->names[i].hash) == 0)
            drop_name(hotkeys, i);
}

void hotkeys_close_windows(struct hotkeys *hotkeys, uint64_t now_ms)
{
    if (now_ms - hotkeys->began_ms >= 3 * HOTKEYS_WINDOW_MS) /* both windows are over */
        hotkeys_reset(hotkeys, now_ms);
    while (now_ms - hotkeys->began_ms >= HOTKEYS_WINDOW_MS)
        begin_window(hotkeys);
}

void hotkeys_share(const struct hotkeys *hotkeys, struct hot_share *share)
{
    *share = (struct hot_share){0};
    for (uint32_t i = 0; i < HOTKEYS_WIDTH; i++)
        share->total += (uint64_t)hotkeys->counts[0][0][i] + hotkeys->counts[1][0][i];
    for (uint32_t i = 0; i < hotkeys->name_count; i++) {
        uint64_t count = estimate_of(hotkeys, hotkeys->names[i].hash);
        if (count > share->count)
            *share = (struct hot_share){hotkeys->names[i].hash, count, share->total};
    }
}

uint64_t hotkeys_covered_ms(const struct hotkeys *hotkeys, uint64_t now_ms)
{
    return now_ms - hotkeys->began_ms + (hotkeys->has_before ? HOTKEYS_WINDOW_MS : 0);
}

/* ---- names ------------------------------------------------------------------------------------ */

static bool is_kept(const struct hotkeys *hotkeys, struct bytes name, uint64_t hash)
{
    for (uint32_t i = 0; i < hotkeys->name_count; i++) {
        const struct hot_name *kept = &hotkeys->names[i];
        if (kept->hash == hash && kept->len == name.len &&
            memcmp(kept->text, name.data, name.len) == 0)
            return true;
    }
    return false;
}

/* Makes room for a name with this estimate. False: all names in the list have a higher one. */
static bool evict_name(struct hotkeys *hotkeys, uint64_t estimate)
{
    uint64_t least = UINT64_MAX;
    uint32_t at = 0;
    if (hotkeys->name_count < HOTKEYS_NAMES)
        return true;
    for (uint32_t i = 0; i < hotkeys->name_count; i++) {
        uint64_t kept = estimate_of(hotkeys, hotkeys->names[i].hash);
        if (kept < least) {
            least = kept;
            at = i;
        }
    }
    hotkeys->least = least;
    if (estimate <= least)
        return false;
    drop_name(hotkeys, at);
    return true;
}

void hotkeys_add(struct hotkeys *hotkeys, struct bytes name, uint64_t now_ms)
{
    hotkeys_close_windows(hotkeys, now_ms);
    name = cut_name(name);
    uint64_t hash = hash_bytes(name);
    for (uint32_t row = 0; row < HOTKEYS_ROWS; row++)
        hotkeys->counts[hotkeys->current][row][column_of(hash, row)]++;
    uint64_t estimate = estimate_of(hotkeys, hash);
    if ((hotkeys->name_count == HOTKEYS_NAMES && estimate <= hotkeys->least) ||
        is_kept(hotkeys, name, hash) || !evict_name(hotkeys, estimate))
        return;
    struct hot_name *kept = &hotkeys->names[hotkeys->name_count++];
    *kept =
        (struct hot_name){.hash = hash, .text = malloc(name.len + 1), .len = (uint32_t)name.len};
    CHECK(kept->text);
    memcpy(kept->text, name.data, name.len);
}
