#include "backend/replica/replica_send.h"

#include "backend/context/group_clock.h"
#include "backend/peer/link.h"
#include "backend/peer/message.h"
#include "backend/replica/own_records.h"
#include "backend/wal/wal.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/stream.h"
#include "shared/out.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

/* So many unsent bytes of a connection are little. With more of them it reports when it has sent them (on_drain), with fewer it
 * does not. */
enum { PENDING_MAX = STREAM_HIGH_WATER };

/* Twice so many bytes of records may be sent and not acknowledged, and one record: the other copy holds them in memory until they are
 * on its disk. */
enum { WINDOW_HALF = 8 << 20 };

/* The next record, read and not sent yet. */
struct held_record {
    bool is_there;
    struct own_record *own; /* NULL: from the cursor */
    struct bytes bytes;     /* borrowed from one of the two */
    uint64_t parted;        /* bytes that were sent in parts */
};

struct replica_send {
    struct replica_send_options options;
    struct wal_cursor *
        cursor; /* its next record is `written` + 1, or the one after the held one; NULL: to be made */
    struct held_record held;
    struct consensus_message offer; /* the newest APPEND; kind 0: none since the drop */
    uint64_t begin, written, upto;  /* as drawn in the header */
    uint64_t half_index; /* the records up to here belong to the first half of the window */
    uint64_t half_bytes; /* of the records in the second half */
    bool is_due;         /* the offer's commit index and time were not sent yet */
    bool was_refused;    /* what was written after a refused APPEND is lost */
    bool has_failed;     /* a record could not be read, which was logged */
};

struct replica_send *replica_send_new(const struct replica_send_options *options)
{
    struct replica_send *send = calloc(1, sizeof *send);
    CHECK(send);
    send->options = *options;
    return send;
}

static void drop_held(struct replica_send *send)
{
    own_record_end(send->held.own);
    send->held = (struct held_record){0};
}

/* Also the record that is held. */
static void forget_cursor(struct replica_send *send)
{
    drop_held(send);
    wal_cursor_free(send->cursor);
    send->cursor = NULL;
}

void replica_send_drop(struct replica_send *send)
{
    forget_cursor(send);
    send->offer = (struct consensus_message){0};
    send->begin = send->written = send->upto = 0;
    send->half_index = send->half_bytes = 0;
    send->is_due = send->was_refused = send->has_failed = false;
}

void replica_send_free(struct replica_send *send)
{
    if (!send)
        return;
    forget_cursor(send);
    free(send);
}

void replica_send_refused(struct replica_send *send)
{
    send->was_refused = true;
}

bool replica_send_has_failed(const struct replica_send *send)
{
    return send->has_failed;
}

/* ---- frames ------------------------------------------------------------------------------------ */

static bool post_core(struct replica_send *send, const struct consensus_message *message,
                      struct bytes records)
{
    struct out out;
    const struct replica_core core = {
        .group = send->options.group,
        .time_us = send->options.time ? group_clock_us(send->options.time) : 0,
        .applied = send->options.applied ? atomic_load(send->options.applied) : 0,
        .message = *message,
        .records = records,
    };
    out_init(&out);
    replica_core_write(&core, &out);
    return peer_link_post_out(send->options.link, PEER_REPLICA_CORE, &out) == PEER_SENT;
}

/* An APPEND with the records after `written`, or without any. */
static bool post_append(struct replica_send *send, uint32_t count, struct bytes records)
{
    struct consensus_message append = send->offer;
    append.index = send->written;
    append.index_term = consensus_term_at(send->options.core, send->written);
    append.count = count;
    append.records_term = count ? consensus_term_at(send->options.core, send->written + count) : 0;
    if (!post_core(send, &append, records))
        return false;
    send->written += count;
    send->is_due = false;
    return true;
}

/* ---- records ----------------------------------------------------------------------------------- */

static uint64_t first_record(struct wal *wal)
{
    uint64_t kept = wal_kept(wal).first;
    return kept ? kept : wal_first(wal);
}

/* What was offered cannot be sent. The other copy refuses the next APPEND, which has the last offered record before it; then the core
 * sees that the log begins too late for it. The term of the record before must be known: another copy that has committed this record
 * takes 0 for a second leader's. */
static void report_gone(struct replica_send *send, uint64_t first)
{
    uint64_t base = term_runs_base(&send->options.core->runs);
    forget_cursor(send);
    send->upto = send->upto < base ? base : send->upto;
    send->begin = send->written = send->upto;
    send->is_due = true;
    send->options.on_gone(send->options.owner, first);
}

static bool has_cursor(struct replica_send *send, uint64_t index)
{
    struct wal *wal = send->options.wal;
    if (!send->cursor)
        send->cursor = wal_cursor_new_weak(wal, index);
    if (!send->cursor && index < first_record(wal))
        report_gone(send, first_record(wal));
    return send->cursor != NULL;
}

static void report_failed(struct replica_send *send, const char *reason)
{
    if (!send->has_failed)
        log_event(LOG_ERROR, "replica_log_unreadable", "index=%" PRIu64 " reason=\"%s\"",
                  send->written + 1, reason);
    send->has_failed = true;
    forget_cursor(send);
}

/* Takes the record `index` from memory. False: it is not there. */
static bool hold_own(struct replica_send *send, uint64_t index)
{
    struct own_record *own = send->options.own ? own_records_at(send->options.own, index) : NULL;
    if (!own)
        return false;
    forget_cursor(send); /* it is not at the record behind this one */
    send->held =
        (struct held_record){.is_there = true, .own = own_record_use(own), .bytes = own->bytes};
    return true;
}

