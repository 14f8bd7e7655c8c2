/*
 * api.c - the table `redis`, and math.random.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/dispatch.h"
#include "backend/keyspace/borrow.h"
#include "backend/script/halt.h"
#include "backend/session/session.h"
#include "shared/acl/acl.h"
#include "shared/digest.h"
#include "shared/log.h"
#include "shared/version.h"

#include <stdio.h>
#include <stdlib.h>

enum { NUMBER_TEXT_MAX = 32, LOG_LEVELS = 4, REPL_FLAGS_MAX = 3 };

static int raise(lua_State *lua, const char *text)
{
    convert_push_error(lua, text, strlen(text));
    return lua_error(lua);
}

/* ---- redis.call, redis.pcall ---- */

/* The words of a command. */
struct arguments {
    struct bytes *argv; /* in a userdatum on the Lua stack */
    uint32_t argc;
};

/* Reads the Lua arguments; numbers become text, which is stored after argv. Returns NULL, or the text of an error. */
static const char *read_arguments(lua_State *lua, struct arguments *arguments)
{
    int argc = lua_gettop(lua);
    if (argc == 0)
        return "ERR Please specify at least one argument for this redis lib call";
    size_t each = sizeof(struct bytes) + NUMBER_TEXT_MAX;
    struct bytes *argv = lua_newuserdata(lua, (size_t)argc * each);
    char *room = (char *)(argv + argc);
    for (int i = 0; i < argc; i++, room += NUMBER_TEXT_MAX) {
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            int len = snprintf(room, NUMBER_TEXT_MAX, "%.17g", lua_tonumber(lua, i + 1));
            argv[i] = (struct bytes){room, (size_t)len};
        } else if (lua_type(lua, i + 1) == LUA_TSTRING) {
            argv[i].data = lua_tolstring(lua, i + 1, &argv[i].len);
        } else {
            return "ERR Lua redis lib command arguments must be strings or integers";
        }
    }
    *arguments = (struct arguments){argv, (uint32_t)argc};
    return NULL;
}

static void push_refusal(lua_State *lua, const char *text)
{
    convert_push_error(lua, text, strlen(text));
    lua_pushboolean(lua, 1);
    lua_setfield(lua, -2, "ignore_error_stats_update");
}

/* Runs the command; its reply is in set->reply. Returns NULL, or the reason of its refusal. */
static const char *dispatch_command(struct script_run *run, const struct arguments *arguments)
{
    struct out *out = &run->vm->scripts->set->reply;
    out_clear(out);
    const struct nested nested = {
        .argv = arguments->argv,
        .argc = arguments->argc,
        .resp = run->resp,
        .read_only = run->read_only,
        .out = out,
        .allow_oom = run->allow_oom,
        .wrote = &run->wrote,
        .slot = run->may_cross_slots ? NULL : &run->slot,
    };
    return dispatch_nested(run->call, &nested);
}

/* Replaces the stack by the reply. */
static void push_reply(lua_State *lua, struct script_run *run)
{
    struct out *out = &run->vm->scripts->set->reply;
    lua_settop(lua, 0); /* thousands of arguments leave no room for the reply */
    size_t len = out->bytes;
    char *frame = lua_newuserdata(lua, len + 1);
    out_copy(out, frame);
    out_clear(out);
    if (run->call->borrow)
        borrow_note_reply(run->call->borrow, (struct bytes){frame, len});
    convert_to_lua(lua, (struct bytes){frame, len});
}

/* Runs the command; if it waits, the script halts, and the command runs again. Returns NULL, or the reason of its refusal. */
static const char *run_command(lua_State *lua, struct script_run *run,
                               const struct arguments *arguments)
{
    for (bool is_again = false;; is_again = true) {
        run_check(lua);
        const char *refused = dispatch_command(run, arguments);
        if (refused)
            return refused;
        run->is_retried = call_retries(run->call);
        if (!run->is_retried || !halt_may(run))
            return NULL;
        halt_here(run, is_again);
    }
}

static const char *call_command(lua_State *lua)
{
    struct script_run *run = vm_of(lua)->scripts->set->running;
    struct arguments arguments;
    if (!run)
        return "ERR redis.call/pcall can only be called inside a script invocation";
    const char *refused = read_arguments(lua, &arguments);
    if (!refused)
        refused = run_command(lua, run, &arguments);
    if (refused)
        return refused;
    if (budget_ends_call(&run->call->partition->running.budget) && run->end == SCRIPT_GOES_ON &&
        !run->is_retried)
        run->end = SCRIPT_OVER;
    if (run_is_over(lua))
        (void)run_break(lua);
    push_reply(lua, run);
    return NULL;
}

