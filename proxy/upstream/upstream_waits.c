/*
 * One connection to a shard carries the blocking commands of all clients of a worker (backend/session/waits.h).
 *
 *   client ─ BLPOP ─► part ─► entry ── SCREE WAIT number … ──►  shard
 *                              ▲                                  │
 *                              └──── entries[number] ◄────────────┘  >1 :number         it waits
 *                                                                   >2 :number reply
 *
 * (1) A number consists of an entry's index and its use count. So an entry is found without a search, and a reply for a
 *     client that has left finds none.
 * (2) Until the connection is up, commands are kept here. If a client leaves or is unblocked before that, its command is
 *     never sent. If the connection cannot be opened, all kept commands fail; the next command tries to open it again.
 * (3) When a command was sent, its client gets the shard's reply in every case. CLIENT UNBLOCK, a new map and the end of
 *     the proxy only request that the shard ends the wait: so an element that the shard has taken out of a list is not
 *     lost. The shard also handles timeouts.
 * (4) When the connection is lost, every wait fails.
 *     A shard that stops gives its waits back (shared/stopping.h): they are sent on the next connection.
 * (5) Waits may have no reply for days. To detect a shard that hangs, a PING is sent after new waits, and whenever the
 *     shard was silent for some time (upstream_slow).
 *
 * Backends without the secret do not have SCREE WAIT: there each waiting client has a dedicated connection (blocked.h).
 */
#include "proxy/core/proxy_metrics.h"
#include "proxy/upstream/upstream_inner.h"

#include "proxy/core/client.h"
#include "proxy/upstream/pool.h"
#include "shared/bounce.h"
#include "shared/namespace.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ENTRIES_MIN = 16,
    HEAD_MAX = 512,
    WAIT_WORDS = 7 /* words of SCREE WAIT before the client's command */
};

static const char unblocked[] = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";

/* A command that will be sent when the connection is up. */
struct kept {
    struct list link;
    size_t len;
    char text[];
};

struct entry {
    struct part *part; /* NULL: the entry is free */
    struct kept *kept; /* NULL: the command was sent */
    uint32_t uses;
    uint32_t next_free; /* index + 1; 0: none */
    bool is_begun;      /* the shard has confirmed that the command waits */
    bool is_ending;     /* UNBLOCK was sent */
    bool ends_in_error; /* with ERROR */
};

struct wait_table {
    struct entry *entries;
    uint32_t cap;
    uint32_t count;
    uint32_t free; /* index + 1; 0: none */
    struct list kept;
    size_t kept_bytes;
    bool is_unproven; /* waits were sent after the last PING */
};

struct wait_table *wait_table_new(void)
{
    struct wait_table *waits = calloc(1, sizeof(*waits));
    CHECK(waits);
    list_init(&waits->kept);
    return waits;
}

void wait_table_free(struct wait_table *waits)
{
    if (!waits)
        return;
    CHECK(waits->count == 0);
    CHECK(list_empty(&waits->kept));
    free(waits->entries);
    free(waits);
}

bool wait_table_is_used(const struct wait_table *waits)
{
    return waits && waits->count > 0;
}

bool wait_table_wants_probe(struct wait_table *waits)
{
    bool wants = waits->is_unproven && waits->count > 0;
    waits->is_unproven = false;
    return wants;
}

/* ---- entries ----------------------------------------------------------------------------------- */

static uint64_t wait_number(const struct wait_table *waits, const struct entry *entry)
{
    return (uint64_t)entry->uses << 32 | (uint32_t)(entry - waits->entries + 1);
}

/* The entry of a number that the shard has sent; NULL: its client has left. */
static struct entry *entry_numbered(const struct wait_table *waits, int64_t number)
{
    uint32_t index = (uint32_t)number;
    if (number <= 0 || index == 0 || index > waits->cap)
        return NULL;
    struct entry *entry = &waits->entries[index - 1];
    return entry->part && entry->uses == (uint64_t)number >> 32 ? entry : NULL;
}

