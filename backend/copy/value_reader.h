/*
 * value_reader.h - reads a reply of the target value by value.
 *
 * A value of another kind than expected reads as empty or 0: then a comparison finds a difference, which is named.
 */
#pragma once

#include "shared/resp.h"

static inline struct bytes value_text(struct bytes frame, size_t *at)
{
    struct resp_value value;
    bool is_text = resp_value_next(frame, at, &value) && !value.is_null && value.text.data;
    return is_text ? resp_value_text(&value) : BYTES("");
}

/* -1 for null. */
static inline int64_t value_number(struct bytes frame, size_t *at)
{
    struct resp_value value;
    return resp_value_next(frame, at, &value) && !value.is_null ? value.count : -1;
}

/* The number of values that follow. */
static inline uint64_t values_count(struct bytes frame, size_t *at)
{
    struct resp_value value;
    bool is_list = resp_value_next(frame, at, &value) && value.type == '*' && value.count > 0;
    return is_list ? (uint64_t)value.count : 0;
}
