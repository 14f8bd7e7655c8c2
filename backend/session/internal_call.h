/*
 * internal_call.h - calls without a session: active expiry, and checks of keys that clients wait for.
 */
#pragma once

#include "backend/context/call.h"

/* Begins a call at the current turn's time; to be ended by internal_call_end. */
void internal_call_begin(struct partition *partition, struct call *call);
/* Ends the call: keeps its effects, or rolls them back if it failed. */
void internal_call_end(struct partition *partition, struct call *call);
