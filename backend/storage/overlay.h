/*
 * overlay.h - the state that commands see: effects that are not in RocksDB's tables yet, above the store.
 *
 *            put, delete              overlay_close_batch      overlay_batch_committed
 *   command ────────────► open batch ───────────► batch in flight ────────► durable: in the WAL
 *                │
 *                ▼         overlay_switch_buffers                  overlay_applied
 *          active write buffer ───────► immutable one ─────────────────► (in the tables)
 *                ▲ reads search the active buffer, then the immutable one, then the store
 *
 * A batch is the content of one write to the WAL: deleted ranges, which apply before the rows, and changed rows (the
 * last effect of a row wins). Each batch has a ticket: 1, 2, 3 …; a reply that observed or made an effect of a batch
 * waits for its ticket (commit.h). A write buffer has the effects of many batches, by key. Closed batches and immutable
 * write buffers do not change: the commit thread reads the batch and the apply thread the buffer, while the partition's
 * thread reads both.
 *
 * A row that is in no buffer may be uncached. Between overlay_nonblocking_begin and overlay_nonblocking_end
 * such a read returns ERR_RETRY, and the command is suspended while the row is fetched (reader.h); else the read goes
 * to the disk.
 *
 * Invariants: (1) at most two write buffers and two batches exist; (2) only the active buffer changes, and only by the
 * open batch; (3) tickets of these batches are consecutive; (4) after overlay_discard the overlay shows exactly
 * what is durable.
 */
#pragma once

#include "backend/store/store.h"
#include "shared/error.h"

struct batch;
struct batch_header;
struct effects;
struct write_buffer;
struct overlay;
struct range_cache_figures;
struct row_cache_figures;
struct reader;
struct retry;
struct view;

struct overlay *overlay_new(struct store *store);
void overlay_free(struct overlay *overlay);

/* Sets the size in bytes at which a write buffer is full. */
void overlay_use_buffers(struct overlay *overlay, size_t bytes);
/* Replaces the row cache by an empty one of `bytes` bytes, for rows of the store that are read or written; 0: no cache.
 * No row of the old cache may be borrowed. */
void overlay_use_cache(struct overlay *overlay, size_t bytes);
/* Sets the memory for plain_keys.h, and empties it; 0: keys are not remembered. */
void overlay_use_plain_keys(struct overlay *overlay, size_t bytes);
/* Replaces the range cache by an empty one of `bytes` bytes, for rows that are iterated over; 0: no cache. No iterator
 * may be open. */
void overlay_use_range_cache(struct overlay *overlay, size_t bytes);
void overlay_range_figures(const struct overlay *overlay, struct range_cache_figures *figures);
/* Figures of the row cache; all 0 if there is none. */
void overlay_plain_figures(const struct overlay *overlay, uint64_t *keys, uint64_t *bytes);
void overlay_cache_figures(const struct overlay *overlay, struct row_cache_figures *figures);
/* Sets the reader that fetches uncached rows. To be called at most once, at the beginning; the reader must outlive the
 * overlay. */
void overlay_use_reader(struct overlay *overlay, struct reader *reader);
/* Drops everything that was cached from the store, because its rows may differ after a recovery. */
void overlay_store_changed(struct overlay *overlay);

/* The row could not be read. ERR_STORE: the disk failed. ERR_RETRY: the row is not in memory, and the command will
 * be suspended and run again. ERR_OVER: the call has exceeded one of its limits (budget.h). Handlers stop at each of them. */
static inline bool is_read_failure(int err)
{
    return err == ERR_STORE || err == ERR_RETRY || err == ERR_OVER;
}

/* What the effects of one call take: bytes of its rows as the WAL will have them (keys and values; a row that the batch has
 * already counts with its new value only). The caller sets them to 0 when a call begins; a rollback restores them. */
