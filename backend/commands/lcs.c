/*
 * lcs.c - LCS: the longest common subsequence of two strings, by dynamic programming.
 *
 *   length[i][j] = LCS length of a[0..i) and b[0..j)
 *
 * The table takes 4 * (|a| + 1) * (|b| + 1) bytes, at most LCS_TABLE_BYTES_MAX and command-memory. Going back from its last cell gives
 * the sequence, and the ranges of equal bytes in both strings, last range first.
 */
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/text.h"
#include "shared/number.h"

#include <stdlib.h>

enum {
    LCS_TABLE_BYTES_MAX = 1 << 30,
    CELLS_OF_WORK = 4, /* in a unit of work (call_goes_on), about */
};

struct lcs_options {
    bool only_len;
    bool idx;
    bool with_match_len;
    int64_t min_match_len;
};

struct lcs {
    struct bytes a;
    struct bytes b;
    uint32_t *length;
    size_t bytes; /* of the table */
};

/* A range of equal bytes: a[a_from .. a_to] = b[b_from .. b_to]. */
struct lcs_match {
    uint32_t a_from, a_to, b_from, b_to;
};

static uint32_t *cell(const struct lcs *lcs, size_t i, size_t j)
{
    return &lcs->length[i * (lcs->b.len + 1) + j];
}

