/*
 * take.h - what becomes of one frame of a client.
 *
 *   frame ─► command ─► gates: rate, arity, login, rules, pause, subscriber mode ─► inside MULTI? ─► queue
 *                         │ refused: an error                                          │
 *                         ▼                                                            ▼
 *                       client                    one key: its shard at once     else route_plan ─► one, parts,
 *                                                                                  all, local, blocking …
 */
#pragma once

#include "proxy/client.h"

/* Takes the frame. False: it must wait, and will be shown again; nothing was done. */
bool client_take(struct client *client, const struct frame *frame);