static struct entry *entry_of(const struct part *part)
{
    const struct wait_table *waits = part->upstream->waits;
    CHECK(part->wait > 0 && part->wait <= waits->cap);
    struct entry *entry = &waits->entries[part->wait - 1];
    CHECK(entry->part == part);
    return entry;
}

static void grow(struct wait_table *waits)
{
    uint32_t cap = waits->cap ? waits->cap * 2 : ENTRIES_MIN;
    struct entry *entries = realloc(waits->entries, cap * sizeof(*entries));
    CHECK(entries);
    waits->entries = entries;
    for (uint32_t i = cap; i > waits->cap; i--) {
        entries[i - 1] = (struct entry){.next_free = waits->free};
        waits->free = i;
    }
    waits->cap = cap;
}

static struct entry *acquire_entry(struct upstream *upstream, struct part *part)
{
    struct wait_table *waits = upstream->waits;
    if (!waits->free)
        grow(waits);
    struct entry *entry = &waits->entries[waits->free - 1];
    part->wait = waits->free;
    waits->free = entry->next_free;
    waits->count++;
    *entry = (struct entry){.part = part, .uses = (entry->uses + 1) & INT32_MAX};
    part->upstream = upstream;
    part->request->linked++;
    return entry;
}

static void forget_kept(struct upstream *upstream, struct entry *entry)
{
    struct kept *kept = entry->kept;
    if (!kept)
        return;
    entry->kept = NULL;
    list_remove(&kept->link);
    upstream->waits->kept_bytes -= kept->len;
    upstream->worker->memory.copied -= kept->len;
    free(kept);
}

/* Frees the entry and returns its part, which stays linked. */
static struct part *entry_free(struct upstream *upstream, struct entry *entry)
{
    struct wait_table *waits = upstream->waits;
    struct part *part = entry->part;
    forget_kept(upstream, entry);
    entry->part = NULL;
    entry->next_free = waits->free;
    waits->free = part->wait;
    waits->count--;
    part->wait = 0;
    part->upstream = NULL;
    return part;
}

/* ---- sending --------------------------------------------------------------------------------- */

bool wait_table_has_room(const struct upstream *upstream)
{
    const struct wait_table *waits = upstream->waits;
    return !waits || waits->kept_bytes <= upstream_config(upstream)->upstream_queue_limit_bytes;
}

bool wait_table_is_full(struct upstream *upstream, struct client *client)
{
    bool keeps_too_much = !wait_table_has_room(upstream);
    if (keeps_too_much)
        upstream_hold_client(upstream, client);
    return keeps_too_much || upstream_is_full(upstream, client);
}

/* Writes the head of SCREE WAIT, up to the client's command: number, protocol, namespace, database, slot rule. */
static size_t write_head(char head[HEAD_MAX], uint64_t number, uint8_t resp,
                         const struct keyspace *keyspace, uint32_t argc)
{
    const struct slot_rule tag = {.kind = SLOT_RULE_TAG};
    char rule[SLOT_RULE_TEXT_MAX];
    char id[INT64_TEXT_MAX];
    char db[8];
    size_t id_len = number_format_int64(id, (int64_t)number);
    size_t rule_len = slot_rule_format(keyspace->entry ? &keyspace->entry->slot_rule : &tag, rule);
    int db_len = snprintf(db, sizeof(db), "%u", keyspace->db);
    int len = snprintf(head, HEAD_MAX,
                       "*%u\r\n$5\r\nSCREE\r\n$4\r\nWAIT\r\n$%zu\r\n%.*s\r\n$1\r\n%u\r\n"
                       "$%zu\r\n%.*s\r\n$%d\r\n%s\r\n$%zu\r\n%.*s\r\n",
                       argc + WAIT_WORDS, id_len, (int)id_len, id, resp, keyspace->name.len,
                       (int)keyspace->name.len, keyspace->name.data, db_len, db, rule_len,
                       (int)rule_len, rule);
    CHECK(len > 0 && len < HEAD_MAX);
    return (size_t)len;
}

