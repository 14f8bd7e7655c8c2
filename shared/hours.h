/*
 * hours.h - hours of each day, in UTC: "22:30-05:00" begins before midnight and ends behind it.
 */
#pragma once

#include "shared/bytes.h"

/* Minutes of the day; the same twice: never. */
struct hours {
    uint32_t from;
    uint32_t until; /* is not one of them any more */
};

/* HH:MM-HH:MM, or nothing: never. */
bool hours_parse(struct bytes text, struct hours *hours);
bool hours_have(const struct hours *hours, uint64_t wall_ms);
/* When those began that `wall_ms` is in: ms since 1970. */
uint64_t hours_began_ms(const struct hours *hours, uint64_t wall_ms);
