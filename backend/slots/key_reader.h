/*
 * key_reader.h - reads all rows of one key into a message (key_message.h), while commands go on.
 *
 * The key may not change until it is closed: it lies in a slot that this partition does not serve.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/keyspace/range_rows.h"
#include "shared/out.h"

struct space;

struct key_reader {
    struct range_rows rows;
    struct arena arena;
    struct space *space; /* NULL: no key is open */
    uint16_t slot;
    struct bytes key;      /* in the arena */
    struct bytes metadata; /* in the arena; the whole row */
    struct metadata meta;
    int family;      /* whose rows are being read */
    struct out read; /* rows so far */
    bool is_whole;
};

void key_reader_init(struct key_reader *reader, struct partition *partition,
                     void (*on_rows)(void *owner), void *owner);
void key_reader_fini(struct key_reader *reader);
/* Opens a key by its metadata row. False: the row is damaged, and no key is open. */
bool key_reader_open(struct key_reader *reader, struct space *space, struct bytes row_key,
                     struct bytes metadata);
/* Begins again with the first row. */
void key_reader_rewind(struct key_reader *reader);
void key_reader_close(struct key_reader *reader);
/* Reads on until all rows were read (END), or `read` has more than limit bytes (ROW). */
enum rows_step key_reader_step(struct key_reader *reader, size_t limit);
