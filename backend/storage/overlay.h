/*
 * overlay.h - what a command sees: effects of batches that are not in the store's tables yet → the store.
 *
 *            put, delete              overlay_close_batch      overlay_batch_committed
 *   command ────────────► batch collects ───────────► batch in flight ────────► durable: in the WAL
 *                │
 *                ▼         overlay_switch_buffers                  overlay_applied
 *          active write buffer ───────► immutable one ─────────────────► (in the tables)
 *                ▲ reads look here first, then there, then in the store
 *
 * A batch is what one write to the WAL holds: deleted ranges, which apply before the rows, and the rows it changed (the
 * last effect of a row wins). Each has a ticket: 1, 2, 3 …; a reply that observed or made an effect of a batch waits
 * for its ticket (commit.h). A buffer holds the effects of many batches, by key. The commit thread reads what a closed
 * batch has kept of its rows, and a thread of apply.h an immutable write buffer, while the partition's thread reads
 * both; nobody changes them.
 *
 * A row that is in no buffer may be on the disk only. Between overlay_nonblocking_begin and overlay_nonblocking_end
 * such a read returns ERR_UNCACHED, and the command is suspended while the row is fetched (reader.h); else the read goes
 * to the disk.
 *
 * Invariants: (1) at most two write buffers and two batches exist; (2) only the active buffer changes, and only by the
 * collecting batch; (3) tickets of live batches are consecutive; (4) after overlay_discard the overlay shows exactly
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
struct reader_wait;

struct overlay *overlay_new(struct store *store);
void overlay_free(struct overlay *overlay);

/* A buffer with so many bytes is full. */
void overlay_use_buffers(struct overlay *overlay, size_t bytes);
/* Keeps rows of the store that were read or written lately in so much memory, which is empty at first; 0: in none. No
 * row may be borrowed from the one before. */
void overlay_use_cache(struct overlay *overlay, size_t bytes);
/* The same for runs of rows that were walked over; no walk may be open. */
void overlay_use_range_cache(struct overlay *overlay, size_t bytes);
void overlay_range_figures(const struct overlay *overlay, struct range_cache_figures *figures);
/* How the memory serves; zeroes without it. */
void overlay_cache_figures(const struct overlay *overlay, struct row_cache_figures *figures);
/* Fetches rows that are not in memory. At most once, at the beginning; the reader lives as long as the overlay. */
void overlay_use_reader(struct overlay *overlay, struct reader *reader);
/* The store may hold other rows than it did (it was recovered): nothing remembered of it is right. */
void overlay_store_changed(struct overlay *overlay);

/* The row could not be read: ERR_STORE, the disk failed; ERR_UNCACHED, it is not in memory and the command will be
 * suspended and run again. Handlers stop at either. */
static inline bool is_read_failure(int err)
{
    return err == ERR_STORE || err == ERR_UNCACHED;
}

/* 0 and the value (borrowed: until the next overlay_savepoint/applied/discard, and slice_release when pinned),
 * ERR_NOT_FOUND, or a read failure. */
int overlay_get(struct overlay *overlay, enum cf cf, struct bytes key, struct slice *value);
/* Key and value are copied. */
void overlay_put(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value);
void overlay_delete(struct overlay *overlay, enum cf cf, struct bytes key);
/* The same with a value in two parts, so that a header in front of a payload costs no copy. */
void overlay_put_parts(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes head,
                       struct bytes tail);
/* Deletes every row from <= k < to (empty `to`: to the end) that exists now. */
void overlay_delete_range(struct overlay *overlay, enum cf cf, struct bytes from, struct bytes to);

/* Marks a point; rollback undoes every effect made since. One level; begin anew per command. */
void overlay_savepoint(struct overlay *overlay);
void overlay_rollback(struct overlay *overlay);
/* Several commands that may be rolled back as one: savepoints and rollbacks in between are theirs. */
void overlay_attempt_begin(struct overlay *overlay);
/* !is_good: rolls back every effect since it began. */
void overlay_attempt_end(struct overlay *overlay, bool is_good);
/* A script begins: until overlay_script_end its effects can be rolled back as one. Savepoints set in between keep the
 * undo log. */
void overlay_script_begin(struct overlay *overlay);
/* !is_good: rolls back every effect since overlay_script_begin. A new savepoint is set either way. */
void overlay_script_end(struct overlay *overlay, bool is_good);
/* Changes whenever effects were rolled back, or the store is not what it was: what was derived from rows that were
 * read before may be wrong. */
uint64_t overlay_generation(const struct overlay *overlay);

/* The newest ticket whose effects were observed or made since the last overlay_observe_begin; 0: all of them are
 * durable. Effects that were rolled back do not count: a batch without effects is not written, so that its ticket would
 * not end. */
void overlay_observe_begin(struct overlay *overlay);
uint64_t overlay_observed(const struct overlay *overlay);
/* Something remembered was looked at that comes from effects of this ticket or older ones. */
void overlay_observe(struct overlay *overlay, uint64_t ticket);
/* Ticket of the batch that collects effects now. */
uint64_t overlay_ticket(const struct overlay *overlay);
bool overlay_in_flight(const struct overlay *overlay);

