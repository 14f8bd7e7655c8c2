/*
 * space.h - storage namespaces of a partition and their exact key counters.
 *
 *   (namespace "shop", db 3) ──database map──► storage namespace "shop\0\x03" ──► counters per slot, total
 *
 * Sums are over the slots that the partition serves (space_serve): rows of slots that are moved in or out are stored and
 * counted, but no client sees them.
 *
 * Counters live in memory and change with the commands; rows of changed counters join the batch when it is
 * closed (space_put_counters), so counters are exact after a crash. Hashes whose fields have TTLs are counted in memory only, and again
 * after each start (ttl_hashes.h). SWAPDB swaps two entries of the database map.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"
#include "shared/arena.h"
#include "shared/key_grants.h"
#include "shared/list.h"

#include <stdint.h>

struct metric_cell;
struct out;
struct slot_set;
struct space_set; /* all of a partition */

/* Limits of a namespace, which a proxy has sent (SCREE LIMITS, SCREE GRANTS), and what counts against them. */
struct space_limit {
    uint64_t max_keys; /* 0: unlimited */
    uint64_t max_bytes;
    /* at the other shards, as of the proxy's last message; counts if not is_shared */
    uint64_t keys_elsewhere;
    uint64_t bytes_elsewhere;
    uint64_t bytes;    /* here; an estimate, made once a second (space_bytes.h) */
    uint64_t until_ms; /* the limits hold until then, unless a proxy repeats them; monotonic */
    bool is_shared;    /* there are several shards: keys are created up to `grant` */
    struct key_grant grant;
    /* for so long commands may wait for room, in all, before the next second */
    uint32_t wait_ms_left;
    /* commands that wait for room (retry_wait); of all: those that run again after this turn */
    struct list waits;
    uint64_t waits_ms;      /* since when the first of them waits; monotonic */
    uint64_t keys_measured; /* limits_measure */
    /* by database in storage; NULL: the database has not been used */
    struct space *spaces[DATABASES_MAX];
};

/* Bytes of keys and values that were written since the start, and at the last marks (write_history.h). */
enum { SPACE_MARKS = 32 };

struct space_written {
    uint64_t bytes;
    uint64_t marks[SPACE_MARKS];
    uint64_t flushes; /* `flushes` of the space when `bytes` was 0 */
};

/* One storage namespace. Lives as long as the set. */
struct space {
    struct bytes name; /* storage namespace bytes */
    uint64_t keys;     /* in the slots that are served */
    uint64_t expires;  /* of these: keys with a TTL */
    /* of these: hashes whose fields have TTLs, as far as they were counted since the start (ttl_hashes.h) */
    uint64_t ttl_hashes;
    uint64_t fewest; /* keys at any time since space_limit_count_anew */
    /* to be observed by whoever reads the counters: of the newest change that can be lost; 0: none */
    uint64_t ticket;
    /* keys that count in the attempt of a transaction over shards, and in no counter here, else 0 (space_count_elsewhere): those of other
     * shards, if all were borrowed, those that it has made there, and those that it has made anywhere before it halted */
    int64_t elsewhere;
    /* wall clock of the last command; set by dispatch, 0 = none since the start */
    uint64_t used_ms;
    /* wall clock: until then a proxy has clients in this namespace (SCREE KEEP); 0: none */
    uint64_t kept_until_ms;
    uint64_t flushes;   /* counts deletions of all keys of slots, since the start */
    uint64_t keys_told; /* number of keys already added to the namespace's metrics */
    uint64_t expires_told;
    struct space_written written;
    struct metric_cell *cell;  /* the namespace's metrics; NULL: nothing was added yet */
    struct space_limit *limit; /* of the namespace; NULL: it never had limits */
};

/* Reads counters and database maps. NULL when the store fails. */
struct space_set *space_set_new(struct overlay *overlay);
void space_set_free(struct space_set *set);
/* The storage namespace of (namespace, database); created if it is new. */
struct space *space_open(struct space_set *set, struct bytes name, uint8_t database);
/* The storage namespace with this name in storage; created if it is new. */
struct space *space_find(struct space_set *set, struct bytes storage_name);
/* The namespace and database to which the storage namespace belongs at present; the name is borrowed from the space. */
void space_place(struct space_set *set, const struct space *space, struct bytes *name,
                 uint8_t *database);
/* A number that changes with every space_swap; results of space_open from an older generation are out of date. */
uint64_t space_generation(const struct space_set *set);
/* Changes the counters of a slot; rolled back by space_rollback. */
void space_count(struct space_set *set, struct space *space, uint16_t slot, int64_t keys,
                 int64_t expires);
/* Adds `change`, -1 or 1, to the hashes whose fields have TTLs, unless the key is still to be counted (ttl_hashes.h); rolled back by
 * space_rollback. */
void space_count_ttl_hash(struct space_set *set, struct space *space, struct bytes row_key,
                          int change);
