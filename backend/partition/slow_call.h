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
 * the command began are sent as soon as it is durable; those of the open batch wait for the end of the command.
 */
#pragma once

#include "backend/context/call.h"

/* Sets partition->running.on_slow, which budget_look calls. */
void slow_call_init(struct partition *partition);
/* Serves other sessions once. `call` is the session's call. */
void slow_call_serve(struct call *call);
/* Replies the call that is slow, if the session may see it: an array with one map, or without any. */
void slow_call_list(struct call *call);
/* Ends the slow call with this id. False: there is none that the session may see. */
bool slow_call_kill(struct call *call, struct bytes id);