/* From now on a read that would go to the disk is ERR_UNCACHED, and `wait` waits for the row. NULL: it goes to the
 * disk. */
void overlay_nonblocking_begin(struct overlay *overlay, struct reader_wait *wait);
/* The command can not be rolled back any more: its reads go to the disk from now on. */
void overlay_nonblocking_end(struct overlay *overlay);
/* Has a read since overlay_nonblocking_begin failed because its row was not in memory? */
bool overlay_has_uncached(const struct overlay *overlay);
/* Prefetch of a row that will be read: it is fetched when it is not in memory, and `wait` (or NULL) waits for it. True:
 * it is there. */
bool overlay_prefetch(struct overlay *overlay, enum cf cf, struct bytes key,
                      struct reader_wait *wait);

/* Ordered iteration over all buffers and the store: keys in [lower, upper), deleted rows skipped. A walk goes one
 * way: seek and seek_first are followed by next, seek_last and seek_for_prev by prev. It must be closed before the
 * overlay changes (collect first, then act) and within the turn, or be detached. */
struct overlay_iter;
struct overlay_iter *overlay_iter_new(struct overlay *overlay, enum cf cf, struct bytes lower,
                                      struct bytes upper);
void overlay_iter_free(struct overlay_iter *iter); /* NULL is allowed */
/* Gives the walk its own copy of the effects that lie before it: from now on the overlay may change, and turns may
 * end; the walk goes on in the same direction over what it saw. Free it before the overlay. The store's rows are read
 * by the reader's threads, so a move may leave it waiting for them, and not valid: `on_rows` is called when it may go
 * on. `rows`: so many will be wanted, as far as one can say. A seek may go back as far as to where it stood. */
void overlay_iter_detach(struct overlay_iter *iter, uint64_t rows, void (*on_rows)(void *owner),
                         void *owner);
bool overlay_iter_waits(const struct overlay_iter *iter);
void overlay_iter_go_on(struct overlay_iter *iter); /* unless it has to wait still */
void overlay_iter_seek(struct overlay_iter *iter, struct bytes key); /* first k >= key */
void overlay_iter_seek_first(struct overlay_iter *iter);
void overlay_iter_seek_last(struct overlay_iter *iter);
void overlay_iter_seek_for_prev(struct overlay_iter *iter, struct bytes key); /* last k <= key */
void overlay_iter_next(struct overlay_iter *iter);
void overlay_iter_prev(struct overlay_iter *iter);
bool overlay_iter_valid(const struct overlay_iter *iter);
struct bytes overlay_iter_key(const struct overlay_iter *iter);
struct bytes overlay_iter_value(const struct overlay_iter *iter);
/* Why the iterator is not valid: OK, it is at its end; ERR_STORE, the disk failed; ERR_UNCACHED, the next rows are not in
 * memory. */
int overlay_iter_error(const struct overlay_iter *iter);

/* ---- for commit.c and apply.c ---- */

/* Threads read the store for walks that were detached, or are about to let go of it: it can not be recovered. */
bool overlay_has_read_aheads(const struct overlay *overlay);
/* Has the collecting batch effects? Its approximate bytes. */
bool overlay_dirty(const struct overlay *overlay);
size_t overlay_bytes(const struct overlay *overlay);
/* Backpressure: the active write buffer is more than twice as big as it should be, or four times while the immutable
 * one, of which `applied_bytes` are in the tables, is nearly there. */
bool overlay_is_behind(const struct overlay *overlay, size_t applied_bytes);
/* Bytes of all buffers. */
size_t overlay_memory(const struct overlay *overlay);
/* Puts the batch's header row, and has the batch logged with this header. */
void overlay_set_header(struct overlay *overlay, struct bytes key,
                        const struct batch_header *header);
/* The collecting batch becomes in flight and an empty one begins. Nothing may be in flight. */
const struct batch *overlay_close_batch(struct overlay *overlay);
/* Makes `to` the closed batch: its ranges, then its rows. Any thread. */
void batch_write(const struct batch *batch, struct effects *to);
/* The batch in flight is durable. */
void overlay_batch_committed(struct overlay *overlay);
/* The batch in flight failed: rolls it back, and the collecting one, which may build on it. */
void overlay_discard(struct overlay *overlay);

/* The active write buffer has reached its size. */
bool overlay_is_full(const struct overlay *overlay);
bool overlay_is_empty(const struct overlay *overlay); /* the active write buffer is */
/* The active write buffer becomes immutable and an empty one begins; none is immutable. Call it right behind
 * overlay_close_batch: the batch in flight is the buffer's last. */
void overlay_switch_buffers(struct overlay *overlay);
const struct write_buffer *overlay_immutable(const struct overlay *overlay); /* NULL: none */
const struct write_buffer *overlay_active(const struct overlay *overlay);
/* The immutable write buffer is in the store's tables: what is remembered of its rows follows, so many of them with
 * each call. True: of all, and the buffer is forgotten. No row may be borrowed, and no walk be open that is not
 * detached. */
bool overlay_applied(struct overlay *overlay, size_t rows);
/* Both buffers are in the store's tables, and nothing collects: forgets them. overlay_store_changed comes behind it. */
void overlay_forget(struct overlay *overlay);