/* The arguments of a frame as they were sent: everything after its first line. */
static struct bytes arguments_of(const struct frame *frame)
{
    const char *end = memchr(frame->data, '\n', frame->len);
    CHECK(end && *frame->data == '*');
    return (struct bytes){end + 1, frame->len - (size_t)(end + 1 - frame->data)};
}

static void keep(struct upstream *upstream, struct entry *entry, struct bytes head,
                 struct bytes arguments)
{
    struct kept *kept = malloc(sizeof(*kept) + head.len + arguments.len);
    CHECK(kept);
    kept->len = head.len + arguments.len;
    memcpy(kept->text, head.data, head.len);
    memcpy(kept->text + head.len, arguments.data, arguments.len);
    list_init(&kept->link);
    list_push(&upstream->waits->kept, &kept->link);
    entry->kept = kept;
    upstream->waits->kept_bytes += kept->len;
    upstream->worker->memory.copied += kept->len;
}

void wait_table_send(struct upstream *upstream, struct part *part, const struct keyspace *keyspace,
                     const struct frame *frame)
{
    char text[HEAD_MAX];
    CHECK(!upstream->life.is_closed);
    if (upstream->state == UPSTREAM_IDLE)
        upstream_open(upstream, UPSTREAM_OPENING);
    else if (upstream->state == UPSTREAM_DOWN)
        upstream_open(upstream, UPSTREAM_RETRYING);
    struct entry *entry = acquire_entry(upstream, part);
    struct bytes head = {text, write_head(text, wait_number(upstream->waits, entry),
                                          part->request->resp, keyspace, frame->argc)};
    struct bytes arguments = arguments_of(frame);
    metric_add(upstream->worker->metrics.process, METRIC_PROXY_UPSTREAM_REQUESTS, 1);
    proxy_worker_need_tick(upstream->worker);
    if (upstream->state != UPSTREAM_UP) {
        keep(upstream, entry, head, arguments);
        return;
    }
    upstream_tell_new_slots(upstream);
    out_write(upstream->out, head.data, head.len);
    if (frame->block)
        out_write_block(upstream->out, frame->block, arguments.data, arguments.len);
    else
        out_write(upstream->out, arguments.data, arguments.len);
    stream_send(upstream->stream);
    upstream->waits->is_unproven = true;
}

void wait_table_up(struct upstream *upstream)
{
    struct wait_table *waits = upstream->waits;
    for (uint32_t i = 0; i < waits->cap; i++)
        waits->entries[i].kept = NULL;
    for (struct list *link; (link = list_pop(&waits->kept));) {
        struct kept *kept = container_of(link, struct kept, link);
        out_write(upstream->out, kept->text, kept->len);
        waits->kept_bytes -= kept->len;
        upstream->worker->memory.copied -= kept->len;
        free(kept);
    }
    waits->is_unproven = true;
    upstream_wake_clients(upstream);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void send_unblock(struct upstream *upstream, const struct entry *entry, const char *how)
{
    char id[INT64_TEXT_MAX + 1];
    (void)snprintf(id, sizeof(id), "%" PRIu64, wait_number(upstream->waits, entry));
    upstream_write_words(upstream->out, (const char *const[]){"SCREE", "UNBLOCK", id, how}, 4);
    stream_send(upstream->stream);
    upstream->waits->is_unproven = true;
    proxy_worker_need_tick(upstream->worker);
}

/* Replies as the shard does after UNBLOCK. */
static void reply_unblocked(struct upstream *upstream, struct entry *entry, bool with_error)
{
    const char *null = entry->part->request->resp == 3 ? "_\r\n" : "*-1\r\n";
    const char *reply = with_error ? unblocked : null;
    part_answered(entry_free(upstream, entry), NULL, reply, strlen(reply));
}

void wait_table_unblock(struct part *part, bool with_error)
{
    struct upstream *upstream = part->upstream;
    struct entry *entry = entry_of(part);
    if (entry->kept) {
        reply_unblocked(upstream, entry, with_error);
        upstream_close_if_drained(upstream);
    } else if (!entry->is_ending) {
        entry->is_ending = true;
        entry->ends_in_error = with_error;
        send_unblock(upstream, entry, with_error ? "ERROR" : "TIMEOUT");
    }
}

void wait_table_cancel(struct part *part)
{
    struct upstream *upstream = part->upstream;
    struct entry *entry = entry_of(part);
    if (!entry->kept)
        send_unblock(upstream, entry, "GONE");
    part_unlinked(entry_free(upstream, entry));
    upstream_close_if_drained(upstream);
}

void wait_table_lost(struct upstream *upstream, const char *what, const char *reason)
{
    struct wait_table *waits = upstream->waits;
    waits->is_unproven = false;
    for (uint32_t i = 0; i < waits->cap;
         i++) { /* clients are resumed in a later turn of the loop */
        if (!waits->entries[i].part)
            continue;
        struct part *part = entry_free(upstream, &waits->entries[i]);
        upstream_fail(upstream, part, what, reason);
        part_unlinked(part);
    }
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Parses the number in a push frame; *reply_at is where the command's reply begins, or STOPPING_WORD. 0: the frame only
 * confirms that the command waits. */
static bool parse_wait_head(const char *data, size_t len, int64_t *number, size_t *reply_at)
{
    const struct bytes frame = {data, len};
    struct resp_value head;
    struct resp_value id;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &head) || head.type != '>' || head.count < 1 ||
        head.count > 3 || !resp_value_next(frame, &pos, &id) || id.type != ':')
        return false;
    *number = id.count;
    *reply_at = head.count > 1 ? pos : 0;
    return true;
}

