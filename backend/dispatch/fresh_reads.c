#include "backend/dispatch/fresh_reads.h"

#include "backend/context/call.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/command/plain_read.h"

#include <stdlib.h>

/* ---- which requests ---------------------------------------------------------------------------- */

static bool is_allowed(const struct call *call)
{
    const struct partition *partition = call->partition;
    const struct session *session = call->session;
    return session->about.is_readonly && partition->copies.age.fresh &&
           partition->snapshot->config.replica_reads == REPLICA_READS_FRESH &&
           !session->transaction.is_open && command_is_plain_read(call->command);
}

static bool is_prepared(const struct call *call, struct bytes key)
{
    const struct partition *partition = call->partition;
    uint16_t slot = slot_rule_slot(call->session->scope.slot_rule, key);
    return prepared_slots_has(&partition->copies.age.fresh->prepared, partition->overlay, slot);
}

/* Is one of its keys prepared? A request without keys is refused, too. */
static bool has_prepared_key(const struct call *call)
{
    struct key_list keys;
    int32_t at = keys_first(call->command, call->argc);
    if (at > 0)
        return is_prepared(call, call->argv[at]);
    keys_list_init(&keys);
    bool is_read = keys_find(call->command, call->argv, call->argc, &keys) == 0;
    bool is_refused = is_read && !keys.count;
    for (uint32_t i = 0; i < keys.count && !is_refused; i++)
        is_refused = is_prepared(call, call->argv[keys.refs[i].index]);
    keys_list_fini(&keys);
    return is_refused;
}

static bool is_read_refused(const struct call *call)
{
    const struct session_fresh *state = &call->session->pending.fresh;
    return state->is_refused && call->session->scan.size <= state->bytes;
}

/* Would reads only wait until they are refused? The data still lack a record that reads have waited for, or the leader owes an answer. */
static bool is_hopeless(const struct fresh_reads *fresh)
{
    return fresh->missed > storage_committed(fresh->partition->storage) ||
           (fresh->is_asked &&
            loop_mono_ms(fresh->partition->loop) >= fresh->asked_ms + FRESH_WAIT_MS);
}

static bool may_ask(const struct call *call)
{
    const struct partition_copies *copies = &call->partition->copies;
    return copies->is_closed && copies->may_read && !copies->paused_until_ms && is_allowed(call) &&
           !is_read_refused(call) && !is_hopeless(copies->age.fresh);
}

bool fresh_reads_may(const struct call *call)
{
    return may_ask(call) && !has_prepared_key(call);
}

bool fresh_reads_is_locked(const struct call *call)
{
    return may_ask(call) && has_prepared_key(call);
}

/* ---- sessions ---------------------------------------------------------------------------------- */

static void enter_list(struct session *session, struct list *list, enum session_fresh_state state)
{
    list_remove(&session->pending.fresh.link);
    session->pending.fresh.state = state;
    if (list)
        list_push(list, &session->pending.fresh.link);
}

static struct session *first_session(struct list *list)
{
    return list_empty(list) ? NULL : container_of(list->next, struct session, pending.fresh.link);
}

static void read_on(struct session *session)
{
    enter_list(session, NULL, SESSION_FRESH_NONE);
    session_resume(session);
}

/* The requests that wait are the leader's. */
static void refuse_session(struct session *session)
{
    session->pending.fresh.is_refused = true;
    read_on(session);
}

static void refuse_list(struct list *list)
{
    struct session *session;
    while ((session = first_session(list)))
        refuse_session(session);
}

/* ---- questions --------------------------------------------------------------------------------- */

static void plan_question(struct fresh_reads *fresh)
{
    if (fresh->is_asked || list_empty(&fresh->waiting) || !list_empty(&fresh->turn_end.link))
        return;
    loop_at_last(fresh->partition->loop, &fresh->turn_end);
}

/* last_step */
static void send_question(struct last_step *step)
{
    struct fresh_reads *fresh = container_of(step, struct fresh_reads, turn_end);
    if (fresh->is_asked || list_empty(&fresh->waiting))
        return;
    if (!fresh->ask(fresh->partition)) {
        refuse_list(&fresh->waiting);
        return;
    }
    fresh->is_asked = true;
    fresh->asked_ms = loop_mono_ms(fresh->partition->loop);
    struct session *session;
    while ((session = first_session(&fresh->waiting)))
        enter_list(session, &fresh->asking, SESSION_FRESH_ASKING);
}

bool fresh_reads_wait(const struct call *call)
{
    struct fresh_reads *fresh = call->partition->copies.age.fresh;
    struct session_fresh *state = &call->session->pending.fresh;
    if (!fresh_reads_may(call))
        return false;
    if (state->state != SESSION_FRESH_NONE)
        return true;
    if (call->session->scan.size <= state->bytes)
        return false;
    *state = (struct session_fresh){
        .link = state->link, .is_used = true, .since_ms = loop_mono_ms(call->partition->loop)};
    list_init(&state->link);
    enter_list(call->session, &fresh->waiting, SESSION_FRESH_WAITING);
    plan_question(fresh);
    return true;
}

