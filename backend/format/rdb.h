/*
 * rdb.h - values in Redis' RDB format, for DUMP and RESTORE.
 *
 *   ┌──────┬──────────────┬────────────────┬───────────────┐
 *   │ type │ value        │ u16 LE version │ u64 LE CRC-64 │   the checksum covers all bytes before it
 *   └──────┴──────────────┴────────────────┴───────────────┘
 *
 * Payloads are written in version 10 (Redis 7.0), hashes whose fields have a TTL in version 12 (Redis 7.4). They are read up to
 * version 12 (Redis 7.4 and 8, Valkey 8) and in version 80 (Valkey 9).
 *
 * rdb.c has the pure functions for lengths, strings and packed lists; rdb_elements.h reads collections, rdb_file.h whole files;
 * commands/rdb_save.c and rdb_load.c encode the types.
 * Format: Redis' rdb.h, listpack.c and ziplist.c describe it; https://rdb.fnordig.de/file_format.html
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum {
    RDB_VERSION = 10,
    RDB_VERSION_HASH_TTL = 12,
    RDB_VERSION_REDIS_MAX = 12,
    RDB_VERSION_VALKEY = 80
};

/* The type byte before a value. */
enum rdb_type {
    RDB_TYPE_STRING = 0,
    RDB_TYPE_LIST = 1,
    RDB_TYPE_SET = 2,
    RDB_TYPE_ZSET = 3, /* scores as text */
    RDB_TYPE_HASH = 4,
    RDB_TYPE_ZSET_2 = 5, /* scores as doubles */
    RDB_TYPE_MODULE_2 = 7,
    RDB_TYPE_LIST_ZIPLIST = 10,
    RDB_TYPE_SET_INTSET = 11,
    RDB_TYPE_ZSET_ZIPLIST = 12,
    RDB_TYPE_HASH_ZIPLIST = 13,
    RDB_TYPE_LIST_QUICKLIST = 14, /* of ziplists */
    RDB_TYPE_STREAM_LISTPACKS = 15,
    RDB_TYPE_HASH_LISTPACK = 16,
    RDB_TYPE_ZSET_LISTPACK = 17,
    RDB_TYPE_LIST_QUICKLIST_2 = 18, /* of listpacks and plain elements */
    RDB_TYPE_STREAM_LISTPACKS_2 = 19,
    RDB_TYPE_SET_LISTPACK = 20,
    RDB_TYPE_STREAM_LISTPACKS_3 = 21, /* consumers have two times */
    /* hashes whose fields have times to live; in Valkey, 22 is another form */
    RDB_TYPE_HASH_TTL_OLD = 22,          /* TTL, field, value; TTLs are times */
    RDB_TYPE_HASH_TTL_LISTPACK_OLD = 23, /* field, value, time */
    RDB_TYPE_HASH_TTL = 24,              /* soonest time; TTLs are relative to it, plus one */
    RDB_TYPE_HASH_TTL_LISTPACK = 25,     /* soonest time; field, value, time */
    RDB_TYPE_LAST = RDB_TYPE_HASH_TTL_LISTPACK,
};

/* Opcode before each part of a module's value. */
enum rdb_opcode {
    RDB_OPCODE_END = 0,
    RDB_OPCODE_INT = 1,
    RDB_OPCODE_UINT = 2,
    RDB_OPCODE_FLOAT = 3,
    RDB_OPCODE_DOUBLE = 4,
    RDB_OPCODE_STRING = 5
};

/* Scores as text have a length in one byte; from here on it stands for a number without text. */
enum { RDB_SCORE_NAN = 253, RDB_SCORE_INF = 254, RDB_SCORE_NEGATIVE_INF = 255 };

/* CRC-64 of Redis: Jones' polynomial, reflected, initial 0. Continues from `crc`. */
uint64_t crc64(uint64_t crc, struct bytes data);

/* A payload that is being written, in an arena. */
struct rdb_writer {
    struct arena *arena;
    char *data;
    size_t len;
    size_t cap;
    size_t limit;         /* 0: none */
    struct bytes scratch; /* where strings are compressed */
    bool is_over;         /* output beyond `limit` was dropped */
    uint16_t version;     /* of the format; RDB_VERSION unless it is changed */
};

