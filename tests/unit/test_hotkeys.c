/*
 * test_hotkeys.c - the sketch never underestimates, the most frequent names are kept, and old counts decay.
 */
#include "proxy/core/hotkeys.h"

#include "shared/check.h"

#include <stdio.h>

static struct bytes name_of(char text[32], unsigned i)
{
    return (struct bytes){text, (size_t)snprintf(text, 32, "key:%u", i)};
}

static void add(struct hotkeys *hotkeys, unsigned i, unsigned times, uint64_t now_ms)
{
    char text[32];
    while (times-- > 0)
        hotkeys_add(hotkeys, name_of(text, i), now_ms);
}

static uint64_t estimate(const struct hotkeys *hotkeys, unsigned i)
{
    char text[32];
    return hotkeys_estimate(hotkeys, name_of(text, i));
}

static bool keeps(const struct hotkeys *hotkeys, unsigned i)
{
    char text[32];
    struct bytes name = name_of(text, i);
    for (uint32_t n = 0; n < hotkeys->name_count; n++)
        if (bytes_equal(name, (struct bytes){hotkeys->names[n].text, hotkeys->names[n].len}))
            return true;
    return false;
}

static void test_estimates_are_never_too_low_and_seldom_too_high(void)
{
    struct hotkeys *hotkeys = hotkeys_new(0);
    unsigned wrong = 0;
    for (unsigned i = 0; i < 1000; i++)
        add(hotkeys, i, i % 10 + 1, 5);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(estimate(hotkeys, i) >= i % 10 + 1);
        wrong += estimate(hotkeys, i) > i % 10 + 1;
    }
    CHECK(wrong < 100);
    hotkeys_free(hotkeys);
}

static void test_the_heaviest_names_are_kept_among_many_that_come_once(void)
{
    struct hotkeys *hotkeys = hotkeys_new(0);
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned i = 0; i < 20; i++)
            add(hotkeys, i, 1, 5);
        for (unsigned i = 0; i < 50; i++)
            add(hotkeys, 1000 + round * 50 + i, 1, 5);
    }
    for (unsigned i = 0; i < 20; i++)
        CHECK(keeps(hotkeys, i) && estimate(hotkeys, i) >= 200 && estimate(hotkeys, i) < 300);
    CHECK(hotkeys->name_count == HOTKEYS_NAMES);
    hotkeys_free(hotkeys);
}

static void test_a_window_is_dropped_after_the_next(void)
{
    struct hotkeys *hotkeys = hotkeys_new(1000);
    add(hotkeys, 1, 50, 1000);
    CHECK(hotkeys_covered_ms(hotkeys, 3000) == 2000);
    add(hotkeys, 2, 10, 1000 + HOTKEYS_WINDOW_MS);
    CHECK(estimate(hotkeys, 1) == 50 && keeps(hotkeys, 1));
    CHECK(hotkeys_covered_ms(hotkeys, 2000 + HOTKEYS_WINDOW_MS) == 1000 + HOTKEYS_WINDOW_MS);
    hotkeys_close_windows(hotkeys, 1000 + 2 * HOTKEYS_WINDOW_MS);
    CHECK(estimate(hotkeys, 1) == 0 && !keeps(hotkeys, 1));
    CHECK(estimate(hotkeys, 2) == 10 && keeps(hotkeys, 2));
    hotkeys_close_windows(hotkeys, 1000 + 9 * HOTKEYS_WINDOW_MS);
    CHECK(hotkeys->name_count == 0 && !hotkeys->has_before);
    add(hotkeys, 3, 1, 1001 + 9 * HOTKEYS_WINDOW_MS);
    CHECK(estimate(hotkeys, 3) == 1);
    hotkeys_free(hotkeys);
}

static void test_long_names_are_cut_and_a_reset_forgets_all(void)
{
    static char text[2 * HOTKEYS_NAME_MAX];
    struct hotkeys *hotkeys = hotkeys_new(0);
    hotkeys_add(hotkeys, (struct bytes){text, sizeof text}, 0);
    hotkeys_add(hotkeys, (struct bytes){text, HOTKEYS_NAME_MAX}, 0);
    CHECK(hotkeys->name_count == 1 && hotkeys->names[0].len == HOTKEYS_NAME_MAX);
    CHECK(hotkeys_estimate(hotkeys, (struct bytes){text, sizeof text}) == 2);
    hotkeys_reset(hotkeys, 7);
    CHECK(hotkeys->name_count == 0 && hotkeys->began_ms == 7);
    CHECK(hotkeys_estimate(hotkeys, (struct bytes){text, sizeof text}) == 0);
    hotkeys_free(hotkeys);
}

int main(void)
{
    test_estimates_are_never_too_low_and_seldom_too_high();
    test_the_heaviest_names_are_kept_among_many_that_come_once();
    test_a_window_is_dropped_after_the_next();
    test_long_names_are_cut_and_a_reset_forgets_all();
    return 0;
}
