/*
 * next_turn.h - long work of a request is done in portions, one in each turn of the loop.
 *
 *   handler: a portion ─► request_next_turn() ─► events of other clients ─► the next portion ─► … ─► the reply
 *
 * A portion should take about a millisecond: its function counts channels or elements, and reads no clock. When many requests
 * wait for their next portion, a turn runs the portions of some requests, and the next turn those of the other requests.
 */
#pragma once

#include "proxy/core/request.h"

/* For handlers and their `done` functions: calls `go_on` in the next turn, as request_wait() would. */
void request_next_turn(struct request *request, request_done_fn *go_on);
