/*
 * sandbox.c - makes globals read-only for scripts, and replaces library functions that could crash or block the server.
 */
#include "backend/script/halt.h"

#include <limits.h>
#include <time.h>

enum { CALL_COST = 1000 };

static char map_key; /* registry: proxy → real table */

static const char readonly_text[] = "Attempt to modify a readonly table";

static int on_write(lua_State *lua)
{
    return luaL_error(lua, readonly_text);
}

static int on_missing(lua_State *lua)
{
    const char *name = lua_tostring(lua, 2);
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      name ? name : luaL_typename(lua, 2));
}

/* Pushes the real table of the proxy at `index`. False: the value is no proxy, and nothing was pushed. */
static bool push_real(lua_State *lua, int index)
{
    if (!lua_istable(lua, index))
        return false;
    lua_pushlightuserdata(lua, &map_key);
    lua_rawget(lua, LUA_REGISTRYINDEX);
    lua_pushvalue(lua, index);
    lua_rawget(lua, -2);
    lua_remove(lua, -2);
    if (!lua_isnil(lua, -1))
        return true;
    lua_pop(lua, 1);
    return false;
}

void sandbox_protect(lua_State *lua, bool is_globals)
{
    lua_newtable(lua); /* real proxy */
    lua_newtable(lua);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, on_write);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
    if (is_globals) {
        lua_newtable(lua);
        lua_pushcfunction(lua, on_missing);
        lua_setfield(lua, -2, "__index");
        lua_setmetatable(lua, -3);
    }
    lua_pushlightuserdata(lua, &map_key);
    lua_rawget(lua, LUA_REGISTRYINDEX);
    lua_pushvalue(lua, -2);
    lua_pushvalue(lua, -4);
    lua_rawset(lua, -3); /* map[proxy] = real */
    lua_pop(lua, 1);
    lua_remove(lua, -2);
}

/* ---- functions that bypass metatables ---- */

bool sandbox_is_readonly(lua_State *lua, int index)
{
    if (!push_real(lua, index))
        return false;
    lua_pop(lua, 1);
    return true;
}

void sandbox_refuse_readonly(lua_State *lua)
{
    if (!sandbox_is_readonly(lua, 1))
        return;
    lua_pushstring(lua, readonly_text);
    lua_error(lua);
}

static int checked_setmetatable(lua_State *lua)
{
    int type = lua_type(lua, 2);
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_argcheck(lua, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
    sandbox_refuse_readonly(lua);
    if (luaL_getmetafield(lua, 1, "__metatable"))
        return luaL_error(lua, "cannot change a protected metatable");
    lua_settop(lua, 2);
    lua_setmetatable(lua, 1);
    return 1;
}

static int checked_getmetatable(lua_State *lua)
{
    luaL_checkany(lua, 1);
    if (push_real(lua, 1)) {
        lua_pushlightuserdata(lua, &map_key);
        lua_rawget(lua, LUA_REGISTRYINDEX);
        bool is_globals = lua_getmetatable(lua, -2);
        if (is_globals)
            lua_rawgeti(lua, -2, 1); /* an empty protected table */
        else
            lua_pushnil(lua);
        return 1;
    }
    if (lua_type(lua, 1) == LUA_TSTRING) {
        lua_pushlightuserdata(lua, &map_key);
        lua_rawget(lua, LUA_REGISTRYINDEX);
        lua_rawgeti(lua, -1, 2); /* { __index = string }, protected */
        return 1;
    }
    if (!lua_getmetatable(lua, 1))
        lua_pushnil(lua);
    else
        luaL_getmetafield(lua, 1, "__metatable");
    return 1;
}

static int checked_rawset(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checkany(lua, 2);
    luaL_checkany(lua, 3);
    sandbox_refuse_readonly(lua);
    lua_settop(lua, 3);
    lua_rawset(lua, 1);
    return 1;
}

static int checked_rawget(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checkany(lua, 2);
    lua_settop(lua, 2);
    if (push_real(lua, 1))
        lua_replace(lua, 1);
    lua_rawget(lua, 1);
    return 1;
}

static int checked_next(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 2);
    if (push_real(lua, 1))
        lua_replace(lua, 1);
    if (lua_next(lua, 1))
        return 2;
    lua_pushnil(lua);
    return 1;
}

static int checked_pairs(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_pushcfunction(lua, checked_next);
    lua_pushvalue(lua, 1);
    lua_pushnil(lua);
    return 3;
}

/* ---- functions that could escape the sandbox or its limits ---- */

