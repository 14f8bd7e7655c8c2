/*
 * share_limits.h - how many connections of the proxy a namespace may hold: of its clients, and dedicated ones to backends.
 *
 *   0 ────────────────────────────────── 90 % ──────── 100 % ────────────► accepted
 *     any namespace                            │ namespaces   │ RESERVED_CLIENTS more: the operator, who must log in
 *                                              │ below 10 %   │ within CROWDED_LOGIN_MS
 *
 * Such connections are held for long, so they are not given out in turn (fair_queue.h) but kept in reserve. Without
 * namespaces nothing is reserved: one tenant may have all. While the last 10 % are in use, clients without a login have
 * CROWDED_LOGIN_MS too, so that they do not keep others out.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct client;
struct proxy_worker;
struct share;

enum { RESERVED_CLIENTS = 16, CROWDED_LOGIN_MS = 2000 };

extern const char maxclients_error[];

/* Counts one more dedicated connection for the client's namespace. False: it may not have one. `beyond_limit`: it may. */
bool share_take_dedicated(const struct client *client, bool beyond_limit);
/* `share` NULL: the worker has none. */
void share_give_back_dedicated(const struct proxy_worker *worker, struct share *share);

/* May one more client enter this namespace? It is connected already. */
bool shares_may_enter(const struct proxy_worker *worker, struct bytes name);
/* NULL, or why a client must be closed that has been connected for `age_ms`: it is one too many. Only where clients must log
 * in, so that the operator can be told from others. */
const char *shares_refuse(const struct client *client, uint64_t age_ms);