static int redis_pcall(lua_State *lua)
{
    const char *refused = call_command(lua);
    if (refused)
        push_refusal(lua, refused);
    return 1;
}

static int redis_call(lua_State *lua)
{
    (void)redis_pcall(lua);
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        bool failed = !lua_isnil(lua, -1);
        lua_pop(lua, 1);
        if (failed)
            return lua_error(lua);
    }
    return 1;
}

/* ---- other functions ---- */

static int single_field(lua_State *lua, const char *field)
{
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        convert_push_error(lua, "ERR wrong number or type of arguments", 37);
        return 1;
    }
    if (strcmp(field, "err") == 0) {
        size_t len;
        const char *text = lua_tolstring(lua, 1, &len);
        convert_push_error(lua, text, len);
        return 1;
    }
    lua_newtable(lua);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, field);
    return 1;
}

static int redis_error_reply(lua_State *lua)
{
    return single_field(lua, "err");
}

static int redis_status_reply(lua_State *lua)
{
    return single_field(lua, "ok");
}

static int redis_sha1hex(lua_State *lua)
{
    char digest[SHA1_HEX_LEN];
    size_t len = 0;
    if (lua_gettop(lua) != 1)
        return raise(lua, "ERR wrong number of arguments");
    const char *text = lua_tolstring(lua, 1, &len);
    vm_spend(lua, len);
    sha1_hex((struct bytes){text ? text : "", len}, digest);
    lua_pushlstring(lua, digest, sizeof digest);
    return 1;
}

static int redis_log(lua_State *lua)
{
    static const enum log_level levels[LOG_LEVELS] = {LOG_DEBUG, LOG_DEBUG, LOG_INFO, LOG_WARN};
    int argc = lua_gettop(lua);
    if (argc < 2)
        return raise(lua, "ERR redis.log() requires two arguments or more.");
    if (!lua_isnumber(lua, 1))
        return raise(lua, "ERR First argument must be a number (log level).");
    double level = lua_tonumber(lua, 1);
    if (!(level >= 0 && level < LOG_LEVELS))
        return raise(lua, "ERR Invalid debug level.");
    lua_pushliteral(lua, "");
    for (int i = 2, parts = 0; i <= argc; i++) {
        if (!lua_isstring(lua, i))
            continue;
        if (parts++)
            lua_pushliteral(lua, " ");
        lua_pushvalue(lua, i);
        lua_concat(lua, parts > 1 ? 3 : 2);
    }
    scripts_log(vm_of(lua)->scripts->set, levels[(int)level], lua_tostring(lua, -1));
    return 0;
}

static int redis_setresp(lua_State *lua)
{
    struct script_run *run = vm_of(lua)->scripts->set->running;
    if (lua_gettop(lua) != 1)
        return raise(lua, "ERR redis.setresp() requires one argument.");
    int resp = lua_tonumber(lua, 1) == 2 ? 2 : lua_tonumber(lua, 1) == 3 ? 3 : 0;
    if (!resp)
        return raise(lua, "ERR RESP version must be 2 or 3.");
    if (run)
        run->resp = (uint8_t)resp;
    return 0;
}

