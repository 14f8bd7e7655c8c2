/*
 * halt.h - a script over shards waits in the middle of its code, when a command that it calls needs a key of another shard.
 *
 *   run_script ─► halt_new ─► halt_run ─► its code, on a Lua stack of its own (a coroutine)
 *                                              │ redis.call: a key is missing, and the command is rolled back alone
 *                                              ▼
 *                                         halt_here ─► lua_yield ─► the call ends (call->has_halted), and its attempt is set aside (attempt.h)
 *                                                                        │ others run; the key comes
 *      the command runs again ◄─ halt_run ◄─ halt_go_on ◄────────────────┘
 *        └─► its reply ─► lua_resume: redis.call returns it, and the code goes on
 *
 * So a key that nothing foretold costs a round trip and nothing is repeated but that command. While it waits, no handler is on the stack: only
 * what the script itself has on its Lua stack is kept.
 *
 * Lua 5.1 cannot yield where a function in C has called the code: inside pcall, xpcall, a callback of gsub or sort, a metamethod or an
 * iterator. Nor may a coroutine that the script has made yield, because its resume would return. Then lua_yield raises an error,
 * which ends the run like any other retry (run_break), and the script begins again with the keys that it had. So does one that uses all keys
 * of a database (borrow_all.h), because its counters would be wrong in between.
 *
 * Since no pcall is around a command at which a script halts, an error of this command always ends the script: it need not be raised on
 * the script's stack.
 *
 *   halt.c       stacks, and where scripts halt
 *   halt_run.c   their code
 */
#pragma once

#include "backend/script/cjson.h"

struct halt {
    struct list link;     /* in vm->halts */
    struct script_vm *vm; /* NULL: it was freed */
    lua_State *lua;       /* its own stack; NULL: it has not begun */
    int lua_ref;
    int keys_ref, argv_ref; /* KEYS and ARGV of a script; of a function: LUA_NOREF */
    bool stands;
    bool is_again; /* at the same command as last time */
    bool raises;   /* it was called by redis.call */
    bool is_dropped;
    struct arguments at; /* the command; on its stack */
    struct script_run run;
    struct script_chance chance; /* while it stands */
    struct cjson_settings cjson;
    char name[]; /* a copy: the function may be deleted */
};

/* The run gets a Lua stack of its own. */
void halt_new(struct script_run *run);
/* The run has ended. */
void halt_end(struct script_run *run);
/* lua_CFunction, on the state's main stack: begins the code, or goes on with it, until it ends or halts. */
int halt_run(lua_State *lua);
/* The command that the script calls must wait: may the script halt there? */
bool halt_may(const struct script_run *run, const lua_State *lua);
/* For redis.call (raises) and redis.pcall: halts at this command, whose words are on the stack. */
int halt_here(lua_State *lua, struct script_run *run, const struct arguments *arguments,
              bool raises);
/* Has the script halted? */
bool halt_stands(const struct script_run *run);
/* The call ends, and the script goes on later. */
void halt_leave(struct script_run *run);
/* Does this stack belong to a run, so that the script must not see it as a coroutine? */
bool halt_is_stack(lua_State *lua);

/* ---- struct script_hooks ---- */

/* Runs the script of the call's attempt, which has halted, until it ends or halts again. */
void halt_go_on(struct call *call);
bool halt_may_go_on(const struct halt *halt);
/* NULL is allowed. */
void halt_drop(struct halt *halt);

/* ---- for vm.c ---- */

/* The state is freed: scripts that wait cannot go on. */
void halts_forget(struct script_vm *vm);
/* No script runs in the state: frees the stacks of those that were dropped. */
void halts_sweep(struct script_vm *vm);
