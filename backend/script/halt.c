#include "backend/script/halt.h"

#include "backend/context/partition.h"
#include "backend/keyspace/borrow.h"
#include "backend/session/attempt.h"
#include "backend/storage/retry.h"
#include "shared/check.h"

#include <stdlib.h>

/* ---- life ---- */

void halt_new(struct script_run *run)
{
    size_t len = strlen(run->name);
    struct halt *halt = calloc(1, sizeof *halt + len + 1);
    CHECK(halt);
    halt->vm = run->vm;
    halt->lua_ref = halt->keys_ref = halt->argv_ref = LUA_NOREF;
    memcpy(halt->name, run->name, len);
    list_push(&run->vm->halts, &halt->link);
    run->halt = halt;
}

/* Does not need memory: vm_new has made the list of free references. */
static void free_halt(struct halt *halt)
{
    lua_State *lua = halt->vm ? halt->vm->lua : NULL;
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
    if (run->call->aside)
        run->call->aside->halt = NULL;
    free_halt(run->halt);
    run->halt = NULL;
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
        halt->vm = NULL;
        if (halt->is_dropped)
            free_halt(halt);
    }
}

bool halt_may_go_on(const struct halt *halt)
{
    return halt->vm != NULL;
}

bool halt_stands(const struct script_run *run)
{
    return run->halt && run->halt->stands;
}

bool halt_is_stack(lua_State *lua)
{
    const struct script_run *run = vm_of(lua)->scripts->set->running;
    return run && run->halt && run->halt->lua == lua;
}

/* ---- halting ---- */

bool halt_may(const struct script_run *run, const lua_State *lua)
{
    const struct halt *halt = run->halt;
    const struct retry *retry = call_wait(run->call);
    bool is_own = halt && (halt->stands || halt->lua == lua);
    return is_own && retry && !retry->refusal && !retry->undoes &&
           !borrow_uses_all_keys(run->call->borrow);
}

int halt_here(lua_State *lua, struct script_run *run, const struct arguments *arguments,
              bool raises)
{
    struct halt *halt = run->halt;
    halt->at = *arguments;
    halt->raises = raises;
    halt->is_again = false;
    halt->stands = true;
    return lua_yield(lua, 0); /* or it raises an error, as run_break does */
}
