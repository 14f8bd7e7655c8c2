/*
 * leader_gate.h - a copy that does not lead refuses commands for data, and sends clients to the leader.
 *
 *   PING, INFO, CONFIG …                                              run here
 *   after a start or a lost leadership, while no leader is known      wait, so that clients see no error when a copy leads soon;
 *                                                                     so do CLUSTER SLOTS and SHARDS
 *   it leads, and its lease is over (partition_lease_is_over)         wait, until it leads again, or knows that it does not
 *   GET, KEYS, EVAL_RO … after READONLY, with replica-reads = stale   read here, from data that may be as old as replica-reads-lag
 *   GET and the like after READONLY, with replica-reads = fresh       wait until the data are as new as the leader's (fresh_reads.h)
 *   else   a client, the command has a key                            MOVED slot leader
 *          a client, the command writes                               READONLY …
 *          others, proxies                                            TRYAGAIN …
 */
#pragma once

#include "backend/context/call.h"

/* While partition_copies.is_closed or is_powerless. False: the request was refused, and the error was replied. */
bool leader_gate(struct call *call);
/* Must the request, which passed the gate, wait until the leader is known? Compares the lease with a clock: nothing of the request may have
 * run before. */
bool leader_waits(const struct call *call);
