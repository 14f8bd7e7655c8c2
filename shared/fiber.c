/*
 * Switching costs two system calls, because swapcontext keeps masks of signals: 0.6 µs there and back.
 */
#include "shared/fiber.h"

#include "shared/check.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

enum {
    STACK_BYTES = 8 << 20,
    GUARD_BYTES = 64 << 10,
    MAP_BYTES = GUARD_BYTES + STACK_BYTES,
    KEPT_BYTES = 64 << 10,
};

/* What a sanitizer must know of a stack that is left: where it is, and where its own bookkeeping was. */
struct side {
    const void *bottom;
    size_t bytes;
    void *fake;   /* ASan */
    void *thread; /* TSan */
};

struct fiber {
    ucontext_t own;
    ucontext_t caller;
    struct side own_side;
    struct side caller_side;
    struct fiber *outer; /* on which it was begun, or went on; NULL: the thread's stack */
    char *stack;
    fiber_run_fn *run;
    void *data;
    bool stands;
};

static _Thread_local struct fiber *innermost;

/* ---- sanitizers ---- */

static void side_init(struct fiber *fiber)
{
    fiber->own_side = (struct side){.bottom = fiber->stack, .bytes = STACK_BYTES};
#ifdef __SANITIZE_THREAD__
    fiber->own_side.thread = __tsan_create_fiber(0);
#endif
}

static void side_fini(struct fiber *fiber)
{
#ifdef __SANITIZE_THREAD__
    __tsan_destroy_fiber(fiber->own_side.thread);
#elif defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(fiber->stack, STACK_BYTES);
#else
    (void)fiber;
#endif
}

/* The thread goes from one stack to the other. */
static void side_switch(struct side *from, const struct side *to, bool is_last)
{
#ifdef __SANITIZE_THREAD__
    from->thread = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->thread, 0);
#elif defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(is_last ? NULL : &from->fake, to->bottom, to->bytes);
#endif
    (void)from, (void)to, (void)is_last;
}

/* The thread has arrived on `here`, from the other stack. */
static void side_arrive(const struct side *here, struct side *from)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(here->fake, &from->bottom, &from->bytes);
#endif
    (void)here, (void)from;
}

/* ---- life ---- */

/* A stack and its guard; NULL: the system has no memory, or allows no more mappings. A huge page would make each stack take 2 MiB. */
static char *map_stack(void)
{
    char *map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    (void)madvise(map, MAP_BYTES, MADV_NOHUGEPAGE);
    if (mprotect(map, GUARD_BYTES, PROT_NONE) == 0)
        return map + GUARD_BYTES;
    (void)munmap(map, MAP_BYTES);
    return NULL;
}

struct fiber *fiber_new(void)
{
    char *stack = map_stack();
    if (!stack)
        return NULL;
    struct fiber *fiber = calloc(1, sizeof *fiber);
    CHECK(fiber);
    fiber->stack = stack;
    side_init(fiber);
    return fiber;
}

void fiber_free(struct fiber *fiber)
{
    if (!fiber)
        return;
    side_fini(fiber);
    (void)munmap(fiber->stack - GUARD_BYTES, MAP_BYTES);
    free(fiber);
}

void fiber_trim(struct fiber *fiber)
{
    (void)madvise(fiber->stack, STACK_BYTES - KEPT_BYTES, MADV_DONTNEED);
}

/* ---- running ---- */

/* The first function on the stack. */
static void run_on_stack(void)
{
    struct fiber *fiber = innermost;
    side_arrive(&(struct side){.fake = NULL}, &fiber->caller_side);
    fiber->run(fiber->data);
    fiber->stands = false;
    innermost = fiber->outer;
    side_switch(&fiber->own_side, &fiber->caller_side, true);
    (void)setcontext(&fiber->caller);
    CHECK(false);
}

static bool enter(struct fiber *fiber)
{
    fiber->outer = innermost;
    innermost = fiber;
    side_switch(&fiber->caller_side, &fiber->own_side, false);
    CHECK(swapcontext(&fiber->caller, &fiber->own) == 0);
    side_arrive(&fiber->caller_side, &(struct side){.fake = NULL});
    return fiber->stands;
}

bool fiber_begin(struct fiber *fiber, fiber_run_fn *run, void *data)
{
    CHECK(!fiber->stands && getcontext(&fiber->own) == 0);
    fiber->own.uc_stack.ss_sp = fiber->stack;
    fiber->own.uc_stack.ss_size = STACK_BYTES;
    fiber->own.uc_link = NULL;
    fiber->run = run;
    fiber->data = data;
    makecontext(&fiber->own, run_on_stack, 0);
    return enter(fiber);
}

bool fiber_go_on(struct fiber *fiber)
{
    CHECK(fiber->stands);
    return enter(fiber);
}

void fiber_leave(void)
{
    struct fiber *fiber = innermost;
    CHECK(fiber);
    fiber->stands = true;
    innermost = fiber->outer;
    side_switch(&fiber->own_side, &fiber->caller_side, false);
    CHECK(swapcontext(&fiber->own, &fiber->caller) == 0);
    side_arrive(&fiber->own_side, &fiber->caller_side);
}
