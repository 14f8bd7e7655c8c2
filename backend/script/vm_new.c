/*
 * vm_new.c - a new Lua state: the libraries, the API `redis`, and the proxies that make them read-only.
 */
#include "backend/script/vm.h"

#include "shared/check.h"

#include <stdlib.h>

/* The error handler: adds the position at which the error was raised. */
static int on_error(lua_State *lua)
{
    lua_Debug where;
    bool known = lua_getstack(lua, 1, &where) && lua_getinfo(lua, "Sl", &where);
    if (known && strcmp(where.what, "C") == 0)
        known = lua_getstack(lua, 2, &where) && lua_getinfo(lua, "Sl", &where);
    lua_settop(lua, 1);
    if (!lua_istable(lua, 1)) {
        lua_newtable(lua);
        const char *text = lua_tostring(lua, 1);
        lua_pushfstring(lua, "ERR %s", text ? text : luaL_typename(lua, 1));
        lua_setfield(lua, -2, "err");
        lua_replace(lua, 1);
    }
    if (known && !sandbox_is_readonly(lua, 1)) {
        lua_pushliteral(lua, "source");
        lua_pushstring(lua, where.source);
        lua_rawset(lua, 1);
        lua_pushliteral(lua, "line");
        lua_pushinteger(lua, where.currentline);
        lua_rawset(lua, 1);
    }
    return 1;
}

static void open_library(lua_State *lua, lua_CFunction open, const char *name)
{
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 1);
    if (lua_istable(lua, -1) && *name)
        lua_setglobal(lua, name);
    else
        lua_pop(lua, 1);
}

/* Replaces the tables of modules, then the globals, by proxies. */
static void protect_all(struct script_vm *vm)
{
    static const char *const names[] = {"redis", "table", "math",     "coroutine", "cjson",
                                        "bit",   "os",    "cmsgpack", "struct"};
    lua_State *lua = vm->lua;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lua_getglobal(lua, names[i]);
        sandbox_protect(lua, false);
        lua_setglobal(lua, names[i]);
    }
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_pushvalue(lua, -1);
    vm->globals_ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    sandbox_protect(lua, true);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm->globals_ref);
    lua_pushvalue(lua, -2);
    lua_setfield(lua, -2, "_G");
    lua_pop(lua, 1);
    lua_pushvalue(lua, -1);
    vm->proxy_ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_replace(lua, LUA_GLOBALSINDEX);
}

/* Makes the globals for loading a library: a table `redis` that can only register functions and log. */
static void make_loading(struct script_vm *vm)
{
    static const char *const seen[] = {
        "log",         "LOG_DEBUG",     "LOG_VERBOSE",      "LOG_NOTICE",
        "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM"};
    lua_State *lua = vm->lua;
    lua_newtable(lua);
    lua_newtable(lua);
    lua_getglobal(lua, "redis");
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        lua_getfield(lua, -1, seen[i]);
        lua_setfield(lua, -3, seen[i]);
    }
    lua_pop(lua, 1);
    lua_pushcfunction(lua, function_register);
    lua_setfield(lua, -2, "register_function");
    sandbox_protect(lua, true);
    lua_setfield(lua, -2, "redis");
    lua_pushvalue(lua, -1);
    sandbox_protect(lua, true); /* gives the table itself the "nonexistent" metatable */
    lua_pop(lua, 1);
    vm->loading_ref = luaL_ref(lua, LUA_REGISTRYINDEX);
}

static void open_libraries(lua_State *lua)
{
    open_library(lua, luaopen_base, "");
    open_library(lua, luaopen_table, "table");
    open_library(lua, luaopen_string, "string");
    open_library(lua, luaopen_math, "math");
    open_library(lua, luaopen_cjson, "cjson");
    open_library(lua, luaopen_bit, "bit");
    open_library(lua, luaopen_cmsgpack, "cmsgpack");
    open_library(lua, luaopen_struct, "struct");
}

static int build_state(lua_State *lua)
{
    struct script_vm *vm = vm_of(lua);
    bool is_eval = vm->kind == SCRIPT_EVAL;
    lua_settop(lua, 0);
    lua_pushboolean(lua, 1);
    luaL_unref(lua, LUA_REGISTRYINDEX, luaL_ref(lua, LUA_REGISTRYINDEX)); /* halts_sweep */
    open_libraries(lua);
    lua_pushcfunction(lua, on_error);
    lua_pushvalue(lua, -1);
    lua_setglobal(lua, "__redis__err__handler");
    vm->handler_ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    sandbox_install(lua);
    math_install(lua);
    cjson_install(vm);
    lua_newtable(lua);
    api_install(vm);
    lua_setglobal(lua, "redis");
    if (!is_eval)
        make_loading(vm);
    else
        api_install_eval(lua);
    protect_all(vm);
    return 0;
}

struct script_vm *vm_new(struct scripts *scripts, size_t max, enum script_kind kind)
{
    char error[128];
    struct script_vm *vm = calloc(1, sizeof *vm);
    CHECK(vm);
    vm->scripts = scripts;
    vm->max = max;
    vm->kind = kind;
    list_init(&vm->halts);
    vm->lua = lua_newstate(vm_allocate, vm);
    CHECK(vm->lua);
    vm_hook(vm);
    bool built = vm_protect(vm, build_state, NULL, error, sizeof error);
    CHECK(built);
    return vm;
}