/* Reads the record `index`, the next one of the cursor. False: it is not durable yet, or cannot be read. */
static bool hold_logged(struct replica_send *send, uint64_t index)
{
    char reason[256];
    uint64_t found;
    struct bytes bytes;
    if (!has_cursor(send, index))
        return false;
    int err = wal_cursor_next(send->cursor, &found, &bytes, reason, sizeof reason);
    uint64_t first = first_record(send->options.wal);
    if (err == ERR_GONE && index <= send->options.core->committed)
        report_gone(send, first > index ? first : index + 1); /* the log may have a gap */
    else if (err != OK && err != ERR_NOT_FOUND)
        report_failed(send, reason);
    if (err != OK)
        return false;
    CHECK(found == index);
    send->has_failed = false;
    send->held = (struct held_record){.is_there = true, .bytes = bytes};
    return true;
}

static bool hold_record(struct replica_send *send, uint64_t index)
{
    return send->held.is_there || hold_own(send, index) || hold_logged(send, index);
}

static bool is_long(const struct held_record *held)
{
    return held->bytes.len > REPLICA_RECORDS_BYTES;
}

/* Appends the records after `written` that fit into one message, all of one term; returns their number. */
static uint32_t gather_records(struct replica_send *send, struct out *out)
{
    uint32_t count = 0;
    const struct consensus *core = send->options.core;
    uint64_t term = consensus_term_at(core, send->written + 1);
    while (send->written + count < send->upto &&
           consensus_term_at(core, send->written + count + 1) == term &&
           hold_record(send, send->written + count + 1) &&
           out->bytes + send->held.bytes.len <= REPLICA_RECORDS_BYTES) {
        message_put_bytes(out, send->held.bytes);
        send->half_bytes += send->held.bytes.len;
        drop_held(send);
        count++;
    }
    return count;
}

/* A message that the connection does not take is lost with its records, so they are read again. */
static bool post_records(struct replica_send *send)
{
    struct out out;
    out_init(&out);
    uint64_t before = send->written;
    uint32_t count = gather_records(send, &out);
    struct bytes records = out_take(&out);
    bool is_posted = count && send->written == before && post_append(send, count, records);
    if (count && !is_posted)
        forget_cursor(send);
    free((char *)records.data);
    return is_posted;
}

/* The next part of the held record, or the message after the last one. */
static bool post_part(struct replica_send *send)
{
    struct held_record *held = &send->held;
    char in_parts[4];
    uint64_t left = held->bytes.len - held->parted;
    if (!left) {
        put_le32(in_parts, REPLICA_IN_PARTS);
        if (!post_append(send, 1, (struct bytes){in_parts, sizeof in_parts}))
            return false;
        drop_held(send);
        return true;
    }
    struct out out;
    const struct replica_part part = {
        .group = send->options.group,
        .from = send->options.core->id,
        .term = send->offer.term,
        .index = send->written + 1,
        .total = held->bytes.len,
        .offset = held->parted,
        .bytes = {held->bytes.data + held->parted,
                  left < REPLICA_RECORDS_BYTES ? left : REPLICA_RECORDS_BYTES},
    };
    out_init(&out);
    replica_part_write(&part, &out);
    if (peer_link_post_out(send->options.link, PEER_REPLICA_PART, &out) != PEER_SENT)
        return false;
    held->parted += part.bytes.len;
    send->half_bytes += part.bytes.len;
    return true;
}

static uint64_t acknowledged(const struct replica_send *send)
{
    const struct consensus *core = send->options.core;
    for (unsigned i = 0; i < core->members.count; i++)
        if (core->members.list[i].id == send->offer.to)
            return core->progress[i].match;
    return 0;
}

/* The second half becomes the first one when the first one is acknowledged. */
static bool has_window(struct replica_send *send)
{
    if (acknowledged(send) >= send->half_index || send->written < send->half_index) {
        send->half_index = send->written;
        send->half_bytes = 0;
    }
    return send->half_bytes < WINDOW_HALF || send->held.parted;
}

static bool post_next(struct replica_send *send)
{
    if (send->written == send->upto || !has_window(send) || !hold_record(send, send->written + 1))
        return false;
    return is_long(&send->held) ? post_part(send) : post_records(send);
}

static bool has_little_to_send(const struct replica_send *send)
{
    return peer_link_pending(send->options.link) <= PENDING_MAX;
}

void replica_send_turn(struct replica_send *send)
{
    if (!send->offer.kind)
        return;
    if (send->written < term_runs_base(&send->options.core->runs))
        report_gone(send, first_record(send->options.wal));
    if (send->is_due && send->held.parted && has_little_to_send(send))
        (void)post_append(send, 0, (struct bytes){0}); /* parts have no reply */
    while (has_little_to_send(send) && post_next(send))
        ;
    if (send->is_due && has_little_to_send(send))
        (void)post_append(send, 0, (struct bytes){0});
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* Does the APPEND begin at another record than what is being sent? */
static bool is_elsewhere(const struct replica_send *send, const struct consensus_message *append)
{
    if (!send->offer.kind || append->term != send->offer.term)
        return true;
    return append->index < send->begin || append->index > send->upto ||
           (send->was_refused && append->index <= send->written);
}

static void take_append(struct replica_send *send, const struct consensus_message *append)
{
    uint64_t end = append->index + append->count;
    if (is_elsewhere(send, append)) {
        forget_cursor(send);
        send->begin = send->written = send->upto = append->index;
    }
    send->was_refused = false;
    send->upto = end > send->upto ? end : send->upto;
    send->offer = *append;
    send->is_due = true;
    replica_send_turn(send);
}

void replica_send_message(struct replica_send *send, const struct consensus_message *message)
{
    if (message->kind == CONSENSUS_APPEND)
        take_append(send, message);
    else
        (void)post_core(send, message, (struct bytes){0});
}
