/*
 * output_limit.h - Redis' client-output-buffer-limit: how much a client of a class may owe.
 *
 *   "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
 *    class  hard soft seconds: cut at once above `hard`, or when above `soft` for so long; 0: no limit
 */
#pragma once

#include "shared/bytes.h"

#include <stdint.h>

enum output_class { OUTPUT_NORMAL, OUTPUT_REPLICA, OUTPUT_PUBSUB, OUTPUT_CLASSES };

struct output_limit {
    uint64_t hard;
    uint64_t soft;
    uint64_t soft_s;
};

enum { OUTPUT_LIMITS_TEXT_MAX = 3 * 80 };

/* Takes over the classes the text names, the others stay. On false nothing is changed; *error is Redis' reason. */
bool output_limits_parse(struct bytes text, struct output_limit limits[OUTPUT_CLASSES],
                         const char **error);
/* All classes, with a zero byte; returns the length. */
size_t output_limits_format(const struct output_limit limits[OUTPUT_CLASSES],
                            char text[OUTPUT_LIMITS_TEXT_MAX]);
/* Is a client that owes `bytes` to be cut? `*soft_since_ms` remembers since when it is above `soft`; 0: it is not. */
bool output_limit_exceeded(const struct output_limit *limit, uint64_t bytes, uint64_t now_ms,
                           uint64_t *soft_since_ms);