void fresh_reads_stopped(struct session *session, size_t len)
{
    if (session->pending.fresh.state == SESSION_FRESH_WAITING)
        session->pending.fresh.bytes = len;
}

void fresh_reads_count(struct session *session, size_t size)
{
    struct session_fresh *state = &session->pending.fresh;
    if (state->state != SESSION_FRESH_NONE) { /* it ran for another reason */
        enter_list(session, NULL, SESSION_FRESH_NONE);
        state->bytes = 0;
    }
    state->bytes -= size < state->bytes ? size : state->bytes;
    if (!state->bytes)
        state->is_used = state->is_refused = false;
}

uint64_t fresh_reads_now_us(const struct session *session)
{
    const struct session_fresh *state = &session->pending.fresh;
    const struct fresh_reads *fresh = session->partition->copies.age.fresh;
    uint64_t now_us = loop_wall_us(session->partition->loop);
    bool is_answered = fresh && session->partition->copies.is_closed && state->bytes &&
                       state->time_us && state->state == SESSION_FRESH_NONE && !state->is_refused;
    if (!is_answered)
        return now_us;
    return state->time_us > fresh->newest_us ? state->time_us : fresh->newest_us;
}

/* ---- answers ----------------------------------------------------------------------------------- */

/* A leader of another term may not be the one that this copy follows. */
static bool is_answer_of_leader(const struct partition *partition, const struct read_index *answer)
{
    return answer && partition->copies.is_closed && partition->copies.may_read &&
           answer->generation == partition->copies.generation &&
           answer->term == partition->copies.term;
}

static void spread_answer(struct fresh_reads *fresh, const struct read_index *answer)
{
    struct session *session;
    while ((session = first_session(&fresh->asking))) {
        session->pending.fresh.index = answer->index;
        session->pending.fresh.time_us = answer->time_us;
        enter_list(session, &fresh->applying, SESSION_FRESH_APPLYING);
    }
    fresh_reads_applied(fresh->partition);
}

void fresh_reads_answered(struct partition *partition, const struct read_index *answer)
{
    struct fresh_reads *fresh = partition->copies.age.fresh;
    if (!fresh) /* the partition stops */
        return;
    fresh->is_asked = false;
    if (is_answer_of_leader(partition, answer))
        spread_answer(fresh, answer);
    else
        refuse_list(&fresh->asking);
    plan_question(fresh);
}

/* Answers come in the order of their questions, and indexes do not get less. */
void fresh_reads_applied(struct partition *partition)
{
    struct fresh_reads *fresh = partition->copies.age.fresh;
    uint64_t committed = storage_committed(partition->storage);
    struct session *session;
    while (fresh && (session = first_session(&fresh->applying)) &&
           session->pending.fresh.index <= committed)
        read_on(session);
}

void fresh_reads_note(struct partition *partition, uint64_t origin_ms, bool has_transactions)
{
    struct fresh_reads *fresh = partition->copies.age.fresh;
    if (!fresh)
        return;
    if (origin_ms * 1000 > fresh->newest_us)
        fresh->newest_us = origin_ms * 1000;
    if (has_transactions)
        fresh->prepared.is_known = false;
}

void fresh_reads_refuse(struct partition *partition)
{
    struct fresh_reads *fresh = partition->copies.age.fresh;
    if (!fresh)
        return;
    fresh->prepared.is_known = false;
    fresh->missed = 0;
    refuse_list(&fresh->waiting);
    refuse_list(&fresh->asking);
    refuse_list(&fresh->applying);
}

static bool refuse_old(struct list *list, uint64_t now_ms)
{
    struct session *session;
    bool has_old = false;
    while ((session = first_session(list)) &&
           now_ms >= session->pending.fresh.since_ms + FRESH_WAIT_MS) {
        refuse_session(session);
        has_old = true;
    }
    return has_old;
}

void fresh_reads_tick(struct partition *partition)
{
    struct fresh_reads *fresh = partition->copies.age.fresh;
    if (!fresh)
        return;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    const struct session *first = first_session(&fresh->applying);
    uint64_t awaited = first ? first->pending.fresh.index : 0;
    refuse_old(&fresh->waiting, now_ms);
    refuse_old(&fresh->asking, now_ms);
    if (refuse_old(&fresh->applying, now_ms))
        fresh->missed = awaited;
}

/* ---- life -------------------------------------------------------------------------------------- */

struct fresh_reads *fresh_reads_new(struct partition *partition, fresh_reads_ask_fn *ask)
{
    struct fresh_reads *fresh = calloc(1, sizeof *fresh);
    CHECK(fresh);
    fresh->partition = partition;
    fresh->ask = ask;
    fresh->turn_end.run = send_question;
    list_init(&fresh->waiting);
    list_init(&fresh->asking);
    list_init(&fresh->applying);
    list_init(&fresh->turn_end.link);
    return fresh;
}

void fresh_reads_end(struct partition *partition)
{
    struct fresh_reads *fresh = partition->copies.age.fresh;
    if (!fresh)
        return;
    fresh_reads_refuse(partition);
    partition->copies.age.fresh = NULL;
    list_remove(&fresh->turn_end.link);
    free(fresh);
}
