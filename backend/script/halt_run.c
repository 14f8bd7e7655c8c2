/*
 * halt_run.c - runs scripts on stacks of their own, up to where they halt, and on from there (halt.h).
 */
#include "backend/script/halt.h"

#include "backend/session/attempt.h"
#include "shared/fiber.h"

void halt_leave(struct script_run *run)
{
    struct halt *halt = run->halt;
    struct call *call = run->call;
    halt->cjson = *run->vm->cjson;
    halt->has_left = true;
    attempt_halt(call, halt->is_again);
    call->aside->halt = halt;
    call->aside->script.messages = run->messages;
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

/* Makes the Lua stack, and moves the error handler, the function and its arguments there. */
static void begin_code(lua_State *lua, const struct run_start *start)
{
    struct halt *halt = start->run->halt;
    lua_State *own = lua_newthread(lua);
    halt->lua_ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    halt->lua = own;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, halt->vm->handler_ref);
    halt->argc = run_push_function(lua, start);
    if (!start->run->is_function) {
        halt->keys_ref = take_global(lua, halt->vm, "KEYS");
        halt->argv_ref = take_global(lua, halt->vm, "ARGV");
    }
    lua_xmove(lua, own, halt->argc + 2);
}

static void show_globals(lua_State *lua, const struct halt *halt)
{
    if (halt->keys_ref == LUA_NOREF)
        return;
    put_global(lua, halt->vm, "KEYS", halt->keys_ref);
    put_global(lua, halt->vm, "ARGV", halt->argv_ref);
}

/* fiber_run_fn */
static void run_code(void *data)
{
    struct halt *halt = data;
    halt->err = lua_pcall(halt->lua, halt->argc, 1, 1);
}

static int reply_code_end(lua_State *lua, struct halt *halt)
{
    lua_xmove(halt->lua, lua, 1);
    if (halt->err)
        run_reply_error(lua, &halt->run);
    else
        run_reply_result(lua, &halt->run);
    return 0;
}

int halt_run(lua_State *lua)
{
    const struct run_start *start = lua_touserdata(lua, 1);
    struct halt *halt = start->run->halt;
    lua_settop(lua, 0);
    if (halt->lua)
        show_globals(lua, halt);
    else
        begin_code(lua, start);
    bool stands =
        halt->stands ? fiber_go_on(halt->fiber) : fiber_begin(halt->fiber, run_code, halt);
    return stands ? 0 : reply_code_end(lua, halt);
}

void halt_go_on(struct call *call)
{
    struct halt *halt = call->aside->halt;
    halt->run.call = call;
    *halt->vm->cjson = halt->cjson;
    run_go_on(&halt->run);
}
