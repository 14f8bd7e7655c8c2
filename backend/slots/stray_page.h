/*
 * stray_page.h - the page of strays that is on its way to the owner of their slots (stray_moves.h).
 *
 *            no further key fits       row 'K': number, owner, names           durable
 *   OPEN ──────────────────► CLOSED ────────────────────────────────► NOTED ───────────► READY ──► SENT ──► ANSWERED ─► OPEN
 *                                                                                          ▲ no reply │      keys are deleted
 *                                                                                          └──────────┘      here, row too
 *
 * Each page has a number, greater than those before, and its owner remembers the last number with its results (key_receipt.h). So a
 * page may be sent again: it is written once. After a restart, and after a key in parts, the owner is asked about the number, with a
 * page without keys. Its reply is final: what the owner has not taken by then, it never takes under this number.
 */
#pragma once

#include "backend/peer/link.h"
#include "backend/session/ticket_wait.h"
#include "shared/out.h"

#include <stdbool.h>
#include <stdint.h>

struct partition;
struct space;

enum { STRAY_PAGE_KEYS = 1000 };

enum stray_page_state {
    STRAY_PAGE_OPEN,
    STRAY_PAGE_CLOSED,
    STRAY_PAGE_NOTED, /* its row is not durable yet */
    STRAY_PAGE_READY, /* it can be sent */
    STRAY_PAGE_SENT,  /* `request` is outstanding */
    STRAY_PAGE_ANSWERED,
    STRAY_PAGE_UNKNOWN, /* the owner was asked: it has not taken the page, and never will */
};

struct sent_key {
    struct space *space;
    uint16_t slot;
    char *key; /* heap */
    size_t len;
};

struct stray_page {
    enum stray_page_state state;
    uint64_t number;  /* partition_version; 0: of a LOOK, which is not noted */
    bool is_asked;    /* only the number is sent */
    bool is_in_parts; /* its only key is sent in parts */
    bool was_sent;
    struct out payload;    /* of KEYS_PUT */
    struct sent_key *keys; /* heap: STRAY_PAGE_KEYS */
    char *results;         /* heap; ANSWERED: enum put_result of each key */
    uint32_t count;
    uint32_t used; /* ANSWERED: results that were used */
    char owner[SHARD_NAME_MAX + 1];
    struct peer_request request;
    struct ticket_wait wait; /* NOTED */
};

void stray_page_init(struct stray_page *page, void (*on_noted)(struct ticket_wait *wait, int err));
/* Empties a page, which becomes OPEN. It may not be SENT or NOTED. */
void stray_page_clear(struct stray_page *page);
/* As stray_page_clear, and frees its memory; the page can be used again. */
void stray_page_fini(struct stray_page *page);
/* Adds the name of a key. */
void stray_page_add(struct stray_page *page, struct space *space, uint16_t slot, struct bytes key);

/* Writes the row; the page becomes NOTED, until on_noted is called. */
void stray_page_note(struct partition *partition, struct stray_page *page);
/* Deletes the row. */
void stray_page_forget(struct partition *partition);
/* Reads the row that a transfer before has left: the page becomes READY, to be asked for. 1: it has been read; 0: there is none;
 * negative: the store cannot be read. Not in a command. */
int stray_page_load(struct partition *partition, struct stray_page *page);
