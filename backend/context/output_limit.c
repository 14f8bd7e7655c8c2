#include "backend/context/output_limit.h"

#include "config/redis_units.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>

enum { WORDS_OF_CLASS = 4, WORDS_MAX = 64 };

static const char *const NAMES[OUTPUT_CLASSES] = {"normal", "slave", "pubsub"};

/* Splits at single spaces; returns the number of words, more than WORDS_MAX if there are more. */
static size_t split_words(struct bytes text, struct bytes words[WORDS_MAX])
{
    size_t count = 0;
    size_t from = 0;
    if (text.len == 0)
        return 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.data[i] != ' ')
            continue;
        if (count == WORDS_MAX)
            return WORDS_MAX + 1;
        words[count++] = (struct bytes){text.data + from, i - from};
        from = i + 1;
    }
    return count;
}

static int class_of(struct bytes name)
{
    if (bytes_is(name, "replica"))
        return OUTPUT_REPLICA;
    for (int class = 0; class < OUTPUT_CLASSES; class ++)
        if (bytes_is(name, NAMES[class]))
            return class;
    return -1;
}

bool output_limits_parse(struct bytes text, struct output_limit limits[OUTPUT_CLASSES],
                         const char **error)
{
    struct bytes words[WORDS_MAX];
    struct output_limit changed[OUTPUT_CLASSES];
    size_t count = split_words(text, words);
    memcpy(changed, limits, sizeof changed);
    if (count % WORDS_OF_CLASS || count > WORDS_MAX) {
        *error = "Wrong number of arguments in buffer limit configuration.";
        return false;
    }
    for (size_t i = 0; i < count; i += WORDS_OF_CLASS) {
        int class = class_of(words[i]);
        if (class < 0) {
            *error = "Invalid client class specified in buffer limit configuration.";
            return false;
        }
        if (!redis_bytes(words[i + 1], &changed[class].hard) ||
            !redis_bytes(words[i + 2], &changed[class].soft) ||
            !number_parse_uint64(words[i + 3], &changed[class].soft_s) ||
            changed[class].soft_s > INT64_MAX) {
            *error = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
            return false;
        }
    }
    memcpy(limits, changed, sizeof changed);
    return true;
}

size_t output_limits_format(const struct output_limit limits[OUTPUT_CLASSES],
                            char text[OUTPUT_LIMITS_TEXT_MAX])
{
    size_t len = 0;
    for (int class = 0; class < OUTPUT_CLASSES; class ++)
        len += (size_t)snprintf(text + len, OUTPUT_LIMITS_TEXT_MAX - len,
                                "%s%s %" PRIu64 " %" PRIu64 " %" PRIu64, class ? " " : "",
                                NAMES[class], limits[class].hard, limits[class].soft,
                                limits[class].soft_s);
    return len;
}

bool output_limit_exceeded(const struct output_limit *limit, uint64_t bytes, uint64_t now_ms,
                           uint64_t *soft_since_ms)
{
    if (limit->hard && bytes >= limit->hard)
        return true;
    if (!limit->soft || bytes < limit->soft) {
        *soft_since_ms = 0;
        return false;
    }
    if (*soft_since_ms == 0)
        *soft_since_ms = now_ms;
    return (now_ms - *soft_since_ms) / 1000 > limit->soft_s;
}
