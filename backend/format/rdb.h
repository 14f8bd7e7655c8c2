/*
 * rdb.h - values in Redis' RDB format, for DUMP and RESTORE.
 *
 *   ┌──────┬──────────────┬────────────────┬───────────────┐
 *   │ type │ value        │ u16 LE version │ u64 LE CRC-64 │   the sum covers all before it
 *   └──────┴──────────────┴────────────────┴───────────────┘
 *
 * Written is version 10 (Redis 7.0); read are those up to 12 (Redis 7.4 and 8, Valkey 8) and 80 (Valkey 9).
 *
 * The pure part: bytes ↔ strings and lengths; commands/dump.c knows the types.
 * Format: Redis' rdb.h, listpack.c and ziplist.c describe it; https://rdb.fnordig.de/file_format.html
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum { RDB_VERSION = 10, RDB_VERSION_REDIS_MAX = 12, RDB_VERSION_VALKEY = 80 };

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
    RDB_TYPE_HASH_TTL_FIRST = 22,     /* hashes whose fields have times to live, in four forms */
    RDB_TYPE_HASH_TTL_LAST = 25,
};

/* Opcode before each part of a module's value. */
enum rdb_opcode { RDB_OPCODE_END = 0, RDB_OPCODE_UINT = 2, RDB_OPCODE_STRING = 5 };

/* CRC-64 of Redis: Jones' polynomial, reflected, initial 0. Continues from `crc`. */
uint64_t crc64(uint64_t crc, struct bytes data);

/* Writing: a buffer in an arena that grows. */
struct rdb_writer {
    struct arena *arena;
    char *data;
    size_t len;
    size_t cap;
    size_t limit;         /* 0: none */
    struct bytes scratch; /* where strings are compressed */
    bool is_over;         /* more than that was written, and some of it was dropped */
};

void rdb_writer_init(struct rdb_writer *writer, struct arena *arena);
void rdb_write_byte(struct rdb_writer *writer, uint8_t byte);
void rdb_write_length(struct rdb_writer *writer, uint64_t length);
/* As an integer or compressed where that is shorter, as Redis does. */
void rdb_write_string(struct rdb_writer *writer, struct bytes text);
/* Writes a score: a double of 8 bytes in little-endian order. */
void rdb_write_double(struct rdb_writer *writer, double value);
/* A module type's id: its name of nine letters and the version of its encoding. */
void rdb_write_module(struct rdb_writer *writer, const char *name, unsigned version);
/* Bytes as they are, and a time: 8 bytes, lowest first. */
void rdb_write_raw(struct rdb_writer *writer, struct bytes data);
void rdb_write_ms(struct rdb_writer *writer, uint64_t ms);

/* A listpack, in a writer of its own: begin, elements, end. */
void rdb_pack_begin(struct rdb_writer *pack, struct arena *arena);
void rdb_pack_int(struct rdb_writer *pack, int64_t value);
void rdb_pack_text(struct rdb_writer *pack, struct bytes text);
/* `count`: how many elements it has. */
struct bytes rdb_pack_end(struct rdb_writer *pack, uint64_t count);

/* Adds version and checksum; the whole payload. */
struct bytes rdb_finish(struct rdb_writer *writer);

/* Reading: every function fails on bytes that are not there or make no sense. Texts are borrowed from the
 * payload or made in the arena. */
struct rdb_reader {
    struct arena *arena;
    struct bytes rest;
    uint64_t limit;    /* of what compressed strings become together; 0: none */
    uint64_t unfolded; /* that so far */
};
/* Did reading fail because compressed strings become more than the limit? */
static inline bool rdb_is_over(const struct rdb_reader *reader)
{
    return reader->limit && reader->unfolded > reader->limit;
}

/* Checks version and checksum; the reader then stands on the type byte. */
bool rdb_open(struct rdb_reader *reader, struct arena *arena, struct bytes payload);
bool rdb_read_byte(struct rdb_reader *reader, uint8_t *byte);
bool rdb_read_length(struct rdb_reader *reader, uint64_t *length);
bool rdb_read_string(struct rdb_reader *reader, struct bytes *text);
bool rdb_read_double(struct rdb_reader *reader, double *value);
bool rdb_read_raw(struct rdb_reader *reader, size_t len, struct bytes *data);
bool rdb_read_ms(struct rdb_reader *reader, uint64_t *ms);
/* A score as text, or one of the bytes that stand for nan and the infinities. */
bool rdb_read_double_text(struct rdb_reader *reader, double *value);
/* Is the next thing this module's id? The version is not looked at. */
bool rdb_read_module(struct rdb_reader *reader, const char *name);

/* Walks the elements of a listpack or a ziplist that came as one string. *at starts at 0; RDB_PACK_END after the
 * last element, RDB_PACK_BAD for damaged bytes. Integers come as text. */
enum rdb_pack { RDB_PACK_ELEMENT, RDB_PACK_END, RDB_PACK_BAD };
enum rdb_pack rdb_listpack_next(struct arena *arena, struct bytes pack, size_t *at,
                                struct bytes *element);
enum rdb_pack rdb_ziplist_next(struct arena *arena, struct bytes pack, size_t *at,
                               struct bytes *element);
/* The same of an intset. */
enum rdb_pack rdb_intset_next(struct arena *arena, struct bytes pack, size_t *at,
                              struct bytes *element);

/* ---- whole values (rdb_save.c, rdb_load.c) ---- */

struct call;
struct entry;

/* Writes the type byte and the value of an existing key. False: the store failed (replied). */
bool rdb_save(struct call *call, struct entry *entry, struct rdb_writer *writer);
/* Makes the key from the payload, whatever it was; the reader stands on the type byte. False: damaged, or an error was
 * replied (call->failed): the store failed, or the value cannot be kept here. */
bool rdb_load(struct call *call, struct entry *entry, struct rdb_reader *reader,
              uint64_t expire_ms);
