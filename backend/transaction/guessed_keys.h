/*
 * guessed_keys.h - keys of other shards that the scripts of a command will probably use, though they do not declare them (script_keys.h).
 */
#pragma once

#include "backend/context/call.h"

/* Is there any? Not for a transaction that goes on without guesses. */
bool guessed_keys_any(struct call *call);
/* They are needed, as far as call->borrow has room for them; numbers in their names are counted. */
void guessed_keys_need(struct call *call);