/* Handles a command that a shard which stops has given back, frame[at..): it is sent again when the shard is back. */
static void take_back(struct upstream *upstream, struct entry *entry, struct bytes frame, size_t at)
{
    struct node *node = upstream->node;
    struct client *client = entry->part->request->client;
    struct resp_value value;
    size_t begun;
    if (entry->is_ending) {
        reply_unblocked(upstream, entry, entry->ends_in_error);
        return;
    }
    bool is_valid = resp_value_next(frame, &at, &value);
    begun = at;
    is_valid = is_valid && resp_value_next(frame, &at, &value) && value.type == '*';
    if (entry->is_begun)
        upstream->worker->client_events->given_back(client);
    struct part *part = entry_free(upstream, entry);
    if (!is_valid || node->is_removed || node->waits == upstream) {
        upstream_fail(upstream, part, NOT_REACHABLE, "the shard stops");
        part_unlinked(part);
        return;
    }
    struct frame command = {
        .data = frame.data + begun, .len = frame.len - begun, .argc = (uint32_t)value.count};
    part->request->linked--;
    wait_table_send(pool_waits(upstream->worker->pool, node->index), part, client->session.keyspace,
                    &command);
}

bool wait_table_answer(struct upstream *upstream, struct block *block, const char *data, size_t len)
{
    int64_t number;
    size_t at;
    if (!parse_wait_head(data, len, &number, &at))
        return false;
    struct entry *entry = entry_numbered(upstream->waits, number);
    if (!entry)
        return true;
    if (at == 0) {
        if (!entry->is_begun)
            upstream->worker->client_events->wait_begun(entry->part->request->client);
        entry->is_begun = true;
        return true;
    }
    if (data[1] == '3') {
        take_back(upstream, entry, (struct bytes){data, len}, at);
        return true;
    }
    struct bounce bounce;
    if (data[at] == '!' && bounce_read((struct bytes){data + at, len - at}, &bounce)) {
        upstream_note_bounce(upstream);
        upstream->worker->client_events->bounced(upstream, entry_free(upstream, entry), block,
                                                 &bounce);
        return true;
    }
    if (data[at] == '-')
        cell_add(upstream->node->cell, SHARD_ERRORS, 1);
    part_answered(entry_free(upstream, entry), block, data + at, len - at);
    return true;
}

void wait_table_drop(struct upstream *upstream, const char *data, size_t len, const char *error)
{
    int64_t number;
    size_t at;
    struct entry *entry =
        parse_wait_head(data, len, &number, &at) ? entry_numbered(upstream->waits, number) : NULL;
    if (entry)
        part_answered(entry_free(upstream, entry), NULL, error, strlen(error));
}
