/*
 * slot_ranges.h - reads a text of slot ranges: "0-5460 7000" or "0-5460,7000".
 */
#pragma once

#include "shared/bytes.h"
#include "shared/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct out;

/* Calls the function for each range, in the order of the text; an empty text has none. False: the text is not valid, and some
 * ranges may have been reported. */
typedef void slot_range_fn(void *owner, uint16_t first, uint16_t last);
bool slot_ranges_each(struct bytes text, slot_range_fn *on_range, void *owner);
/* Writes the slots as ranges, with this character between them. */
void slot_ranges_write(const bool is_in[SLOT_COUNT], char between, struct out *out);
/* Sets is_in[slot] for all slots in the ranges. Returns false if the text is empty or not valid. */
bool slot_ranges_read(struct bytes text, bool is_in[SLOT_COUNT]);
