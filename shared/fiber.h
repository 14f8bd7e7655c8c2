/*
 * fiber.h - a function with a C stack of its own: it can stop in the middle, and goes on later, on the same thread.
 *
 *   fiber_begin ─► run(data) ── fiber_leave ─► true: it stands
 *   fiber_go_on ──────────────► … fiber_leave ─► true
 *   fiber_go_on ──────────────► … return ──────► false: it has ended, and may begin again with another function
 *
 * A fiber may begin and go on inside another one, to which it then returns. fiber_free drops one that stands: its frames are not
 * unwound, so they must own nothing.
 *
 * A stack has 8 MiB of addresses, of which only the used pages take memory, and ends with a page that no one may touch.
 */
#pragma once

#include <stdbool.h>

struct fiber;

typedef void fiber_run_fn(void *data);

/* NULL: there is no memory. */
struct fiber *fiber_new(void);
/* NULL is allowed. */
void fiber_free(struct fiber *fiber);
/* Runs the function until it leaves (true) or returns (false). */
bool fiber_begin(struct fiber *fiber, fiber_run_fn *run, void *data);
/* It stands: runs it on from there. */
bool fiber_go_on(struct fiber *fiber);
/* The function that runs on the innermost fiber stands still until fiber_go_on. */
void fiber_leave(void);
/* It has ended: gives back pages that only a deep stack needs. */
void fiber_trim(struct fiber *fiber);
