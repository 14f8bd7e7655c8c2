/*
 * sample.h - random rows of a collection, every choice equally likely, in O(count · log n); and what HRANDFIELD,
 * SRANDMEMBER and ZRANDMEMBER are asked for.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

enum { SAMPLE_REPEATS_MAX = 1 << 20 }; /* with repeats: what one request may make the server hold */

/* `KEY [count [WITHVALUES]]` */
struct sample_wish {
    bool has_count;
    bool has_option; /* the word behind count */
    bool repeats;    /* count is negative: any row again and again */
    uint64_t count;
};
/* `option` in lower case. False: replied. */
bool sample_parse(struct call *call, const char *option, struct sample_wish *wish);
/* Asks a collection for no more than it has. False: replied. */
bool sample_bound(struct call *call, const struct entry *entry, struct sample_wish *wish);

struct sample {
    uint64_t row; /* its number in order */
    uint64_t at;  /* its place in the answer */
    struct bytes sub;
    struct bytes value;
};

/* `count` different rows (<= size), in the rows' order; in the call's arena. NULL: the store failed (replied). The
 * collection's ranks are kept over `cf` (rank.h). */
struct sample *sample_distinct(struct call *call, struct entry *entry, enum cf cf, uint64_t count);
/* `count` rows (<= SAMPLE_REPEATS_MAX), each any of all, in the order they were drawn. */
struct sample *sample_repeated(struct call *call, struct entry *entry, enum cf cf, uint64_t count);
