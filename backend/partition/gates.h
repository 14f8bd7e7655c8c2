/*
 * gates.h - the checks that a request passes before it runs, in Redis' order.
 *
 *   known ─► arity ─► login ─► internal ─► namespace ─► ACL ─► MULTI ─► disk ─► subscriber ─► busy ─► monitor
 *     └────────┴────────┴─ refused: an error reply; an open transaction will be discarded by EXEC
 */
#pragma once

#include "backend/context/call.h"

#include <stdbool.h>
#include <stdint.h>

/* False: the request was refused and the error replied. */
bool gates_pass(struct call *call);
/* Replies the error. An open transaction will be discarded; a refused EXEC discards it now. */
void reject_command(struct call *call, const char *text);
/* Flags of the commands that will run: EXEC has those of its queue too. */
uint32_t effective_flags(const struct call *call);
