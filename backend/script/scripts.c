/*
 * scripts.c - the scripts of a partition, by SHA-1, and the first line of a script, which may have flags.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/script/vm.h"
#include "shared/check.h"
#include "shared/digest.h"
#include "shared/shebang.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { COMPILE_TIMEOUT_US = 5000000 };

size_t scripts_cached(const struct scripts *scripts)
{
    return scripts->cached;
}

size_t scripts_cached_bytes(const struct scripts *scripts)
{
    return scripts->cached_bytes;
}

/* ---- the first line: #!lua flags=no-writes,allow-oom ---- */

static bool read_script_flags(struct call *call, char *list, uint32_t *flags)
{
    for (char *name; (name = strsep(&list, ","));) {
        uint32_t flag = script_flag_named(name);
        if (*name && !flag) {
            call_errorf(call, "ERR Unexpected flag in script shebang: %s", name);
            return false;
        }
        *flags |= flag;
    }
    return true;
}

/* Removes the first line from the body and reads its flags. False: an error was replied. */
static bool read_shebang(struct call *call, struct bytes *body, uint32_t *flags)
{
    char word[SHEBANG_WORD_MAX];
    *flags = 0;
    if (body->len < 2 || memcmp(body->data, "#!", 2) != 0)
        return true;
    const char *end = memchr(body->data, '\n', body->len);
    if (!end) {
        call_error_text(call, "ERR Invalid script shebang");
        return false;
    }
    struct bytes line = {body->data, (size_t)(end - body->data)};
    bool is_whole = shebang_is_whole(line);
    if (shebang_next(&line, word, sizeof word) == SHEBANG_BAD || !is_whole) {
        call_error_text(call, "ERR Invalid engine in script shebang");
        return false;
    }
    if (strcmp(word, "#!lua") != 0) {
        call_errorf(call, "ERR Unexpected engine in script shebang: %s", word);
        return false;
    }
    *flags = SCRIPT_DECLARED;
    while (shebang_next(&line, word, sizeof word) == SHEBANG_WORD) {
        if (strncmp(word, "flags=", 6) != 0) {
            call_errorf(call, "ERR Unknown lua shebang option: %s", word);
            return false;
        }
        if (!read_script_flags(call, word + 6, flags))
            return false;
    }
    *body = (struct bytes){end, body->len - line.len - (size_t)(line.data - body->data)};
    return true;
}

/* ---- the cache ---- */

struct lookup {
    struct script_vm *vm;
    const char *sha;
    struct bytes body;  /* without the first line, which has the flags */
    struct bytes given; /* the code as the client sent it */
    uint32_t flags;
    struct out *source; /* receives `given`; NULL: it is not requested */
    bool found;
    bool is_bad; /* does not compile; message in `error` */
    char error[256];
};

static int find_cached(lua_State *lua)
{
    struct lookup *lookup = lua_touserdata(lua, 1);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, lookup->vm->scripts_ref);
    lua_getfield(lua, -1, lookup->sha);
    lookup->found = lua_istable(lua, -1);
    if (lookup->found) {
        lua_rawgeti(lua, -1, 2);
        lookup->flags = (uint32_t)lua_tointeger(lua, -1);
        lua_rawgeti(lua, -2, 3);
        size_t len = 0;
        const char *source = lua_tolstring(lua, -1, &len);
        if (lookup->source)
            out_write(lookup->source, source, len);
    }
    return 0;
}

static int compile(lua_State *lua)
{
    struct lookup *lookup = lua_touserdata(lua, 1);
    if (vm_compile(lua, lookup->body.data, lookup->body.len, "@user_script")) {
        (void)snprintf(lookup->error, sizeof lookup->error, "%s", lua_tostring(lua, -1));
        lookup->is_bad = true;
        return 0;
    }
    lua_rawgeti(lua, LUA_REGISTRYINDEX, lookup->vm->scripts_ref);
    lua_createtable(lua, 3, 0);
    lua_pushvalue(lua, -3);
    lua_rawseti(lua, -2, 1);
    lua_pushinteger(lua, (lua_Integer)lookup->flags);
    lua_rawseti(lua, -2, 2);
    lua_pushlstring(lua, lookup->given.data, lookup->given.len);
    lua_rawseti(lua, -2, 3);
    lua_setfield(lua, -2, lookup->sha);
    return 0;
}

static bool find_script(struct scripts *scripts, const char *sha, uint32_t *flags)
{
    char error[64];
    struct script_vm *vm = scripts->states[SCRIPT_EVAL];
    struct lookup lookup = {.vm = vm, .sha = sha};
    if (!vm || !vm_protect(vm, find_cached, &lookup, error, sizeof error) || !lookup.found)
        return false;
    *flags = lookup.flags;
    return true;
}

