/*
 * run.c - one run of a script or a function: arguments in, reply out, and the hook that watches the time.
 *
 *   run_script ─► protected: KEYS, ARGV, pcall ─┬─► convert_to_reply
 *                     ▲                         └─► error, with the place it came from
 *                     ├─ every 1000 instructions run_hook: over the threshold? poll, BUSY, killed?
 *                     └─ a command needs a row from the disk: run_break, and the run is taken back (cold.h)
 */
#include "backend/cold.h"
#include "backend/partition.h"
#include "backend/script/vm.h"
#include "backend/session.h"
#include "backend/settings.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <stdlib.h>

enum { POLL_US = 1000 };

/* ---- the hook ---- */

/* Lets other connections speak. What the loop and other sessions use of the partition is put aside. */
static void poll_others(struct script_run *run)
{
    struct partition *partition = run->call->partition;
    struct stream *stream = run->call->session->stream;
    struct bytes *argv = partition->argv;
    uint32_t argv_cap = partition->argv_cap;
    uint64_t started_us = partition->started_us;
    bool was_paused = stream_is_paused(stream);
    partition->argv = NULL;
    partition->argv_cap = 0;
    stream_pause(stream);
    loop_poll(partition->loop);
    if (!was_paused && !run->call->session->is_closing)
        stream_resume(stream);
    free(partition->argv);
    partition->argv = argv;
    partition->argv_cap = argv_cap;
    partition->started_us = started_us;
}

bool run_is_over(lua_State *lua)
{
    const struct script_run *run = vm_of(lua)->scripts->set->running;
    return run && (run->is_killed || run->is_cold);
}

int run_break(lua_State *lua)
{
    const struct script_run *run = vm_of(lua)->scripts->set->running;
    const char *text = run->is_function
                           ? "ERR Script killed by user with FUNCTION KILL."
                           : "ERR Error running script: Script killed by user with SCRIPT KILL.";
    if (run->is_killed)
        convert_push_error(lua, text, strlen(text));
    else
        lua_pushboolean(lua, 1);
    return lua_error(lua);
}

static void check_run(lua_State *lua, struct script_run *run)
{
    uint64_t limit_ms =
        (uint64_t)settings_number(run->call->partition->settings, "busy-reply-threshold");
    uint64_t now_us = clock_mono_us();
    if (now_us - run->started_us < limit_ms * 1000 || now_us < run->polled_us + POLL_US)
        return;
    if (!run->is_slow)
        log_event(LOG_WARN, "script_slow", "name=%s ms=%llu", run->name,
                  (unsigned long long)limit_ms);
    run->is_slow = true;
    cold_settle(run->call); /* others see that it runs */
    poll_others(run);
    run->polled_us = clock_mono_us();
    if (run->is_killed)
        (void)run_break(lua);
}

void run_check(lua_State *lua)
{
    struct script_vm *vm = vm_of(lua);
    vm->spent = 0;
    if (vm->scripts->set->running)
        check_run(lua, vm->scripts->set->running);
    else if (vm->load_until_us && clock_mono_us() > vm->load_until_us) {
        const char *text =
            vm->loading ? "ERR FUNCTION LOAD timeout" : "ERR compiling took too long";
        lua_sethook(lua, run_hook, LUA_MASKLINE, 0);
        convert_push_error(lua, text, strlen(text));
        lua_error(lua);
    }
}

void run_hook(lua_State *lua, lua_Debug *debug)
{
    (void)debug;
    run_check(lua);
}

/* ---- a run ---- */

static void push_list(lua_State *lua, const struct bytes *items, uint32_t count)
{
    lua_createtable(lua, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        lua_pushlstring(lua, items[i].data, items[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
}

/* Pushes the function with its arguments; returns how many. */
static int push_function(lua_State *lua, const struct run_start *start)
{
    const struct call *call = start->run->call;
    const struct bytes *items = call->argv + 3;
    if (start->function_ref != LUA_NOREF) {
        lua_rawgeti(lua, LUA_REGISTRYINDEX, start->function_ref);
        push_list(lua, items, start->keys);
        push_list(lua, items + start->keys, call->argc - 3 - start->keys);
        return 2;
    }
    lua_rawgeti(lua, LUA_REGISTRYINDEX, start->run->vm->globals_ref);
    push_list(lua, items, start->keys);
    lua_setfield(lua, -2, "KEYS");
    push_list(lua, items + start->keys, call->argc - 3 - start->keys);
    lua_setfield(lua, -2, "ARGV");
    lua_pop(lua, 1);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, start->run->vm->scripts_ref);
    lua_getfield(lua, -1, start->run->name);
    lua_rawgeti(lua, -1, 1);
    lua_replace(lua, -3);
    lua_pop(lua, 1);
    return 0;
}

/* The error value at the top as text. */
static const char *describe_error(lua_State *lua, const struct script_run *run)
{
    if (!lua_istable(lua, -1)) {
        const char *text = lua_tostring(lua, -1);
        return lua_pushfstring(lua, "ERR %s", text ? text : "unknown error");
    }
    lua_pushliteral(lua, "err");
    lua_rawget(lua, -2);
    const char *text =
        lua_type(lua, -1) == LUA_TSTRING ? lua_tostring(lua, -1) : "ERR unknown error";
    lua_pushliteral(lua, "source");
    lua_rawget(lua, -3);
    const char *source = lua_tostring(lua, -1);
    lua_pushliteral(lua, "line");
    lua_rawget(lua, -4);
    const char *line = lua_tostring(lua, -1);
    if (!source || !line)
        return text;
    return lua_pushfstring(lua, "%s script: %s, on %s:%s.", text, run->name, source, line);
}

/* Effects of the commands it called stay, whatever comes of the script. */
static void keep_effects(struct call *call)
{
    overlay_savepoint(call->partition->overlay);
    space_savepoint(call->partition->spaces);
}

/* The value at the top, or why it is none. */
static void reply_value(lua_State *lua, struct script_run *run)
{
    struct call *call = run->call;
    convert_to_reply(lua, run);
    if (!convert_is_too_long(run))
        return;
    out_limit(call->reply.out, call->reply.out->limit); /* not over any more: the error counts */
    call_error(call, ERR_SCRIPT_REPLY_LIMIT);
}

static int run_protected(lua_State *lua)
{
    const struct run_start *start = lua_touserdata(lua, 1);
    struct script_run *run = start->run;
    lua_settop(lua, 0);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, run->vm->handler_ref);
    int argc = push_function(lua, start);
    int err = lua_pcall(lua, argc, 1, 1);
    keep_effects(run->call);
    if (err)
        call_error_text(run->call, describe_error(lua, run));
    else
        reply_value(lua, run);
    return 0;
}

void run_script(const struct run_start *start)
{
    char error[256];
    struct script_run *run = start->run;
    struct script_vm *vm = run->vm;
    struct session *session = run->call->session;
    uint8_t db = session->db;
    if (overlay_is_cold(run->call->partition->overlay)) { /* its EXEC is taken back */
        run->call->failed = true;
        return;
    }
    cjson_reset(vm);
    run->resp = 2;
    run->started_us = clock_mono_us();
    vm->scripts->set->running = run;
    if (!vm_protect(vm, run_protected, (void *)start, error, sizeof error)) {
        keep_effects(run->call);
        call_error_text(run->call, error);
    }
    vm->scripts->set->running = NULL;
    lua_settop(vm->lua, 0);
    scratch_trim(vm);
    scripts_make_room(vm->scripts, vm->kind);
    out_clear(&vm->scripts->set->reply);
    if (session->db != db)
        session_select(session, db);
}