struct overlay_written {
    int64_t bytes;
    int64_t max; /* for the caller */
};
struct overlay_written *overlay_written(struct overlay *overlay);
/* Memory of the effects since the undo log was empty: rows, old values and lists. It is in the open batch's buffer. */
size_t overlay_effects_memory(const struct overlay *overlay);

/* Reads a row: OK and the value (borrowed until the next overlay_savepoint, _applied or _discard; slice_release when
 * pinned), ERR_NOT_FOUND, or a read failure. */
int overlay_get(struct overlay *overlay, enum cf cf, struct bytes key, struct slice *value);
/* As overlay_get, for a row of another shard: reads only the view's rows. Other rows and deleted ranges here are not valid for it: they
 * are left from before the slot moved away, or are copies made while it moves here. ERR_RETRY: the view does not have the row. */
int overlay_get_borrowed(struct overlay *overlay, enum cf cf, struct bytes key,
                         struct slice *value);
/* Writes a row; key and value are copied. What is cached of the row's collection becomes invalid (stamps.h). */
void overlay_put(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value);
void overlay_delete(struct overlay *overlay, enum cf cf, struct bytes key);
/* Something that stays in memory until release(owner) on the partition's thread; release NULL: nothing does. */
struct overlay_share {
    void (*release)(void *owner);
    void *owner;
};
/* Keeps a borrowed value without a pin, of BIG_VALUE_BYTES or more, or a part of that size that is at least its half: so a reply
 * needs no copy. */
struct overlay_share overlay_share(const struct overlay *overlay, struct bytes value);
/* The same for a handler, which itself updates what is cached of the collection: nothing becomes invalid. */
void overlay_put_own(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value);
void overlay_delete_own(struct overlay *overlay, enum cf cf, struct bytes key);
/* As overlay_get and overlay_put_own, for a key whose hash (hash_bytes) the caller has computed. The value is the concatenation of
 * two parts, so that a header before a payload needs no copy. */
int overlay_get_hashed(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t key_hash,
                       struct slice *value);
/* As overlay_get_hashed, for a metadata row that the caller will replace: the payload of a string without TTL may be missing. */
int overlay_get_replaced(struct overlay *overlay, struct bytes key, uint64_t key_hash,
                         struct slice *value);
/* Can overlay_get_replaced answer for this key without reading a row of the store? */
bool overlay_knows_plain(const struct overlay *overlay, struct bytes key);
void overlay_put_hashed(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t key_hash,
                        struct bytes head, struct bytes tail);
/* overlay_put_hashed will follow soon: until then the CPU fetches the row's place in the index, which is seldom in its caches. */
void overlay_await_put(const struct overlay *overlay, enum cf cf, uint64_t key_hash);
/* Deletes all rows with from <= k < to (empty `to`: to the end) that exist now. */
void overlay_delete_range(struct overlay *overlay, enum cf cf, struct bytes from, struct bytes to);

/* Sets the savepoint; overlay_rollback undoes every later effect. There is one savepoint, set before each command. */
void overlay_savepoint(struct overlay *overlay);
void overlay_rollback(struct overlay *overlay);
/* Has anything been written or deleted since the savepoint? */
bool overlay_has_changed(const struct overlay *overlay);
/* Begins an attempt: several commands that may be rolled back as one. Savepoints inside belong to these commands. */
void overlay_attempt_begin(struct overlay *overlay);
/* !is_good: rolls back every effect since the attempt began. */
void overlay_attempt_end(struct overlay *overlay, bool is_good);
/* Begins an attempt of a transaction over shards: until overlay_view_end reads see the view's rows, and effects are written into the view
 * (view.h), which the caller owns. No other attempt may be on. */
