/*
 * slow_call.h - while a call runs for longer than busy-reply-threshold, other sessions are served now and then: they get BUSY, and may
 * end it.
 *
 *   handler ─► call_goes_on ─► budget_look, each millisecond ─► slow_call_serve ─► loop_poll ─► SCREE RUNNING, SCREE KILL, CLIENT KILL
 *   script  ─► run_check ────────────────────────────────────────────┘
 *
 * A handler is on the stack, with borrowed values and open iterators. So the data must not change: all commands without
 * CMD_ALLOW_BUSY are refused, tasks of other threads wait (rows that were read, batches that are durable), and the state of the running
 * command is set aside: arena, pins, arguments, budget, and what it has replied so far. Replies of the batch that was in flight when
 * the command began are sent as soon as it is durable.
 *
 * The open batch cannot be closed without the effects of the call. So replies that are held for it would wait for the end of the
 * call, and so would BUSY to the requests behind them; a proxy's connection carries the requests of many clients. Therefore a call
 * that becomes slow while such replies are held is rolled back, and runs again when they have been sent:
 *
 *   slow, replies are held ─► rolled back ─► others write nothing, the batch is committed, replies are sent ─► runs again, slow at once
 *
 * A call also ends when its client has left: by CLIENT KILL, by a connection that is broken, or, if the command writes nothing, by one that
 * was closed. The shared connections of a proxy stay open: it says which of its requests have no client any more (SCREE GONE).
 */
#pragma once

#include "backend/context/call.h"

struct session;

/* Sets on_slow and limits_of of partition->running, which the budget calls. */
void slow_call_init(struct partition *partition);
/* To be called when a call becomes slow. True: replies are held for the open batch, so the handler must end at once; its effects are
 * rolled back, and the request runs again when the replies have been sent. False: the call goes on, because no reply is held, or
 * because it cannot be rolled back. */
bool slow_call_must_wait(struct call *call);
/* The call is slow from now on: requests that wait for rows, locks or room in the batch get BUSY. */
void slow_call_begin(const struct call *call);
/* A batch was committed, or has failed: slow calls run again if no reply is held. */
void slow_calls_go_on(struct partition *partition);
/* The session is closed. */
void slow_call_forget(const struct session *session);
/* Serves other sessions once. `call` is the session's call. */
void slow_call_serve(struct call *call);
/* Replies the call that is slow, if the session may see it: an array with one map, or without any. */
void slow_call_list(struct call *call);
/* Requests of a connection, by their numbers: its first request has 0. */
struct request_range {
    uint64_t session;
    uint64_t first, last;
};
/* The client of these requests has left its proxy: ends the slow call if it is one of them. `reads_only`: unless it may write. False: it
 * is another one. */
bool slow_call_gone(const struct call *call, const struct request_range *range, bool reads_only);
/* Ends the slow call with this id. False: there is none that the session may see. */
bool slow_call_kill(struct call *call, struct bytes id);
