#include "backend/session/waits.h"

#include "backend/session/session.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/number.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ARG_NUMBER = 2, ARG_PROTOCOL, ARG_NAMESPACE, ARG_DB, ARG_RULE };

/* Namespace, database and protocol of a client; shared by consecutive waits. */
struct wait_origin {
    uint32_t refs;
    uint8_t resp;
    uint8_t db;
    bool has_rule;
    struct slot_rule rule;
    size_t name_len;
    char name[]; /* of the namespace */
};

/* Numbers of the waits whose replies are held for a ticket, oldest first; 0: a reply without a number. */
struct held_ids {
    uint64_t *ids;
    uint32_t count;
    uint32_t cap;
};

struct waits {
    struct table *by_id;        /* of struct waiter */
    struct wait_origin *origin; /* origin to which the session was moved last; NULL: none yet */
    /* session->scope.moves after that move; another value: another command has moved the session since */
    uint32_t origin_moves;
    uint64_t current;
    bool is_announced; /* the first frame of the current wait has been sent */
    size_t bytes;
    struct held_ids held[2];
};

/* ---- origins ---- */

static struct wait_origin *origin_new(struct bytes name, uint8_t db, uint8_t resp,
                                      const struct slot_rule *rule)
{
    struct wait_origin *origin = malloc(sizeof *origin + name.len);
    CHECK(origin);
    *origin = (struct wait_origin){.refs = 1,
                                   .resp = resp,
                                   .db = db,
                                   .has_rule = rule->kind != SLOT_RULE_TAG,
                                   .rule = *rule,
                                   .name_len = name.len};
    if (name.len)
        memcpy(origin->name, name.data, name.len);
    return origin;
}

static void origin_unref(struct wait_origin *origin)
{
    if (origin && --origin->refs == 0)
        free(origin);
}

static struct bytes origin_name(const struct wait_origin *origin)
{
    return (struct bytes){origin->name, origin->name_len};
}

static bool rule_equal(const struct slot_rule *a, const struct slot_rule *b)
{
    char texts[2][SLOT_RULE_TEXT_MAX];
    struct bytes first = {texts[0], slot_rule_format(a, texts[0])};
    struct bytes second = {texts[1], slot_rule_format(b, texts[1])};
    return bytes_equal(first, second);
}

/* Moves the session to the origin; takes the caller's reference. */
static void move_to(struct session *session, struct wait_origin *origin)
{
    struct waits *waits = session->pending.waits;
    session->resp = origin->resp;
    session_use(session, origin_name(origin), origin->db, origin->has_rule ? &origin->rule : NULL);
    origin_unref(waits->origin);
    waits->origin = origin;
    waits->origin_moves = session->scope.moves;
}

/* The origin to which the session was moved last; NULL: another command has moved the session since. */
static const struct wait_origin *current_origin(const struct session *session)
{
    const struct waits *waits = session->pending.waits;
    return waits->origin_moves == session->scope.moves ? waits->origin : NULL;
}

/* ---- namespace of a wait ---- */

static struct waits *waits_of(struct session *session)
{
    if (!session->pending.waits) {
        session->pending.waits = calloc(1, sizeof *session->pending.waits);
        CHECK(session->pending.waits);
        session->pending.waits->by_id = table_new();
        for (unsigned parity = 0; parity < 2; parity++)
            for (uint32_t i = 0; i < session->replies.held_count[parity]; i++)
                waits_hold(session, parity);
    }
    return session->pending.waits;
}

static struct bytes id_key(const uint64_t *id)
{
    return (struct bytes){(const char *)id, sizeof *id};
}

/* True for BLPOP and similar commands, XREAD, XREADGROUP and SCREE AWAIT, and for WAIT and WAITAOF, whose replies the proxy merges from
 * all shards. */
static bool may_command_wait(const struct command *command)
{
    if (!command || (command->route != ROUTE_PINNED && !(command->flags & CMD_INTERNAL)))
        return false;
    return command->flags & CMD_BLOCKING || command->merge != MERGE_ONE;
}

/* Parses an integer of min..max. */
static bool parse_between(struct bytes text, int64_t min, int64_t max, int64_t *number)
{
    return number_parse_int64(text, number) && *number >= min && *number <= max;
}

