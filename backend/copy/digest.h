/*
 * digest.h - a number that two values share if their elements are equal, whatever their encodings.
 *
 *   list    hash(0, a) + hash(1, b) + …               the order counts
 *   others  hash(f, v, time) + hash(g, w, time) + …   it does not: servers keep the elements in different orders
 *   stream  entries, ids, groups, pending entries     not: when a consumer was last seen
 *
 * 64 bits of XXH3, so two different values have the same number by accident once in 10^19 times. Values of modules are not decoded.
 */
#pragma once

#include "backend/format/rdb_elements.h"
#include "backend/format/rdb_file.h"
#include "backend/format/rdb_stream.h"

struct digest {
    uint64_t sum;
    uint64_t index;     /* of the next element of a list */
    bool is_old_stream; /* before Redis 7: without what such a file does not have */
    uint64_t cut_ms;    /* fields that expire until then are left out */
    uint64_t fields_cut;
    /* A stream is read by pages: without when messages were delivered (copy_stream_pages.c). */
    bool is_paged;
    size_t longest; /* bytes of the longest element or entry */
};

/* A field that expires within this time after the digest began is not compared. */
enum { DIGEST_CUT_MS = 60 * 1000 };

/* An empty digest that leaves out fields that expire soon. */
struct digest digest_new(void);

/* Adds a whole value. False: it is damaged. The type byte has been read. */
bool digest_value(struct digest *digest, uint8_t type, struct rdb_reader *reader);
/* Add parts of a long value: elements, nodes of a stream, what follows them. */
bool digest_elements(struct digest *digest, struct rdb_elements *elements);
bool digest_nodes(struct digest *digest, struct rdb_reader *reader, uint64_t count);
bool digest_tail(struct digest *digest, uint8_t type, struct rdb_reader *reader);
/* Add single parts, which were read in another way. */
void digest_element(struct digest *digest, enum type type, const struct rdb_element *element);
/* A part of a long string, which begins with a whole unit of RDB_STRING_UNIT bytes. */
void digest_text(struct digest *digest, uint64_t offset, struct bytes text);
void digest_entry(struct digest *digest, const struct rdb_entry *entry);
void digest_ids(struct digest *digest, const struct rdb_tail *tail);
void digest_group(struct digest *digest, const struct rdb_group *group);
void digest_consumer(struct digest *digest, struct bytes group, struct bytes consumer);
void digest_pending(struct digest *digest, struct bytes group, const struct rdb_pending *pending);
/* The pending entry is of this consumer. */
void digest_given(struct digest *digest, struct bytes group, struct bytes consumer,
                  struct stream_id id);
