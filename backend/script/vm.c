/*
 * vm.c - Lua states with a memory limit, and the compilation of scripts.
 */
#include "backend/script/vm.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/script/script.h"
#include "shared/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HOOK_INSTRUCTIONS = 1000,     /* few, because each instruction may copy a long string */
    CODE_MAX = 512 * 1024 * 1024, /* Lua's compiler counts in int */
    CODE_PIECE = 1024,
    SCRATCH_MIN = 1024,
    SCRATCH_KEPT = 64 * 1024,
};

const char *const script_flag_names[SCRIPT_FLAGS_COUNT] = {"no-writes", "allow-oom", "allow-stale",
                                                           "no-cluster", "allow-cross-slot-keys"};

void vm_count(struct script_vm *vm, ptrdiff_t bytes)
{
    vm->used += (size_t)bytes;
    vm->scripts->set->used[vm->kind] += (size_t)bytes;
}

/* lua_Alloc */
static void *allocate(void *owner, void *data, size_t old, size_t size)
{
    struct script_vm *vm = owner;
    if (size == 0) {
        free(data);
        vm_count(vm, -(ptrdiff_t)old);
        return NULL;
    }
    if (size > old && vm->used + (size - old) > vm->max)
        return NULL;
    void *moved = realloc(data, size);
    if (!moved)
        return NULL;
    vm_count(vm, (ptrdiff_t)(size - old));
    return moved;
}

struct script_vm *vm_of(lua_State *lua)
{
    void *owner;
    (void)lua_getallocf(lua, &owner);
    return owner;
}

/* lua_Reader. Passes the code in pieces and checks the time limit between them, because compiling may take long too:
 * the time for "return a and a and a …" is quadratic. */
static const char *read_code_piece(lua_State *lua, void *data, size_t *size)
{
    struct bytes *rest = data;
    const char *piece = rest->data;
    *size = rest->len < CODE_PIECE ? rest->len : CODE_PIECE;
    rest->data += *size;
    rest->len -= *size;
    run_check(lua);
    return *size ? piece : NULL;
}

int vm_compile(lua_State *lua, const char *code, size_t len, const char *name)
{
    struct bytes rest = {code, len};
    if (len && *code == LUA_SIGNATURE[0]) {
        lua_pushliteral(lua, "bytecode is not allowed");
        return LUA_ERRSYNTAX;
    }
    if (len > CODE_MAX) {
        lua_pushliteral(lua, "the code is longer than 512 MB");
        return LUA_ERRSYNTAX;
    }
    lua_gc(lua, LUA_GCSTOP, 0); /* strings of the compiler are referenced only by its C stack */
    int err = lua_load(lua, read_code_piece, &rest, name);
    lua_gc(lua, LUA_GCRESTART, 0);
    if (err && lua_istable(lua, -1)) { /* read_code_piece raised the error */
        lua_getfield(lua, -1, "err");
        lua_replace(lua, -2);
    }
    return err;
}

/* ---- scratch buffer and Lua states ---- */

char *scratch_reserve(lua_State *lua, size_t more)
{
    struct script_vm *vm = vm_of(lua);
    size_t cap = vm->scratch.cap ? vm->scratch.cap : SCRATCH_MIN;
    if (vm->scratch.cap - vm->scratch.len < more) {
        while (cap - vm->scratch.len < more && cap <= vm->max)
            cap *= 2;
        char *data = cap <= vm->max ? allocate(vm, vm->scratch.data, vm->scratch.cap, cap) : NULL;
        if (!data) {
            lua_pushliteral(lua, "not enough memory");
            (void)lua_error(lua);
        }
        vm->scratch.data = data;
        vm->scratch.cap = cap;
    }
    return vm->scratch.data + vm->scratch.len;
}

void scratch_push(lua_State *lua)
{
    struct script_vm *vm = vm_of(lua);
    lua_pushlstring(lua, vm->scratch.data ? vm->scratch.data : "", vm->scratch.len);
    scratch_trim(vm);
}

void scratch_trim(struct script_vm *vm)
{
    vm->scratch.len = 0;
    if (vm->scratch.cap <= SCRATCH_KEPT)
        return;
    vm->scratch.data = allocate(vm, vm->scratch.data, vm->scratch.cap, 0);
    vm->scratch.cap = 0;
}

bool vm_protect(struct script_vm *vm, lua_CFunction work, void *data, char *error, size_t size)
{
    int err = lua_cpcall(vm->lua, work, data);
    if (err) {
        const char *text = lua_type(vm->lua, -1) == LUA_TSTRING ? lua_tostring(vm->lua, -1) : NULL;
        (void)snprintf(error, size, "ERR %s", text ? text : "the script failed");
        lua_settop(vm->lua, 0);
    }
    if (err == LUA_ERRMEM || vm->used > vm->max / 2)
        lua_gc(vm->lua, LUA_GCCOLLECT, 0);
    return err == 0;
}

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
    static const char *const names[] = {"redis", "table", "math",     "coroutine",
                                        "cjson", "bit",   "cmsgpack", "struct"};
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

void vm_show_globals(struct script_vm *vm, bool is_loading)
{
    lua_State *lua = vm->lua;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm->proxy_ref);
    lua_getmetatable(lua, -1);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, is_loading ? vm->loading_ref : vm->globals_ref);
    lua_setfield(lua, -2, "__index");
    lua_pop(lua, 2);
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

void vm_hook(struct script_vm *vm)
{
    lua_sethook(vm->lua, run_hook, LUA_MASKCOUNT,
                HOOK_INSTRUCTIONS); /* coroutines inherit the hook */
}

struct script_vm *vm_new(struct scripts *scripts, size_t max, enum script_kind kind)
{
    char error[128];
    struct script_vm *vm = calloc(1, sizeof *vm);
    CHECK(vm);
    vm->scripts = scripts;
    vm->max = max;
    vm->kind = kind;
    vm->lua = lua_newstate(allocate, vm);
    CHECK(vm->lua);
    vm_hook(vm);
    bool built = vm_protect(vm, build_state, NULL, error, sizeof error);
    CHECK(built);
    return vm;
}

void vm_free(struct script_vm *vm)
{
    lua_close(vm->lua);
    vm_count(vm, -(ptrdiff_t)vm->scratch.cap);
    free(vm->scratch.data);
    free(vm);
}
