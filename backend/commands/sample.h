/*
 * sample.h - random rows of a collection, every choice equally likely, in O(count · log n); and the arguments of
 * HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

enum { SAMPLE_REPEATS_MAX = 1 << 20 }; /* limits the memory of a request with repeats */

/* Arguments: `KEY [count [WITHVALUES]]`. */
struct sample_wish {
    bool has_count;
    bool has_option; /* WITHVALUES or WITHSCORES was given */
    bool repeats;    /* count is negative: rows may repeat */
    uint64_t count;
};
/* Parses the arguments; `option` in lower case. False: a reply was written. */
bool sample_parse(struct call *call, const char *option, struct sample_wish *wish);
/* Limits the count to the size of the collection. False: a reply was written. */
bool sample_bound(struct call *call, const struct entry *entry, struct sample_wish *wish);

struct sample {
    uint64_t row; /* index in the order of the rows */
    uint64_t at;  /* position in the reply */
    struct bytes sub;
    struct bytes value;
};

/* Chooses `count` (<= size) different rows, in the order of the rows; in the call's arena. NULL: the store failed
 * (replied). The collection must have ranks over `cf` (rank.h). */
struct sample *sample_distinct(struct call *call, struct entry *entry, enum cf cf, uint64_t count);
/* Chooses `count` (<= SAMPLE_REPEATS_MAX) rows independently of each other, in the order in which they were drawn. */
struct sample *sample_repeated(struct call *call, struct entry *entry, enum cf cf, uint64_t count);
