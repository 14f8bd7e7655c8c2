/*
 * output_limit.h - Redis' client-output-buffer-limit: limits of unsent bytes by class of client.
 *
 *   "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
 *    class  hard soft seconds: closed at once above `hard`, or when above `soft` for `seconds`; 0: no limit
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

/* Sets the limits of the classes in the text. False: nothing was changed; *error is Redis' reason. */
bool output_limits_parse(struct bytes text, struct output_limit limits[OUTPUT_CLASSES],
                         const char **error);
/* Writes all classes, with a zero byte; returns the length. */
size_t output_limits_format(const struct output_limit limits[OUTPUT_CLASSES],
                            char text[OUTPUT_LIMITS_TEXT_MAX]);
/* Must a client with `bytes` unsent bytes be closed? *soft_since_ms: since when it is above `soft`; 0: it is below. */
bool output_limit_exceeded(const struct output_limit *limit, uint64_t bytes, uint64_t now_ms,
                           uint64_t *soft_since_ms);
