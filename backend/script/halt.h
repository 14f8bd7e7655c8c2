/*
 * halt.h - a script over shards waits in the middle of its code, when a command that it calls needs a key of another shard.
 *
 *   run_script ─► halt_new ─► halt_run ─► its code, on a C stack (fiber.h) and a Lua stack of its own
 *                                              │ redis.call: a key is missing, and the command is rolled back alone
 *                                              ▼
 *                                         halt_here ─► fiber_leave ─► the call ends (call->has_halted), and its attempt is set aside (attempt.h)
 *                                                                        │ others run; the key comes
 *      the command runs again ◄─ fiber_go_on ◄─ halt_run ◄─ halt_go_on ◄─┘
 *
 * So a key that nothing foretold costs a round trip and nothing is repeated but that command. While it waits, no handler is on its stacks: only
 * Lua, and functions of its library. That is why it can halt wherever it may call redis.call: in pcall, coroutines, metamethods, iterators and
 * functions that table.sort or string.gsub call.
 *
 * The stacks of a script that must not go on are dropped, not unwound: functions that call Lua code must own nothing on the heap, but on the
 * Lua stack.
 *
 * A script for which there is no stack any more does not halt: it begins again with the keys that it had.
 *
 *   halt.c       stacks, and where scripts halt
 *   halt_run.c   their code
 */
#pragma once

#include "backend/script/cjson.h"

enum { HALTS_MAX = 512 }; /* in a partition */

struct halt {
    struct list link;     /* in vm->halts */
    struct script_vm *vm; /* NULL: it was freed */
    struct fiber *fiber;
    lua_State *lua; /* its own stack; NULL: it has not begun */
    int lua_ref;
    int keys_ref, argv_ref; /* KEYS and ARGV of a script; of a function: LUA_NOREF */
    int argc;
    int err;       /* its code has ended with this status of Lua, and the result is on its stack */
    bool stands;   /* between halt_here and the return from there */
    bool is_again; /* at the same command as last time */
    bool has_left; /* it has halted before */
    bool is_dropped;
    struct script_run run;
    struct cjson_settings cjson;
    char name[]; /* a copy: the function may be deleted */
};

/* Gives the run stacks of its own, if there are any. Returns the run from now on: that of its halt, or the same. */
struct script_run *halt_new(struct script_run *run);
/* The run has ended, and is not valid any more. */
void halt_end(struct script_run *run);
/* lua_CFunction, on the state's main stack: begins the code, or goes on with it, until it ends or halts. */
int halt_run(lua_State *lua);
/* The command that the script calls must wait: may the script halt there? */
bool halt_may(const struct script_run *run);
/* For redis.call and redis.pcall: the script halts. Returns when its command may run again. */
void halt_here(struct script_run *run, bool is_again);
/* Has the script halted? */
bool halt_stands(const struct script_run *run);
/* Has it ever? */
bool halt_has_left(const struct script_run *run);
/* The call ends, and the script goes on later. */
void halt_leave(struct script_run *run);
/* Does this stack belong to a run, so that the script must not see it as a coroutine? */
bool halt_is_stack(lua_State *lua);

/* ---- struct script_hooks ---- */

/* Runs the script of the call's attempt, which has halted, until it ends or halts again. */
void halt_go_on(struct call *call);
/* NULL: EXEC has halted between two commands. */
bool halt_may_go_on(const struct halt *halt);
/* NULL is allowed. */
void halt_drop(struct halt *halt);

/* ---- for vm.c and script_set.c ---- */

/* The state is freed: scripts that wait cannot go on. */
void halts_forget(struct script_vm *vm);
/* No script runs in the state: frees the stacks of those that were dropped. */
void halts_sweep(struct script_vm *vm);
/* All states are freed. */
void halt_fibers_free(struct halt_fibers *fibers);
