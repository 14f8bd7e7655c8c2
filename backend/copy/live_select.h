/*
 * live_select.h - which commands of a source's stream are copied, and with which words.
 *
 *   db 3: RENAME cart:1 cart:2  ── --db 3=5 --match 'cart:*' --add old: ──►  db 5: RENAME old:cart:1 old:cart:2
 *
 *   its keys are …                                   it becomes
 *   all copied                                       itself, with their names in the target
 *   changed by it, and none of these is copied       nothing
 *   copied in part, and independent (DEL, MSET)      itself, without the other keys
 *   … and what happens to those that are copied is   that: RENAME to a key that is not copied is DEL
 *     known without the others
 *   … and depends on the others (SUNIONSTORE)        an error, which is named
 *
 * So with a selection, too, the target is what the source was, or the tool says where it is not.
 */
#pragma once

#include "backend/copy/options.h"
#include "shared/arena.h"
#include "shared/command/keys.h"

enum selected_as {
    SELECTED_NOTHING,
    SELECTED_WHOLE,   /* the bytes of the stream */
    SELECTED_MADE,    /* other words */
    SELECTED_FLUSHES, /* FLUSHDB in each database that is copied */
    SELECTED_REFUSED,
};

struct selected {
    enum selected_as as;
    uint64_t db;         /* in the target */
    struct bytes frame;  /* SELECTED_MADE: in the selector's arena */
    const char *refusal; /* SELECTED_REFUSED: a constant text */
};

enum { SELECTION_NAME_LEN = 16 };

#define CLUSTER_MOVED                                                                              \
    "slots of the source have moved to another master while they were copied. Their keys come by " \
    "two streams that have no order, so the copy must begin anew, when no slots are moved"

struct selector {
    const struct copy_options *options;
    struct arena arena; /* of made frames; its owner resets it when they are not needed any more */
    struct key_list keys;
    bool has_all; /* everything is copied as it is */
    bool chooses_keys;
    char name[SELECTION_NAME_LEN + 1]; /* a digest of what is selected; empty: everything */
};

void selector_init(struct selector *selector, const struct copy_options *options);
void selector_fini(struct selector *selector);
/* Decides on a complete frame, a command with database `db` selected at the source. */
struct selected selector_take(struct selector *selector, struct bytes frame, uint64_t db);
/* Has each key of the command a slot of the source, which is one master of a cluster? */
bool selector_has_own_slots(struct selector *selector, struct bytes frame);
/* May this database of the target have keys that the copy writes? */
bool selector_writes_db(const struct selector *selector, uint64_t db);
