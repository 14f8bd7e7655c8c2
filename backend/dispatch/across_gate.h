/*
 * across_gate.h - refuses commands that need keys of other shards before they run.
 */
#pragma once

#include "backend/dispatch/bounce.h"

/* May the command run, as far as keys of other shards are concerned? Not if it is EXEC or a script, and one of its keys is not here
 * although the sender expects it here. Nor if the proxy sent it with SCREE ACROSS, but it cannot be rolled back, or it names keys of other
 * shards to which there are no links. False: an error was replied and EXEC has discarded its queue, or the request was marked (bounce.h). */
bool across_gate(struct call *call);