bool waits_enter(struct session *session, const struct bytes *argv, uint32_t argc)
{
    int64_t id;
    int64_t resp;
    int64_t db;
    struct slot_rule rule;
    struct bytes name = argv[ARG_NAMESPACE];
    if (!may_command_wait(command_find_argv(argv + WAIT_ARGS, argc - WAIT_ARGS)) ||
        !parse_between(argv[ARG_NUMBER], 1, INT64_MAX, &id) ||
        !parse_between(argv[ARG_PROTOCOL], 2, 3, &resp) ||
        !parse_between(argv[ARG_DB], 0, session_databases(session) - 1, &db) ||
        !slot_rule_parse(argv[ARG_RULE], &rule) || (name.len && !namespace_name_valid(name)) ||
        waits_find(session, (uint64_t)id))
        return false;
    struct waits *waits = waits_of(session);
    const struct wait_origin *origin = current_origin(session);
    if (!origin || session->resp != resp || origin->db != db ||
        !bytes_equal(origin_name(origin), name) || !rule_equal(&origin->rule, &rule))
        move_to(session, origin_new(name, (uint8_t)db, (uint8_t)resp, &rule));
    waits->current = (uint64_t)id;
    waits->is_announced = false;
    return true;
}

void waits_enter_again(struct session *session, uint64_t id, struct wait_origin *origin)
{
    struct waits *waits = session->pending.waits;
    if (current_origin(session) != origin || session->resp != origin->resp) {
        origin->refs++;
        move_to(session, origin);
    }
    waits->current = id;
    waits->is_announced = true;
}

void waits_leave(struct session *session)
{
    if (session->pending.waits)
        session->pending.waits->current = 0;
}

uint64_t waits_current(const struct session *session)
{
    return session->pending.waits ? session->pending.waits->current : 0;
}

/* ---- frames ---- */

static void write_wait_id(struct out *out, uint64_t id)
{
    if (id)
        out_printf(out, ">2\r\n:%" PRIu64 "\r\n", id);
}

void waits_write_head(const struct session *session, struct out *out)
{
    write_wait_id(out, waits_current(session));
}

void waits_announce(struct session *session)
{
    uint64_t id = waits_current(session);
    if (!id || session->pending.waits->is_announced)
        return;
    out_printf(stream_out(session->stream), ">1\r\n:%" PRIu64 "\r\n", id);
    stream_send(session->stream);
}

/* ---- waiters ---- */

struct wait_origin *waits_add(struct session *session, struct waiter *waiter, size_t bytes)
{
    struct waits *waits = session->pending.waits;
    CHECK(waits->current);
    CHECK(!table_put(waits->by_id, id_key(&waits->current), waiter));
    waits->bytes += bytes;
    waits->origin->refs++;
    return waits->origin;
}

void waits_remove(struct session *session, uint64_t id, struct wait_origin *origin, size_t bytes)
{
    struct waits *waits = session->pending.waits;
    CHECK(table_remove(waits->by_id, id_key(&id)));
    waits->bytes -= bytes;
    origin_unref(origin);
}

struct waiter *waits_find(const struct session *session, uint64_t id)
{
    return session->pending.waits ? table_get(session->pending.waits->by_id, id_key(&id)) : NULL;
}

uint32_t waits_count(const struct session *session)
{
    return session->pending.waits ? (uint32_t)table_count(session->pending.waits->by_id) : 0;
}

size_t waits_bytes(const struct session *session)
{
    return session->pending.waits ? session->pending.waits->bytes : 0;
}

/* ---- replies that wait for a ticket ---- */

void waits_hold(struct session *session, unsigned parity)
{
    if (!session->pending.waits)
        return;
    struct held_ids *held = &session->pending.waits->held[parity];
    if (held->count == held->cap) {
        held->cap = held->cap ? held->cap * 2 : 16;
        uint64_t *ids = realloc(held->ids, held->cap * sizeof *ids);
        CHECK(ids);
        held->ids = ids;
    }
    held->ids[held->count++] = session->pending.waits->current;
}

void waits_write_held_head(const struct session *session, unsigned parity, uint32_t i,
                           struct out *out)
{
    if (session->pending.waits) {
        CHECK(i < session->pending.waits->held[parity].count);
        write_wait_id(out, session->pending.waits->held[parity].ids[i]);
    }
}

void waits_release(struct session *session, unsigned parity)
{
    if (session->pending.waits)
        session->pending.waits->held[parity].count = 0;
}

void waits_cancel(struct session *session, void (*cancel)(struct waiter *waiter))
{
    uint32_t count = waits_count(session);
    if (count == 0)
        return;
    struct waiter **waiters = malloc(count * sizeof *waiters);
    CHECK(waiters);
    size_t cursor = 0;
    struct bytes key;
    void *waiter;
    for (uint32_t i = 0; table_next(session->pending.waits->by_id, &cursor, &key, &waiter); i++)
        waiters[i] = waiter;
    for (uint32_t i = 0; i < count; i++)
        cancel(waiters[i]);
    free(waiters);
}

void waits_free(struct session *session)
{
    struct waits *waits = session->pending.waits;
    if (!waits)
        return;
    CHECK(table_count(waits->by_id) == 0);
    table_free(waits->by_id);
    origin_unref(waits->origin);
    for (int i = 0; i < 2; i++)
        free(waits->held[i].ids);
    free(waits);
    session->pending.waits = NULL;
}
