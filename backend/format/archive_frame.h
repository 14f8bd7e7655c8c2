/*
 * archive_frame.h - the bytes of an archive file: batches of a log, copied out of the WAL for restores to a point in time.
 *
 *   file:   head │ frame │ frame │ ... │ END          without END: still written to, or left by a crash; its whole frames count
 *
 *   head, 48 bytes
 *   ┌───────────────────────┬───────────┬────────────────┬───────────────────────┬────────┐
 *   │ 0 "scree archive 1\n" │ 16 log id │ 24 data format │ 32 index of the first │ 40 sum │
 *   └───────────────────────┴───────────┴────────────────┴───────────────────────┴────────┘
 *   frame, 80 bytes and its body
 *   ┌────────┬──────────┬────────┬─────────┬──────────┬────────┬──────────┬─────────┬───────────┬─────────┬─────────────┬─────────────┬────────┬──────┐
 *   │ 0 kind │ 1 packed │ 2 zero │ 4 count │ 8 stored │ 16 raw │ 24 first │ 32 last │ 40 begins │ 48 ends │ 56 last sum │ 64 body sum │ 72 sum │ body │
 *   │ u8     │ u8       │ u16    │ u32     │ u64      │ u64    │ u64      │ u64     │ u64       │ u64     │ u64         │ u64         │ u64    │      │
 *   └────────┴──────────┴────────┴─────────┴──────────┴────────┴──────────┴─────────┴───────────┴─────────┴─────────────┴─────────────┴────────┴──────┘
 *   RECORDS 1   `count` records with the indexes first … last, of the times begins … ends; `packed`: the body is compressed by zstd
 *   TIME 2      without a body: after batch `last` the log has no batch with a time up to `ends`
 *   END 3       without a body: what all RECORDS of the file have together; nothing follows
 *
 *   raw body:   u32 length │ u64 sum │ record │ u32 length │ ...          a record is a batch as the WAL has it (effects.h)
 *
 * Integers are little-endian, times µs since 1970 (hybrid_clock.h), sums XXH3: `sum` of the bytes before it, `body sum` of the
 * stored body, `last sum` of the record `last`. Decoding checks all of them, so a changed byte is noticed.
 */
#pragma once

#include "shared/bytes.h"

enum {
    ARCHIVE_HEAD_BYTES = 48,
    ARCHIVE_FRAME_BYTES = 80,
    ARCHIVE_RECORD_BYTES = 12, /* before each record */
};

struct archive_head {
    uint64_t log_id, data_format, first;
};

enum archive_kind { ARCHIVE_RECORDS = 1, ARCHIVE_TIME, ARCHIVE_END };

struct archive_frame {
    enum archive_kind kind;
    bool is_packed;
    uint32_t count;
    uint64_t stored, raw; /* bytes of the body in the file, and unpacked */
    uint64_t first, last; /* indexes */
    uint64_t begins_us, ends_us;
    uint64_t last_sum, body_sum;
};

void encode_archive_head(const struct archive_head *head, char to[ARCHIVE_HEAD_BYTES]);
/* False: these are not the first bytes of an archive file of this format. */
bool decode_archive_head(struct bytes bytes, struct archive_head *head);
void encode_archive_frame(const struct archive_frame *frame, char to[ARCHIVE_FRAME_BYTES]);
/* False: the bytes are damaged, or are no frame. The body is not looked at. */
bool decode_archive_frame(struct bytes bytes, struct archive_frame *frame);
/* The checksum of a record, of a stored body, and of what precedes a sum. */
uint64_t archive_sum(struct bytes bytes);
/* Returns the sum of the record. */
uint64_t encode_archive_record(struct bytes record, char to[ARCHIVE_RECORD_BYTES]);
/* Takes the next record from the raw body, `rest`. False: it is damaged. */
bool decode_archive_record(struct bytes *rest, struct bytes *record);
