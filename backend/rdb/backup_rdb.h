/*
 * backup_rdb.h - reads a backup of a cluster as if it were an RDB file of the backup's moment.
 *
 *   directories ─► every shard of the map is there, every file has its checksum ─► scratch directory of links: transactions are
 *                                                                                  ended (tool/moment_shards.h)
 *   shard after shard:  libraries │ per database: SELECTDB │ [expiry] type key │ count │ row row row …      backup_rdb_read
 *
 *   backup_rdb.c          opening, shards, databases and keys
 *   backup_rdb_value.c    values but streams
 *   backup_rdb_stream.c   streams and their groups
 *
 * One shard is open at a time, and a value comes row by row, so memory is bounded: by a row, or by the groups of a stream. Counts
 * stand before the rows, so a collection that has fewer or more rows than its size ends the file with an error. Values of types that Redis does not have
 * come as values of a module without content: what reads the file refuses them by name.
 */
#pragma once

#include "backend/backup/disk_file.h"
#include "backend/format/encoding.h"
#include "backend/format/rdb.h"
#include "backend/store/store.h"

#include <sys/types.h>

enum { BACKUP_RDB_ERROR_MAX = 1024 };

struct backup_rdb;

struct backup_rdb_order {
    const char *paths; /* directories, separated by commas */
    const char *space; /* the namespace of which keys are read; NULL: the only one that has keys */
    const char *scratch; /* a directory that is made, for links to the backup */
    bool has_functions;
    struct disk_progress *progress; /* cancels backup_rdb_open */
};

/* Verifies the backup and makes the directory. What the order refers to is used until backup_rdb_close. Blocks for as long as the files are read. NULL: `error` has a sentence. */
struct backup_rdb *backup_rdb_open(const struct backup_rdb_order *order,
                                   char error[BACKUP_RDB_ERROR_MAX]);
/* Removes the scratch directory, which the caller has kept other tools from. NULL is allowed. */
void backup_rdb_close(struct backup_rdb *backup);
/* The time of the backup's cut, in ms. Keys that expired until then still come. */
uint64_t backup_rdb_moment_ms(const struct backup_rdb *backup);
/* The next byte is the first one again. */
void backup_rdb_rewind(struct backup_rdb *backup);
/* Reads the next bytes, as read(2). -1: backup_rdb_error has the reason. */
ssize_t backup_rdb_read(void *backup, char *to, size_t size);
const char *backup_rdb_error(const void *backup);

/* ---- inside of backup_rdb*.c ---- */

/* A piece of a value ends at this size. */
enum { BACKUP_PIECE_BYTES = 64 * 1024 };

/* The rows of a shard. */
struct backup_rows {
    struct store_iter *keys;
    struct store_iter *elements; /* CF_DATA */
    struct store_iter *ttls;     /* of fields, by name: CF_RANK */
    struct store_iter *times;    /* of fields, by time: CF_ZSET_SCORE */
    struct store_iter *entries;  /* CF_STREAM */
};

/* A value that is being written. */
struct backup_value {
    struct rdb_writer *to;
    struct arena *arena;   /* as long as the value */
    struct arena *scratch; /* as long as a piece */
    struct backup_rows rows;
    struct bytes key;
    struct bytes prefix; /* of its rows */
    struct metadata meta;
    uint64_t cut_ms;     /* fields that expire until then are left out */
    uint64_t left;       /* elements, or bytes of a string */
    uint64_t done;       /* likewise */
    uint64_t soonest_ms; /* when the first field expires; 0: none does */
    bool is_damaged;
};

/* Writes what stands before the elements. False: the value does not exist any more, or is damaged. */
bool backup_value_begin(struct backup_value *value);
/* Writes some elements. True: more are left. */
bool backup_value_go_on(struct backup_value *value);
/* The same for streams. */
bool backup_stream_begin(struct backup_value *value);
bool backup_stream_go_on(struct backup_value *value);
/* Writes what stands before a value. */
void backup_value_put_key(struct backup_value *value, enum rdb_type type);
/* Moves to the first row of the value with a sub key >= `sub`; returns the row there, borrowed until the next move. False: it is no row
 * of the value. */
void backup_rows_seek(struct backup_value *value, struct store_iter *iter, struct bytes sub);
bool backup_rows_here(const struct backup_value *value, const struct store_iter *iter,
                      struct bytes *sub, struct bytes *row);
