/*
 * halt_run.c - runs scripts on stacks of their own, up to where they halt, and on from there (halt.h).
 */
#include "backend/script/halt.h"

#include "backend/session/attempt.h"
#include "shared/check.h"

#include <stdlib.h>

void halt_leave(struct script_run *run)
{
    struct halt *halt = run->halt;
    struct call *call = run->call;
    halt->run = *run;
    halt->run.name = halt->name;
    halt->chance = run->vm->scripts->chance;
    halt->cjson = *run->vm->cjson;
    if (!call->aside)
        call->aside = calloc(1, sizeof *call->aside);
    CHECK(call->aside);
    call->aside->halt = halt;
    call->aside->is_again = halt->is_again;
    call->has_halted = true;
}

static int take_global(lua_State *lua, const struct script_vm *vm, const char *name)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm->globals_ref);
    lua_getfield(lua, -1, name);
    int ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_pop(lua, 1);
    return ref;
}

static void put_global(lua_State *lua, const struct script_vm *vm, const char *name, int ref)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm->globals_ref);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, ref);
    lua_setfield(lua, -2, name);
    lua_pop(lua, 1);
}

/* Makes the stack, and moves the function and its arguments there. Returns the number of arguments. */
static int begin_code(lua_State *lua, const struct run_start *start)
{
    struct halt *halt = start->run->halt;
    lua_State *own = lua_newthread(lua);
    halt->lua_ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    halt->lua = own;
    int argc = run_push_function(lua, start);
    if (!start->run->is_function) {
        halt->keys_ref = take_global(lua, halt->vm, "KEYS");
        halt->argv_ref = take_global(lua, halt->vm, "ARGV");
    }
    lua_xmove(lua, own, argc + 1);
    return argc;
}

/* Runs the command again at which the script stands, and pushes its reply. */
static int run_command_again(lua_State *lua)
{
    struct script_run *run = vm_of(lua)->scripts->set->running;
    struct halt *halt = run->halt;
    if (!api_command(lua, run, &halt->at)) {
        halt->is_again = true;
        return 0;
    }
    halt->stands = false;
    return halt->raises ? api_raise(lua) : 1;
}

/* The script has failed with the error at the top. */
static int fail_script(lua_State *lua, struct script_run *run, int err)
{
    struct halt *halt = run->halt;
    halt->stands = false;
    if (err == LUA_ERRRUN && !run_is_over(lua))
        vm_place_error(lua, halt->lua, 0);
    run_reply_error(lua, run);
    return 0;
}

/* Moves the reply of the command to the script's stack. False: the script still stands, or has failed. */
static bool repeat_command(lua_State *lua, struct script_run *run)
{
    struct halt *halt = run->halt;
    lua_pushcfunction(lua, run_command_again);
    int err = lua_pcall(lua, 0, 1, 0);
    if (err)
        (void)fail_script(lua, run, err);
    else if (!halt->stands)
        lua_xmove(lua, halt->lua, 1);
    return !err && !halt->stands;
}

static void show_globals(lua_State *lua, const struct halt *halt)
{
    if (halt->keys_ref == LUA_NOREF)
        return;
    put_global(lua, halt->vm, "KEYS", halt->keys_ref);
    put_global(lua, halt->vm, "ARGV", halt->argv_ref);
}

static int resume(lua_State *lua, struct script_run *run, int argc)
{
    struct halt *halt = run->halt;
    int err = lua_resume(halt->lua, argc);
    if (err == LUA_YIELD)
        return 0; /* coroutine.yield refuses this stack, so it has halted */
    if (!err)
        lua_settop(halt->lua, 1);
    lua_xmove(halt->lua, lua, 1);
    if (err)
        return fail_script(lua, run, err);
    run_reply_result(lua, run);
    return 0;
}

int halt_run(lua_State *lua)
{
    const struct run_start *start = lua_touserdata(lua, 1);
    struct script_run *run = start->run;
    lua_settop(lua, 0);
    if (!run->halt->lua)
        return resume(lua, run, begin_code(lua, start));
    show_globals(lua, run->halt);
    return repeat_command(lua, run) ? resume(lua, run, 1) : 0;
}

void halt_go_on(struct call *call)
{
    struct halt *halt = call->aside->halt;
    struct script_run run = halt->run;
    run.call = call;
    run.vm->scripts->chance = halt->chance;
    *run.vm->cjson = halt->cjson;
    run_go_on(&run);
}
