/*
 * run_check.c - is a running script over a limit, killed, or to be rolled back? And what a slow script does for others.
 *
 *   every 1000 instructions, or a millisecond of work in a library (vm_spend) ─► run_check
 *        ├─ over busy-reply-threshold: other sessions are served, one of which may kill the script
 *        └─ it must end: run_break raises an error that the script cannot catch
 */
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/slow_call.h"
#include "backend/dispatch/suspend.h"
#include "backend/script/vm.h"
#include "shared/clock.h"
#include "shared/log.h"

enum {
    POLL_US = 1000,
    STOP_GRACE_MS = 1000,
    SHORT_US = 1000 /* so long a run is not measured: the thread's CPU time is a system call */
};

bool run_is_over(lua_State *lua)
{
    const struct script_run *run = vm_of(lua)->scripts->set->running;
    return run && (run->end != SCRIPT_GOES_ON || run->is_retried);
}

const char *run_end_text(const struct script_run *run)
{
    switch ((enum script_end)run->end) {
    case SCRIPT_FORCED:
        return "ERR Script ended by SCREE SCRIPT KILL. Its effects were rolled back.";
    case SCRIPT_OVER_LIMIT:
        return "ERR Script ended: it ran for longer than command-time-limit. Its effects were "
               "rolled back.";
    case SCRIPT_OVER:
        return error_text(ERR_OVER); /* call_error_text replaces it by the reason */
    case SCRIPT_STOPPED:
        return "ERR Script ended: the server is stopping. Its effects were rolled back.";
    default:
        return "ERR Script killed by user with SCRIPT KILL..."; /* also for functions, as in Redis */
    }
}

int run_break(lua_State *lua)
{
    const struct script_run *run = vm_of(lua)->scripts->set->running;
    const char *text = run_end_text(run);
    if (run->end != SCRIPT_GOES_ON)
        convert_push_error(lua, text, strlen(text));
    else
        lua_pushboolean(lua, 1);
    return lua_error(lua);
}

/* The reason why the script must end now; SCRIPT_GOES_ON: none. */
static enum script_end end_due(const struct script_run *run, uint64_t now_us)
{
    uint64_t grace_us = run->started_us + STOP_GRACE_MS * 1000ull;
    const struct call_budget *budget = &run->call->partition->running.budget;
    if (budget->is_measured && budget_is_late(budget, now_us))
        return SCRIPT_OVER_LIMIT;
    if ((now_us >= run->slow_us || now_us >= grace_us) &&
        process_is_stopping(run->call->partition->process))
        return SCRIPT_STOPPED;
    return budget_ends_call(budget) ? SCRIPT_OVER : SCRIPT_GOES_ON;
}

/* The script has exceeded busy-reply-threshold: serves other sessions, one of which may end the script. */
static void handle_slow(struct script_run *run, uint64_t now_us)
{
    if (!run->is_slow) {
        run->is_retried = slow_call_must_wait(run->call);
        if (run->is_retried)
            return;
        log_event(LOG_WARN, "script_slow", "name=%s ms=%llu", run->name,
                  (unsigned long long)((now_us - run->started_us) / 1000));
        slow_call_begin(run->call);
    }
    run->is_slow = true;
    suspend_forbid(run->call); /* other sessions can now observe the script */
    slow_call_serve(run->call);
    run->polled_us = clock_mono_us();
}

static void check_run(lua_State *lua, struct script_run *run)
{
    uint64_t now_us = clock_mono_us();
    if (now_us >= run->started_us + SHORT_US)
        budget_measure(&run->call->partition->running.budget);
    if (run->end == SCRIPT_GOES_ON)
        run->end = (uint8_t)end_due(run, now_us);
    if (run->end == SCRIPT_GOES_ON && now_us >= run->slow_us && now_us >= run->polled_us + POLL_US)
        handle_slow(run, now_us);
    if (run_is_over(lua))
        (void)run_break(lua);
}

/* Has the code that is loaded or compiled used too much time, or must the call end that loads it? If the call is slow, others are served,
 * and their time is not counted. */
static bool must_end_load(struct script_vm *vm)
{
    const uint64_t now_us = clock_thread_us();
    const bool is_late = now_us > vm->load_until_us;
    struct call_budget *budget = vm->load_budget;
    if (!budget)
        return is_late;
    budget->memory.on_work(&budget->memory, BUDGET_WORK_SLICE);
    vm->load_until_us += clock_thread_us() - now_us;
    return is_late || budget->end;
}

void run_check(lua_State *lua)
{
    struct script_vm *vm = vm_of(lua);
    vm->spent = 0;
    if (vm->scripts->set->running)
        check_run(lua, vm->scripts->set->running);
    else if (vm->load_until_us && must_end_load(vm)) {
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
