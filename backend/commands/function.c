/*
 * function.c - FCALL and FUNCTION. The rows of libraries: backend/script/library_rows.c.
 */
#include "backend/script/script.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/encoding.h"
#include "backend/format/rdb.h"
#include "backend/keyspace/keyspace.h"
#include "backend/session/session.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/command/arguments.h"
#include "shared/command/command_reply.h"
#include "shared/glob.h"
#include "shared/number.h"

#include <stdio.h>

enum { ERROR_MAX = 512, RDB_OPCODE_FUNCTION = 245 };

/* ---- rows ---- */

static void put_library(struct call *call, const struct library *library)
{
    overlay_put(
        call->partition->overlay, CF_SYSTEM,
        encode_function_key(call->arena, session_namespace(call->session), bytes_of(library->name)),
        (struct bytes){library->code, library->code_len});
}

static void row_delete(struct call *call, const struct library *library)
{
    overlay_delete(call->partition->overlay, CF_SYSTEM,
                   encode_function_key(call->arena, session_namespace(call->session),
                                       bytes_of(library->name)));
}

/* Loads the libraries of the session's namespace; NULL: an error was replied. */
static struct scripts *open_functions(struct call *call)
{
    int err = functions_load(call->partition, session_namespace(call->session));
    switch (err) {
    case OK:
        return scripts_of(call->session);
    case ERR_NOT_FOUND:
        call_error_text(
            call,
            "BUSY A script is running, so the functions of this namespace cannot be loaded now. "
            "Try again when the script has ended.");
        return NULL;
    default:
        call_error(call, (enum error)err);
        return NULL;
    }
}

/* ---- FCALL ---- */

static void fcall(struct call *call, bool read_only)
{
    static const struct counted_errors errors = {
        "ERR Bad number of keys provided", "ERR Number of keys can't be negative",
        "ERR Number of keys can't be greater than number of args"};
    struct counted_keys keys;
    const struct scripts *scripts = open_functions(call);
    if (!scripts)
        return;
    const struct function *function = function_find(scripts, call->argv[1]);
    if (!function)
        call_error_text(call, "ERR Function not found");
    else if (call_counted_keys(call, &errors, &keys))
        function_call(call, function, keys.count, read_only);
}

void cmd_fcall(struct call *call)
{
    fcall(call, false);
}

void cmd_fcall_ro(struct call *call)
{
    fcall(call, true);
}

/* ---- FUNCTION LOAD, DELETE, FLUSH ---- */

static void error_try_help(struct call *call)
{
    call_errorf(
        call, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try FUNCTION HELP.",
        (int)call->argv[1].len, call->argv[1].data);
}

void cmd_function_load(struct call *call)
{
    char error[ERROR_MAX];
    char name[LIBRARY_NAME_MAX];
    struct scripts *scripts = open_functions(call);
    bool replace = false;
    if (!scripts)
        return;
    for (uint32_t i = 2; i + 1 < call->argc; i++) {
        if (!bytes_is(call->argv[i], "replace")) {
            call_errorf(call, "ERR Unknown option given: %.*s", (int)call->argv[i].len,
                        call->argv[i].data);
            return;
        }
        replace = true;
    }
    struct bytes code = call->argv[call->argc - 1];
    if (!library_name(code, name, error, sizeof error)) {
        call_error_text(call, error);
        return;
    }
    if (!replace && library_find(scripts, bytes_of(name))) {
        call_errorf(call, "ERR Library '%s' already exists", name);
        return;
    }
    struct library *library = library_load(scripts, code, LIBRARY_LOAD_MS, error, sizeof error);
    if (!library || !library_add(scripts, library, replace, error, sizeof error)) {
        if (library)
            library_free(scripts, library);
        call_error_text(call, error);
        return;
    }
    put_library(call, library);
    call_changes(call, 1);
    reply_bulk_text(&call->reply, library->name);
}

