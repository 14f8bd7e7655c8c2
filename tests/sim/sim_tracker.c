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
    tracker->was_lost = true;
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
        tracker->last_us[i] = sim_now_us();
    }
}

/* An invalidation names keys; null: all of them, after a failed batch. The reply to CLIENT TRACKING is the last one. */
static void read_frame(struct sim_tracker *tracker, struct bytes frame)
{
    struct resp_value value;
    size_t pos = 0;
    CHECK(resp_value_next(frame, &pos, &value));
    if (value.type == '-')
        sim_bank_fail(tracker->bank, "a tracker was refused: %.*s", (int)value.text.len,
                      value.text.data);
    tracker->is_ready |= value.type == '+' && ++tracker->replies == 2;
    if (value.type != '>')
        return;
    CHECK(resp_value_next(frame, &pos, &value) && bytes_equal(value.text, BYTES("invalidate")));
    CHECK(resp_value_next(frame, &pos, &value));
    tracker->was_lost |= value.is_null;
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

static bool is_last_reported(const struct sim_tracker *tracker, unsigned account)
{
    const struct sim_bank *bank = tracker->bank;
    const struct sim_ledger *ledger = &bank->ledgers[account];
    return !ledger->count ||
           tracker->last_us[account] >= bank->deals[ledger->entries[ledger->count - 1]].sent_us;
}

void sim_tracker_check(struct sim_tracker *tracker, bool is_calm)
{
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        const struct sim_ledger *ledger = &tracker->bank->ledgers[i];
        bool has_ledger = ledger->shard == tracker->shard;
        if (tracker->reports[i] > (has_ledger ? ledger->count : 0))
            sim_bank_fail(tracker->bank, "ledger %u has %d entries, and %d reports of changes", i,
                          ledger->count, tracker->reports[i]);
        if (has_ledger && is_calm && !tracker->was_lost && !is_last_reported(tracker, i))
            sim_bank_fail(tracker->bank, "the last entry of ledger %u was not reported", i);
    }
}

void sim_tracker_fini(struct sim_tracker *tracker)
{
    if (tracker->stream)
        stream_abort(tracker->stream);
    timer_free(tracker->timer);
    loop_free(tracker->loop);
}
