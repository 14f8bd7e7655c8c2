/*
 * vm.h - shared by the files of script/: a Lua state, its sandbox, and the conversion of values.
 *
 *   globals ─► proxy (empty) ─__index─► real globals ─__index─► "nonexistent global variable"
 *                  └─__newindex─► "Attempt to modify a readonly table"
 *
 * Lua 5.1 has no readonly tables: a table that a script may not change is visible to it only through an empty proxy. The
 * functions that ignore metatables (rawget, rawset, next, pairs, setmetatable, table.insert …) are
 * replaced by functions that handle proxies.
 */
#pragma once

#include "backend/context/partition.h"
#include "backend/script/script.h"
#include "shared/list.h"
#include "shared/out.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

struct call_budget;
struct cjson_settings;
struct fiber;

struct script_vm {
    lua_State *lua;
    struct list halts; /* scripts with a stack of their own (halt.h) */
    struct scripts *scripts;
    size_t used;
    size_t max;
    enum script_kind kind;
    int handler_ref;         /* the error handler */
    int globals_ref;         /* real globals */
    int proxy_ref;           /* proxy of the globals, for scripts */
    int loading_ref;         /* for functions: globals while a library is loaded */
    int scripts_ref;         /* for scripts: SHA-1 → {function, flags} */
    struct library *loading; /* library to which register_function adds */
    uint64_t load_until_us;  /* CPU time of the thread; 0: no limit. vm_load_begin sets it */
    struct call_budget *load_budget; /* of the call that loads or compiles; NULL: none */
    size_t spent;                    /* work since the clock was last read; see vm_spend */
    struct cjson_settings *cjson;    /* settings of the module that all scripts use */
    struct {
        char *data;
        size_t len;
        size_t cap;
    } scratch; /* buffer of library functions that build text; counts in `used` */
};

/* Work between two reads of the clock, about a millisecond: the unit is about 10 ns. */
enum { WORK_SLICE = 100000 };

/* The scripts and functions of a namespace. */
struct scripts {
    struct script_set *set;
    struct script_vm *states[SCRIPT_KINDS]; /* NULL: not created, or freed */
    struct script_chance chance;            /* of math.random */
    size_t cached;                          /* scripts */
    size_t cached_bytes;                    /* of their texts */
    struct library *libraries;
    struct table *libraries_by_name;
    struct table *functions_by_name; /* of all libraries; names in lower case */
    bool is_loaded;                  /* `libraries` equals the rows on disk */
    uint32_t rows_done;              /* rows that are loaded, or cannot be */
};

/* At most this many lines of redis.log are written per second; the others are only counted. A line has 4 KB at most
 * (log.c). */
enum { LOG_LINES_PER_SECOND = 100 };
struct script_log {
    uint64_t second_ms; /* monotonic: start of the current second */
    uint32_t lines;     /* written in this second */
    uint64_t dropped;   /* not reported yet */
};

/* C stacks of scripts over shards (halt.h). */
enum { HALT_SPARES = 8 };
struct halt_fibers {
    struct fiber *spare[HALT_SPARES];
    uint32_t spares;
    uint32_t used;
};

/* All namespaces of a partition: script_set.c. */
struct script_set {
    struct partition *partition;
    struct table *names; /* namespace → struct scripts */
    size_t max;          /* bytes of one state, and of all states of a kind between runs */
    size_t used[SCRIPT_KINDS];
    struct script_run *running;
    struct out reply; /* reply of the command that a script called */
    struct script_log log;
    struct halt_fibers fibers;
};

