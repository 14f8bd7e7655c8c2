/*
 * rdb.h - values in Redis' RDB format, as DUMP gives and RESTORE takes them.
 *
 *   ┌──────┬──────────────┬────────────────┬───────────────┐
 *   │ type │ value        │ u16 LE version │ u64 LE CRC-64 │   version 10 (Redis 7.0); the sum covers all before it
 *   └──────┴──────────────┴────────────────┴───────────────┘
 *
 * The pure part: bytes ↔ strings and lengths; commands/dump.c knows the types.
 * Format: Redis' rdb.h, listpack.c and ziplist.c describe it; https://rdb.fnordig.de/file_format.html
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum {
    RDB_VERSION = 10,
    RDB_TYPE_STRING = 0,
    RDB_TYPE_HASH = 4,
    RDB_TYPE_HASH_ZIPLIST = 13,
    RDB_TYPE_HASH_LISTPACK = 16,
};

/* CRC-64 of Redis: Jones' polynomial, reflected, initial 0. Continues from `crc`. */
uint64_t crc64(uint64_t crc, struct bytes data);

/* Writing: a buffer in an arena that grows. */
struct rdb_writer {
    struct arena *arena;
    char *data;
    size_t len;
    size_t cap;
};

void rdb_writer_init(struct rdb_writer *writer, struct arena *arena);
void rdb_write_byte(struct rdb_writer *writer, uint8_t byte);
void rdb_write_length(struct rdb_writer *writer, uint64_t length);
/* As an integer or compressed where that is shorter, as Redis does. */
void rdb_write_string(struct rdb_writer *writer, struct bytes text);
/* Adds version and checksum; the whole payload. */
struct bytes rdb_finish(struct rdb_writer *writer);

/* Reading: every function fails on bytes that are not there or make no sense. Texts are borrowed from the
 * payload or made in the arena. */
struct rdb_reader {
    struct arena *arena;
    struct bytes rest;
};

/* Checks version and checksum; the reader then stands on the type byte. */
bool rdb_open(struct rdb_reader *reader, struct arena *arena, struct bytes payload);
bool rdb_read_byte(struct rdb_reader *reader, uint8_t *byte);
bool rdb_read_length(struct rdb_reader *reader, uint64_t *length);
bool rdb_read_string(struct rdb_reader *reader, struct bytes *text);

/* Walks the elements of a listpack or a ziplist that came as one string. *at starts at 0; RDB_PACK_END behind the
 * last element, RDB_PACK_BAD for damaged bytes. Integers come as text. */
enum rdb_pack { RDB_PACK_ELEMENT, RDB_PACK_END, RDB_PACK_BAD };
enum rdb_pack rdb_listpack_next(struct arena *arena, struct bytes pack, size_t *at,
                                struct bytes *element);
enum rdb_pack rdb_ziplist_next(struct arena *arena, struct bytes pack, size_t *at,
                               struct bytes *element);
