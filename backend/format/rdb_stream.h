/*
 * rdb_stream.h - streams in RDB format: nodes of entries, then the tail.
 *
 *   node   id of the first entry │ listpack: master entry, up to 100 entries
 *   tail   length, ids, entries added │ groups: name, last id, entries read
 *                                         pending: id, time, deliveries │ consumers: name, times, ids of its pending
 *
 * A listpack begins with a master entry: count, deleted, fields of the first entry. An entry with equal fields omits
 * them. Redis' t_stream.c describes the format.
 */
#pragma once

#include "backend/format/rdb.h"
#include "backend/format/stream_id.h"

enum { RDB_ENTRY_DELETED = 1, RDB_ENTRY_SAME_FIELDS = 2 };

/* A node being read. */
struct rdb_node {
    struct arena *arena;
    struct bytes pack;
    size_t at;
    struct stream_id master; /* the ids of entries are relative to it */
    uint64_t left;           /* entries that have not been read */
    uint32_t fields_count;   /* of the master entry */
    struct bytes *fields;
};

/* An entry: fields and values alternate. */
struct rdb_entry {
    struct stream_id id;
    struct bytes *strings;
    uint32_t count;
    bool is_deleted;
};

/* Reads a node's id and master entry. */
bool rdb_node_open(struct rdb_node *node, struct rdb_reader *reader);
enum rdb_pack rdb_node_next(struct rdb_node *node, struct rdb_entry *entry);

/* A node being written. Its master entry has no fields, so that every entry has its own. */
struct rdb_node_writer {
    struct rdb_writer entries_text;
    struct stream_id first;
    uint64_t entries; /* 0: the next one begins a node */
    uint64_t elements;
};

bool rdb_node_is_full(const struct rdb_node_writer *node);
/* Adds an entry, as a row (stream_entry.h), in the arena. */
void rdb_node_add(struct rdb_node_writer *node, struct arena *arena, struct stream_id id,
                  struct bytes row);
/* Writes the node, now that the number of its entries is known, and empties it. */
void rdb_node_write(struct rdb_node_writer *node, struct rdb_writer *writer, struct arena *arena);

/* What follows the nodes. Before Redis 7 only length and last are there. */
struct rdb_tail {
    uint64_t length;
    struct stream_id last;
    struct stream_id first;
    struct stream_id max_deleted;
    uint64_t entries_added;
    bool is_full; /* all fields are there */
};
bool rdb_read_tail(struct rdb_reader *reader, uint8_t type, struct rdb_tail *tail);

struct rdb_group {
    struct bytes name;
    struct stream_id last;
    int64_t entries_read; /* -1: not known */
    bool has_read;        /* entries_read is there */
};
bool rdb_read_group(struct rdb_reader *reader, uint8_t type, struct rdb_group *group);

struct rdb_pending {
    struct stream_id id;
    uint64_t delivered_ms;
    uint64_t deliveries;
};
bool rdb_read_pending(struct rdb_reader *reader, struct rdb_pending *pending);

struct rdb_consumer {
    struct bytes name;
    uint64_t seen_ms;
    uint64_t active_ms;
    uint64_t pending;
};
bool rdb_read_consumer(struct rdb_reader *reader, uint8_t type, struct rdb_consumer *consumer);
/* An id in 16 bytes, as in the list of a consumer's pending entries. */
bool rdb_read_raw_id(struct rdb_reader *reader, struct stream_id *id);

/* The id as two lengths, as behind the entries of a stream. */
void rdb_write_stream_id(struct rdb_writer *writer, struct stream_id id);
/* The id as rdb_read_raw_id reads it. */
void rdb_write_raw_id(struct rdb_writer *writer, struct stream_id id);
