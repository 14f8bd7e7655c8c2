/*
 * rdb_file.h - the items of an RDB file, found in bytes that arrive piece by piece.
 *
 *   REDIS0011 │ aux … │ function … │ SELECTDB 0 │ [expiry] type key value │ … │ EOF │ CRC-64
 *                                                 └──── one item: RDB_KEY ────┘
 *   a collection that is longer than `part_max`:  RDB_KEY_BEGIN, RDB_KEY_PART …, RDB_KEY_END
 *
 *   bytes that have arrived ─ rdb_file_next ─► an item, and how many bytes it takes
 *                                         └──► RDB_MORE: call again with these bytes and more behind them
 *                                         └──► RDB_BAD: no file that this reader knows; file->error says why
 *
 *   a string that is longer than RDB_STRING_PARTS * part_max likewise: each part but the last has whole units of RDB_STRING_UNIT bytes. One that
 *   the server has compressed comes as a single part, as it stands in the file.
 *
 * A value is passed on as it is: it is what RESTORE takes, between a type byte and a footer. Only its end is searched. So memory is
 * bounded by part_max, or by the longest single element: a member, a node of a list, the groups of a stream.
 *
 * Versions 9 to 12 of Redis, 9 to 11 of Valkey, and 80 of Valkey 9. The checksum is the caller's.
 */
#pragma once

#include "backend/format/rdb_elements.h"

enum {
    RDB_FILE_ERROR_MAX = 160,
    RDB_VERSION_MIN = 9,
    RDB_STRING_PARTS = 16,
    RDB_STRING_UNIT = 64 * 1024,
};

enum rdb_result { RDB_ITEM, RDB_MORE, RDB_BAD };

enum rdb_item_kind {
    RDB_HEADER,    /* file->version is known */
    RDB_AUX,       /* key and value: what wrote the file */
    RDB_FUNCTION,  /* value: code of a library */
    RDB_MODULE,    /* module: data of a module that belong to no key */
    RDB_OTHER,     /* nothing that counts: sizes, a database's number */
    RDB_KEY,       /* a key with its whole value */
    RDB_KEY_BEGIN, /* a key; its value follows in parts */
    RDB_KEY_PART,  /* value: `units` whole units of the value */
    RDB_KEY_END,   /* the value was complete */
    RDB_END        /* 8 bytes of checksum follow, which are not part of the item */
};

struct rdb_item {
    enum rdb_item_kind kind;
    size_t size; /* bytes of the item */
    struct bytes key;
    struct bytes value; /* without the type byte */
    uint64_t units;     /* of RDB_KEY_PART */
    bool is_tail;       /* of a stream: the last part, which has its ids and groups */
    uint64_t offset;    /* of a part of a string */
    bool is_last;       /* of the parts of a string */
    bool is_packed;     /* the string is compressed: rdb_read_string reads it */
    char module[RDB_MODULE_NAME_LEN + 1]; /* "": the value is none of a module */
};

struct rdb_file {
    struct arena *arena; /* for keys; the caller resets it between items */
    size_t part_max;
    uint64_t version; /* 0: the header has not been read */
    uint64_t db;
    uint8_t type;              /* of the last key */
    uint64_t expire_ms;        /* of the last key; 0: none */
    struct rdb_elements parts; /* of a value in parts: form, soonest time, units left */
    bool in_parts;
    struct rdb_string {
        uint64_t offset; /* of the next part */
        uint64_t left;
        bool is_packed;
    } string;
    bool has_tail;    /* a stream's ids and groups follow its units */
    uint64_t missing; /* after RDB_MORE: at least so many bytes are missing */
    char error[RDB_FILE_ERROR_MAX];
};

void rdb_file_init(struct rdb_file *file, struct arena *arena, size_t part_max);
enum rdb_result rdb_file_next(struct rdb_file *file, struct bytes rest, struct rdb_item *item);
/* Writes the name of a value's type: "hash", or a module's. */
const char *rdb_item_type(const struct rdb_file *file, const struct rdb_item *item);