void overlay_view_begin(struct overlay *overlay, struct view *view);
/* Drops what was written into the view; its borrowed rows stay in it. */
void overlay_view_end(struct overlay *overlay);
/* The attempt waits: reads and effects of others do not see the view, which keeps what was written. */
void overlay_view_leave(struct overlay *overlay);
/* Before that, if a script waits which may be rolled back alone: overlay_script_go_on will be called in place of overlay_script_begin. */
void overlay_view_keep_script(struct overlay *overlay);
/* The attempt goes on in the view that it has left. */
void overlay_view_enter(struct overlay *overlay, struct view *view);
/* Drops what was written into the view since overlay_view_begin. */
void overlay_view_undo(struct overlay *overlay);
struct view *overlay_view(const struct overlay *overlay); /* NULL: none is begun */
/* Calls on_range for each range that was deleted in the view, then on_row once for each row that was changed in it, by column family and
 * key; `value` is NULL for a deleted row. */
struct overlay_changes {
    void (*on_range)(void *owner, enum cf cf, struct bytes from, struct bytes to);
    void (*on_row)(void *owner, enum cf cf, struct bytes key, const struct bytes *value);
    void *owner;
};
void overlay_each_written(const struct overlay *overlay, const struct overlay_changes *changes);
/* Begins a script: until overlay_script_end its effects can be rolled back as one. Savepoints inside keep the undo
 * log. */
void overlay_script_begin(struct overlay *overlay);
/* A script of an EXEC that has left the view goes on. */
void overlay_script_go_on(struct overlay *overlay);
/* !is_good: rolls back every effect since overlay_script_begin. A new savepoint is set either way. */
void overlay_script_end(struct overlay *overlay, bool is_good);
/* The same for the queue of an EXEC, whose commands may be scripts; the effects are those since the last savepoint. */
void overlay_queue_begin(struct overlay *overlay);
void overlay_queue_end(struct overlay *overlay, bool is_good);
/* A number that changes whenever rows of a collection with this version were changed by anything but handlers, or changes of
 * handlers were undone: data derived from rows read before may be wrong (stamps.h). */
uint64_t overlay_stamp(const struct overlay *overlay, uint64_t version);
/* Changes that number for all collections. */
void overlay_stamp_all(struct overlay *overlay);

/* overlay_observed: the newest ticket whose effects were observed or made since the last overlay_observe_begin; 0: all
 * are durable. Effects that were rolled back do not count, because a batch without effects is never written. */
void overlay_observe_begin(struct overlay *overlay);
uint64_t overlay_observed(const struct overlay *overlay);
/* Records the use of a cached value that depends on effects of this ticket or older ones. */
void overlay_observe(struct overlay *overlay, uint64_t ticket);
/* The ticket of a change that is being made. Counters, watches and whatever else shows a change without reading its rows keep it, and
 * a reply that depends on them calls overlay_observe with it, so that it waits until the change is durable. 0: a durable record
 * makes sure of the change already (overlay_secured_begin), so no reply needs to wait. */
uint64_t overlay_change_ticket(const struct overlay *overlay);
/* The ticket of the newest effects that are not durable; 0: all are. A batch without effects is never written, so nothing may wait
 * for its ticket. */
uint64_t overlay_pending_ticket(const struct overlay *overlay);
/* Ticket of the open batch. */
uint64_t overlay_ticket(const struct overlay *overlay);
bool overlay_in_flight(const struct overlay *overlay);

/* From now on a read that needs the disk returns ERR_RETRY, and `retry` waits for the row. NULL: reads may block on
 * the disk. */
void overlay_nonblocking_begin(struct overlay *overlay, struct retry *retry);
/* From now on the command cannot be rolled back, so its reads may block on the disk. */
void overlay_nonblocking_end(struct overlay *overlay);
/* The wait of overlay_nonblocking_begin; NULL: the command cannot be suspended. */
struct retry *overlay_retry(const struct overlay *overlay);
/* True when a read since overlay_nonblocking_begin returned ERR_RETRY, or a locked key was refused. */
bool overlay_retries(const struct overlay *overlay);
/* Fetches a row if it is uncached; `retry` (NULL is allowed) waits for the row. True: the row is in memory. */
bool overlay_prefetch(struct overlay *overlay, enum cf cf, struct bytes key, struct retry *retry);

