/*
 * leader_gate.h - a copy that does not lead refuses commands for data, and sends clients to the leader.
 *
 *   PING, INFO, CONFIG …                                              run here
 *   after a start, while no leader is known                           wait, so that clients see no error when the leader starts again
 *   GET, KEYS, EVAL_RO … after READONLY, with replica-reads = stale   read here, from data that may be old
 *   else   a client, the command has a key                            MOVED slot leader
 *          a client, the command writes                               READONLY …
 *          others, proxies                                            TRYAGAIN …
 */
#pragma once

#include "backend/context/call.h"

/* While partition_copies.is_closed. False: the request was refused, and the error was replied. */
bool leader_gate(struct call *call);
/* Must the request, which passed the gate, wait until the leader is known? */
bool leader_waits(const struct call *call);
