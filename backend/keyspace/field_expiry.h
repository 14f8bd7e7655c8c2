/*
 * field_expiry.h - times to live of hash fields.
 *
 *   metadata     … size 4 │ soonest 500 │ 3 fields with a TTL       a hash without TTLs does not have the last two numbers
 *   CF_DATA      a → 1        b → 2        c → 3        d → 4       values are as in any hash
 *   CF_RANK      a → 500                   c → 900      d → 500     TTLs by name: of a field that is written
 *   CF_ZSET_SCORE  500 a      500 d        900 c                    TTLs by time: the fields that are due
 *   CF_EXPIRE    500 │ key                                          one row for the key, at the sooner of its own expiry and `soonest`
 *
 * Opening a hash after `soonest` first deletes the fields that are due, so commands read its rows and its size without a
 * look at TTLs. `soonest` may be too early, when a field's TTL was removed or changed: then no field is due, and the next
 * opening corrects it. Active expiry finds the key in the expiry index, and opens it in the same way.
 *
 * Fields that are due stay when they are too many for one command (FIELD_EXPIRY_MAX), while the key is locked, while writes
 * are refused or paused, and at a partition that has borrowed the key. The entry then hides them: sub_get and sub_iter read
 * TTLs too. A hash whose fields are all due does not exist.
 *
 * A field has both TTL rows or none; a TTL row exists only with the field's row in CF_DATA.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

enum {
    FIELD_EXPIRY_MAX = 512, /* fields that one command deletes because they are due */
};

/* For keyspace.c: `soonest` of the open hash has passed. If `may_delete`, deletes fields that are due, at most
 * FIELD_EXPIRY_MAX; hides the others. *is_gone: all fields were due; if they may be deleted, the key is deleted. False: the
 * store failed (replied). */
bool field_expiry_open(struct call *call, struct entry *entry, bool may_delete, bool *is_gone);
/* Deletes at most *left fields that are due, and subtracts them from *left. The key is deleted when it has no other fields.
 * False: the store failed (replied). */
bool field_expiry_delete(struct call *call, struct entry *entry, uint64_t *left);
/* When a field with a TTL expires: OK; ERR_NOT_FOUND becomes OK with *expire_ms 0: it has no TTL. Else a read failure. */
int field_expiry_get(struct call *call, struct entry *entry, struct bytes field,
                     uint64_t *expire_ms);
/* Changes a field's TTL from `old_ms` to `new_ms`; 0: none. entry_save must follow. */
void field_expiry_set(struct call *call, struct entry *entry, struct bytes field, uint64_t old_ms,
                      uint64_t new_ms);
/* Before a write command reads a field of a hash that hides fields: deletes the field if it is due. False: the store failed
 * (replied). */
bool field_expiry_drop(struct call *call, struct entry *entry, struct bytes field);
/* For commands that only read: subtracts hidden fields from the size, which then is that of the visible fields. The entry
 * must not be saved afterwards. False: the store failed (replied). */
bool field_expiry_show(struct call *call, struct entry *entry);
/* The earliest time at which a field that has not expired yet expires; 0: none does. False: the store failed (replied). */
bool field_expiry_first(struct call *call, struct entry *entry, uint64_t *expire_ms);