/* Redis' pcall gives an error table's text instead of the table. */
static int plain_pcall(lua_State *lua)
{
    int argc = lua_gettop(lua);
    luaL_checkany(lua, 1);
    lua_pushboolean(lua, 1);
    lua_insert(lua, 1);
    if (lua_pcall(lua, argc - 1, LUA_MULTRET, 0)) {
        if (run_is_over(lua))
            return run_break(lua);
        lua_remove(lua, 1);
        if (lua_istable(lua, -1)) {
            lua_pushliteral(lua, "err");
            lua_rawget(lua, -2);
            if (lua_isstring(lua, -1))
                lua_replace(lua, -2);
            else
                lua_pop(lua, 1);
        }
        lua_pushboolean(lua, 0);
        lua_insert(lua, -2);
        return 2;
    }
    return lua_gettop(lua);
}

/* Catches errors as the original does, except the error that ends the run. */
static int let_through(lua_State *lua)
{
    lua_CFunction original = lua_tocfunction(lua, lua_upvalueindex(1));
    int count = original(lua);
    if (!run_is_over(lua))
        return count;
    lua_settop(lua, 0);
    return run_break(lua);
}

/* Error handler of xpcall; the upvalue is the script's handler. */
static int guard_handler(lua_State *lua)
{
    if (run_is_over(lua))
        return 1;
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, 1, 1);
    return 1;
}

static int checked_xpcall(lua_State *lua)
{
    if (lua_isfunction(lua, 2)) {
        lua_pushvalue(lua, 2);
        lua_pushcclosure(lua, guard_handler, 1);
        lua_replace(lua, 2);
    }
    return let_through(lua);
}

/* A script over shards runs on a stack of its own, which is no coroutine of the script's (halt.h). */
static int checked_running(lua_State *lua)
{
    if (halt_is_stack(lua) || lua_pushthread(lua))
        lua_pushnil(lua);
    return 1;
}

static int checked_unpack(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    int64_t from = luaL_optint(lua, 2, 1);
    int64_t to = lua_isnoneornil(lua, 3) ? (int64_t)lua_objlen(lua, 1) : luaL_checkint(lua, 3);
    if (from > to)
        return 0;
    int64_t count = to - from + 1;
    if (count >= INT_MAX || !lua_checkstack(lua, (int)count))
        return luaL_error(lua, "too many results to unpack");
    for (int64_t i = from; i <= to; i++)
        lua_rawgeti(lua, 1, (int)i);
    return (int)count;
}

/* string.rep, bounded by the state's memory limit. Lua's own version loops `count` times even for an empty string. */
static int checked_rep(lua_State *lua)
{
    struct script_vm *vm = vm_of(lua);
    size_t len;
    const char *text = luaL_checklstring(lua, 1, &len);
    lua_Number count = luaL_checknumber(lua, 2);
    vm->scratch.len = 0;
    if (!(count >= 1) || len == 0) {
        lua_pushliteral(lua, "");
        return 1;
    }
    if ((lua_Number)len * count > (lua_Number)vm->max) {
        lua_pushliteral(lua, "not enough memory");
        return lua_error(lua);
    }
    size_t total = len * (size_t)count;
    vm_spend(lua, total);
    char *made = scratch_reserve(lua, total);
    memcpy(made, text, len);
    for (size_t done = len; done < total; done *= 2)
        memcpy(made + done, made, done < total - done ? done : total - done);
    vm->scratch.len = total;
    scratch_push(lua);
    return 1;
}

/* collectgarbage for scripts: replies the memory in use. All other options return what Lua returns and have no effect,
 * because the server controls the collector. */
static int counting_collectgarbage(lua_State *lua)
{
    static const char *const options[] = {"collect", "count",    "step",       "stop",
                                          "restart", "setpause", "setstepmul", NULL};
    enum { COLLECT, COUNT, STEP, STOP, RESTART, SET_PAUSE, SET_STEP_MUL, PERCENT_DEFAULT = 200 };
    int option = luaL_checkoption(lua, 1, "collect", options);
    (void)luaL_optint(lua, 2, 0);
    if (option == COUNT)
        lua_pushnumber(lua, lua_gc(lua, LUA_GCCOUNT, 0) +
                                (lua_Number)lua_gc(lua, LUA_GCCOUNTB, 0) / 1024);
    else if (option == STEP)
        lua_pushboolean(lua, 1);
    else
        lua_pushnumber(lua, option >= SET_PAUSE ? PERCENT_DEFAULT : 0);
    return 1;
}

static int compiled(lua_State *lua, const char *code, size_t len, const char *name)
{
    if (vm_compile(lua, code, len, name) == 0)
        return 1;
    if (run_is_over(lua))
        return run_break(lua);
    lua_pushnil(lua);
    lua_insert(lua, -2);
    return 2;
}

