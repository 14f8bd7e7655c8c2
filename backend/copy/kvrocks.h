/*
 * kvrocks.h - reads a directory of Kvrocks as if it were an RDB file, so that everything else of scree-copy works as with one.
 *
 *   metadata row ─ count the rows ─┬─ good ──► [expiry] type key │ count │ row row row …     bytes of an RDB file, as many as are
 *                  and check them  ├─ none ──► nothing: Kvrocks has no such key either       asked for: kvrocks_read
 *                                  └─ bad ───► a value of module "Kvrocks-N": the copy refuses it by name
 *
 *   kvrocks.c         the file: libraries, keys of one namespace, end
 *   kvrocks_value.c   values but streams
 *   kvrocks_stream.c  streams and their groups
 *
 * Rows are read twice, so that nothing is sent of a value that turns out to be damaged, and no stored count is trusted: those of streams
 * and sorted ints are wrong at times. Memory is bounded: by a row, by the groups of a stream, or by a sorted int, which
 * comes whole.
 */
#pragma once

#include "backend/format/kvrocks.h"
#include "backend/format/rdb.h"
#include "backend/store/foreign.h"

#include <sys/types.h>

enum { KVROCKS_ERROR_MAX = 1024 };

struct kvrocks;

/* `space`: a namespace; NULL: the only one that has keys. NULL: `error` has a sentence. */
struct kvrocks *kvrocks_open(const char *path, const char *space, char error[KVROCKS_ERROR_MAX]);
void kvrocks_close(struct kvrocks *kvrocks);
/* Reads the next bytes, as read(2). -1: kvrocks_error has the reason. */
ssize_t kvrocks_read(void *kvrocks, char *to, size_t size);
const char *kvrocks_error(const void *kvrocks);
/* Why the values of this module are refused; NULL: it is no module of kvrocks_read. */
const char *kvrocks_refusal(const char *module);

/* ---- inside of kvrocks*.c ---- */

enum kvrocks_family {
    FAMILY_METADATA,
    FAMILY_ELEMENTS,
    FAMILY_STREAM,
    FAMILY_PROPAGATE,
    FAMILY_SCREE,
    FAMILIES
};

/* The rows of a value. */
struct kvrocks_rows {
    struct foreign_rows *all;
    struct bytes prefix;
};

enum kvrocks_found { FOUND_VALUE, FOUND_NOTHING, FOUND_BAD };

/* A value that is being written. */
struct kvrocks_text {
    struct rdb_writer *to;
    struct kvrocks_key key;
    struct kvrocks_value value;
    struct kvrocks_rows rows;
    struct arena *arena;   /* as long as the value */
    struct arena *scratch; /* as long as a piece */
    uint64_t left;         /* rows, or bytes of a bitmap */
    uint64_t done;         /* bytes of a bitmap */
    struct kvrocks_stream *stream;
};

/* Moves to the first row with a sub key >= `sub`, and returns the sub key and value of the next row. */
void kvrocks_rows_seek(struct kvrocks_text *text, struct bytes sub);
bool kvrocks_rows_next(struct kvrocks_text *text, struct bytes *sub, struct bytes *value);
/* Writes what stands before a value. */
void kvrocks_write_key(struct kvrocks_text *text, enum rdb_type type);
/* Writes a text without compression, because it is read again at once. */
static inline void kvrocks_write_text(struct rdb_writer *to, struct bytes bytes)
{
    rdb_write_length(to, bytes.len);
    rdb_write_raw(to, bytes);
}

/* Counts and checks the rows of a value, and writes what stands before them. */
enum kvrocks_found kvrocks_value_begin(struct kvrocks_text *text);
/* Writes some of its rows. True: more are left. */
bool kvrocks_value_go_on(struct kvrocks_text *text);
/* The same for streams. */
enum kvrocks_found kvrocks_stream_begin(struct kvrocks_text *text);
bool kvrocks_stream_go_on(struct kvrocks_text *text);

/* A piece of a value ends at this size. */
enum { KVROCKS_PIECE_BYTES = 64 * 1024 };
