/*
 * lock.h - keys of this partition that transactions over several shards have locked.
 *
 *   lock_take ─┬─ compatible with the locks of others ─► held ───────────── lock_release ─► commands, then requests
 *              └─ else: requested; a younger transaction that
 *                 holds the key without being prepared is wounded ─► it releases its locks and begins again
 *
 *                        a command reads the key    a command writes it    another transaction reads | writes
 *     held for reading   runs                       waits                  runs                        waits
 *     held for writing   runs, sees the old value   waits                  waits                       waits
 *     held and prepared  waits                      waits                  waits                       waits
 *
 * Commands meet locks in key_lock.c.
 *
 * A transaction that uses all keys of a database (KEYS, DBSIZE, FLUSHDB …) locks them as one: the lock's name is the prefix of
 * their metadata rows (encode_space_prefix), wherever the name of a key is expected. It conflicts with the locks of the keys.
 *
 * Deadlocks cannot occur (wound-wait, Rosenkrantz 1978): a transaction waits only for older ones, for prepared ones, which
 * wait for nothing, and for wounded ones, which release their locks. A command holds no lock while it waits for the first time; after that
 * it is served by its age as a transaction is (lock_waiter.h), so that it does not wait for ever where keys are locked all the time.
 *
 * At the end of a turn in which locks were released, the commands that wait are resumed; at the end of the next turn the
 * oldest requests are granted. So many transactions on one key cannot keep commands away from it.
 *
 * Reservations: if transactions lock a key one after the other, the EXEC of a client that watches the key always fails, because the
 * next transaction gets the key between WATCH and EXEC, and changes it. So WATCH waits until the transaction that may change the
 * key has ended. Then it reserves the key until EXEC, for some milliseconds at most, if other transactions request the key, or if the
 * EXEC of another client that watched it has failed lately. Until then requests to write the key are not granted; requests to read
 * it are. Before the key can be reserved again, at least one request to write is granted, and more if the client sent no EXEC in
 * time: so reservations that lapse take about half of the time at most. A transaction that waits for a reservation wounds no other.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#include <stdint.h>

struct tally;
struct metric_cell;
struct retry;
struct lock_set; /* all of a partition */

enum lock_mode { LOCK_READ = 1, LOCK_WRITE = 2 };

/* The reservations of a client that watches keys. To be initialised by lock_reserver_init. */
struct lock_reserver {
    struct list reservations;
};

/* A transaction at this partition. Its functions are called by lock_set_turn_end. */
struct lock_owner {
    struct list holds;
    struct list requests;
    struct list link;     /* in the set's list of owners for which a function must be called */
    uint64_t begun_us;    /* wall clock of the first attempt: smaller is older */
    uint64_t tie_breaker; /* between those of one microsecond; the same on all shards */
    uint64_t held_us;     /* monotonic: when it got the first of `holds` */
    bool is_prepared;     /* its keys may not be read either, and it cannot be wounded */
    bool is_in_doubt;     /* prepared, and its coordinator has not answered for some time */
    bool is_command;      /* of this partition alone (lock_waiter.h): reservations are not for it */
    bool is_wounded;
    bool was_granted;
    /* counts the memory of its locks and requests; NULL: it is not counted */
    struct tally *tally;
    /* its requests are granted in spite of this client's reservations; NULL: it has none. Only compared */
    const struct lock_reserver *reserver;
    /* An older transaction waits for one of its keys, or a key's slot is being handed over. May not free the owner. */
    void (*on_wounded)(struct lock_owner *owner);
    /* No request is left. */
    void (*on_granted)(struct lock_owner *owner);
};

/* `cell`: the partition's metrics, for PARTITION_LOCK_SECONDS. */
struct lock_set *lock_set_new(struct metric_cell *cell);
/* No key may be locked. NULL is allowed. */
void lock_set_free(struct lock_set *set);
/* Number of keys that are locked, requested, reserved or contested. */
uint32_t lock_set_count(const struct lock_set *set);
/* Resumes commands, grants requests and calls the functions of owners. True: it called one. */
bool lock_set_turn_end(struct lock_set *set);

/* Everything is zero, it has no locks, and functions are NULL. */
void lock_owner_init(struct lock_owner *owner);
/* Locks a key, named by its metadata row. True: the owner holds it; false: it was requested, see on_granted. */
bool lock_take(struct lock_set *set, struct lock_owner *owner, struct bytes row_key,
               enum lock_mode mode);
/* Releases all keys of the owner and withdraws its requests. */
void lock_release(struct lock_set *set, struct lock_owner *owner);
/* The same in steps, for an owner that has ended: releases `max` keys. False: it still holds some. */
bool lock_release_some(struct lock_set *set, struct lock_owner *owner, uint32_t max);

/* Number of keys that the owner has requested and does not hold; *row_key: the first of them. */
uint32_t lock_requested(const struct lock_owner *owner, struct bytes *row_key);

/* Does the owner hold the key, or all keys of its database, in any mode? */
bool lock_is_held(const struct lock_set *set, const struct lock_owner *owner, struct bytes row_key);
/* Does anyone hold or request a key of these slots? Visits every lock. */
bool lock_is_any_in(const struct lock_set *set, uint16_t first, uint16_t last);
/* Does an owner that is in doubt hold a key of these slots? Visits every lock. */
bool lock_is_in_doubt_in(const struct lock_set *set, uint16_t first, uint16_t last);
/* Wounds the owners that hold or request a key of these slots and are not prepared. Visits every lock. */
void lock_wound_in(struct lock_set *set, uint16_t first, uint16_t last);

/* The owner for which a command that reads or writes the key must wait; NULL: the command may run. `self` is not
 * considered; NULL: the command belongs to no transaction. */
const struct lock_owner *lock_stops(const struct lock_set *set, struct bytes row_key, bool writes,
                                    const struct lock_owner *self);
/* As lock_stops for commands that concern all keys with this prefix of metadata rows. *row_key: the locked key. */
const struct lock_owner *lock_stops_any(const struct lock_set *set, struct bytes prefix,
                                        bool writes, const struct lock_owner *self,
                                        struct bytes *row_key);
/* Makes a command wait until locks of the key are released; or until lock_wake_old. */
void lock_wait(struct lock_set *set, struct bytes row_key, struct retry *retry, uint64_t now_ms);
/* Wakes the commands at keys where the first one began to wait before `since_ms`. */
void lock_wake_old(struct lock_set *set, uint64_t since_ms);

/* ---- watched keys ---- */

void lock_reserver_init(struct lock_reserver *reserver);
/* The transaction that may change the key; NULL: none has locked it for writing. */
const struct lock_owner *lock_writer(const struct lock_set *set, struct bytes row_key);
/* A key that transactions lock has changed while clients watched it, who lose. For a second WATCH may reserve the key also
 * when it is free. */
void lock_contest(struct lock_set *set, struct bytes row_key);
/* Reserves the key for the client, if it is locked, requested or contested, none may change it now, and no transaction
 * must be granted first. */
void lock_reserve(struct lock_set *set, struct lock_reserver *reserver, struct bytes row_key);
/* Ends the client's reservations, and those of others of the same keys. */
void lock_unreserve(struct lock_set *set, struct lock_reserver *reserver);
/* Ends what has lasted too long; to be called several times a second. */
void lock_end_reservations(struct lock_set *set);