/* Ordered iteration over the buffers and the store: keys in [lower, upper), without deleted rows. In one direction:
 * seek and seek_first are followed by next, seek_last and seek_for_prev by prev. The iterator must be closed before
 * the overlay changes (collect first, then act) and within the turn, or be detached. */
struct overlay_iter;
struct overlay_iter *overlay_iter_new(struct overlay *overlay, enum cf cf, struct bytes lower,
                                      struct bytes upper);
/* As overlay_iter_new, but iterates only over rows of the view: those of a collection of another shard. */
struct overlay_iter *overlay_iter_new_borrowed(struct overlay *overlay, enum cf cf,
                                               struct bytes lower, struct bytes upper);
void overlay_iter_free(struct overlay_iter *iter); /* NULL is allowed */
/* Gives the iterator its own copy of the buffered effects ahead of its position: from now on the overlay may change and
 * turns may end; the iterator continues in the same direction over the old state. To be freed before the overlay. The
 * store's rows are read by reader threads, so after a move the iterator may be waiting and not valid: `on_rows` is
 * called when it may continue. `rows`: estimate of the rows that will be needed. A seek may go back as far as the
 * position at which the iterator was detached. */
void overlay_iter_detach(struct overlay_iter *iter, uint64_t rows, void (*on_rows)(void *owner),
                         void *owner);
bool overlay_iter_waits(const struct overlay_iter *iter);
void overlay_iter_go_on(struct overlay_iter *iter);                  /* unless it must still wait */
void overlay_iter_seek(struct overlay_iter *iter, struct bytes key); /* first k >= key */
void overlay_iter_seek_first(struct overlay_iter *iter);
void overlay_iter_seek_last(struct overlay_iter *iter);
void overlay_iter_seek_for_prev(struct overlay_iter *iter, struct bytes key); /* last k <= key */
void overlay_iter_next(struct overlay_iter *iter);
void overlay_iter_prev(struct overlay_iter *iter);
bool overlay_iter_valid(const struct overlay_iter *iter);
struct bytes overlay_iter_key(const struct overlay_iter *iter);
struct bytes overlay_iter_value(const struct overlay_iter *iter);
/* Number of deleted rows that the iterator has passed since the last call: work that the rows which it gives do not show. */
size_t overlay_iter_passed(struct overlay_iter *iter);
/* Why the iterator is not valid. OK: it is at its end; ERR_STORE: the disk failed; ERR_RETRY: the next rows are not
 * in memory. */
int overlay_iter_error(const struct overlay_iter *iter);

/* Effects between these calls are secured: a durable record makes sure that they are made again if their batch is lost. So a reply
 * that has observed their rows need not wait for the batch, and the batch is not written early for them: they become durable
 * with the next batch that something else needs. After the second call they can no longer be rolled back. */
void overlay_secured_begin(struct overlay *overlay);
void overlay_secured_end(struct overlay *overlay);
/* Effects between these calls are rows of slots and long keys that move here, or of slots that moved away: the shard's own changes
 * (effects.h). They may be many, and no client has asked for them: they are cached when they are read. */
void overlay_moved_begin(struct overlay *overlay);
void overlay_moved_end(struct overlay *overlay);
/* To be called when something begins to wait until the batch with this ticket is durable. */
void overlay_await(struct overlay *overlay, uint64_t ticket);
/* Makes the open batch due if it has secured effects, which have been put off for long enough. */
void overlay_await_secured(struct overlay *overlay);

/* ---- for commit.c and apply.c ---- */

/* Do reader threads still use iterators of the store? Then it cannot be recovered. */
bool overlay_has_read_aheads(const struct overlay *overlay);
/* Calls the function for each row that the open batch puts. */
void overlay_each_put(const struct overlay *overlay,
                      void (*on_put)(void *owner, enum cf cf, struct bytes key, size_t value_len),
                      void *owner);