/* redis.set_repl: checks its argument and has no effect, because the log always has the effects. */
static int redis_set_repl(lua_State *lua)
{
    if (lua_gettop(lua) != 1)
        return raise(lua, "ERR redis.set_repl() requires two arguments.");
    double flags = lua_tonumber(lua, 1);
    if (!(flags >= 0 && flags < REPL_FLAGS_MAX + 1))
        return raise(
            lua,
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.");
    return 0;
}

static int redis_replicate_commands(lua_State *lua)
{
    lua_pushboolean(lua, 1);
    return 1;
}

static int redis_nothing(lua_State *lua)
{
    lua_pushboolean(lua, 0);
    return 1;
}

static int redis_acl_check_cmd(lua_State *lua)
{
    struct script_run *run = vm_of(lua)->scripts->set->running;
    struct arguments arguments;
    uint32_t index;
    const char *refused = read_arguments(lua, &arguments);
    if (refused)
        return raise(lua, refused);
    const struct command *command = command_find_argv(arguments.argv, arguments.argc);
    if (!command || !run)
        return raise(lua, "ERR Invalid command passed to redis.acl_check_cmd()");
    const struct acl_user *user = session_user(run->call->session);
    bool may = session_is_trusted(run->call->session) || !user ||
               acl_check(user, command, arguments.argv, arguments.argc, &index) == ACL_ALLOWED;
    lua_pushboolean(lua, may);
    return 1;
}

void api_install(struct script_vm *vm)
{
    static const struct luaL_Reg functions[] = {
        {"call", redis_call},
        {"pcall", redis_pcall},
        {"error_reply", redis_error_reply},
        {"status_reply", redis_status_reply},
        {"sha1hex", redis_sha1hex},
        {"log", redis_log},
        {"setresp", redis_setresp},
        {"set_repl", redis_set_repl},
        {"acl_check_cmd", redis_acl_check_cmd},
    };
    static const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"LOG_DEBUG", 0},   {"LOG_VERBOSE", 1},  {"LOG_NOTICE", 2},
        {"LOG_WARNING", 3}, {"REPL_NONE", 0},    {"REPL_AOF", 1},
        {"REPL_SLAVE", 2},  {"REPL_REPLICA", 2}, {"REPL_ALL", 3},
    };
    lua_State *lua = vm->lua;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(lua, functions[i].func);
        lua_setfield(lua, -2, functions[i].name);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        lua_pushinteger(lua, numbers[i].value);
        lua_setfield(lua, -2, numbers[i].name);
    }
    lua_pushinteger(lua, (lua_Integer)version_number());
    lua_setfield(lua, -2, "REDIS_VERSION_NUM");
    lua_pushstring(lua, version_text());
    lua_setfield(lua, -2, "REDIS_VERSION");
}

void api_install_eval(lua_State *lua)
{
    lua_getglobal(lua, "redis");
    lua_pushcfunction(lua, redis_replicate_commands);
    lua_setfield(lua, -2, "replicate_commands");
    lua_pushcfunction(lua, redis_nothing);
    lua_setfield(lua, -2, "breakpoint");
    lua_pushcfunction(lua, redis_nothing);
    lua_setfield(lua, -2, "debug");
    lua_pop(lua, 1);
    vm_of(lua)->scripts_ref = LUA_NOREF;
    lua_newtable(lua);
    vm_of(lua)->scripts_ref = luaL_ref(lua, LUA_REGISTRYINDEX);
}

/* ---- random numbers ---- */

static unsigned short *random_state(lua_State *lua)
{
    struct script_vm *vm = vm_of(lua);
    return vm->scripts->chance.states[vm->kind];
}

/* math.random with the algorithm of lrand48, as in Redis: a seed gives the same numbers on every machine. */
static int math_random(lua_State *lua)
{
    double r = (double)(nrand48(random_state(lua)) % INT32_MAX) / INT32_MAX;
    int from = 1;
    int to;
    switch (lua_gettop(lua)) {
    case 0:
        lua_pushnumber(lua, r);
        return 1;
    case 1:
        to = luaL_checkint(lua, 1);
        luaL_argcheck(lua, 1 <= to, 1, "interval is empty");
        break;
    case 2:
        from = luaL_checkint(lua, 1);
        to = luaL_checkint(lua, 2);
        luaL_argcheck(lua, from <= to, 2, "interval is empty");
        break;
    default:
        return luaL_error(lua, "wrong number of arguments");
    }
    double low = r * ((double)to - from + 1);
    lua_pushnumber(lua, (double)(int64_t)low + from);
    return 1;
}

static int math_randomseed(lua_State *lua)
{
    int32_t seed = (int32_t)luaL_checkint(lua, 1);
    unsigned short *state = random_state(lua);
    state[0] = 0x330E;
    state[1] = (unsigned short)(seed & 0xffff);
    state[2] = (unsigned short)((uint32_t)seed >> 16);
    return 0;
}

void math_install(lua_State *lua)
{
    lua_getglobal(lua, "math");
    lua_pushcfunction(lua, math_random);
    lua_setfield(lua, -2, "random");
    lua_pushcfunction(lua, math_randomseed);
    lua_setfield(lua, -2, "randomseed");
    lua_pop(lua, 1);
}
