/*
 * option.c - one option of a configuration: parses and prints its value, and checks its bounds.
 */
#include "config/option.h"

#include "shared/check.h"
#include "shared/host_name.h"
#include "shared/hours.h"
#include "shared/namespace.h"
#include "shared/zone.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A suffix, and its factor to the base unit. Lists begin with the biggest unit, so that values are printed with it. */
struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    {"tb", (uint64_t)1 << 40}, {"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1 << 10}, {"", 1}};
static const struct unit time_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit plain_units[] = {{"", 1}};

struct units {
    const struct unit *list;
    size_t count;
};

static struct units units_of(enum option_kind kind)
{
    if (kind == OPTION_BYTES || kind == OPTION_AUTO_BYTES)
        return (struct units){byte_units, sizeof byte_units / sizeof *byte_units};
    if (kind == OPTION_MS)
        return (struct units){time_units, sizeof time_units / sizeof *time_units};
    return (struct units){plain_units, 1};
}

/* Parses a number in `base` with a unit after it; 0 needs no unit. */
static bool amount_parse(struct units units, struct bytes text, unsigned base, uint64_t *amount)
{
    uint64_t number = 0;
    size_t digits = 0;
    while (digits < text.len && isdigit((unsigned char)text.data[digits])) {
        unsigned digit = (unsigned)(text.data[digits++] - '0');
        if (digit >= base || __builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    if (digits == 0)
        return false;
    struct bytes suffix = {text.data + digits, text.len - digits};
    *amount = 0;
    if (number == 0 && suffix.len == 0)
        return true;
    for (size_t i = 0; i < units.count; i++)
        if (bytes_is(suffix, units.list[i].suffix))
            return !__builtin_mul_overflow(number, units.list[i].factor, amount);
    return false;
}

static size_t amount_format(struct units units, uint64_t amount, char *to, size_t size)
{
    size_t i = 0;
    while (i + 1 < units.count && (amount == 0 || amount % units.list[i].factor != 0))
        i++;
    const char *suffix = amount == 0 ? "" : units.list[i].suffix;
    return (size_t)snprintf(to, size, "%" PRIu64 "%s", amount / units.list[i].factor, suffix);
}

bool option_number(enum option_kind kind, struct bytes text, uint64_t *number)
{
    bool is_negative = kind == OPTION_INT && text.len > 0 && *text.data == '-';
    if (is_negative)
        text = (struct bytes){text.data + 1, text.len - 1};
    if (!amount_parse(units_of(kind), text, kind == OPTION_OCTAL ? 8 : 10, number))
        return false;
    if (is_negative && *number <= INT64_MAX)
        *number = -*number;
    return true;
}

/* The value of the row's min or max; a row without a valid number is a bug. */
static uint64_t bound_value(const struct option *option, const char *text)
{
    uint64_t amount = 0;
    CHECK(option_number(option->kind, bytes_of(text), &amount));
    return amount;
}

static bool in_option_bounds(const struct option *option, uint64_t number)
{
    uint64_t min = bound_value(option, option->min);
    uint64_t max = bound_value(option, option->max);
    if (option->kind == OPTION_INT)
        return (int64_t)number >= (int64_t)min && (int64_t)number <= (int64_t)max;
    return number >= min && number <= max;
}

bool word_next(struct bytes *rest, struct bytes *word)
{
    while (rest->len && (*rest->data == ' ' || *rest->data == '\t')) {
        rest->data++;
        rest->len--;
    }
    size_t len = 0;
    while (len < rest->len && rest->data[len] != ' ' && rest->data[len] != '\t')
        len++;
    *word = (struct bytes){rest->data, len};
    rest->data += len;
    rest->len -= len;
    return len > 0;
}

static bool host_valid(struct bytes host)
{
    bool is_v6 = host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']';
    const char *marks = is_v6 ? ":.%" : ".-_";
    size_t edge = is_v6 ? 1 : 0;
    for (size_t i = edge; i < host.len - edge; i++)
        if (!isalnum((unsigned char)host.data[i]) && !strchr(marks, host.data[i]))
            return false;
    return host.len > 0 && host.len <= 255;
}

static bool is_unix(struct bytes address)
{
    static const char prefix[] = "unix:/";
    return address.len > sizeof prefix - 1 && memcmp(address.data, prefix, sizeof prefix - 1) == 0;
}

bool address_valid(struct bytes address)
{
    enum { UNIX_PATH_MAX = 107, PREFIX = sizeof "unix:" - 1 };
    for (size_t i = 0; i < address.len; i++)
        if ((unsigned char)address.data[i] <= ' ' || address.data[i] == 0x7f ||
            address.data[i] == ';')
            return false;
    if (is_unix(address))
        return address.len - PREFIX <= UNIX_PATH_MAX;
    const char *colon = memrchr(address.data, ':', address.len);
    if (!colon)
        return false;
    struct bytes host = {address.data, (size_t)(colon - address.data)};
    struct bytes port = {colon + 1, address.len - host.len - 1};
    uint64_t number = 0;
    return host_valid(host) && port.len <= 5 &&
           amount_parse(units_of(OPTION_INT), port, 10, &number) && number <= 65535;
}

static bool addresses_valid(const struct option *option, struct bytes text)
{
    enum { ADDRESSES_TEXT_MAX = 4096 };
    struct bytes address;
    size_t count = 0;
    if (text.len > ADDRESSES_TEXT_MAX)
        return false;
    for (; word_next(&text, &address); count++)
        if (!address_valid(address))
            return false;
    return count >= bound_value(option, option->min);
}

/* True when the length is allowed, and reading the text from a file gives the same text: it has no control characters
 * and nothing that inih would strip or take for a comment. */
static bool text_valid(const struct option *option, struct bytes text)
{
    if (text.len < bound_value(option, option->min) || text.len > bound_value(option, option->max))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        bool after_space = i == 0 || text.data[i - 1] == ' ';
        if (byte < 0x20 || byte == 0x7f || (after_space && byte == ';'))
            return false;
    }
    return text.len == 0 || (text.data[0] != ' ' && text.data[text.len - 1] != ' ');
}

static int word_index(const char *words, struct bytes text)
{
    for (int i = 0; words; i++) {
        const char *end = strchrnul(words, '|');
        struct bytes word = {words, (size_t)(end - words)};
        if (word.len == text.len && strncasecmp(word.data, text.data, word.len) == 0)
            return i;
        words = *end ? end + 1 : NULL;
    }
    return -1;
}

static struct bytes word_at(const char *words, int index)
{
    for (int i = 0; i < index; i++) {
        words = strchrnul(words, '|');
        CHECK(*words);
        words++;
    }
    return (struct bytes){words, (size_t)(strchrnul(words, '|') - words)};
}

static bool is_text(enum option_kind kind)
{
    return kind == OPTION_STRING || kind == OPTION_ADDRESS || kind == OPTION_ADDRESSES ||
           kind == OPTION_SLOT_RULE || kind == OPTION_HOURS || kind == OPTION_HOST ||
           kind == OPTION_ZONE;
}

static bool is_tcp_only(const struct option *option)
{
    return strcmp(option->unit, "tcp") == 0;
}

static bool has_percent(const struct option *option)
{
    return strcmp(option->unit, "%") == 0;
}

static bool text_accepted(const struct option *option, struct bytes text)
{
    struct slot_rule rule;
    struct hours hours;
    char host[HOST_NAME_BYTES_MAX + 1];
    char zone[ZONE_NAME_MAX + 1];
    if (option->kind == OPTION_SLOT_RULE)
        return slot_rule_parse(text, &rule);
    if (option->kind == OPTION_HOURS)
        return hours_parse(text, &hours);
    if (option->kind == OPTION_ADDRESSES)
        return addresses_valid(option, text);
    if (!text_valid(option, text))
        return false;
    if (option->kind == OPTION_HOST)
        return host_name_expand(text, host);
    if (option->kind == OPTION_ZONE)
        return zone_expand(text, zone);
    if (option->kind != OPTION_ADDRESS || text.len == 0)
        return true;
    return address_valid(text) && !(is_unix(text) && is_tcp_only(option));
}

/* Reads `auto` or a percentage. */
static bool auto_read(const struct option *option, struct bytes text, uint64_t *number)
{
    uint64_t percent;
    if (bytes_is(text, "auto")) {
        *number = BYTES_AUTO;
        return true;
    }
    if (!has_percent(option) || !text.len || text.data[text.len - 1] != '%')
        return false;
    text.len--;
    if (!amount_parse(units_of(OPTION_INT), text, 10, &percent) || percent == 0 ||
        percent > BYTES_PERCENT_MAX)
        return false;
    *number = BYTES_PART(percent);
    return true;
}

static bool number_accepted(const struct option *option, struct bytes text, uint64_t *number)
{
    if (option->kind == OPTION_BOOL || option->kind == OPTION_ENUM) {
        const char *words = option->kind == OPTION_BOOL ? "no|yes" : option->unit;
        int index = word_index(words, text);
        *number = (uint64_t)index;
        return index >= 0;
    }
    if (option->kind == OPTION_AUTO_BYTES && auto_read(option, text, number))
        return true;
    return option_number(option->kind, text, number) && in_option_bounds(option, *number);
}

static void number_store(const struct option *option, void *member, uint64_t number)
{
    switch (option->kind) {
    case OPTION_INT:
    case OPTION_ENUM:
        *(int *)member = (int)number;
        break;
    case OPTION_BYTES:
    case OPTION_AUTO_BYTES:
    case OPTION_MS:
        *(uint64_t *)member = number;
        break;
    case OPTION_BOOL:
        *(bool *)member = number != 0;
        break;
    case OPTION_OCTAL:
        *(uint32_t *)member = (uint32_t)number;
        break;
    case OPTION_STRING:
    case OPTION_ADDRESS:
    case OPTION_ADDRESSES:
    case OPTION_SLOT_RULE:
    case OPTION_HOURS:
    case OPTION_HOST:
    case OPTION_ZONE:
        CHECK(!is_text(option->kind));
    }
}

static uint64_t number_load(const struct option *option, const void *member)
{
    switch (option->kind) {
    case OPTION_INT:
    case OPTION_ENUM:
        return (uint64_t) * (const int *)member;
    case OPTION_BYTES:
    case OPTION_AUTO_BYTES:
    case OPTION_MS:
        return *(const uint64_t *)member;
    case OPTION_BOOL:
        return *(const bool *)member;
    case OPTION_OCTAL:
        return *(const uint32_t *)member;
    case OPTION_STRING:
    case OPTION_ADDRESS:
    case OPTION_ADDRESSES:
    case OPTION_SLOT_RULE:
    case OPTION_HOURS:
    case OPTION_HOST:
    case OPTION_ZONE:
        break;
    }
    CHECK(!is_text(option->kind));
    return 0;
}

void option_init(const struct option *option, void *owner)
{
    if (is_text(option->kind)) {
        char **member = (char **)(void *)((char *)owner + option->offset);
        *member = strdup(option->initial);
        CHECK(*member);
        return;
    }
    uint64_t number = 0;
    CHECK(number_accepted(option, bytes_of(option->initial), &number));
    number_store(option, (char *)owner + option->offset, number);
}

bool option_missing(const struct option *option, const void *owner)
{
    const void *member = (const char *)owner + option->offset;
    return is_text(option->kind) && !text_accepted(option, bytes_of(*(char *const *)member));
}

bool option_set(const struct option *option, void *owner, struct bytes text, char *reason,
                size_t size)
{
    void *member = (char *)owner + option->offset;
    uint64_t number = 0;
    if (is_text(option->kind) ? text_accepted(option, text)
                              : number_accepted(option, text, &number)) {
        if (is_text(option->kind)) {
            char *copy = strndup(text.len ? text.data : "", text.len);
            CHECK(copy);
            free(*(char **)member);
            *(char **)member = copy;
        } else {
            number_store(option, member, number);
        }
        return true;
    }
    char expected[OPTION_REASON_MAX];
    option_expected(option, expected, sizeof expected);
    (void)snprintf(reason, size, "expected %s", expected);
    return false;
}

struct bytes option_text(const struct option *option, const void *owner,
                         char buffer[OPTION_TEXT_MAX])
{
    const void *member = (const char *)owner + option->offset;
    if (is_text(option->kind))
        return bytes_of(*(char *const *)member);
    uint64_t number = number_load(option, member);
    if (option->kind == OPTION_BOOL)
        return number ? BYTES("yes") : BYTES("no");
    if (option->kind == OPTION_AUTO_BYTES && number == BYTES_AUTO)
        return BYTES("auto");
    if (option->kind == OPTION_AUTO_BYTES && BYTES_IS_PART(number))
        return (struct bytes){buffer, (size_t)snprintf(buffer, OPTION_TEXT_MAX, "%" PRIu64 "%%",
                                                       BYTES_PERCENT(number))};
    if (option->kind == OPTION_ENUM)
        return word_at(option->unit, (int)number);
    size_t len = option->kind == OPTION_OCTAL
                     ? (size_t)snprintf(buffer, OPTION_TEXT_MAX, "%04" PRIo64, number)
                 : option->kind == OPTION_INT
                     ? (size_t)snprintf(buffer, OPTION_TEXT_MAX, "%" PRId64, (int64_t)number)
                     : amount_format(units_of(option->kind), number, buffer, OPTION_TEXT_MAX);
    return (struct bytes){buffer, len};
}

bool option_equal(const struct option *option, const void *a, const void *b)
{
    char buffer_a[OPTION_TEXT_MAX];
    char buffer_b[OPTION_TEXT_MAX];
    return bytes_equal(option_text(option, a, buffer_a), option_text(option, b, buffer_b));
}

bool option_is_path(const struct option *option)
{
    return option->kind == OPTION_STRING && strcmp(option->unit, "path") == 0;
}

void option_clear(const struct option *option, void *owner)
{
    if (!is_text(option->kind))
        return;
    char **member = (char **)(void *)((char *)owner + option->offset);
    free(*member);
    *member = NULL;
}

/* "always|everysec|os" → "always, everysec or os" */
static void words_expected(const char *words, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    while (used < size) {
        const char *end = strchrnul(words, '|');
        const char *joint = !*end ? "" : strchr(end + 1, '|') ? ", " : " or ";
        used +=
            (size_t)snprintf(text + used, size - used, "%.*s%s", (int)(end - words), words, joint);
        if (!*end)
            return;
        words = end + 1;
    }
}

void option_expected(const struct option *option, char *text, size_t size)
{
    const char *min = option->min;
    const char *max = option->max;
    switch (option->kind) {
    case OPTION_INT:
        (void)snprintf(text, size, "a number from %s to %s", min, max);
        break;
    case OPTION_BYTES:
        (void)snprintf(text, size, "a size from %s to %s, such as 64kb or 512mb", min, max);
        break;
    case OPTION_AUTO_BYTES:
        (void)snprintf(text, size, "auto, %sor a size from %s to %s, such as 64kb or 512mb",
                       has_percent(option) ? "a percentage from 1% to 90%, " : "", min, max);
        break;
    case OPTION_MS:
        (void)snprintf(text, size, "a time from %s to %s, such as 500ms, 5s or 1m", min, max);
        break;
    case OPTION_BOOL:
        (void)snprintf(text, size, "yes or no");
        break;
    case OPTION_ENUM:
        words_expected(option->unit, text, size);
        break;
    case OPTION_OCTAL:
        (void)snprintf(text, size, "octal permissions up to %s, such as 0700", max);
        break;
    case OPTION_STRING:
        (void)snprintf(text, size, "a text of %s to %s characters, no control characters, no ' ;'",
                       min, max);
        break;
    case OPTION_ADDRESS:
        (void)snprintf(text, size, "host:port%s%s",
                       is_tcp_only(option) ? " or [v6]:port" : ", [v6]:port or unix:/path",
                       strcmp(min, "0") == 0 ? ", or nothing" : "");
        break;
    case OPTION_ADDRESSES:
        (void)snprintf(text, size,
                       "host:port, [v6]:port or unix:/path, several separated by spaces");
        break;
    case OPTION_SLOT_RULE:
        (void)snprintf(text, size, "tag, prefix:SEPARATOR:FIELDS or fixed:SLOT with SLOT < 16384");
        break;
    case OPTION_HOURS:
        (void)snprintf(text, size, "HH:MM-HH:MM in UTC, such as 22:30-05:00, or nothing");
        break;
    case OPTION_HOST:
        (void)snprintf(text, size,
                       "a host of up to %d characters, counted with the machine's name in place of "
                       "%%h, or nothing",
                       HOST_NAME_BYTES_MAX);
        break;
    case OPTION_ZONE:
        (void)snprintf(
            text, size,
            "a name of up to %d letters, digits, '.', '_' or '-', or $ and a variable of "
            "the environment that has one, or nothing",
            ZONE_NAME_MAX);
        break;
    }
}