static int text_loadstring(lua_State *lua)
{
    size_t len;
    const char *code = luaL_checklstring(lua, 1, &len);
    return compiled(lua, code, len, luaL_optstring(lua, 2, code));
}

/* Calls the argument, a function that returns pieces of code, and returns the whole code. */
static int collect_pieces(lua_State *lua)
{
    luaL_Buffer buffer;
    luaL_buffinit(lua, &buffer);
    for (;;) {
        vm_spend(lua, CALL_COST);
        lua_pushvalue(lua, 1);
        lua_call(lua, 0, 1);
        if (lua_isnil(lua, -1))
            break;
        if (!lua_isstring(lua, -1))
            return luaL_error(lua, "reader function must return a string");
        if (lua_objlen(lua, -1) == 0)
            break;
        luaL_addvalue(&buffer);
    }
    lua_pop(lua, 1);
    luaL_pushresult(&buffer);
    return 1;
}

/* Collects the pieces first, so that no Lua code runs while the compiler does. */
static int text_load(lua_State *lua)
{
    size_t len;
    const char *name = luaL_optstring(lua, 2, "=(load)");
    luaL_checktype(lua, 1, LUA_TFUNCTION);
    lua_pushcfunction(lua, collect_pieces);
    lua_pushvalue(lua, 1);
    if (lua_pcall(lua, 1, 1, 0)) {
        if (run_is_over(lua))
            return run_break(lua);
        lua_pushnil(lua);
        lua_insert(lua, -2);
        return 2;
    }
    const char *code = lua_tolstring(lua, -1, &len);
    return compiled(lua, code, len, name);
}

static void wrap_function(lua_State *lua, const char *library, const char *name,
                          lua_CFunction function)
{
    lua_getglobal(lua, library);
    lua_getfield(lua, -1, name);
    lua_pushcclosure(lua, function, 1);
    lua_setfield(lua, -2, name);
    lua_pop(lua, 1);
}

/* Makes the tables that getmetatable() returns for the globals and for strings. */
static void make_metatables(lua_State *lua)
{
    lua_pushlightuserdata(lua, &map_key);
    lua_rawget(lua, LUA_REGISTRYINDEX);
    lua_newtable(lua);
    sandbox_protect(lua, false);
    lua_rawseti(lua, -2, 1);
    lua_newtable(lua);
    lua_pushliteral(lua, "");
    lua_getmetatable(lua, -1);
    lua_getglobal(lua, "string");
    sandbox_protect(lua, false);
    lua_pushvalue(lua, -1);
    lua_setglobal(lua, "string");
    lua_pushvalue(lua, -1);
    lua_setfield(lua, -3, "__index");
    lua_setfield(lua, -4, "__index");
    lua_pop(lua, 2);
    sandbox_protect(lua, false);
    lua_rawseti(lua, -2, 2);
    lua_pop(lua, 1);
}

/* os.clock, since Redis 7.4: seconds of processor time that the process has used. */
static int os_clock(lua_State *lua)
{
    lua_pushnumber(lua, (lua_Number)clock() / (lua_Number)CLOCKS_PER_SEC);
    return 1;
}

static void os_install(lua_State *lua)
{
    static const struct luaL_Reg functions[] = {{"clock", os_clock}, {NULL, NULL}};
    luaL_register(lua, "os", functions);
    lua_pop(lua, 1);
}

void sandbox_install(lua_State *lua)
{
    static const struct luaL_Reg functions[] = {
        {"setmetatable", checked_setmetatable},
        {"getmetatable", checked_getmetatable},
        {"rawset", checked_rawset},
        {"rawget", checked_rawget},
        {"next", checked_next},
        {"pairs", checked_pairs},
        {"pcall", plain_pcall},
        {"unpack", checked_unpack},
        {"loadstring", text_loadstring},
        {"load", text_load},
        {"collectgarbage", counting_collectgarbage},
    };
    static const char *const gone[] = {"dofile",  "loadfile", "print",   "require",
                                       "module",  "newproxy", "getfenv", "setfenv",
                                       "package", "debug",    "os",      "io"};
    lua_pushlightuserdata(lua, &map_key);
    lua_newtable(lua);
    lua_rawset(lua, LUA_REGISTRYINDEX);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(lua, functions[i].func);
        lua_setglobal(lua, functions[i].name);
    }
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, gone[i]);
    }
    os_install(lua);
    pattern_install(lua);
    tables_install(lua);
    wrap_function(lua, "string", "rep", checked_rep);
    wrap_function(lua, "coroutine", "resume", let_through);
    wrap_function(lua, "coroutine", "running", checked_running);
    wrap_function(lua, "_G", "xpcall", checked_xpcall);
    make_metatables(lua);
}
