/*
 * run.c - runs a script or a function: pushes arguments, and converts the reply. The hook: run_check.c.
 *
 *   run_script ─► protected: KEYS, ARGV, pcall ─┬─► convert_to_reply
 *                     ▲                         └─► error, with the place it came from
 *                     ├─ every 1000 instructions run_hook: over busy-reply-threshold? then serve others; killed?
 *                     └─ a command needs a row from the disk: run_break, and the run is rolled back (suspend.h)
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/space.h"
#include "backend/script/halt.h"
#include "backend/session/attempt.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <stdlib.h>

enum { MS_MAX = INT32_MAX }; /* a longer busy-reply-threshold means: never slow */

static void push_list(lua_State *lua, const struct bytes *items, uint32_t count)
{
    lua_createtable(lua, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        lua_pushlstring(lua, items[i].data, items[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
}

int run_push_function(lua_State *lua, const struct run_start *start)
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

/* Text of the error value at the top of the stack. */
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

/* Is the error value at the top of the stack a command's error reply, which errorstats already counted? */
static bool is_error_counted(lua_State *lua)
{
    if (!lua_istable(lua, -1))
        return false;
    lua_pushliteral(lua, "ignore_error_stats_update");
    lua_rawget(lua, -2);
    bool is = lua_toboolean(lua, -1);
    lua_pop(lua, 1);
    return is;
}

void run_reply_error(lua_State *lua, struct script_run *run)
{
    if (is_error_counted(lua))
        call_error_again(run->call, describe_error(lua, run));
    else
        call_error_text(run->call, describe_error(lua, run));
}

/* An error when the reply is longer than reply-limit. */
void run_reply_result(lua_State *lua, struct script_run *run)
{
    struct call *call = run->call;
    convert_to_reply(lua, run);
    if (!convert_is_too_long(run))
        return;
    out_limit(call->reply.out,
              call->reply.out->limit); /* back to the limit of the output before this reply */
    call_error(call, ERR_SCRIPT_REPLY_LIMIT);
}

static int run_protected(lua_State *lua)
{
    const struct run_start *start = lua_touserdata(lua, 1);
    struct script_run *run = start->run;
    lua_settop(lua, 0);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, run->vm->handler_ref);
    int argc = run_push_function(lua, start);
    if (lua_pcall(lua, argc, 1, 1))
        run_reply_error(lua, run);
    else
        run_reply_result(lua, run);
    return 0;
}

/* It begins, or goes on. */
static void begin_part(struct script_run *run)
{
    struct partition *partition = run->call->partition;
    uint64_t slow_ms = (uint64_t)partition->snapshot->busy_reply_ms;
    run->started_us = clock_mono_us();
    run->slow_us = slow_ms < MS_MAX ? run->started_us + slow_ms * 1000 : UINT64_MAX;
    if (partition->running.was_slow)
        run->slow_us = run->started_us; /* others get BUSY at once */
    run->is_slow = run->is_retried = false;
    run->messages = partition->watchers.messages->count;
    if (run->call->borrow)
        run->call->borrow->script = run->call;
    if (halt_has_left(run) && run->call->in_exec)
        overlay_script_go_on(partition->overlay);
    else
        overlay_script_begin(partition->overlay);
    space_script_begin(partition->spaces);
    run->vm->scripts->set->running = run;
    partition->running.busy_error = scripts_busy_text(run->vm->scripts->set);
}

/* Returns the run from now on. */
static struct script_run *begin_run(struct script_run *run)
{
    run->resp = 2;
    run->slot = cluster_slot(run->call);
    if (run->call->may_halt)
        run = halt_new(run);
    begin_part(run);
    return run;
}

static void end_part(struct script_run *run, bool is_good)
{
    struct partition *partition = run->call->partition;
    run->vm->scripts->set->running = NULL;
    partition->running.busy_error = NULL;
    if (run->call->borrow)
        run->call->borrow->script = NULL;
    overlay_script_end(partition->overlay, is_good);
    space_script_end(partition->spaces, is_good);
}

/* The script was ended early (script_end). */
static void undo_run(struct script_run *run)
{
    struct call *call = run->call;
    push_messages_roll_back(call->partition->watchers.messages, run->messages);
    if (halt_has_left(run) && call->in_exec)
        attempt_forget_script(call);
    else if (halt_has_left(run))
        attempt_forget_effects(call);
    log_event(LOG_WARN, "script_ended", "name=%s ms=%llu wrote=%s reason=\"%s\"", run->name,
              (unsigned long long)((clock_mono_us() - run->started_us) / 1000),
              run->wrote ? "yes" : "no", run_end_text(run));
    if (!call->failed)
        call_error_text(call, run_end_text(run));
    if (run->end == SCRIPT_STOPPED)
        session_end(call->session); /* no further requests of this client are run */
}

/* Keeps the effects of the script's commands, even if its code failed. */
static void keep_or_roll_back(struct script_run *run)
{
    bool is_good = run->end == SCRIPT_GOES_ON;
    end_part(run, is_good);
    if (!is_good)
        undo_run(run);
}

bool script_may_begin(struct call *call, uint32_t flags)
{
    if (!(flags & SCRIPT_NO_CLUSTER) || !cluster_client(call->session))
        return true;
    call_error_text(call, "ERR Can not run script on cluster, 'no-cluster' flag is set.");
    return false;
}

/* Not of one that has halted: it goes on in the database that it has selected (attempt.h). */
static void restore_database(const struct script_run *run)
{
    struct session *session = run->call->session;
    if (session->scope.db != run->db)
        session_select(session, run->db);
}

/* Runs the code until it ends or halts. */
static void run_part(const struct run_start *start)
{
    char error[256];
    struct script_run *run = start->run;
    struct script_vm *vm = run->vm;
    struct scripts *scripts = vm->scripts;
    bool is_done =
        vm_protect(vm, run->halt ? halt_run : run_protected, (void *)start, error, sizeof error);
    if (!is_done)
        call_error_text(run->call, run->end == SCRIPT_GOES_ON ? error : run_end_text(run));
    lua_settop(vm->lua, 0);
    scratch_trim(vm);
    if (is_done && halt_stands(run)) {
        end_part(run, true);
        halt_leave(run);
    } else {
        keep_or_roll_back(run);
        restore_database(run);
        if (run->halt)
            halt_end(run);
    }
    halts_sweep(vm);
    scripts_make_room(scripts, vm->kind);
    out_clear(&scripts->set->reply);
}

void run_go_on(struct script_run *run)
{
    begin_part(run);
    if (!run->call->in_exec)
        attempt_go_on(run->call);
    run_part(&(struct run_start){.run = run});
}

void run_script(const struct run_start *start)
{
    struct script_run *run = start->run;
    struct session *session = run->call->session;
    run->db = session->scope.db;
    if (call_retries(run->call)) { /* its EXEC is rolled back */
        run->call->failed = true;
        return;
    }
    if (run->call->borrow)
        borrow_note_words(run->call->borrow, run->call->argv + 3 + start->keys,
                          run->call->argc - 3 - start->keys);
    cjson_reset(run->vm);
    struct run_start begun = *start;
    begun.run = begin_run(run);
    run_part(&begun);
}
