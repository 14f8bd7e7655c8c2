/*
 * slot_record.h - durable rows that say in which state a partition has each slot (CF_SYSTEM).
 *
 *   's' | u8 page  →  u8 2 | runs of slots with equal records, until the page's 256 slots are complete
 *
 *   run: u8 slots - 1 | u8 state                                                            state NONE
 *        u8 slots - 1 | u8 state | u64 epoch | u64 migration | u64 wish | u8 len | peer     all other states
 *
 * In format 1, which is read and not written, a run has no wish. All integers are big-endian. A page without records has no
 * row. A run is as long as possible, so equal pages have equal bytes: a page that one shard owns completely has 28 bytes.
 *
 *   OWNED(e) ─► EXPORTING ─► RELEASED(e + 1, target)                   at the partition that gives the slot away
 *   NONE     ─► IMPORTING ─► STAGED ─► OWNED(e + 1)                    at the partition that gets it
 *
 * A RELEASED record stays as a forwarding address, so that every partition that once owned a slot can name its next
 * owner.
 */
#pragma once

#include "shared/arena.h"
#include "shared/shard_map.h"

#include <stdbool.h>

enum { SLOT_PAGE_SLOTS = 256, SLOT_PAGES = SLOT_COUNT / SLOT_PAGE_SLOTS };

/* The numbers are on disk. */
enum slot_state {
    SLOT_NONE,      /* the partition has never had the slot */
    SLOT_OWNED,     /* its commands run here */
    SLOT_RELEASED,  /* `peer` has owned it since `epoch` */
    SLOT_EXPORTING, /* owned, and its rows are being copied to `peer` */
    SLOT_FROZEN,    /* reserved; a frozen slot is EXPORTING, and frozen only in memory */
    SLOT_IMPORTING, /* its rows are being received from `peer`, which owns it */
    SLOT_STAGED,    /* all its rows were received; owned as soon as `peer` has released it */
    SLOT_STATES,
};

struct slot_record {
    uint64_t epoch; /* grows with each change of the owner; 0 only in state NONE */
    /* id of the move; epoch 1: hash of the map's slots by which it was claimed. RELEASED: 0 as soon as the target owns the
     * slot and all rows are deleted here */
    uint64_t migration;
    uint64_t wish; /* epoch of the shard map by which it was claimed or moved; 0: not known */
    char peer[SHARD_NAME_MAX + 1]; /* name of the other shard of the move; empty: none */
    uint8_t state;                 /* enum slot_state */
};

bool slot_record_equal(const struct slot_record *a, const struct slot_record *b);
/* Name of a state in lower case. */
const char *slot_state_name(enum slot_state state);

/* The key of a page's row. */
struct bytes encode_slot_page_key(struct arena *arena, unsigned page);
/* False: the row is no page of slot records. */
bool decode_slot_page_key(struct bytes row, unsigned *page);
/* All these rows have from <= row < to. */
struct bytes slot_pages_from(void);
struct bytes slot_pages_to(void);

/* Key of the row with the name of the partition's shard, as text: it keeps its name when it is removed from the shard map. */
struct bytes shard_name_key(void);
/* Key of the row with the runs of slots whose owners are known, as in the answer to SLOTS (slot_owners.h). */
struct bytes slot_owners_key(void);
/* Key of the row that exists while the moves of the partition are paused (SCREE MOVES PAUSE). */
struct bytes moves_paused_key(void);

/* Key of the row with the page of strays that is on its way from here (stray_page.h). */
struct bytes stray_page_key(void);
/* Key of the row with what was taken last from a shard (key_receipt.h). */
struct bytes encode_key_receipt_key(struct arena *arena, struct bytes shard);

/* The value of a page's row. Empty: no slot has a record, so the page has no row. */
struct bytes encode_slot_page(struct arena *arena,
                              const struct slot_record records[SLOT_PAGE_SLOTS]);
/* False: the value is damaged, or has states that this version does not support. */
bool decode_slot_page(struct bytes value, struct slot_record records[SLOT_PAGE_SLOTS]);

/* ---- from which shards slots have come ----
 *
 *   'a'  →  u8 2 | u64 log id | u64 since_us | u64 owned | per log: u64 until_us | u64 its id | u8 length | name of the shard
 *
 * A shard that is removed takes its log along. So a reader that wants all changes after a time must know whether a shard had slots then
 * that is not there any more, or has another log: the shards to which its slots have gone name it, and its log, in this row. In format 1, which is
 * read and not written, the logs have no ids.
 *
 * The row tells of all slots that came after `since_us`, into the log with this id. It is written with each change of owners. `owned` is the
 * sum of the slots that the partition has then (slot_table.h): if it is another one, an older program has changed the owners, and the row
 * does not hold.
 */

enum { SLOT_ORIGINS_MAX = 64 };

struct slot_origin {
    uint64_t until_us; /* hybrid_clock.h */
    uint64_t log_id;   /* of the shard, when it gave the slots away; 0: not known */
    /* empty: the slots were claimed, so they may have been those of a shard that is lost, or data that were restored */
    char shard[SHARD_NAME_MAX + 1];
};

struct slot_origins {
    uint64_t log_id;
    uint64_t since_us; /* 0: since the partition exists */
    uint64_t owned;
    uint32_t count;
    struct slot_origin items[SLOT_ORIGINS_MAX];
};

/* Slots have come from the shard with this log, which had them until this time. If there are too many, the one with the earliest time is left out. */
void slot_origins_note(struct slot_origins *origins, const char *shard, uint64_t log_id,
                       uint64_t until_us);

struct bytes slot_origins_key(void);
struct bytes encode_slot_origins(struct arena *arena, const struct slot_origins *origins);
/* False: the value is damaged, or a newer program wrote it. */
bool decode_slot_origins(struct bytes value, struct slot_origins *origins);
