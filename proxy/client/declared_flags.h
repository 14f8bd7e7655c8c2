/*
 * declared_flags.h - the flags (script_flags.h) that a cached script or a function declares. The proxy has the text of an EVAL only;
 * while a CLIENT PAUSE WRITE is in force it asks the shards for those of EVALSHA and FCALL.
 *
 *   EVALSHA, FCALL ─► noted in the last second? ─yes─► goes on, or is held
 *                         │ no: the client is held (HOLD_SCRIPT)
 *                         ▼
 *                  SCREE FLAGS at all shards ─► note ─► the client's frame is dispatched again
 */
#pragma once

#include "proxy/core/client.h"

/* The flags that `name` (SHA-1 or function, by the command) declares; 0: it declares none, or no shard has it. False: they must be asked
 * for. */
bool declared_flags_find(struct client *client, const struct command *command, struct bytes name,
                         uint32_t *flags);
/* Asks the shards; until they have answered the client is held, then client->script.answer has the flags. False: no shard could be
 * asked, and the client is not held. */
bool declared_flags_ask(struct client *client, const struct command *command, struct bytes name);
/* Forgets all flags of the worker. */
void declared_flags_forget(struct proxy_worker *worker);
