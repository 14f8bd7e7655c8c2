#include "config/redis_units.h"

#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Values for which Redis has other words. If several of Redis' words have the same meaning, CONFIG GET shows the first. */
static const struct {
    const char *key;
    const char *redis;
    const char *own;
} WORDS[] = {
    {"log-level", "debug", "debug"},    {"log-level", "verbose", "debug"},
    {"log-level", "notice", "info"},    {"log-level", "warning", "warn"},
    {"log-level", "warning", "error"},  {"durability", "everysec", "everysec"},
    {"durability", "always", "always"}, {"durability", "no", "os"},
};

enum { WORD_COUNT = sizeof WORDS / sizeof WORDS[0] };

bool redis_bytes(struct bytes text, uint64_t *bytes)
{
    static const struct {
        const char *suffix;
        uint64_t factor;
    } units[] = {{"b", 1},
                 {"k", 1000},
                 {"kb", 1024},
                 {"m", 1000000},
                 {"mb", 1024 * 1024},
                 {"g", 1000000000},
                 {"gb", 1024 * 1024 * 1024}};
    size_t digits = 0;
    while (digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9')
        digits++;
    struct bytes suffix = {text.data + digits, text.len - digits};
    uint64_t factor = suffix.len == 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (bytes_is(suffix, units[i].suffix))
            factor = units[i].factor;
    uint64_t number = 0;
    for (size_t i = 0; i < digits; i++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text.data[i] - '0'), &number))
            number = UINT64_MAX;
    if (__builtin_mul_overflow(number, factor, bytes))
        *bytes = UINT64_MAX;
    return factor != 0;
}

/* ---- reading ---- */

static struct bytes format_number(uint64_t number, char buffer[OPTION_TEXT_MAX])
{
    return (struct bytes){buffer, (size_t)snprintf(buffer, OPTION_TEXT_MAX, "%" PRIu64, number)};
}

struct bytes redis_option_text(const struct option *option, const void *owner,
                               char buffer[OPTION_TEXT_MAX])
{
    uint64_t number;
    struct bytes text = option_text(option, owner, buffer);
    switch (option->kind) {
    case OPTION_BYTES:
    case OPTION_MS:
        memcpy(&number, (const char *)owner + option->offset, sizeof number);
        return format_number(option->kind == OPTION_MS ? number / 1000 : number, buffer);
    case OPTION_ENUM:
        for (size_t i = 0; i < WORD_COUNT; i++)
            if (strcmp(WORDS[i].key, option->key) == 0 && bytes_is(text, WORDS[i].own))
                return bytes_of(WORDS[i].redis);
        return text;
    default:
        return text;
    }
}

/* ---- changing ---- */

static void refuse_words(const struct option *option, char *reason, size_t size)
{
    const char *last = "";
    size_t used = (size_t)snprintf(reason, size, "argument(s) must be one of the following: ");
    for (size_t i = 0; i < WORD_COUNT && used < size; i++) {
        if (strcmp(WORDS[i].key, option->key) != 0 || strcmp(WORDS[i].redis, last) == 0)
            continue;
        used +=
            (size_t)snprintf(reason + used, size - used, "%s%s", *last ? ", " : "", WORDS[i].redis);
        last = WORDS[i].redis;
    }
    for (const char *word = option->unit; !*last && *word && used + 2 < size; word++)
        used += (size_t)snprintf(reason + used, size - used, *word == '|' ? ", " : "%c", *word);
}

static bool option_set_word(const struct option *option, void *owner, struct bytes value,
                            char *reason, size_t size)
{
    char own_reason[OPTION_REASON_MAX];
    bool is_translated = false;
    for (size_t i = 0; i < WORD_COUNT; i++) {
        if (strcmp(WORDS[i].key, option->key) != 0)
            continue;
        is_translated = true;
        if (bytes_is(value, WORDS[i].redis))
            return option_set(option, owner, bytes_of(WORDS[i].own), reason, size);
    }
    if (!is_translated && option_set(option, owner, value, own_reason, sizeof own_reason))
        return true;
    refuse_words(option, reason, size);
    return false;
}

/* The row's min or max in the unit that Redis uses: seconds, bytes. */
static uint64_t unit_limit(const struct option *option, const char *text)
{
    static const struct {
        const char *unit;
        uint64_t factor; /* to bytes, or to milliseconds */
    } units[] = {{"kb", 1ULL << 10}, {"mb", 1ULL << 20}, {"gb", 1ULL << 30}, {"tb", 1ULL << 40},
                 {"s", 1000},        {"m", 60000},       {"h", 3600000},     {"d", 86400000}};
    size_t digits = strspn(text, "0123456789");
    uint64_t number = 0;
    (void)number_parse_uint64((struct bytes){text, digits}, &number);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + digits, units[i].unit) == 0)
            number *= units[i].factor;
    return option->kind == OPTION_MS ? number / 1000 : number;
}

bool redis_is_percent(struct bytes text)
{
    return text.len > 1 && text.data[text.len - 1] == '%';
}

const char *redis_refuse_percent(struct bytes text)
{
    static const char malformed[] = "argument must be a memory or percent value";
    uint64_t bytes;
    int64_t percent;
    if (!redis_is_percent(text))
        return redis_bytes(text, &bytes) ? NULL : malformed;
    if (!number_parse_int64((struct bytes){text.data, text.len - 1}, &percent) || percent < 0)
        return malformed;
    return percent > 100 ? "percentage argument must be less or equal to 100" : NULL;
}

static void refuse_range(const struct option *option, char *reason, size_t size)
{
    if (option->kind == OPTION_INT)
        (void)snprintf(reason, size, "argument must be between %s and %s inclusive", option->min,
                       option->max);
    else
        (void)snprintf(reason, size,
                       "argument must be between %" PRIu64 " and %" PRIu64 " inclusive",
                       unit_limit(option, option->min), unit_limit(option, option->max));
}

static bool option_set_number(const struct option *option, void *owner, struct bytes value,
                              char *reason, size_t size)
{
    char text[OPTION_TEXT_MAX];
    char own_reason[OPTION_REASON_MAX];
    uint64_t bytes = 0;
    int64_t number = 0;
    bool is_size = option->kind == OPTION_BYTES;
    if (is_size ? !redis_bytes(value, &bytes) : !number_parse_int64(value, &number)) {
        (void)snprintf(reason, size, "%s",
                       is_size ? "argument must be a memory value"
                               : "argument couldn't be parsed into an integer");
        return false;
    }
    int len = is_size ? snprintf(text, sizeof text, "%" PRIu64, bytes)
                      : snprintf(text, sizeof text, "%" PRId64 "%s", number,
                                 option->kind == OPTION_MS && number ? "s" : "");
    if (option_set(option, owner, (struct bytes){text, (size_t)len}, own_reason, sizeof own_reason))
        return true;
    refuse_range(option, reason, size);
    return false;
}

bool redis_option_set(const struct option *option, void *owner, struct bytes value, char *reason,
                      size_t size)
{
    char own_reason[OPTION_REASON_MAX];
    switch (option->kind) {
    case OPTION_ENUM:
        return option_set_word(option, owner, value, reason, size);
    case OPTION_INT:
    case OPTION_BYTES:
    case OPTION_MS:
        return option_set_number(option, owner, value, reason, size);
    case OPTION_BOOL:
        if (option_set(option, owner, value, own_reason, sizeof own_reason))
            return true;
        (void)snprintf(reason, size, "argument must be 'yes' or 'no'");
        return false;
    default:
        return option_set(option, owner, value, reason, size);
    }
}