void rdb_writer_init(struct rdb_writer *writer, struct arena *arena);
void rdb_write_byte(struct rdb_writer *writer, uint8_t byte);
void rdb_write_length(struct rdb_writer *writer, uint64_t length);
/* Writes the text as an integer or compressed if that is shorter, as Redis does. */
void rdb_write_string(struct rdb_writer *writer, struct bytes text);
/* Writes a score: a double of 8 bytes in little-endian order. */
void rdb_write_double(struct rdb_writer *writer, double value);
/* Writes a module type's id: its name of nine letters and the version of its encoding. */
void rdb_write_module(struct rdb_writer *writer, const char *name, unsigned version);
/* Write bytes without a length, and a time as 8 bytes, lowest first. */
void rdb_write_raw(struct rdb_writer *writer, struct bytes data);
void rdb_write_ms(struct rdb_writer *writer, uint64_t ms);

/* Write a listpack, in a writer of its own: begin, elements, end. */
void rdb_pack_begin(struct rdb_writer *pack, struct arena *arena);
void rdb_pack_int(struct rdb_writer *pack, int64_t value);
void rdb_pack_text(struct rdb_writer *pack, struct bytes text);
/* `count`: number of elements. */
struct bytes rdb_pack_end(struct rdb_writer *pack, uint64_t count);

/* Adds version and checksum; returns the whole payload. */
struct bytes rdb_finish(struct rdb_writer *writer);

/* A payload that is being read. All functions return false for missing or invalid bytes. Texts are borrowed from the
 * payload or in the arena. */
struct rdb_reader {
    struct arena *arena;
    struct bytes rest;
    uint64_t limit;    /* for the total length of decompressed strings; 0: none */
    uint64_t unfolded; /* total length so far */
    uint64_t version;  /* of the format */
    /* bytes that the last read needed and `rest` did not have; 0: it failed for another reason */
    uint64_t missing;
};
/* Did reading fail because decompressed strings exceed the limit? */
static inline bool rdb_is_over(const struct rdb_reader *reader)
{
    return reader->limit && reader->unfolded > reader->limit;
}

/* Checks version and checksum; the type byte is read next. */
bool rdb_open(struct rdb_reader *reader, struct arena *arena, struct bytes payload);
bool rdb_read_byte(struct rdb_reader *reader, uint8_t *byte);
bool rdb_read_length(struct rdb_reader *reader, uint64_t *length);
bool rdb_read_string(struct rdb_reader *reader, struct bytes *text);
/* Skips a string; adds its length to `unfolded` if it is compressed. */
bool rdb_skip_string(struct rdb_reader *reader);
bool rdb_read_double(struct rdb_reader *reader, double *value);
bool rdb_read_raw(struct rdb_reader *reader, size_t len, struct bytes *data);
bool rdb_read_ms(struct rdb_reader *reader, uint64_t *ms);
/* Reads a time of 4 bytes, in seconds. */
bool rdb_read_seconds(struct rdb_reader *reader, uint64_t *ms);
/* Reads a score in text form; special bytes stand for nan and the infinities. */
bool rdb_read_double_text(struct rdb_reader *reader, double *value);
/* Reads a module type's id; false: it is another module's. The version is ignored. */
bool rdb_read_module(struct rdb_reader *reader, const char *name);
/* The name of the module type with this id. */
enum { RDB_MODULE_NAME_LEN = 9 };
void rdb_module_name(uint64_t id, char name[RDB_MODULE_NAME_LEN + 1]);

/* Iterate over the elements of a listpack or ziplist. *at starts at 0. Returns RDB_PACK_END after the last element,
 * RDB_PACK_BAD for damaged bytes. Integers are returned as text. */
enum rdb_pack { RDB_PACK_ELEMENT, RDB_PACK_END, RDB_PACK_BAD };
enum rdb_pack rdb_listpack_next(struct arena *arena, struct bytes pack, size_t *at,
                                struct bytes *element);
enum rdb_pack rdb_ziplist_next(struct arena *arena, struct bytes pack, size_t *at,
                               struct bytes *element);
/* Iterates over the numbers of an intset in the same way. */
enum rdb_pack rdb_intset_next(struct arena *arena, struct bytes pack, size_t *at,
                              struct bytes *element);

/* ---- whole values (rdb_save.c, rdb_load.c) ---- */

struct call;
struct entry;

/* Writes the type byte and the value of an existing key. False: the store failed (replied). */
bool rdb_save(struct call *call, struct entry *entry, struct rdb_writer *writer);
/* Replaces the key by the payload's value; the type byte is read first. False: the payload is damaged, or
 * (call->failed) an error was replied because the store failed or the value is not supported. */
bool rdb_load(struct call *call, struct entry *entry, struct rdb_reader *reader,
              uint64_t expire_ms);
