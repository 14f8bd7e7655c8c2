#include "backend/session/session.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/bounced_slots.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdlib.h>

void session_pause(struct session *session, bool is_paused)
{
    session->partition->pause.clients += is_paused;
    session->partition->pause.clients -= session->is_paused;
    session->is_paused = is_paused;
}

const struct slot_set *session_slots(const struct session *session)
{
    const struct partition_shards *shards = &session->partition->shards;
    if (session->pending.bounces.slots && shards->is_gated && !session->request.is_across)
        return bounced_slots_here(session->pending.bounces.slots, session->partition);
    return shards->is_gated ? shards->here : session->scope.slots;
}

void session_write_owned(struct session *session, const struct slot_set *served, struct out *out)
{
    const struct partition_shards *shards = &session->partition->shards;
    if (!session->request.shows_owned)
        return;
    size_t before = out->bytes;
    if (!shards->is_gated)
        out_printf(out, "*2\r\n:-1\r\n");
    else
        out_printf(out, "*2\r\n:%" PRIu64 "\r\n",
                   served == shards->here ? shards->here_sum : slot_set_sum(served));
    session->request.owned_bytes = (uint8_t)(out->bytes - before);
}

void session_set_slots(struct session *session, struct slot_set *slots)
{
    slot_set_unref(session->scope.slots);
    session->scope.slots = slots;
}

void session_end_bounces(struct session *session)
{
    bounced_slots_clear(&session->pending.bounces.slots);
    session->pending.line.is_left = false;
    session->pending.bounces.unseen = 0;
}

void session_set_text(char **text, struct bytes value)
{
    free(*text);
    *text = value.len ? strndup(value.data, value.len) : NULL;
}

/* ---- user ---- */

const struct acl_user *session_user(struct session *session)
{
    const struct config_snapshot *snapshot = session->partition->snapshot;
    if (session->login.impersonation.is_here)
        return session->login.impersonation.user;
    if (!session->login.user || session->login.epoch != snapshot->epoch) {
        session->login.user = acl_user_find(snapshot->acl, session_user_name(session));
        session->login.epoch = snapshot->epoch;
    }
    return session->login.user;
}

struct bytes session_user_name(const struct session *session)
{
    if (session->login.impersonation.is_here)
        return acl_user_name(session->login.impersonation.user);
    return session->login.name ? bytes_of(session->login.name) : BYTES("default");
}

bool session_is_protected(const struct session *session)
{
    const struct config_snapshot *snapshot = session->partition->snapshot;
    return session->login.is_untrusted && !session->login.is_internal && snapshot->protected_mode &&
           !config_snapshot_needs_password(snapshot);
}

void session_log_in(struct session *session, struct bytes name)
{
    free(session->login.name);
    session->login.name = strndup(name.data, name.len); /* an empty name differs from NULL */
    session->login.user = NULL;
    session->login.is_authenticated = true;
}

/* ---- namespace and database ---- */

struct bytes session_namespace(const struct session *session)
{
    return session->scope.namespace_name.len ? session->scope.namespace_name : BYTES("");
}

int session_databases(const struct session *session)
{
    int databases = session->partition->snapshot->config.databases;
    return databases < DATABASES_MAX ? databases : DATABASES_MAX;
}

struct space *session_space(struct session *session)
{
    struct space_set *spaces = session->partition->spaces;
    uint64_t generation = space_generation(spaces);
    if (!session->scope.space || session->scope.generation != generation) {
        session->scope.space = space_open(spaces, session_namespace(session), session->scope.db);
        session->scope.generation = generation;
    }
    return session->scope.space;
}

struct space *session_database(struct session *session, uint8_t database)
{
    if (database >= session_databases(session))
        return NULL;
    return space_open(session->partition->spaces, session_namespace(session), database);
}

void session_select(struct session *session, uint8_t db)
{
    session->scope.db = db;
    session->scope.space = NULL;
    session->scope.moves++;
}

bool session_scan_until(struct session *session, struct bytes slot)
{
    uint64_t number;
    if (!number_parse_uint64(slot, &number) || number >= SLOT_COUNT)
        return false;
    session->request.scan_end = (uint16_t)(number + 1);
    return true;
}

void session_use(struct session *session, struct bytes name, uint8_t db,
                 const struct slot_rule *rule)
{
    session_select(session, db);
    if (!bytes_equal(name, session->scope.namespace_name)) {
        char *copy = name.len ? malloc(name.len) : NULL;
        CHECK(copy || !name.len);
        if (name.len)
            memcpy(copy, name.data, name.len);
        free((char *)session->scope.namespace_name.data);
        session->scope.namespace_name = (struct bytes){copy, name.len};
    }
    free(session->scope.slot_rule);
    session->scope.slot_rule = NULL;
    if (rule) {
        session->scope.slot_rule = malloc(sizeof *rule);
        CHECK(session->scope.slot_rule);
        *session->scope.slot_rule = *rule;
    }
}

/* ---- memory and end ---- */

bool session_is_subscriber(const struct session *session)
{
    return session->resp == 2 && subscriber_count(&session->subscriber) > 0;
}

size_t session_state_bytes(const struct session *session)
{
    size_t bytes =
        session->transaction.bytes + session->watcher.bytes + session->pending.waiter_bytes;
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        bytes += session->subscriber.kinds[kind].bytes;
    return bytes;
}

bool session_has_room(const struct session *session, size_t bytes)
{
    uint64_t limit = session->partition->snapshot->config.client_state_limit_bytes;
    size_t kept = session_state_bytes(session);
    return kept <= limit && bytes <= limit - kept;
}

void session_abort_later(struct session *session)
{
    CHECK(session->is_running);
    session->is_closing = true;
    session->is_aborted = true;
}
