/*
 * across_gate.h - refuses commands with keys of several shards that this partition cannot run.
 */
#pragma once

#include "backend/context/call.h"

/* False: the proxy sent the command with SCREE ACROSS, but it cannot be rolled back, or it names keys of other shards and
 * there are no links to these. An error was replied, and EXEC has discarded its queue. */
bool across_gate(struct call *call);