/* Does the open batch have effects? overlay_bytes: its approximate size. */
bool overlay_dirty(const struct overlay *overlay);
/* Must the open batch be written now? It has effects that are not secured, or something waits for its secured ones. */
bool overlay_is_due(const struct overlay *overlay);
size_t overlay_bytes(const struct overlay *overlay);
/* That size without big values, which wait by overlay_has_big. */
size_t overlay_common_bytes(const struct overlay *overlay);
/* Backpressure: must writers wait? While the immutable buffer is applied, both buffers together may have WRITE_BUFFERS times the
 * configured size, which is what memory_plan.h reserves for them. The active buffer may take half of its part at once, and the other
 * half in proportion to `applied_bytes`, the bytes of the immutable buffer that are in the tables. So writers get as slow as the
 * tables, and do not stop. `percent`: of these bytes; less than 100 leaves room for others. */
bool overlay_is_behind(const struct overlay *overlay, size_t applied_bytes, unsigned percent);
/* Values of BIG_VALUE_BYTES and more do not count above, unless the buffers have more of them than 64 times their configured size, and
 * BIG_BYTES_MAX at most: one client's value of 200 MB would stop all others until it is in the tables. Instead only those that bring such values wait: is there more than
 * `limit` of them in the open batch, or in both buffers while one is applied? So do big requests while a buffer is applied that a
 * command of very many rows has filled: else the memory of two such commands would be in the buffers. */
enum { BIG_VALUE_BYTES = 1024 * 1024, BIG_BYTES_MAX = 512 * 1024 * 1024 };
bool overlay_has_big(const struct overlay *overlay, size_t limit);
/* Bytes of all buffers. */
size_t overlay_memory(const struct overlay *overlay);
/* Writes the batch's header row, which is part of the batch. */
void overlay_set_header(struct overlay *overlay, struct bytes key,
                        const struct batch_header *header);
/* The open batch changes the members of the group of copies: its record gets the type EFFECTS_MEMBERS. */
void overlay_set_members(struct overlay *overlay);
/* Adds the rows of a committed record of the log to the active write buffer: from now on commands see them, as durable rows. All of the
 * record or nothing is added. The open batch must be empty, and none in flight; no row may be borrowed. OK, or ERR_STORE and a one-line
 * reason in error[size]: the record is damaged, or newer than this program. */
int overlay_add_committed(struct overlay *overlay, struct bytes record, char *error, size_t size);
/* Closes the open batch, which is then in flight, and begins an empty one. No batch may be in flight. */
const struct batch *overlay_close_batch(struct overlay *overlay);
/* Encodes the closed batch into `to`: its ranges, then its rows. Any thread. */
void batch_write(const struct batch *batch, struct effects *to);
/* The term in its header; 0: none was set. */
uint64_t batch_term(const struct batch *batch);
/* Frees the batch in flight, which is durable. */
void overlay_batch_committed(struct overlay *overlay);
/* Rolls back the batch in flight, which has failed, and the open batch, which may depend on it. */
void overlay_discard(struct overlay *overlay);

/* The active write buffer has reached its size. */
bool overlay_is_full(const struct overlay *overlay);
bool overlay_is_empty(const struct overlay *overlay); /* of the active write buffer */
/* Makes the active write buffer immutable and begins an empty one; there must be no immutable buffer. To be called
 * right after overlay_close_batch, whose batch is the last of the immutable buffer. */
void overlay_switch_buffers(struct overlay *overlay);
const struct write_buffer *overlay_immutable(const struct overlay *overlay); /* NULL: none */
const struct write_buffer *overlay_active(const struct overlay *overlay);
/* Called when the immutable write buffer is in RocksDB's tables: updates the caches from at most `rows` of its rows.
 * True: all rows are done, and the buffer is freed. No row may be borrowed, and all open iterators must be detached. */
bool overlay_applied(struct overlay *overlay, size_t rows);
/* Empties both buffers, which are in RocksDB's tables; the open batch must be empty. overlay_store_changed must
 * follow. */
void overlay_forget(struct overlay *overlay);
