/*
 * dispatch.h - runs one frame of a client: gates, transaction queue, route.
 *
 *   frame ─► command ─► gates: rate, arity, login, rules, pause, subscriber mode ─► inside MULTI? ─► queue
 *                         │ refused: an error                                          │
 *                         ▼                                                            ▼
 *                       client                    one key: its shard at once     else route_plan ─► one, parts,
 *                                                                                  all, local, blocking …
 */
#pragma once

#include "proxy/core/client.h"

/* Runs the frame. False: nothing was done, because the client is held; the frame is dispatched again afterwards. */
bool dispatch_frame(struct client *client, const struct frame *frame);
/* Runs a command of EXEC that passed the gates when it was queued. False: as for dispatch_frame. */
bool dispatch_in_exec(struct client *client, const struct frame *frame,
                      const struct command *command);
