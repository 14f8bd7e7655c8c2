/*
 * feed_position.h - how far a reader of changes has read the log of a partition, as text.
 *
 *   3f9c01a27be45d10.812.88a1c0ffee000001.4
 *   └ log id         └ index of the last batch that was read whole; 0: none
 *                        └ checksum of its record; 0: not known
 *                                         └ events of the next batch that were read
 *
 * The log id alone does not prove that index 812 is the batch which was read: a disk snapshot that was put back keeps its log id. So
 * the checksum is compared too.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum { FEED_POSITION_MAX = 80 };

struct feed_position {
    uint64_t log_id;
    uint64_t index;
    uint64_t sum;
    uint64_t number;
};

struct bytes feed_position_write(const struct feed_position *position, char to[FEED_POSITION_MAX]);
/* False: the text is no position. */
bool feed_position_read(struct bytes text, struct feed_position *position);