/* script_hooks.c */
extern const struct script_hooks script_hooks;
/* vm_new.c */
struct script_vm *vm_new(struct scripts *scripts, size_t max, enum script_kind kind);
void vm_free(struct script_vm *vm);
struct script_vm *vm_of(lua_State *lua);
/* The state of this kind; creates it if there is none. */
struct script_vm *scripts_state(struct scripts *scripts, enum script_kind kind);
/* Frees states of other namespaces while all states of this kind together take more than script-memory-limit. */
void scripts_make_room(struct scripts *scripts, enum script_kind kind);
/* lua_Alloc */
void *vm_allocate(void *owner, void *data, size_t old, size_t size);
/* Adds memory outside of Lua to the state's count, which is limited. */
void vm_count(struct script_vm *vm, ptrdiff_t bytes);
/* As luaL_loadbuffer, but refuses bytecode. */
int vm_compile(lua_State *lua, const char *code, size_t len, const char *name);
/* Returns memory for `more` bytes after scratch.len. Raises an error when memory is exhausted. */
char *scratch_reserve(lua_State *lua, size_t more);
/* Pushes the text in the scratch, and empties it. */
void scratch_push(lua_State *lua);
/* Empties the scratch, and frees its memory if it is large. */
void scratch_trim(struct script_vm *vm);
/* Runs `work` protected; false: it ran out of memory or failed, the message is in error[size]. */
bool vm_protect(struct script_vm *vm, lua_CFunction work, void *data, char *error, size_t size);
/* Replaces the table at the top of the stack by its proxy. */
void sandbox_protect(lua_State *lua, bool is_globals);
/* Replaces the functions that could bypass the proxies; creates the map of proxies. */
void sandbox_install(lua_State *lua);
/* Is the value a proxy? */
bool sandbox_is_readonly(lua_State *lua, int index);
/* Raises an error when argument 1 is a proxy. */
void sandbox_refuse_readonly(lua_State *lua);
/* Replace functions of the modules string and table. */
void pattern_install(lua_State *lua);
void tables_install(lua_State *lua);
/* Puts the functions of `redis` into the table at the top. */
void api_install(struct script_vm *vm);
/* Adds the part of the API that scripts of EVAL have and functions do not. */
void api_install_eval(lua_State *lua);
/* Switches between the globals of running functions and those of a library that is being loaded. */
void vm_show_globals(struct script_vm *vm, bool is_loading);
void math_install(lua_State *lua);
int luaopen_bit(lua_State *lua);
int luaopen_cjson(lua_State *lua);
/* Sets vm->cjson to the module's settings; cjson_reset sets these to the defaults. */
void cjson_install(struct script_vm *vm);
void cjson_reset(struct script_vm *vm);
int luaopen_cmsgpack(lua_State *lua);
int luaopen_struct(lua_State *lua);
/* Converts a RESP reply to a Lua value and pushes it. */
void convert_to_lua(lua_State *lua, struct bytes frame);
/* Replies the value at the top and pops it. The reply is incomplete when it is too long. */
void convert_to_reply(lua_State *lua, struct script_run *run);
bool convert_is_too_long(const struct script_run *run);
/* Pushes {err = text}, as redis.pcall returns it; a text without an error code gets ERR. */
void convert_push_error(lua_State *lua, const char *text, size_t len);
/* Arguments of the protected part of a run. */
struct run_start {
    struct script_run *run;
    int function_ref; /* LUA_NOREF: the cached script run->name */
    uint32_t keys;
};
/* May a script with these flags run for this client? False: the error was replied. */
bool script_may_begin(struct call *call, uint32_t flags);
/* Runs the script or function and replies its result. */
void run_script(const struct run_start *start);
/* Goes on with a run that has halted. */
void run_go_on(struct script_run *run);
/* Pushes the function and its arguments; returns the number of arguments. */
int run_push_function(lua_State *lua, const struct run_start *start);
/* Reply the result, or the error, at the top. */
void run_reply_result(lua_State *lua, struct script_run *run);
void run_reply_error(lua_State *lua, struct script_run *run);
/* Code that runs from now on, to compile a script or to load a library, may use so much CPU time, and no more than the running call may
 * use (budget.h). While the call is slow, others are served. */
void vm_load_begin(struct script_vm *vm, uint64_t limit_us);
void vm_load_end(struct script_vm *vm);
/* Restores the hook of the state, which the end of a too slow library load has replaced. */
void vm_hook(struct script_vm *vm);
/* lua_Hook */
void run_hook(lua_State *lua, lua_Debug *debug);
/* Reads the clock, and runs the event loop for other sessions if the script is slow: no command of the script may be
 * running. Raises an error when the script has to end, or the time for loading is over. */
void run_check(lua_State *lua);

/* Counts work inside a library function, where Lua does not call the hook. Calls run_check about each millisecond. */
static inline void vm_spend(lua_State *lua, size_t work)
{
    struct script_vm *vm = vm_of(lua);
    vm->spent += work;
    if (vm->spent >= WORK_SLICE)
        run_check(lua);
}

/* Must the script end, or be rolled back? Then none of its Lua code may run any more. */
bool run_is_over(lua_State *lua);
/* The error that a script which was ended early replies. */
const char *run_end_text(const struct script_run *run);
/* Raises the error that ends the run; pcall and xpcall raise it again (sandbox.c). */
int run_break(lua_State *lua);
int function_register(lua_State *lua);
