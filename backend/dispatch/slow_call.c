#include "backend/dispatch/slow_call.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/suspend.h"
#include "backend/keyspace/keyspace.h"
#include "backend/session/command_stats.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "backend/storage/retry.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <stdio.h>
#include <stdlib.h>

static const char BUSY[] = "BUSY A command has run for longer than busy-reply-threshold. You can "
                           "only call SCREE RUNNING, SCREE KILL or SHUTDOWN NOSAVE.";

/* ---- waiting until no reply is held ---- */

bool slow_call_must_wait(struct call *call)
{
    struct partition *partition = call->partition;
    struct retry *retry = call_wait(call);
    const struct list *open = &partition->clients.waiting[overlay_ticket(partition->overlay) & 1];
    if (!retry || call->borrow || list_empty(open))
        return false;
    call->session->pending.was_slow = true;
    partition->running.next = call->session;
    retry_wait(retry, &partition->clients.quiet);
    return true;
}

void slow_calls_go_on(struct partition *partition)
{
    const struct list *waiting = partition->clients.waiting;
    if (list_empty(&waiting[0]) && list_empty(&waiting[1]))
        retry_done(&partition->clients.quiet);
}

void slow_call_forget(const struct session *session)
{
    struct partition_running *running = &session->partition->running;
    if (running->next == session)
        running->next = NULL;
}

/* ---- serving others ---- */

/* A transaction over shards goes on when the call has ended: other shards may have done their part. */
static void refuse_waiting(struct session *session)
{
    if (!session->is_throttled || session->pending.across)
        return;
    if (session->pending.retry.pending)
        metric_sub(session->partition->metrics.process, METRIC_BACKEND_SUSPENDED_CLIENTS, 1);
    retry_cancel(&session->pending.retry);
    session_resume(session);
}

void slow_call_begin(const struct call *call)
{
    const struct list *all = &call->partition->clients.all;
    for (struct list *link = all->next; link != all; link = link->next) {
        struct session *session = container_of(link, struct session, link);
        if (session != call->session)
            refuse_waiting(session);
    }
}

/* Exchanges the state of the running command for an empty one. */
static struct partition_running exchange_state(struct partition *partition,
                                               struct call_budget *aside)
{
    struct partition_running *running = &partition->running;
    struct partition_running kept = *running;
    arena_init(&running->arena);
    running->arena.meter = &running->budget.memory;
    running->pins = NULL;
    running->pins_count = running->pins_cap = 0;
    running->blocks = NULL;
    running->argv = NULL;
    running->argv_cap = 0;
    if (!running->busy_error)
        running->busy_error = BUSY;
    budget_set_aside(partition, aside);
    return kept;
}

static void restore(struct partition *partition, const struct partition_running *kept,
                    const struct call_budget *aside)
{
    struct partition_running *running = &partition->running;
    keyspace_end(partition);
    free(running->pins);
    free(running->argv);
    arena_fini(&running->arena);
    running->arena = kept->arena;
    running->pins = kept->pins;
    running->pins_count = kept->pins_count;
    running->pins_cap = kept->pins_cap;
    running->blocks = kept->blocks;
    running->argv = kept->argv;
    running->argv_cap = kept->argv_cap;
    running->started_us = kept->started_us;
    running->load_slot = kept->load_slot;
    running->busy_error = kept->busy_error;
    budget_restore(partition, aside);
}

/* Polls the loop without the call's session: none of its bytes are read or sent. */
static void poll_without(struct session *session)
{
    struct partition *partition = session->partition;
    bool was_paused = stream_is_paused(session->stream);
    stream_pause(session->stream);
    loop_poll(partition->loop);
    if (!was_paused && !session->is_closing && !partition->thread.is_stopping)
        stream_resume(session->stream);
}

/* Sends the replies of the batch that was in flight when the call began, if it is durable by now. Its on_commit waits, because
 * that changes the write buffers. */
static void release_durable(struct partition *partition)
{
    uint64_t ticket = commit_durable_in_flight(partition->commit);
    if (ticket)
        sessions_release(partition, ticket & 1, OK);
}

/* Is the call's client gone? One that has closed its side of the connection may still read; and as in redis-server, what it sent before
 * is done. So this ends only a command that writes nothing. */
static bool has_left(const struct call *call)
{
    const struct session *session = call->session;
    if (session->is_aborted || stream_is_broken(session->stream))
        return true;
    return call->command->flags & CMD_READONLY && stream_has_hung_up(session->stream);
}

