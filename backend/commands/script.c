/*
 * script.c - EVAL and related commands, SCRIPT.
 */
#include "backend/script/script.h"

#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "shared/command/arguments.h"
#include "shared/command/command_reply.h"
#include "shared/digest.h"
#include "shared/number.h"

#include <ctype.h>

static bool read_keys(struct call *call, struct counted_keys *keys)
{
    const struct counted_errors errors = {
        error_text(ERR_NOT_INTEGER), "ERR Number of keys can't be negative",
        "ERR Number of keys can't be greater than number of args"};
    return call_counted_keys(call, &errors, keys);
}

static void eval(struct call *call, bool read_only)
{
    char sha[SHA1_HEX_LEN + 1];
    struct counted_keys keys;
    if (read_keys(call, &keys) && script_load(call, call->argv[1], sha))
        script_eval(call, sha, keys.count, read_only);
}

static void evalsha(struct call *call, bool read_only)
{
    char sha[SHA1_HEX_LEN + 1];
    struct counted_keys keys;
    if (call->argv[1].len != SHA1_HEX_LEN) {
        call_error_text(call, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    for (size_t i = 0; i < SHA1_HEX_LEN; i++)
        sha[i] = (char)tolower((unsigned char)call->argv[1].data[i]);
    sha[SHA1_HEX_LEN] = 0;
    if (read_keys(call, &keys))
        script_eval(call, sha, keys.count, read_only);
}

void cmd_eval(struct call *call)
{
    eval(call, false);
}

void cmd_eval_ro(struct call *call)
{
    eval(call, true);
}

void cmd_evalsha(struct call *call)
{
    evalsha(call, false);
}

void cmd_evalsha_ro(struct call *call)
{
    evalsha(call, true);
}

void cmd_script_load(struct call *call)
{
    char sha[SHA1_HEX_LEN + 1];
    if (script_load(call, call->argv[2], sha))
        reply_bulk(&call->reply, (struct bytes){sha, SHA1_HEX_LEN});
}

void cmd_script_exists(struct call *call)
{
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc; i++)
        reply_int(&call->reply, script_exists(scripts_of(call->session), call->argv[i]));
}

/* Replies the code of the script in argument 2; false: it is not cached. */
static bool reply_source_code(struct call *call)
{
    struct out source;
    out_init(&source);
    bool is_cached = script_source(scripts_of(call->session), call->argv[2], &source);
    if (is_cached) {
        reply_bulk_begin(&call->reply, (int64_t)source.bytes);
        out_move(call->reply.out, &source);
        reply_bulk_end(&call->reply);
    }
    out_clear(&source);
    return is_cached;
}

void cmd_scree_source(struct call *call)
{
    if (!reply_source_code(call))
        reply_null(&call->reply);
}

/* SCREE FLAGS SCRIPT sha | FUNCTION name: the flags that it declares; null: it declares none of them, or is unknown. */
void cmd_scree_flags(struct call *call)
{
    const struct script_hooks *hooks = call->partition->running.script_hooks;
    uint32_t flags = bytes_is(call->argv[2], "function")
                         ? hooks->function_flags(call->session, call->argv[3])
                         : hooks->script_flags(call->session, call->argv[3]);
    if (!(flags & SCRIPT_DECLARED)) {
        reply_null_array(&call->reply);
        return;
    }
    reply_array(&call->reply, __builtin_popcount(flags & ~(uint32_t)SCRIPT_DECLARED));
    for (int i = 0; i < SCRIPT_FLAGS_COUNT; i++)
        if (flags & 1u << i)
            reply_status(&call->reply, script_flag_names[i]);
}

void cmd_script_show(struct call *call)
{
    if (!reply_source_code(call))
        call_error_text(call, "NOSCRIPT No matching script.");
}

void cmd_script_flush(struct call *call)
{
    if (call->argc > 3 || (call->argc == 3 && !bytes_is(call->argv[2], "async") &&
                           !bytes_is(call->argv[2], "sync"))) {
        call_error_text(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    scripts_flush(call);
    reply_ok(&call->reply);
}

/* There is no debugger; only NO is accepted. */
void cmd_script_debug(struct call *call)
{
    if (bytes_is(call->argv[2], "no"))
        reply_ok(&call->reply);
    else if (bytes_is(call->argv[2], "yes") || bytes_is(call->argv[2], "sync"))
        call_error_text(call, "ERR the script debugger is not available");
    else
        call_error_text(call, "ERR Use SCRIPT DEBUG YES/SYNC/NO");
}

static void kill_running(struct call *call, bool is_function)
{
    struct script_set *scripts = call->partition->scripts;
    struct script_run *run = scripts_running(scripts);
    if (!run || !script_run_concerns(run, call->session)) {
        call_error_text(call, "NOTBUSY No scripts in execution right now.");
    } else if (run->wrote) {
        call_error_text(call,
                        "UNKILLABLE Sorry the script already executed write commands against the "
                        "dataset. You can either wait the script termination or kill the server in "
                        "a hard way using the SHUTDOWN NOSAVE command.");
    } else if (run->is_function != is_function) {
        call_error_text(call, scripts_busy_text(scripts));
    } else {
        run->end = SCRIPT_KILLED;
        reply_ok(&call->reply);
    }
}

void cmd_script_kill(struct call *call)
{
    kill_running(call, false);
}

void cmd_function_kill(struct call *call)
{
    kill_running(call, true);
}

void cmd_script_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
