/*
 * access_times.h - when keys were last accessed, for OBJECT IDLETIME. In memory only.
 *
 *   hash of the key ─► bucket   ┌ 8 × (tag, second) ┐   one cache line; the key accessed longest ago is replaced
 *
 * A key without a slot gets the longest idle time that is certain: if its bucket has a free slot, the key was not accessed
 * since the start, because no slot of the bucket was replaced; else it was accessed before all keys of its bucket.
 * An idle time is therefore never greater than the true one.
 */
#pragma once

#include "shared/bytes.h"

struct access_times;

/* Uses at most `bytes` of memory, but at least one bucket. Times with _s are seconds since 1970. */
struct access_times *access_times_new(size_t bytes, uint64_t now_s);
void access_times_free(struct access_times *times); /* NULL is allowed */
/* Loads the bucket into the CPU's cache, ahead of access_times_touch. */
void access_times_prefetch(const struct access_times *times, uint64_t hash);
/* Records an access of the key. */
void access_times_touch(struct access_times *times, uint64_t hash, uint64_t accessed_s);
/* Seconds since the key's last access; 0 if the clock was set back. */
uint64_t access_times_idle(const struct access_times *times, uint64_t hash, uint64_t now_s);