static int clear_scripts(lua_State *lua)
{
    struct script_vm *vm = vm_of(lua);
    lua_newtable(lua);
    lua_rawseti(lua, LUA_REGISTRYINDEX, vm->scripts_ref);
    lua_gc(lua, LUA_GCCOLLECT, 0);
    return 0;
}

static void drop_cached_scripts(struct scripts *scripts)
{
    char error[64];
    if (scripts->states[SCRIPT_EVAL])
        (void)vm_protect(scripts->states[SCRIPT_EVAL], clear_scripts, NULL, error, sizeof error);
    scripts->cached = scripts->cached_bytes = 0;
}

void scripts_flush(struct call *call)
{
    drop_cached_scripts(scripts_of(call->session));
}

bool script_load(struct call *call, struct bytes body, char sha[SHA1_HEX_LEN + 1])
{
    struct scripts *scripts = scripts_of(call->session);
    struct bytes given = body;
    uint32_t flags;
    char error[256];
    sha1_hex(body, sha);
    sha[SHA1_HEX_LEN] = 0;
    if (find_script(scripts, sha, &flags))
        return true;
    if (!read_shebang(call, &body, &flags))
        return false;
    struct script_vm *vm = scripts_state(scripts, SCRIPT_EVAL);
    if (vm->used > vm->max / 2)
        drop_cached_scripts(scripts); /* generated scripts would fill the memory */
    struct lookup lookup = {.vm = vm, .sha = sha, .body = body, .given = given, .flags = flags};
    vm_load_begin(vm, COMPILE_TIMEOUT_US);
    bool is_done = vm_protect(vm, compile, &lookup, error, sizeof error);
    vm_load_end(vm);
    scripts_make_room(scripts, SCRIPT_EVAL);
    if (!is_done) {
        call_error_text(call, error);
        return false;
    }
    if (lookup.is_bad) {
        call_errorf(call, "ERR Error compiling script (new function): %s", lookup.error);
        return false;
    }
    scripts->cached++;
    scripts->cached_bytes += given.len;
    return true;
}

/* Converts a SHA-1 to lower case, the key of the table of scripts. False: it has another length. */
static bool sha_name(struct bytes sha, char name[SHA1_HEX_LEN + 1])
{
    if (sha.len != SHA1_HEX_LEN)
        return false;
    for (size_t i = 0; i < SHA1_HEX_LEN; i++)
        name[i] = (char)tolower((unsigned char)sha.data[i]);
    name[SHA1_HEX_LEN] = 0;
    return true;
}

bool script_find(struct scripts *scripts, struct bytes sha, uint32_t *flags)
{
    char name[SHA1_HEX_LEN + 1];
    return sha_name(sha, name) && find_script(scripts, name, flags);
}

bool script_exists(struct scripts *scripts, struct bytes sha)
{
    uint32_t flags;
    return script_find(scripts, sha, &flags);
}

bool script_source(const struct scripts *scripts, struct bytes sha, struct out *out)
{
    char name[SHA1_HEX_LEN + 1];
    char error[64];
    struct script_vm *vm = scripts->states[SCRIPT_EVAL];
    struct lookup lookup = {.vm = vm, .sha = name, .source = out};
    return vm && sha_name(sha, name) && vm_protect(vm, find_cached, &lookup, error, sizeof error) &&
           lookup.found;
}

void script_eval(struct call *call, const char sha[SHA1_HEX_LEN + 1], uint32_t keys, bool read_only)
{
    struct scripts *scripts = scripts_of(call->session);
    uint32_t flags;
    if (!find_script(scripts, sha, &flags)) {
        call_error_text(call, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    bool may_write = !(flags & SCRIPT_NO_WRITES);
    if (!script_may_begin(call, flags))
        return;
    if (read_only && flags & SCRIPT_DECLARED && may_write) {
        call_error_text(call, "ERR Can not execute a script with write flag using *_ro command.");
        return;
    }
    struct script_run run = {
        .vm = scripts->states[SCRIPT_EVAL],
        .call = call,
        .name = sha,
        .read_only = read_only || !may_write,
        .allow_oom = flags & SCRIPT_ALLOW_OOM,
        .may_cross_slots = !(flags & SCRIPT_DECLARED) || flags & SCRIPT_CROSS_SLOT,
    };
    run_script(&(struct run_start){.run = &run, .function_ref = LUA_NOREF, .keys = keys});
}