static bool lcs_options_parse(struct call *call, struct lcs_options *options)
{
    *options = (struct lcs_options){0};
    for (uint32_t i = 3; i < call->argc; i++) {
        if (bytes_is(call->argv[i], "idx")) {
            options->idx = true;
        } else if (bytes_is(call->argv[i], "len")) {
            options->only_len = true;
        } else if (bytes_is(call->argv[i], "withmatchlen")) {
            options->with_match_len = true;
        } else if (bytes_is(call->argv[i], "minmatchlen") && i + 1 < call->argc) {
            if (!call_int64(call, ++i, &options->min_match_len))
                return false;
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    if (options->idx && options->only_len) {
        call_error_text(call, "ERR If you want both the length and indexes, please just use IDX.");
        return false;
    }
    return true;
}

/* Opens both keys; a missing one is an empty string. */
static bool open_strings(struct call *call, struct entry entries[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        if (!keyspace_open(call, call->argv[1 + i], OPEN_READ, &entries[i]))
            return false;
        if (entries[i].exists && !text_is(&entries[i])) {
            call_error_text(call, "ERR The specified keys must contain string values");
            return false;
        }
    }
    return true;
}

/* Allocates the table, then reads the strings. */
static bool table_make(struct call *call, struct entry entries[2], struct lcs *lcs)
{
    uint64_t rows = text_len(&entries[0]) + 1;
    uint64_t columns = text_len(&entries[1]) + 1;
    struct call_budget *budget = &call->partition->running.budget;
    if (rows <= LCS_TABLE_BYTES_MAX / sizeof *lcs->length / columns) {
        lcs->bytes = rows * columns * sizeof *lcs->length;
        budget_hold(budget, lcs->bytes);
        lcs->length = budget->end ? NULL : malloc(lcs->bytes);
    }
    if (!lcs->length) { /* if it is over command-memory, the error says so */
        call_error_text(call,
                        "ERR Insufficient memory, failed allocating transient memory for LCS");
        return false;
    }
    return text_value(call, &entries[0], &lcs->a) && text_value(call, &entries[1], &lcs->b);
}

/* False: the call must end, and the error was replied. */
static bool table_fill(struct call *call, struct lcs *lcs)
{
    size_t rows = lcs->a.len + 1;
    size_t columns = lcs->b.len + 1;
    for (size_t i = 0; i < rows; i++) {
        if (!call_goes_on(call, columns / CELLS_OF_WORK))
            return false;
        for (size_t j = 0; j < columns; j++) {
            uint32_t best = 0;
            if (i > 0 && j > 0) {
                uint32_t up = *cell(lcs, i - 1, j);
                uint32_t left = *cell(lcs, i, j - 1);
                best = up > left ? up : left;
                if (lcs->a.data[i - 1] == lcs->b.data[j - 1])
                    best = *cell(lcs, i - 1, j - 1) + 1;
            }
            *cell(lcs, i, j) = best;
        }
    }
    return true;
}

/* Goes back by one cell from (i, j). True: the byte that was passed in both strings belongs to the sequence. */
static bool step_back(const struct lcs *lcs, size_t *i, size_t *j)
{
    if (lcs->a.data[*i - 1] == lcs->b.data[*j - 1]) {
        --*i;
        --*j;
        return true;
    }
    if (*cell(lcs, *i - 1, *j) > *cell(lcs, *i, *j - 1))
        --*i;
    else
        --*j;
    return false;
}

static void reply_sequence(struct call *call, const struct lcs *lcs)
{
    size_t i = lcs->a.len;
    size_t j = lcs->b.len;
    size_t at = *cell(lcs, i, j);
    char *text = arena_alloc(call->arena, at);
    size_t len = at;
    while (i > 0 && j > 0)
        if (step_back(lcs, &i, &j))
            text[--at] = lcs->a.data[i];
    reply_bulk(&call->reply, (struct bytes){text, len});
}

static void reply_match(struct call *call, const struct lcs_match *match, bool with_len)
{
    reply_array(&call->reply, with_len ? 3 : 2);
    reply_array(&call->reply, 2);
    reply_int(&call->reply, match->a_from);
    reply_int(&call->reply, match->a_to);
    reply_array(&call->reply, 2);
    reply_int(&call->reply, match->b_from);
    reply_int(&call->reply, match->b_to);
    if (with_len)
        reply_int(&call->reply, (int64_t)match->a_to - match->a_from + 1);
}

/* Finds the previous range of equal bytes, going back from (*i, *j); false at the beginning of the strings. */
static bool match_next(const struct lcs *lcs, size_t *i, size_t *j, struct lcs_match *match)
{
    while (*i > 0 && *j > 0 && lcs->a.data[*i - 1] != lcs->b.data[*j - 1])
        step_back(lcs, i, j);
    if (*i == 0 || *j == 0)
        return false;
    match->a_to = (uint32_t)*i - 1;
    match->b_to = (uint32_t)*j - 1;
    while (*i > 0 && *j > 0 && lcs->a.data[*i - 1] == lcs->b.data[*j - 1])
        step_back(lcs, i, j);
    match->a_from = (uint32_t)*i;
    match->b_from = (uint32_t)*j;
    return true;
}

static bool long_enough(const struct lcs_match *match, const struct lcs_options *options)
{
    return (int64_t)match->a_to - match->a_from + 1 >= options->min_match_len;
}

static void reply_matches(struct call *call, const struct lcs *lcs,
                          const struct lcs_options *options)
{
    struct lcs_match match;
    size_t i = lcs->a.len;
    size_t j = lcs->b.len;
    int64_t count = 0;
    while (match_next(lcs, &i, &j, &match))
        count += long_enough(&match, options);
    reply_map(&call->reply, 2);
    reply_bulk_text(&call->reply, "matches");
    reply_array(&call->reply, count);
    i = lcs->a.len;
    j = lcs->b.len;
    while (match_next(lcs, &i, &j, &match))
        if (long_enough(&match, options))
            reply_match(call, &match, options->with_match_len);
    reply_bulk_text(&call->reply, "len");
    reply_int(&call->reply, *cell(lcs, lcs->a.len, lcs->b.len));
}

void cmd_lcs(struct call *call)
{
    struct lcs lcs = {0};
    struct lcs_options options;
    struct entry entries[2];
    if (!open_strings(call, entries) || !lcs_options_parse(call, &options))
        return;
    if (table_make(call, entries, &lcs) && table_fill(call, &lcs)) {
        if (options.idx)
            reply_matches(call, &lcs, &options);
        else if (options.only_len)
            reply_int(&call->reply, *cell(&lcs, lcs.a.len, lcs.b.len));
        else
            reply_sequence(call, &lcs);
    }
    free(lcs.length);
    budget_give_back(&call->partition->running.budget, lcs.bytes);
}
