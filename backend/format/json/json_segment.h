/*
 * json_segment.h - parsed paths, for json_path.c, json_find.c and json_place.c only.
 */
#pragma once

#include "backend/format/json/json_path.h"

enum selector_kind {
    SELECT_NAME,
    SELECT_INDEX,
    SELECT_SLICE,
    SELECT_ALL,
    SELECT_FILTER,
};

struct json_filter;

struct json_selector {
    enum selector_kind kind;
    bool has_from, has_to; /* of a slice */
    struct bytes name;
    int64_t index;
    int64_t from, to, step;
    const struct json_filter *filter;
};

struct json_segment {
    bool is_deep; /* ".." */
    uint32_t count;
    struct json_selector *selectors;
};

/* A side of a comparison: a path, or else a value. */
struct json_operand {
    bool is_path;
    bool from_root; /* true: $, false: @ */
    struct json_segment *segments;
    uint32_t count;
    json *literal;
};

enum filter_kind { FILTER_OR, FILTER_AND, FILTER_NOT, FILTER_EXISTS, FILTER_COMPARE };
enum filter_operator { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE };

struct json_filter {
    enum filter_kind kind;
    enum filter_operator operator;
    const struct json_filter *a, *b; /* of OR, AND; NOT has only a */
    struct json_operand left, right; /* EXISTS has only left */
};
