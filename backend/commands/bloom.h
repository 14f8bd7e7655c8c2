/*
 * bloom.h - an open Bloom filter, for its commands (bloom.c) and its dumps (bloom_dump.c).
 */
#pragma once

#include "backend/format/bloom.h"
#include "backend/keyspace/keyspace.h"

/* Opens the filter; if it does not exist, entry->exists is false. False: an error was replied. */
bool filter_open(struct call *call, enum open_flag flags, struct entry *entry, struct bloom *bloom);
/* Creates the filter in the place of a key that does not exist. To be followed by filter_save. */
void filter_create(struct call *call, struct entry *entry);
void filter_save(struct call *call, struct entry *entry, const struct bloom *bloom);
