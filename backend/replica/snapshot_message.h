/*
 * snapshot_message.h - the requests by which a copy of a shard fetches the files of another one, as payloads of peer frames
 * (backend/peer/frame.h; message.h has the encoding of fields).
 *
 *   SNAPSHOT_BEGIN  nothing                              ─► DONE  u64 origin, index, term, whole_at │ u32 count │ count × (name, u64 size)
 *   SNAPSHOT_READ   u32 file │ u64 offset │ u32 length   ─► DONE  u64 XXH3 │ the bytes
 *   SNAPSHOT_END    u8 1: all files were fetched; 0: not ─► DONE  nothing: the files are not needed any more
 *
 * Names are in ascending order, so none is there twice. They are names of files in one directory: letters, digits, '.', '_' and '-',
 * without a dot in front, so that none leads to another directory; and not NAME.part.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct out;

enum {
    SNAPSHOT_FILES_MAX = 1 << 18, /* a list of them fits into a frame */
    SNAPSHOT_NAME_MAX = 200,
    SNAPSHOT_PIECE_MAX = 1 << 20, /* bytes of one SNAPSHOT_READ */
    SNAPSHOT_READ_BYTES = 4 + 8 + 4,
    SNAPSHOT_DATA_HEADER_BYTES = 8,
};

struct snapshot_file {
    struct bytes name;
    uint64_t size;
};

struct snapshot_list {
    /* Where RocksDB's file numbers come from: a hash of the id of the copy that has the files, and of the index from which it began to
     * number them (a copy that has installed a snapshot itself begins anew). Two table files (.sst, .blob) of one origin with one name
     * and size are equal; other files are written anew under the same name. */
    uint64_t origin;
    uint64_t index, term; /* the files have all records up to this one */
    uint64_t whole_at;    /* they may have rows of records up to this one */
    uint32_t count;
    struct snapshot_file *files;
};

/* A piece of a file. */
struct snapshot_piece {
    uint32_t file; /* position in the list */
    uint32_t len;
    uint64_t offset;
};

/* snapshot_list.origin of the copy `id`, whose log begins behind the record `base` of its file `replica`. */
uint64_t snapshot_origin(uint64_t id, uint64_t base);
bool is_snapshot_name(struct bytes name);
/* Appends the list, whose files are in the order of their names. */
void snapshot_list_write(const struct snapshot_list *list, struct out *out);
/* Reads a list; the names are borrowed from the payload. False: it is no list. */
bool snapshot_list_read(struct bytes payload, struct arena *arena, struct snapshot_list *list);
/* Bytes of all files; UINT64_MAX: as many or more. */
uint64_t snapshot_list_bytes(const struct snapshot_list *list);

void snapshot_piece_write(const struct snapshot_piece *piece, char to[SNAPSHOT_READ_BYTES]);
/* False: it is no SNAPSHOT_READ. */
bool snapshot_piece_read(struct bytes payload, struct snapshot_piece *piece);
/* Writes the checksum of the `len` bytes that follow it. */
void snapshot_data_seal(char *data, size_t len);
/* Are the bytes behind the checksum those that it was made of? The payload has at least SNAPSHOT_DATA_HEADER_BYTES. */
bool snapshot_data_is_good(struct bytes payload);