/* Changes space->elsewhere; rolled back by space_rollback. */
void space_count_elsewhere(struct space_set *set, struct space *space, int64_t keys);
uint64_t space_slot_keys(const struct space_set *set, const struct space *space, uint16_t slot);
/* Calls the function for each slot of the namespace that has keys, in no order. */
typedef void space_slot_fn(void *owner, uint16_t slot, uint64_t keys);
void space_each_slot(const struct space *space, space_slot_fn *on_slot, void *owner);
/* Adds the counters of these slots, of all storage namespaces and whether they are served or not. */
void space_count_slots(const struct space_set *set, uint16_t first, uint16_t last, uint64_t *keys,
                       uint64_t *expires);
/* The slot of key number *index (0 <= *index < space->keys), counted slot by slot; *index becomes the key's number in
 * the slot. For a uniform random choice. */
uint16_t space_slot_at(const struct space_set *set, const struct space *space, uint64_t *index);
/* Counts changes, as rdb_changes_since_last_save does; rolled back by space_rollback. */
void space_changes_add(struct space_set *set, int64_t count);
uint64_t space_changes(const struct space_set *set);
/* Sets the counters of the namespace's served slots to zero. */
void space_clear(struct space_set *set, struct space *space);
/* Sets the counters of these slots to zero, also if they are not served. */
void space_clear_slots(struct space_set *set, struct space *space, uint16_t first, uint16_t last);
void space_swap(struct space_set *set, struct bytes name, uint8_t a, uint8_t b);
/* Writes which databases of which namespaces were swapped: for each such namespace u8 length, name, and the storage database of
 * each database; ordered by name, so equal maps have equal bytes. */
void space_maps_write(struct space_set *set, struct out *out);
/* Puts such maps in the place of the present ones, in the open batch. False: they are not valid, and some may have been
 * put. */
bool space_maps_replace(struct space_set *set, struct bytes maps);
/* Follow overlay_savepoint / overlay_rollback. */
void space_savepoint(struct space_set *set);
void space_rollback(struct space_set *set);
/* Follow overlay_attempt_begin / overlay_attempt_end. */
void space_attempt_begin(struct space_set *set);
void space_attempt_end(struct space_set *set, bool is_good);
/* The keys that an attempt has created, in its waits: by space, a few. */
struct space_sums {
    struct space_sum {
        struct space *space;
        int64_t keys;
    } * items;
    uint32_t count;
};
/* The attempt leaves its view (overlay_view_leave): its changes are rolled back, and *sums says what they were. Those of its last script are
 * added to *script; NULL: that does not wait. */
void space_attempt_leave(struct space_set *set, struct space_sums *sums, struct space_sums *script);
/* The attempt goes on: what it changed before counts as keys elsewhere (space_count_elsewhere). */
void space_count_sums(struct space_set *set, const struct space_sums *sums);
/* They do not count any more. */
void space_uncount_sums(struct space_set *set, struct space_sums *sums);
/* Follow overlay_script_begin / overlay_script_end. */
void space_script_begin(struct space_set *set);
void space_script_end(struct space_set *set, bool is_good);
/* Follow overlay_queue_begin / overlay_queue_end. */
void space_queue_begin(struct space_set *set);
void space_queue_end(struct space_set *set, bool is_good);
/* Called when two databases of a namespace were swapped, also when the swap was rolled back. */
typedef void space_swapped_fn(void *owner, struct space *a, struct space *b);
void space_on_swap(struct space_set *set, space_swapped_fn *on_swap, void *owner);
/* Adds rows of the counters that changed since the last batch was closed to the overlay. */
void space_put_counters(struct space_set *set);
/* Reads all counters again, after overlay_discard. */
bool space_reload(struct space_set *set);
/* Sum over all storage namespaces. */
uint64_t space_keys_total(const struct space_set *set);
/* As space_keys_total, with the slots that are not served. Visits every counter. */
uint64_t space_keys_stored(const struct space_set *set);
/* From now on the sums include these slots only; NULL: all slots. The set is borrowed until the next call, which is also
 * needed after each of its changes. To be called between commands. */
void space_serve(struct space_set *set, const struct slot_set *served);
/* Of all namespaces together; only its bytes are used, and compared with the parameter maxmemory. */
struct space_limit *space_limit_of_all(struct space_set *set);
/* The limits of a namespace; made if it has none. They live as long as the set. */
struct space_limit *space_limit_open(struct space_set *set, struct bytes name);
/* Keys of the namespace in all its databases here, without space->elsewhere. */
uint64_t space_limit_keys(const struct space_limit *limit);
/* The fewest keys of each database since space_limit_count_anew, added up. */
uint64_t space_limit_fewest(const struct space_limit *limit);
void space_limit_count_anew(const struct space_limit *limit);
/* Has any namespace limits? */
bool space_has_limits(const struct space_set *set);
/* Iterates over the limits: *cursor starts at 0; NULL at the end. */
struct space_limit *space_limit_next(struct space_set *set, size_t *cursor);
/* Iterates over the spaces: *cursor starts at 0; NULL at the end. */
struct space *space_next(struct space_set *set, size_t *cursor);
