#include "shared/hours.h"

enum { TEXT_LEN = sizeof "HH:MM-HH:MM" - 1, MINUTES_PER_DAY = 24 * 60, MINUTE_MS = 60 * 1000 };

static bool digits_parse(const char *text, uint32_t below, uint32_t *number)
{
    uint32_t tens = (uint32_t)(text[0] - '0'), ones = (uint32_t)(text[1] - '0');
    *number = tens * 10 + ones;
    return tens < 10 && ones < 10 && *number < below;
}

static bool time_parse(const char *text, uint32_t *minute)
{
    uint32_t hours, minutes;
    if (!digits_parse(text, 24, &hours) || text[2] != ':' || !digits_parse(text + 3, 60, &minutes))
        return false;
    *minute = hours * 60 + minutes;
    return true;
}

bool hours_parse(struct bytes text, struct hours *hours)
{
    *hours = (struct hours){0};
    if (text.len == 0)
        return true;
    return text.len == TEXT_LEN && time_parse(text.data, &hours->from) && text.data[5] == '-' &&
           time_parse(text.data + 6, &hours->until) && hours->from != hours->until;
}

/* Minutes since the last start of the hours. */
static uint64_t minutes_since(const struct hours *hours, uint64_t wall_ms)
{
    return (wall_ms / MINUTE_MS + MINUTES_PER_DAY - hours->from) % MINUTES_PER_DAY;
}

bool hours_have(const struct hours *hours, uint64_t wall_ms)
{
    uint32_t length = (hours->until + MINUTES_PER_DAY - hours->from) % MINUTES_PER_DAY;
    return minutes_since(hours, wall_ms) < length;
}

uint64_t hours_began_ms(const struct hours *hours, uint64_t wall_ms)
{
    return (wall_ms / MINUTE_MS - minutes_since(hours, wall_ms)) * MINUTE_MS;
}
