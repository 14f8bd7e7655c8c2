/*
 * hash.h - fields of a hash, as write commands find and change them.
 *
 *   hash_open_write ─► hash_find ─┬─ hash_put, hash_remove, hash_set_ttl ─► entry_save
 *                                 └─ nothing changed
 */
#pragma once

#include "backend/keyspace/keyspace.h"

/* A field that was found, or was not. */
struct hash_field {
    struct bytes name;
    struct bytes value; /* borrowed until the command ends; empty if the field does not exist */
    bool exists;
    uint64_t expire_ms; /* 0: it has no TTL, or the TTL was not read */
};

/* Opens a hash for a change; a missing key becomes an empty hash. False: an error was replied. */
bool hash_open_write(struct call *call, struct entry *entry);
/* Finds a field of an open key, which may be missing. A field that has expired is deleted. `with_ttl`: reads its TTL, too.
 * False: the store failed (replied). */
bool hash_find(struct call *call, struct entry *entry, struct bytes name, bool with_ttl,
               struct hash_field *field);
/* Sets value and TTL of the field that was found; expire_ms 0: no TTL. If the TTL was not read, 0 keeps it. */
void hash_put(struct call *call, struct entry *entry, struct hash_field *field, struct bytes value,
              uint64_t expire_ms);
/* Changes only the TTL, which was read; 0: none. */
void hash_set_ttl(struct call *call, struct entry *entry, struct hash_field *field,
                  uint64_t expire_ms);
/* Removes a field that exists and whose TTL was read. */
void hash_remove(struct call *call, struct entry *entry, struct hash_field *field);
/* Saves the hash after fields were removed, and reports the events `name` and, if it became empty, "del". */
void hash_save_removed(struct call *call, struct entry *entry, const char *name);
