/*
 * test_config_option.c - values of options to text and back, and the errors for invalid values.
 */
#include "config/option.h"

#include "shared/check.h"
#include "shared/host_name.h"
#include "shared/zone.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct sample {
    int number;
    int below;
    uint64_t size_bytes;
    uint64_t time_ms;
    bool flag;
    int word;
    uint32_t mode;
    char *text;
    char *address;
    char *addresses;
    char *rule;
    char *hours;
    char *host;
    char *zone;
    uint64_t share_bytes;
    uint64_t part_bytes;
};

#define ROW(kind, member, initial, min, max, unit)                                                 \
    {                                                                                              \
        OPTION_##kind, #member, "section", #member, initial, min, max, unit, OPTION_RELOAD, "",    \
            offsetof(struct sample, member)                                                        \
    }

enum {
    NUMBER,
    SIZE,
    TIME,
    FLAG,
    WORD,
    MODE,
    BELOW,
    TEXT,
    ADDRESS,
    ADDRESSES,
    RULE,
    HOURS,
    HOST,
    ZONE,
    SHARE,
    PART,
    ROWS
};

// clang-format off
static const struct option rows[ROWS] = {
    ROW(INT, number, "3", "1", "10", ""),
    ROW(BYTES, size_bytes, "64kb", "1kb", "1tb", ""),
    ROW(MS, time_ms, "0", "0", "1d", ""),
    ROW(BOOL, flag, "no", "", "", ""),
    ROW(ENUM, word, "two", "", "", "one|two|three"),
    ROW(OCTAL, mode, "0700", "0", "0777", ""),
    ROW(INT, below, "0", "-1", "7", ""),
    ROW(STRING, text, "", "0", "10", ""),
    ROW(ADDRESS, address, "", "1", "100", ""),
    ROW(ADDRESSES, addresses, "h:1", "1", "1000", ""),
    ROW(SLOT_RULE, rule, "tag", "1", "64", ""),
    ROW(HOURS, hours, "", "", "", ""),
    ROW(HOST, host, "", "0", "1000", ""),
    ROW(ZONE, zone, "", "0", "64", ""),
    ROW(AUTO_BYTES, share_bytes, "auto", "1mb", "16tb", ""),
    ROW(AUTO_BYTES, part_bytes, "4mb", "1mb", "16tb", "%"),
};
// clang-format on

static struct sample sample;
static char reason[OPTION_REASON_MAX];

static bool set(int row, const char *text)
{
    return option_set(&rows[row], &sample, bytes_of(text), reason, sizeof reason);
}

static bool shows(int row, const char *text)
{
    char buffer[OPTION_TEXT_MAX];
    return bytes_equal(option_text(&rows[row], &sample, buffer), bytes_of(text));
}

static void test_defaults_are_set_from_the_rows(void)
{
    for (int i = 0; i < ROWS; i++)
        option_init(&rows[i], &sample);
    CHECK(sample.number == 3);
    CHECK(sample.size_bytes == 64 * 1024);
    CHECK(sample.time_ms == 0);
    CHECK(!sample.flag);
    CHECK(sample.word == 1);
    CHECK(sample.mode == 0700);
    CHECK(strcmp(sample.text, "") == 0);
    CHECK(option_missing(&rows[ADDRESS], &sample));
    CHECK(!option_missing(&rows[ADDRESSES], &sample));
}

