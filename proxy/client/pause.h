/*
 * pause.h - CLIENT PAUSE: commands of this proxy's clients wait until the pause ends.
 *
 *   PAUSE ──gather──► every worker: pauses      a command that must wait: HOLD_PAUSED, dispatched again later
 *         └──SCREE KEEP-EXPIRED──► every shard: expired keys are hidden, but stay
 *   UNPAUSE, or the time is over (tick) ──► every held client continues
 *
 * WRITE holds what may write. EVALSHA and FCALL may, unless their script or function declares no-writes (declared_flags.h).
 *
 * A client in a namespace pauses the clients of that namespace, a client in none pauses all clients. Clients of other
 * proxies are not paused, because proxies do not communicate. As in Redis, PAUSE ALL also holds UNPAUSE, and a second
 * pause can only make the first one stricter and longer.
 */
#pragma once

#include "proxy/core/client.h"

/* Called while a pause is in force. True: the command must wait, and the client is held, perhaps only until the shards have said which flags
 * a script has. */
bool pause_holds(struct client *client, const struct command *command);
/* Ends pauses whose time is over. True: a pause is still in force. */
bool pause_tick(struct proxy_worker *worker);
/* To be called when the worker is freed: frees its pauses. */
void pause_stop(struct proxy_worker *worker);
