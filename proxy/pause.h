/*
 * pause.h - CLIENT PAUSE: the commands of this proxy's clients wait for a while.
 *
 *   PAUSE ──gather──► every worker: pauses      a command that must wait: HOLD_PAUSED, shown again later
 *   UNPAUSE, or the time is over (tick) ──► every held client goes on
 *
 * Who asks from inside a namespace pauses that namespace, who asks from outside pauses all. Other proxies' clients
 * are not held: proxies know nothing of each other. As in Redis a pause of ALL holds UNPAUSE too, and a second
 * pause can only be stricter and longer.
 */
#pragma once

#include "proxy/client.h"

/* Something is paused: does this command have to wait? Then the client is held. */
bool pause_holds(struct client *client, const struct command *command);
/* Ends a pause whose time is over; true: one goes on. */
bool pause_tick(struct proxy_worker *worker);
/* The worker is freed. */
void pause_stop(struct proxy_worker *worker);
