/*
 * fiber.h - a function with a C stack of its own: it can stop in the middle, and go on later, on the same thread.
 *
 *   fiber_begin ─► run(data) ── fiber_leave ─► true: the function has stopped and waits
 *   fiber_go_on ──────────────► … fiber_leave ─► true
 *   fiber_go_on ──────────────► … return ──────► false: the function has ended; the fiber may run another one
 *
 * A fiber may run inside another one: when its function stops or ends, the other one goes on. fiber_free may drop a fiber whose function
 * waits: the function never learns this, so it must own nothing that has to be freed.
 *
 * A stack has 8 MiB of addresses, of which only the used pages take memory. It ends with a page that no one may touch: a function that
 * needs more ends the process, and does not write over other memory.
 */
#pragma once

#include <stdbool.h>

struct fiber;

typedef void fiber_run_fn(void *data);

/* NULL: there is no memory. */
struct fiber *fiber_new(void);
/* NULL is allowed. */
void fiber_free(struct fiber *fiber);
/* Runs the function until it stops (true) or ends (false). */
bool fiber_begin(struct fiber *fiber, fiber_run_fn *run, void *data);
/* Lets a function that has stopped go on; the result is as of fiber_begin. */
bool fiber_go_on(struct fiber *fiber);
/* Stops the function that calls it, which runs on the innermost fiber; returns when fiber_go_on is called. */
void fiber_leave(void);
/* Gives back the pages that only a deep stack has used. Only for a fiber whose function has ended. */
void fiber_trim(struct fiber *fiber);