void cmd_function_delete(struct call *call)
{
    struct scripts *scripts = open_functions(call);
    if (!scripts)
        return;
    struct library *library = library_find(scripts, call->argv[2]);
    if (!library) {
        call_error_text(call, "ERR Library not found");
        return;
    }
    row_delete(call, library);
    library_remove(scripts, library);
    call_changes(call, 1);
    reply_ok(&call->reply);
}

static void remove_all(struct call *call)
{
    struct scripts *scripts = scripts_of(call->session);
    for (struct library *library; (library = functions_first(scripts));)
        library_remove(scripts, library);
    functions_delete_rows(call->partition, session_namespace(call->session));
}

void cmd_function_flush(struct call *call)
{
    if (call->argc > 3) {
        error_try_help(call);
        return;
    }
    if (call->argc == 3 && !bytes_is(call->argv[2], "async") && !bytes_is(call->argv[2], "sync")) {
        call_error_text(call, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
        return;
    }
    remove_all(call);
    call_changes(call, 1);
    reply_ok(&call->reply);
}

/* ---- FUNCTION DUMP, RESTORE ---- */

void cmd_function_dump(struct call *call)
{
    struct rdb_writer writer;
    const struct scripts *scripts = open_functions(call);
    if (!scripts)
        return;
    rdb_writer_init(&writer, call->arena);
    for (const struct library *library = functions_first(scripts); library;
         library = library->next) {
        rdb_write_byte(&writer, RDB_OPCODE_FUNCTION);
        rdb_write_string(&writer, (struct bytes){library->code, library->code_len});
    }
    reply_bulk(&call->reply, rdb_finish(&writer));
}

enum policy { POLICY_APPEND, POLICY_REPLACE, POLICY_FLUSH, POLICY_BAD };

static enum policy read_policy(const struct call *call)
{
    if (call->argc == 3 || bytes_is(call->argv[3], "append"))
        return POLICY_APPEND;
    if (bytes_is(call->argv[3], "replace"))
        return POLICY_REPLACE;
    return bytes_is(call->argv[3], "flush") ? POLICY_FLUSH : POLICY_BAD;
}

/* The name of a function of `a` that `b` has too; NULL when there is none, or the call has failed. */
static const char *shared_name(struct call *call, const struct library *a, const struct library *b)
{
    size_t compared = 0;
    for (const struct function *f = a->functions; f && call_goes_on(call, compared); f = f->next) {
        compared = 0;
        for (const struct function *g = b->functions; g; g = g->next, compared++)
            if (strcasecmp(f->name, g->name) == 0)
                return f->name;
    }
    return NULL;
}

static bool has_library(const struct library *list, const char *name)
{
    while (list && strcmp(list->name, name) != 0)
        list = list->next;
    return list;
}

/* Has none of the libraries a function of this one? False: reason in error[size]. */
static bool has_own_functions(struct call *call, const struct library *library,
                              const struct library *list, char *error, size_t size)
{
    for (; list && !call->failed; list = list->next) {
        const char *name = shared_name(call, library, list);
        if (name) {
            (void)snprintf(error, size, "ERR Function %s already exists", name);
            return false;
        }
    }
    return !call->failed;
}

/* Loads the code of a library before the others of the payload. False: reason in error[size]. */
static bool read_library(struct call *call, struct bytes code, struct library **list, char *error,
                         size_t size)
{
    char name[LIBRARY_NAME_MAX];
    if (!library_name(code, name, error, size))
        return false;
    if (has_library(*list, name)) {
        (void)snprintf(error, size, "ERR Library '%s' already exists", name);
        return false;
    }
    struct scripts *scripts = scripts_of(call->session);
    struct library *library = library_load(scripts, code, LIBRARY_LOAD_MS, error, size);
    if (!library)
        return false;
    if (!has_own_functions(call, library, *list, error, size)) {
        library_free(scripts, library);
        return false;
    }
    library->next = *list;
    *list = library;
    return true;
}

/* Loads all libraries of the payload, newest first; a library may take long, so the clock is read before each. False: a library is
 * invalid, or collides with one before it, and error[size] has the reason; or the call has failed. */
static bool read_payload(struct call *call, struct library **list, char *error, size_t size)
{
    struct rdb_reader reader;
    if (!rdb_open(&reader, call->arena, call->argv[2])) {
        (void)snprintf(error, size, "ERR DUMP payload version or checksum are wrong");
        return false;
    }
    reader.limit = call->partition->snapshot->config.reply_limit_bytes;
    while (reader.rest.len) {
        uint8_t type;
        struct bytes code;
        if (!rdb_read_byte(&reader, &type) || type != RDB_OPCODE_FUNCTION) {
            (void)snprintf(error, size, "ERR given type is not a function");
            return false;
        }
        if (!rdb_read_string(&reader, &code)) {
            (void)snprintf(error, size, "ERR Failed loading library data");
            return false;
        }
        if (!call_goes_on(call, BUDGET_WORK_SLICE) || !read_library(call, code, list, error, size))
            return false;
    }
    return true;
}

/* Can the whole payload be added? FUNCTION RESTORE adds all libraries or none. As in Redis, names of libraries are compared
 * before those of functions. */
static bool may_restore(struct call *call, const struct library *list, enum policy policy,
                        char *error, size_t size)
{
    const struct library *there =
        policy == POLICY_FLUSH ? NULL : functions_first(scripts_of(call->session));
    for (const struct library *library = list; library && policy == POLICY_APPEND;
         library = library->next)
        if (has_library(there, library->name)) {
            (void)snprintf(error, size, "ERR Library %s already exists", library->name);
            return false;
        }
    for (const struct library *library = list; library; library = library->next)
        for (const struct library *old = there; old; old = old->next) {
            const char *name =
                has_library(list, old->name) ? NULL : shared_name(call, library, old);
            if (name) {
                (void)snprintf(error, size, "ERR Function %s already exists", name);
                return false;
            }
        }
    return !call->failed;
}

static void free_list(struct scripts *scripts, struct library *list)
{
    for (struct library *next; list; list = next) {
        next = list->next;
        library_free(scripts, list);
    }
}

void cmd_function_restore(struct call *call)
{
    char error[ERROR_MAX];
    struct scripts *scripts = open_functions(call);
    struct library *list = NULL;
    if (!scripts)
        return;
    if (call->argc > 4) {
        error_try_help(call);
        return;
    }
    enum policy policy = read_policy(call);
    if (policy == POLICY_BAD) {
        call_error_text(call,
                        "ERR Wrong restore policy given, value should be either FLUSH, APPEND "
                        "or REPLACE.");
        return;
    }
    if (!read_payload(call, &list, error, sizeof error) ||
        !may_restore(call, list, policy, error, sizeof error)) {
        free_list(scripts, list);
        if (!call->failed)
            call_error_text(call, error);
        return;
    }
    if (policy == POLICY_FLUSH)
        remove_all(call);
    for (const struct library *library = list; library; library = library->next) {
        struct library *old = library_find(scripts, bytes_of(library->name));
        if (old) /* before any is added: a function may have moved to another library */
            library_remove(scripts, old);
    }
    for (struct library *next; list; list = next) {
        next = list->next;
        bool is_added = library_add(scripts, list, false, error, sizeof error);
        CHECK(is_added);
        put_library(call, list);
    }
    call_changes(call, 1);
    reply_ok(&call->reply);
}

/* ---- FUNCTION LIST, STATS, HELP ---- */

static void reply_function(struct reply *reply, const struct function *function)
{
    reply_map(reply, 3);
    reply_bulk_text(reply, "name");
    reply_bulk_text(reply, function->name);
    reply_bulk_text(reply, "description");
    if (function->description)
        reply_bulk_text(reply, function->description);
    else
        reply_null(reply);
    reply_bulk_text(reply, "flags");
    reply_set(reply, __builtin_popcount(function->flags));
    for (int i = 0; i < SCRIPT_FLAGS_COUNT; i++)
        if (function->flags & 1u << i)
            reply_status(reply, script_flag_names[i]);
}

static void reply_library(struct reply *reply, const struct library *library, bool with_code)
{
    int64_t count = 0;
    for (const struct function *function = library->functions; function; function = function->next)
        count++;
    reply_map(reply, with_code ? 4 : 3);
    reply_bulk_text(reply, "library_name");
    reply_bulk_text(reply, library->name);
    reply_bulk_text(reply, "engine");
    reply_bulk_text(reply, "LUA");
    reply_bulk_text(reply, "functions");
    reply_array(reply, count);
    for (const struct function *function = library->functions; function; function = function->next)
        reply_function(reply, function);
    if (!with_code)
        return;
    reply_bulk_text(reply, "library_code");
    reply_bulk(reply, (struct bytes){library->code, library->code_len});
}

/* Parses the options of FUNCTION LIST; false: an error was replied. `pattern`: NULL if there is none. */
static bool read_list(struct call *call, struct glob **pattern, bool *with_code)
{
    *pattern = NULL;
    *with_code = false;
    for (uint32_t i = 2; i < call->argc; i++) {
        if (!*with_code && bytes_is(call->argv[i], "withcode")) {
            *with_code = true;
        } else if (!*pattern && bytes_is(call->argv[i], "libraryname")) {
            if (i + 1 == call->argc) {
                call_error_text(call, "ERR library name argument was not given");
                return false;
            }
            if (!call_pattern(call, ++i))
                return false;
            *pattern = glob_new(call->arena, call->argv[i], false);
        } else {
            call_errorf(call, "ERR Unknown argument %.*s", (int)call->argv[i].len,
                        call->argv[i].data);
            return false;
        }
    }
    return true;
}

static bool library_matches(const struct library *library, struct glob *pattern)
{
    return !pattern || glob_fits(pattern, bytes_of(library->name));
}

void cmd_function_list(struct call *call)
{
    struct glob *pattern;
    bool with_code;
    int64_t count = 0;
    if (!read_list(call, &pattern, &with_code))
        return;
    const struct scripts *scripts = open_functions(call);
    if (!scripts)
        return;
    const struct library *first = functions_first(scripts);
    for (const struct library *library = first; library; library = library->next)
        count += library_matches(library, pattern);
    reply_array(&call->reply, count);
    for (const struct library *library = first; library; library = library->next)
        if (library_matches(library, pattern))
            reply_library(&call->reply, library, with_code);
}

static void reply_running(struct call *call, const struct script_run *run)
{
    struct reply *reply = &call->reply;
    if (!run || !script_run_concerns(run, call->session)) {
        reply_null(reply);
        return;
    }
    reply_map(reply, 3);
    reply_bulk_text(reply, "name");
    reply_bulk_text(reply, run->name);
    reply_bulk_text(reply, "command");
    reply_array(reply, run->call->argc);
    for (uint32_t i = 0; i < run->call->argc; i++)
        reply_bulk(reply, run->call->argv[i]);
    reply_bulk_text(reply, "duration_ms");
    reply_int(reply, (int64_t)((clock_mono_us() - run->started_us) / 1000));
}

void cmd_function_stats(struct call *call)
{
    const struct scripts *scripts = open_functions(call);
    int64_t libraries = 0;
    int64_t functions = 0;
    if (!scripts)
        return;
    for (const struct library *library = functions_first(scripts); library;
         library = library->next) {
        libraries++;
        for (const struct function *f = library->functions; f; f = f->next)
            functions++;
    }
    reply_map(&call->reply, 2);
    reply_bulk_text(&call->reply, "running_script");
    reply_running(call, scripts_running(call->partition->scripts));
    reply_bulk_text(&call->reply, "engines");
    reply_map(&call->reply, 1);
    reply_bulk_text(&call->reply, "LUA");
    reply_map(&call->reply, 2);
    reply_bulk_text(&call->reply, "libraries_count");
    reply_int(&call->reply, libraries);
    reply_bulk_text(&call->reply, "functions_count");
    reply_int(&call->reply, functions);
}

void cmd_function_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
