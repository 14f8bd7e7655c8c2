/*
 * hours.h - hours of each day, in UTC: "22:30-05:00" ends on the next day.
 */
#pragma once

#include "shared/bytes.h"

/* Minutes of the day; the hours are empty when both are equal. */
struct hours {
    uint32_t from;
    uint32_t until; /* the first minute after the hours */
};

/* Parses "HH:MM-HH:MM"; an empty text means no hours. */
bool hours_parse(struct bytes text, struct hours *hours);
bool hours_have(const struct hours *hours, uint64_t wall_ms);
/* Start of the period that contains `wall_ms`: ms since 1970. */
uint64_t hours_began_ms(const struct hours *hours, uint64_t wall_ms);
