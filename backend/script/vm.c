/*
 * vm.c - Lua states with a memory limit, and the compilation of scripts. A new state: vm_new.c.
 */
#include "backend/script/vm.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/script/halt.h"
#include "backend/script/script.h"
#include "shared/check.h"
#include "shared/clock.h"

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

void vm_count(struct script_vm *vm, ptrdiff_t bytes)
{
    vm->used += (size_t)bytes;
    vm->scripts->set->used[vm->kind] += (size_t)bytes;
}

void *vm_allocate(void *owner, void *data, size_t old, size_t size)
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
        char *data =
            cap <= vm->max ? vm_allocate(vm, vm->scratch.data, vm->scratch.cap, cap) : NULL;
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
    vm->scratch.data = vm_allocate(vm, vm->scratch.data, vm->scratch.cap, 0);
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

void vm_show_globals(struct script_vm *vm, bool is_loading)
{
    lua_State *lua = vm->lua;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm->proxy_ref);
    lua_getmetatable(lua, -1);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, is_loading ? vm->loading_ref : vm->globals_ref);
    lua_setfield(lua, -2, "__index");
    lua_pop(lua, 2);
}

void vm_load_begin(struct script_vm *vm, uint64_t limit_us)
{
    vm->load_until_us = clock_thread_us() + limit_us;
    vm->load_budget = &vm->scripts->set->partition->running.budget;
}

void vm_load_end(struct script_vm *vm)
{
    vm->load_until_us = 0;
    vm->load_budget = NULL;
    vm_hook(vm);
}

void vm_hook(struct script_vm *vm)
{
    lua_sethook(vm->lua, run_hook, LUA_MASKCOUNT,
                HOOK_INSTRUCTIONS); /* coroutines inherit the hook */
}

void vm_free(struct script_vm *vm)
{
    halts_forget(vm);
    lua_close(vm->lua);
    vm_count(vm, -(ptrdiff_t)vm->scratch.cap);
    free(vm->scratch.data);
    free(vm);
}
