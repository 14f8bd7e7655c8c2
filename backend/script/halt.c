#include "backend/script/halt.h"

#include "backend/context/partition.h"
#include "backend/dispatch/suspend.h"
#include "shared/check.h"
#include "shared/fiber.h"

#include <stdlib.h>

/* ---- C stacks ---- */

/* NULL: there are too many, or there is no memory. */
static struct fiber *take_fiber(struct halt_fibers *fibers)
{
    if (fibers->used == HALTS_MAX)
        return NULL;
    struct fiber *fiber = fibers->spares ? fibers->spare[--fibers->spares] : fiber_new();
    fibers->used += fiber != NULL;
    return fiber;
}

/* One on which nothing stands is kept for the next script. */
static void give_fiber(struct halt_fibers *fibers, struct fiber *fiber, bool has_ended)
{
    fibers->used--;
    if (!has_ended || fibers->spares == HALT_SPARES) {
        fiber_free(fiber);
        return;
    }
    fiber_trim(fiber);
    fibers->spare[fibers->spares++] = fiber;
}

void halt_fibers_free(struct halt_fibers *fibers)
{
    while (fibers->spares)
        fiber_free(fibers->spare[--fibers->spares]);
}

/* ---- life ---- */

struct script_run *halt_new(struct script_run *run)
{
    size_t len = strlen(run->name);
    struct fiber *fiber = take_fiber(&run->vm->scripts->set->fibers);
    if (!fiber)
        return run;
    struct halt *halt = calloc(1, sizeof *halt + len + 1);
    CHECK(halt);
    halt->vm = run->vm;
    halt->fiber = fiber;
    halt->lua_ref = halt->keys_ref = halt->argv_ref = LUA_NOREF;
    memcpy(halt->name, run->name, len);
    list_push(&run->vm->halts, &halt->link);
    halt->run = *run;
    halt->run.halt = halt;
    halt->run.name = halt->name;
    return &halt->run;
}

/* What stands on its stacks is dropped. */
static void drop_stacks(struct halt *halt)
{
    if (!halt->fiber)
        return;
    give_fiber(&halt->vm->scripts->set->fibers, halt->fiber, !halt->stands);
    halt->fiber = NULL;
}

/* Does not need memory: vm_new has made the list of free references. */
static void free_halt(struct halt *halt)
{
    lua_State *lua = halt->vm ? halt->vm->lua : NULL;
    drop_stacks(halt);
    if (lua) {
        luaL_unref(lua, LUA_REGISTRYINDEX, halt->lua_ref);
        luaL_unref(lua, LUA_REGISTRYINDEX, halt->keys_ref);
        luaL_unref(lua, LUA_REGISTRYINDEX, halt->argv_ref);
    }
    list_remove(&halt->link);
    free(halt);
}

void halt_end(struct script_run *run)
{
    struct attempt_aside *aside = run->call->aside;
    if (aside) {
        aside->halt = NULL;
        aside->script.has_waited = false;
        aside->script.sums.count = 0;
    }
    free_halt(run->halt);
}

void halt_drop(struct halt *halt)
{
    if (!halt)
        return;
    halt->is_dropped = true;
    if (!halt->vm)
        free_halt(halt);
    else if (!halt->vm->scripts->set->running)
        halts_sweep(halt->vm);
}

void halts_sweep(struct script_vm *vm)
{
    struct list *next;
    for (struct list *at = vm->halts.next; at != &vm->halts; at = next) {
        struct halt *halt = container_of(at, struct halt, link);
        next = at->next;
        if (halt->is_dropped)
            free_halt(halt);
    }
}

void halts_forget(struct script_vm *vm)
{
    struct list *link;
    while ((link = list_pop(&vm->halts))) {
        struct halt *halt = container_of(link, struct halt, link);
        drop_stacks(halt);
        halt->vm = NULL;
        if (halt->is_dropped)
            free_halt(halt);
    }
}

bool halt_may_go_on(const struct halt *halt)
{
    return !halt || halt->vm;
}

bool halt_stands(const struct script_run *run)
{
    return run->halt && run->halt->stands;
}

bool halt_has_left(const struct script_run *run)
{
    return run->halt && run->halt->has_left;
}

bool halt_is_stack(lua_State *lua)
{
    const struct script_run *run = vm_of(lua)->scripts->set->running;
    return run && run->halt && run->halt->lua == lua;
}

/* ---- halting ---- */

bool halt_may(const struct script_run *run)
{
    return run->halt && suspend_may_halt(run->call);
}

void halt_here(struct script_run *run, bool is_again)
{
    struct halt *halt = run->halt;
    halt->is_again = is_again;
    halt->stands = true;
    fiber_leave();
    halt->stands = false;
}