static void test_numbers_keep_to_their_bounds(void)
{
    CHECK(set(NUMBER, "1") && sample.number == 1);
    CHECK(set(NUMBER, "10") && sample.number == 10);
    const char *const bad[] = {
        "", "0", "11", "-1", "+5", "5 ", " 5", "5x", "99999999999999999999", "0x5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!set(NUMBER, bad[i]));
    CHECK(sample.number == 10);
    CHECK(strcmp(reason, "expected a number from 1 to 10") == 0);
    CHECK(set(BELOW, "-1") && sample.below == -1 && shows(BELOW, "-1"));
    CHECK(set(BELOW, "7") && sample.below == 7 && shows(BELOW, "7"));
    CHECK(!set(BELOW, "-2") && !set(BELOW, "-") && !set(BELOW, "--1") && !set(BELOW, "8"));
    CHECK(!set(NUMBER, "-1") && !set(SIZE, "-1"));
}

static void test_sizes_and_times_take_units(void)
{
    CHECK(set(SIZE, "512mb") && sample.size_bytes == 512u << 20 && shows(SIZE, "512mb"));
    CHECK(set(SIZE, "1024mb") && shows(SIZE, "1gb"));
    CHECK(set(SIZE, "1025") && shows(SIZE, "1025"));
    CHECK(set(SIZE, "2KB") && shows(SIZE, "2kb"));
    CHECK(!set(SIZE, "2tb"));
    CHECK(!set(SIZE, "5s"));
    CHECK(!set(SIZE, "99999999999tb"));
    CHECK(set(TIME, "500ms") && sample.time_ms == 500 && shows(TIME, "500ms"));
    CHECK(set(TIME, "90s") && shows(TIME, "90s"));
    CHECK(set(TIME, "120s") && shows(TIME, "2m"));
    CHECK(set(TIME, "0") && shows(TIME, "0"));
    CHECK(!set(TIME, "5"));
    CHECK(strcmp(reason, "expected a time from 0 to 1d, such as 500ms, 5s or 1m") == 0);
}

static void test_sizes_can_be_auto_or_a_percentage(void)
{
    CHECK(sample.share_bytes == BYTES_AUTO && sample.part_bytes == 4 << 20);
    CHECK(set(SHARE, "512mb") && sample.share_bytes == 512 << 20 && shows(SHARE, "512mb"));
    CHECK(set(SHARE, "AUTO") && sample.share_bytes == BYTES_AUTO && shows(SHARE, "auto"));
    CHECK(!set(SHARE, "25%") && !set(SHARE, "") && !set(SHARE, "automatic") && !set(SHARE, "1kb"));
    CHECK(strcmp(reason, "expected auto, or a size from 1mb to 16tb, such as 64kb or 512mb") == 0);
    CHECK(set(PART, "25%") && sample.part_bytes == BYTES_PART(25) && shows(PART, "25%"));
    CHECK(BYTES_IS_PART(sample.part_bytes) && BYTES_PERCENT(sample.part_bytes) == 25);
    CHECK(set(PART, "90%") && shows(PART, "90%") && set(PART, "1%") && shows(PART, "1%"));
    CHECK(set(PART, "auto") && shows(PART, "auto") && !BYTES_IS_PART(sample.part_bytes));
    const char *const bad[] = {"0%", "91%", "%", "-1%", "5 %", "1mb%", "99999999999999999999%"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!set(PART, bad[i]));
    CHECK(strcmp(reason, "expected auto, a percentage from 1% to 90%, or a size from 1mb to 16tb, "
                         "such as 64kb or 512mb") == 0);
    CHECK(!set(SIZE, "auto") && !set(SIZE, "18446744073709551615") &&
          !set(PART, "18446744073709551615"));
}

static void test_words_and_modes(void)
{
    CHECK(set(FLAG, "YES") && sample.flag && shows(FLAG, "yes"));
    CHECK(!set(FLAG, "1"));
    CHECK(set(WORD, "Three") && sample.word == 2 && shows(WORD, "three"));
    CHECK(!set(WORD, "four"));
    CHECK(strcmp(reason, "expected one, two or three") == 0);
    CHECK(!set(WORD, ""));
    CHECK(!set(WORD, "tw"));
    CHECK(set(MODE, "660") && sample.mode == 0660 && shows(MODE, "0660"));
    CHECK(!set(MODE, "0788"));
    CHECK(!set(MODE, "1777"));
}

static void test_texts_that_a_file_could_not_hold_are_refused(void)
{
    CHECK(set(TEXT, "a b;c") && shows(TEXT, "a b;c"));
    const char *const bad[] = {" a", "a ", ";a", "a ;b", "a\nb", "12345678901"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!set(TEXT, bad[i]));
    CHECK(!option_set(&rows[TEXT], &sample, (struct bytes){"a\0b", 3}, reason, sizeof reason));
    CHECK(set(TEXT, ""));
}

static void test_addresses(void)
{
    const char *const good[] = {"h:1", "127.0.0.1:7379", "[::1]:0", "a-b.c_d:65535", "unix:/tmp/x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(set(ADDRESS, good[i]));
    const char *const bad[] = {"h",     ":1",    "h:",     "h:65536", "h:x", "::1:5",
                               "[::1]", "unix:", "unix:/", "h h:1",   "[:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!set(ADDRESS, bad[i]));
    CHECK(set(ADDRESSES, "h:1 [::]:2\tunix:/x"));
    CHECK(!set(ADDRESSES, "h:1 h"));
}

static void test_slot_rules(void)
{
    CHECK(set(RULE, "prefix:::2"));
    CHECK(!set(RULE, "prefix:2"));
    CHECK(shows(RULE, "prefix:::2"));
}

static void test_hours(void)
{
    CHECK(set(HOURS, "22:30-05:00"));
    CHECK(!set(HOURS, "22:30-25:00"));
    CHECK(shows(HOURS, "22:30-05:00"));
    CHECK(set(HOURS, ""));
}

static void test_hosts_must_fit_with_the_name_of_the_machine(void)
{
    char machine[HOST_NAME_MAX + 1] = "";
    char text[2 * HOST_NAME_BYTES_MAX + 3] = "";
    CHECK(gethostname(machine, sizeof machine) == 0 && *machine);
    CHECK(set(HOST, "%h.backends"));
    CHECK(shows(HOST, "%h.backends"));
    CHECK(set(HOST, ""));
    for (size_t i = 0; i < HOST_NAME_BYTES_MAX / strlen(machine); i++)
        strcat(text, "%h");
    CHECK(set(HOST, text));
    strcat(text, "%h");
    CHECK(!set(HOST, text));
    CHECK(strstr(reason, "expected a host of up to 247 characters"));
}

static void test_zones_have_names_or_variables_that_have_one(void)
{
    char text[ZONE_NAME_MAX + 2];
    char zone[ZONE_NAME_MAX + 1];
    memset(text, 'z', sizeof text);
    text[ZONE_NAME_MAX] = '\0';
    CHECK(set(ZONE, text));
    CHECK(zone_expand(bytes_of(text), zone) && strcmp(zone, text) == 0);
    text[ZONE_NAME_MAX] = 'z', text[ZONE_NAME_MAX + 1] = '\0';
    CHECK(!set(ZONE, text));
    CHECK(strstr(reason, "expected a name of up to 63 letters, digits"));
    CHECK(!set(ZONE, "two words") && !set(ZONE, "$") && !set(ZONE, "$A B") && !set(ZONE, "z\x01"));
    CHECK(setenv("ZONE_OF_TEST", "eu-1.a_b", 1) == 0);
    CHECK(set(ZONE, "$ZONE_OF_TEST") && shows(ZONE, "$ZONE_OF_TEST"));
    CHECK(zone_expand(BYTES("$ZONE_OF_TEST"), zone) && strcmp(zone, "eu-1.a_b") == 0);
    CHECK(setenv("ZONE_OF_TEST", "two words", 1) == 0);
    CHECK(!set(ZONE, "$ZONE_OF_TEST"));
    CHECK(setenv("ZONE_OF_TEST", "", 1) == 0);
    CHECK(set(ZONE, "$ZONE_OF_TEST") && set(ZONE, "$ZONE_THAT_IS_NOT_SET") && set(ZONE, ""));
    CHECK(zone_expand(BYTES("$ZONE_OF_TEST"), zone) && !*zone);
}

int main(void)
{
    test_defaults_are_set_from_the_rows();
    test_numbers_keep_to_their_bounds();
    test_sizes_and_times_take_units();
    test_sizes_can_be_auto_or_a_percentage();
    test_words_and_modes();
    test_texts_that_a_file_could_not_hold_are_refused();
    test_addresses();
    test_slot_rules();
    test_hours();
    test_hosts_must_fit_with_the_name_of_the_machine();
    test_zones_have_names_or_variables_that_have_one();
    for (int i = 0; i < ROWS; i++)
        option_clear(&rows[i], &sample);
    return 0;
}
