/*
 * Frames to a backend: opens the connection when needed, and switches the backend's session to the request's keyspace.
 */
#include "proxy/upstream/upstream_inner.h"

#include "proxy/core/client.h"
#include "proxy/core/limits.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "shared/bounce.h"
#include "shared/namespace.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    IDLE_MS = 1000 /* after this time without input the backend may have closed the connection */
};

/* ---- commands of the proxy itself ------------------------------------------------------------ */

void upstream_write_words(struct out *out, const char *const *words, int count)
{
    out_printf(out, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        out_printf(out, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
}

void upstream_send_own(struct upstream *upstream, enum part_kind kind, const char *word)
{
    upstream_write_words(upstream->out, &word, 1);
    upstream_push_own(upstream, kind);
    if (upstream->state == UPSTREAM_UP)
        stream_send(upstream->stream);
    proxy_worker_need_tick(upstream->worker);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Writes the slots of a shard, "0-5460 7000". */
static void print_slots(const struct shard_map *map, int shard, struct out *out)
{
    unsigned slot = 0;
    unsigned first;
    unsigned last;
    while (shard_map_next_range(map, shard, &slot, &first, &last))
        out_printf(out, first == last ? "%s%u" : "%s%u-%u", out->bytes ? " " : "", first, last);
}

/* The shard has bounced requests behind those that it bounced first; what follows is not behind them (backend/dispatch/bounce.h). A shard
 * of an older version refuses it: there, SCREE SLOTS has this meaning. */
static void tell_bounces(struct upstream *upstream, struct out *out)
{
    char seen[INT64_TEXT_MAX + 1];
    if (upstream->queue
            .has_bounced) /* else no client was held: what it sends may not run before what is in flight */
        upstream->queue.seen = upstream->queue.answered;
    upstream->queue.has_bounced = false;
    if (upstream->waits || upstream->use.is_copy)
        return;
    (void)snprintf(seen, sizeof seen, "%" PRIu64, upstream->queue.seen);
    upstream_write_words(out, (const char *const[]){"SCREE", "BOUNCES", "SEEN", seen}, 4);
    upstream_push_own(upstream, PART_SEEN);
    upstream->queue.seens++;
}

void upstream_tell_slots(struct upstream *upstream, struct out *out)
{
    const struct shard_map *map = upstream->worker->snapshot->map;
    int shard = shard_map_named(map, bytes_of(upstream->node->name));
    struct out slots;
    upstream->generation = upstream->worker->label.generation;
    tell_bounces(upstream, out);
    if (shard <
        0) /* the shard was removed from the map: the connection only has requests in flight */
        return;
    out_init(&slots);
    print_slots(map, shard, &slots);
    out_printf(out, "*3\r\n$5\r\nSCREE\r\n$5\r\nSLOTS\r\n$%zu\r\n", slots.bytes);
    out_move(out, &slots);
    out_write(out, "\r\n", 2);
    upstream_push_own(upstream,
                      PART_PROBE); /* the reply is ignored, as older backends refuse the command */
}

void upstream_tell_new_slots(struct upstream *upstream)
{
    if (*upstream_config(upstream)->upstream_secret &&
        upstream->generation != upstream->worker->label.generation)
        upstream_tell_slots(upstream, upstream->out);
}

/* What is in flight may bounce as well: the clients send nothing new until they have their replies, as it would overtake that. */
static void hold_clients(const struct upstream *upstream)
{
    for (const struct part *part = upstream->queue.first; part; part = part->next) {
        struct client *client = part->request ? part->request->client : NULL;
        if (!client)
            continue;
        client->label = LABEL_BOUNCED;
        client->bounced.drains |= part->kind == PART_FOLLOWED;
    }
}

void upstream_note_bounce(struct upstream *upstream)
{
    if (!upstream->queue.has_bounced) /* else nothing was sent since */
        hold_clients(upstream);
    upstream->queue.has_bounced = true;
    upstream->generation = upstream->worker->label.generation - 1;
    upstream_set_keyspace(upstream, NULL);
}

/* Sends the limits of namespaces if this connection has not sent them. */
static void tell_limits(struct upstream *upstream, const struct keyspace *keyspace)
{
    struct limits *limits = upstream->worker->proxy->tenants.limits;
    uint64_t version = limits_version(limits);
    if (upstream->limits_version == version)
        return;
    upstream->limits_version = version;
    limits_write(limits, keyspace, upstream->node->name, upstream->out);
    upstream_push_own(upstream, PART_PROBE); /* the reply is ignored: limit_rounds.c asks, too */
}

static void write_number(struct out *out, uint64_t number)
{
    char text[INT64_TEXT_MAX + 1];
    int len = snprintf(text, sizeof text, "%" PRIu64, number);
    resp_write_word(out, (struct bytes){text, (size_t)len});
}

/* Switches the session to the keyspace; after a change of the map, sends the shard's slots first. */
static void write_switch(struct upstream *upstream, struct keyspace *keyspace)
{
    struct out *out = upstream->out;
    char db[8];
    int len = snprintf(db, sizeof(db), "%u", keyspace->db);
    upstream_tell_new_slots(upstream);
    if (keyspace->limit)
        tell_limits(upstream, keyspace);
    if (*upstream_config(upstream)->upstream_secret) {
        const struct slot_rule tag = {.kind = SLOT_RULE_TAG};
        char rule[SLOT_RULE_TEXT_MAX];
        size_t rule_len =
            slot_rule_format(keyspace->entry ? &keyspace->entry->slot_rule : &tag, rule);
        bool has_limits = keyspace->entry &&
                          (keyspace->entry->command_memory || keyspace->entry->command_time_ms);
        out_printf(out, "*%d\r\n$5\r\nSCREE\r\n$3\r\nUSE\r\n$%zu\r\n", has_limits ? 7 : 5,
                   keyspace->name.len);
        out_write(out, keyspace->name.data, keyspace->name.len);
        out_printf(out, "\r\n$%d\r\n%s\r\n$%zu\r\n%.*s\r\n", len, db, rule_len, (int)rule_len,
                   rule);
        if (has_limits) {
            write_number(out, keyspace->entry->command_memory);
            write_number(out, keyspace->entry->command_time_ms);
        }
    } else {
        out_printf(out, "*2\r\n$6\r\nSELECT\r\n$%d\r\n%s\r\n", len, db);
    }
    upstream_push_own(upstream, PART_SWITCH);
    if (upstream->use.is_copy)
        upstream->use.events->switched(upstream, keyspace);
    upstream_set_keyspace(upstream, keyspace);
}

static bool begin_slow(struct upstream *upstream, struct part *part, struct keyspace *keyspace)
{
    if (upstream->state == UPSTREAM_IDLE)
        upstream_open(upstream, UPSTREAM_OPENING);
    if (upstream->state == UPSTREAM_DOWN || upstream->state == UPSTREAM_RETRYING) {
        upstream_fail(upstream, part, NOT_REACHABLE, upstream->failure.reason);
        return false;
    }
    if (upstream->keyspace != keyspace)
        write_switch(upstream, keyspace);
    return true;
}

struct out *upstream_begin(struct upstream *upstream, struct part *part, struct keyspace *keyspace)
{
    if (upstream->state != UPSTREAM_UP || upstream->keyspace != keyspace) {
        if (!begin_slow(upstream, part, keyspace))
            return NULL;
    }
    if (!upstream->queue.first && upstream->state == UPSTREAM_UP && !upstream->resend.is_unproven &&
        !upstream->use.is_copy &&
        worker_now_ms(upstream->worker) - upstream->reading.heard_ms >= IDLE_MS)
        upstream_become_unproven(upstream);
    return upstream->out;
}

void upstream_commit(struct upstream *upstream, struct part *part)
{
    struct proxy_worker *worker = upstream->worker;
    upstream_push(upstream, part);
    if (upstream->out->bytes >= HEAVY_BYTES)
        part->sent_ms += upstream_way_ms(upstream->out->bytes);
    metric_add(worker->metrics.process, METRIC_PROXY_UPSTREAM_REQUESTS, 1);
    if (upstream->state == UPSTREAM_UP)
        stream_send(upstream->stream);
    if (!worker->thread.is_ticking)
        proxy_worker_need_tick(worker);
}

/* The prefixes that the backend understands; without the cluster secret it refuses them. */
static inline unsigned prefixes_of(const struct upstream *upstream, const struct part *part)
{
    return upstream->life.has_authenticated ? part->prefixes : 0;
}

void upstream_write_header(const struct upstream *upstream, const struct part *part,
                           struct out *out, uint32_t argc)
{
    static const char PART[] = "$5\r\nSCREE\r\n$4\r\nPART\r\n";
    static const char SHOW[] = "$5\r\nSCREE\r\n$4\r\nSHOW\r\n";
    static const char ACROSS[] = "$5\r\nSCREE\r\n$6\r\nACROSS\r\n";
    unsigned prefixes = prefixes_of(upstream, part);
    argc += prefixes & PREFIX_PART ? 2 : 0;
    argc += prefixes & PREFIX_SHOW ? 2 : 0;
    argc += prefixes & PREFIX_ACROSS ? 2 : 0;
    char header[INT64_TEXT_MAX + 3] = "*";
    size_t len = 1 + number_format_int64(header + 1, argc);
    header[len++] = '\r';
    header[len++] = '\n';
    out_write(out, header, len);
    if (prefixes & PREFIX_PART)
        out_write(out, PART, sizeof PART - 1);
    if (prefixes & PREFIX_SHOW)
        out_write(out, SHOW, sizeof SHOW - 1);
    if (prefixes & PREFIX_ACROSS)
        out_write(out, ACROSS, sizeof ACROSS - 1);
}

void upstream_write_frame(const struct upstream *upstream, const struct part *part, struct out *out,
                          const struct frame *frame)
{
    struct bytes text = {frame->data, frame->len};
    if (prefixes_of(upstream, part)) {
        text = frame_arguments(frame);
        upstream_write_header(upstream, part, out, frame->argc);
    }
    if (frame->block)
        out_write_run(out, frame->block, text.data, text.len);
    else
        out_write(out, text.data, text.len);
}

void upstream_send_bounced(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                           const struct bounce *bounce, struct block *block, bool adds_across)
{
    struct bytes before = bounce->requests;
    struct bytes command = bounce->command;
    struct out *out = upstream_begin(upstream, part, keyspace);
    if (!out)
        return;
    before.len -= command.len;
    out_write_block(out, block, before.data, before.len);
    if (adds_across) {
        const char *line_end = memchr(command.data, '\n', command.len);
        CHECK(line_end);
        command.len -= (size_t)(line_end + 1 - command.data);
        command.data = line_end + 1;
        part->prefixes = PREFIX_ACROSS;
        upstream_write_header(upstream, part, out, bounce->argc);
    }
    out_write_block(out, block, command.data, command.len);
    part->swallow = bounce->count - 1;
    upstream_commit(upstream, part);
}

void upstream_send_words(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                         const struct bytes *words, uint32_t count)
{
    struct out *out = upstream_begin(upstream, part, keyspace);
    if (!out)
        return;
    upstream_write_header(upstream, part, out, count);
    for (uint32_t i = 0; i < count; i++)
        resp_write_word(out, words[i]);
    upstream_commit(upstream, part);
}

void upstream_precede(struct upstream *upstream, struct keyspace *keyspace,
                      const struct bytes *words, uint32_t count)
{
    CHECK(upstream->use.is_private);
    if (upstream->state != UPSTREAM_UP || upstream->keyspace != keyspace)
        CHECK(begin_slow(
            upstream, NULL,
            keyspace)); /* cannot fail: a private connection is never DOWN, because it is closed instead */
    resp_write_words(upstream->out, words, count);
    upstream_push_own(upstream, PART_PROBE);
    if (upstream->state == UPSTREAM_UP)
        stream_send(upstream->stream);
    proxy_worker_need_tick(upstream->worker);
}

void upstream_send(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                   const struct frame *frame, bool is_read)
{
    struct out *out = upstream_begin(upstream, part, keyspace);
    if (!out)
        return;
    upstream_write_frame(upstream, part, out, frame);
    upstream_commit(upstream, part);
    if (upstream->resend.is_unproven && is_read)
        upstream_keep(upstream, part, keyspace, frame);
}

void upstream_forget_keyspace(struct upstream *upstream)
{
    upstream_set_keyspace(upstream, NULL);
}

/* ---- dedicated connections ---------------------------------------------------------------------------------- */

void upstream_send_single_use(struct upstream *upstream, struct part *part,
                              struct keyspace *keyspace, const struct frame *frame,
                              uint64_t patience_ms)
{
    CHECK(upstream->use.is_private);
    upstream->use.is_single_use = true;
    upstream->use.patience_ms = patience_ms;
    upstream_send(upstream, part, keyspace, frame, false);
}

void upstream_hello(struct upstream *upstream, uint8_t resp)
{
    CHECK(upstream->use.is_private);
    upstream->resp = resp;
    if (!upstream->out)
        return;
    upstream_write_words(upstream->out, (const char *const[]){"HELLO", resp == 3 ? "3" : "2"}, 2);
    upstream_push_own(upstream, PART_PROBE);
}

void upstream_release(struct upstream *upstream, bool is_clean)
{
    CHECK(upstream->use.is_private);
    if (upstream->use.is_kept) {
        if (!is_clean && upstream->out)
            upstream_send_own(upstream, PART_PROBE, "UNWATCH");
        return;
    }
    upstream->use.client = NULL;
    upstream->use.events = NULL;
    upstream->use.is_single_use = false;
    if (upstream->life.is_closed)
        return;
    upstream_end_dedicated(upstream);
    if (upstream->node->is_removed || upstream->use.unblock) {
        upstream_drain(upstream);
        return;
    }
    if (!is_clean && upstream->out)
        upstream_send_own(upstream, PART_PROBE, "UNWATCH");
    list_remove(&upstream->links.spare);
    list_push(&upstream->node->spare, &upstream->links.spare);
}