void slow_call_serve(struct call *call)
{
    struct partition *partition = call->partition;
    struct session *session = call->session;
    struct out replied = *call->reply.out; /* may be the stream's, which would send it */
    struct call_budget aside;
    budget_measure(&partition->running.budget);
    struct partition_running kept = exchange_state(partition, &aside);
    bool was_held = command_stats_pause(partition);
    out_init(call->reply.out);
    release_durable(partition);
    uint64_t cpu_us = clock_thread_us();
    poll_without(session);
    aside.cpu_from_us += clock_thread_us() - cpu_us; /* it was used for others */
    *call->reply.out = replied;
    if (!aside.end && has_left(aside.call))
        aside.end = BUDGET_GONE;
    command_stats_resume(partition, was_held);
    restore(partition, &kept, &aside);
}

/* call_budget.on_slow */
static void serve_others(struct partition *partition)
{
    struct call_budget *budget = &partition->running.budget;
    struct call *call = budget->call;
    if (call_retries(call))
        return; /* it will be rolled back */
    if (!budget->is_slow && slow_call_must_wait(call)) {
        budget->end = BUDGET_AGAIN;
        return;
    }
    if (!budget->is_slow) {
        log_event(LOG_WARN, "command_slow", "id=%llu command=\"%s\" ms=%llu",
                  (unsigned long long)budget->id, command_full_name(call->command),
                  (unsigned long long)((clock_mono_us() - budget->started_us) / 1000));
        slow_call_begin(call);
    }
    budget->is_slow = true;
    suspend_forbid(call); /* other sessions can now observe it */
    if (!call->borrow)
        overlay_nonblocking_end(partition->overlay);
    slow_call_serve(call);
}

/* running.limits_of */
static struct budget_limits limits_of_namespace(const struct call *call)
{
    if (!call->session)
        return (struct budget_limits){.memory = 0};
    const struct session_scope *scope = &call->session->scope;
    return (struct budget_limits){.memory = scope->command_memory,
                                  .time_ms = scope->command_time_ms};
}

void slow_call_init(struct partition *partition)
{
    partition->running.limits_of = limits_of_namespace;
    partition->running.on_slow = serve_others;
}

/* ---- SCREE RUNNING, SCREE KILL ---- */

/* The budget of the slow call; NULL: there is none, or it is another namespace's. An operator sees all. */
static struct call_budget *visible(const struct call *call)
{
    struct call_budget *aside = call->partition->running.aside;
    if (!aside)
        return NULL;
    struct bytes own = session_namespace(call->session);
    bool is_operator = own.len == 0;
    return is_operator || bytes_equal(own, session_namespace(aside->call->session)) ? aside : NULL;
}

enum { ID_TEXT_MAX = 64, ID_PROCESS_CHARS = 8 };

/* Unique among the shards: the process, the partition, and the number of the call. */
static struct bytes id_text(const struct call *call, const struct call_budget *budget,
                            char text[ID_TEXT_MAX])
{
    int len = snprintf(text, ID_TEXT_MAX, "%.*s-%u-%llu", ID_PROCESS_CHARS,
                       call->partition->process->run_id, call->partition->index,
                       (unsigned long long)budget->id);
    return (struct bytes){text, (size_t)len};
}

void slow_call_list(struct call *call)
{
    enum { FIELDS = 6 };
    char text[ID_TEXT_MAX];
    const struct call_budget *budget = visible(call);
    struct reply *reply = &call->reply;
    reply_array(reply, budget ? 1 : 0);
    if (!budget)
        return;
    reply_map(reply, FIELDS);
    reply_bulk_text(reply, "id");
    reply_bulk(reply, id_text(call, budget, text));
    reply_bulk_text(reply, "client");
    reply_int(reply, (int64_t)budget->call->session->id);
    reply_bulk_text(reply, "command");
    reply_bulk_text(reply, command_full_name(budget->call->command));
    reply_bulk_text(reply, "ms");
    reply_int(reply, (int64_t)((clock_mono_us() - budget->started_us) / 1000));
    reply_bulk_text(reply, "memory");
    reply_int(reply, (int64_t)budget->memory.held);
    reply_bulk_text(reply, "written");
    reply_int(reply, call->partition->running.written->bytes);
}

bool slow_call_kill(struct call *call, struct bytes id)
{
    char text[ID_TEXT_MAX];
    struct call_budget *budget = visible(call);
    if (!budget || !bytes_equal(id, id_text(call, budget, text)))
        return false;
    budget->end = BUDGET_KILLED;
    return true;
}

/* ---- SCREE GONE ---- */

bool slow_call_gone(const struct call *call, const struct request_range *range, bool reads_only)
{
    struct call_budget *budget = call->partition->running.aside;
    if (!budget || budget->end)
        return false;
    const struct session *session = budget->call->session;
    uint64_t number = session->request.number;
    bool is_it = session->id == range->session && number >= range->first && number <= range->last;
    if (!is_it || (reads_only && !(budget->call->command->flags & CMD_READONLY)))
        return false;
    budget->end = BUDGET_GONE;
    return true;
}
