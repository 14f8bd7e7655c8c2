#include "tests/sim/sim_tracker.h"

#include "shared/check.h"
#include "shared/net/loop.h"

#include <inttypes.h>
#include <stdio.h>

enum { CONNECT_MS = 1000, PACE_MS = 20 };

static void lose(struct sim_tracker *tracker)
{
    if (tracker->stream)
        stream_abort(tracker->stream);
    tracker->stream = NULL;
    tracker->is_ready = false;
    tracker->asked_count = 0;
}

static void count_key(struct sim_tracker *tracker, struct bytes key)
{
    const struct sim_bank *bank = tracker->bank;
    if (bank->trace)
        (void)fprintf(bank->trace, "%10" PRIu64 " %s: %.*s changed\n", sim_now_us() % 1000000000,
                      tracker->name, (int)key.len, key.data);
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        if (!bytes_equal(key, bytes_of(bank->ledgers[i].key)))
            continue;
        tracker->reports[i]++;
        tracker->is_stale[i] = true;
    }
}

/* A client has no copies when its tracking begins, and drops all of them when it is told to. */
static void drop_copies(struct sim_tracker *tracker)
{
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++)
        tracker->is_stale[i] = true;
}

static bool is_mine(const struct sim_tracker *tracker, unsigned account)
{
    return tracker->bank->ledgers[account].shard == tracker->shard;
}

static bool is_asked(const struct sim_tracker *tracker, unsigned account)
{
    for (unsigned i = 0; i < tracker->asked_count; i++)
        if (tracker->asked[i] == account)
            return true;
    return false;
}

/* Requests the lengths of the ledgers of which it has no copy. */
static void read_stale(struct sim_tracker *tracker)
{
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        if (!is_mine(tracker, i) || !tracker->is_stale[i] || is_asked(tracker, i))
            continue;
        tracker->is_stale[i] = false;
        tracker->asked[tracker->asked_count++] = i;
        out_printf(stream_out(tracker->stream), "LLEN %s\r\n", tracker->bank->ledgers[i].key);
    }
    stream_send(tracker->stream);
}

/* A reply to the oldest LLEN; an error: the key is locked, or writes are refused. */
static void take_length(struct sim_tracker *tracker, const struct resp_value *value)
{
    CHECK(tracker->asked_count);
    unsigned account = tracker->asked[0];
    tracker->asked_count--;
    memmove(tracker->asked, tracker->asked + 1, tracker->asked_count * sizeof *tracker->asked);
    if (value->type == ':')
        tracker->copies[account] = value->count;
    else
        tracker->is_stale[account] = true;
}

/* An invalidation names keys; null: all of them, after a failed batch. The reply to CLIENT TRACKING is the last one. */
static void read_frame(struct sim_tracker *tracker, struct bytes frame)
{
    struct resp_value value;
    size_t pos = 0;
    CHECK(resp_value_next(frame, &pos, &value));
    if (tracker->is_ready && value.type != '>') {
        take_length(tracker, &value);
        return;
    }
    if (value.type == '-')
        sim_bank_fail(tracker->bank, "a tracker was refused: %.*s", (int)value.text.len,
                      value.text.data);
    if (value.type == '+' && ++tracker->replies == 2) {
        tracker->is_ready = true;
        drop_copies(tracker);
    }
    if (value.type != '>')
        return;
    CHECK(resp_value_next(frame, &pos, &value) && bytes_equal(value.text, BYTES("invalidate")));
    CHECK(resp_value_next(frame, &pos, &value));
    if (value.is_null)
        drop_copies(tracker);
    for (int64_t left = value.count; left > 0 && !value.is_null; left--) {
        struct resp_value key;
        CHECK(resp_value_next(frame, &pos, &key));
        count_key(tracker, key.text);
    }
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct sim_tracker *tracker = owner;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(&tracker->skip, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = tracker->skip.need;
            break;
        }
        struct bytes frame = {data + used, tracker->skip.size};
        used += frame.len;
        read_frame(tracker, frame);
    }
    return used;
}

static void on_end(void *owner, int err)
{
    (void)err;
    lose(owner);
}

static void on_open(void *owner, int err)
{
    struct sim_tracker *tracker = owner;
    if (err) {
        lose(tracker);
        return;
    }
    out_printf(stream_out(tracker->stream),
               "SCREE AUTH secret\r\nHELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX ledger\r\n");
    stream_send(tracker->stream);
}

static void on_timer(void *owner)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    struct sim_tracker *tracker = owner;
    if (tracker->is_ready)
        read_stale(tracker);
    if (tracker->stream)
        return;
    tracker->skip = (struct resp_skip){0};
    tracker->replies = 0;
    tracker->stream =
        stream_connect(tracker->loop, tracker->bank->cluster->shards[tracker->shard].addresses[0],
                       CONNECT_MS, &events, on_open, tracker);
}

void sim_tracker_start(struct sim_tracker *tracker, struct sim_bank *bank, unsigned shard)
{
    *tracker = (struct sim_tracker){.bank = bank, .shard = shard};
    (void)snprintf(tracker->name, sizeof tracker->name, "tracker-%u", shard);
    sim_set_host(tracker->name);
    tracker->loop = loop_new();
    tracker->timer = timer_new(tracker->loop, on_timer, tracker);
    timer_start(tracker->timer, 1, PACE_MS);
}

bool sim_tracker_is_calm(const struct sim_tracker *tracker)
{
    for (unsigned i = 0; i < BANK_ACCOUNTS && tracker->is_ready; i++)
        if (is_mine(tracker, i) && tracker->is_stale[i])
            return false;
    return tracker->is_ready && !tracker->asked_count;
}

void sim_tracker_check(struct sim_tracker *tracker)
{
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        const struct sim_ledger *ledger = &tracker->bank->ledgers[i];
        if (tracker->reports[i] > (is_mine(tracker, i) ? ledger->count : 0))
            sim_bank_fail(tracker->bank, "ledger %u has %d entries, and %d reports of changes", i,
                          ledger->count, tracker->reports[i]);
        if (is_mine(tracker, i) && tracker->copies[i] != (int64_t)ledger->count)
            sim_bank_fail(tracker->bank,
                          "ledger %u has %d entries, and a client that tracks it knows of %" PRId64,
                          i, ledger->count, tracker->copies[i]);
    }
}

void sim_tracker_fini(struct sim_tracker *tracker)
{
    if (tracker->stream)
        stream_abort(tracker->stream);
    timer_free(tracker->timer);
    loop_free(tracker->loop);
}
