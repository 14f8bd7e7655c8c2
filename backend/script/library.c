/*
 * library.c - libraries of functions: loads, lists and calls them.
 *
 * A library is loaded by running its code once, with a table `redis` that can only register functions. Its row on
 * disk is written by commands/function.c.
 */
#include "backend/context/partition.h"
#include "backend/script/vm.h"
#include "shared/check.h"
#include "shared/shebang.h"
#include "shared/table.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static const char bad_name[] =
    "ERR Library names can only contain letters, numbers, or underscores(_) and must "
    "be at least one character long";

static bool is_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.data[i]) && name.data[i] != '_')
            return false;
    return name.len > 0;
}

/* ---- the list ---- */

struct library *functions_first(const struct scripts *scripts)
{
    return scripts->libraries;
}

struct library *library_find(const struct scripts *scripts, struct bytes name)
{
    return table_get(scripts->libraries_by_name, name);
}

/* Finds a function; case is ignored, as in Redis. */
static struct function *find_in(struct library *library, struct bytes name)
{
    struct function *function = library->functions;
    while (function && !bytes_is(name, function->name))
        function = function->next;
    return function;
}

/* The name in lower case, as functions_by_name has it; heap. */
static struct bytes lower_name(struct bytes name)
{
    char *text = malloc(name.len + 1);
    CHECK(text);
    for (size_t i = 0; i < name.len; i++)
        text[i] = (char)tolower((unsigned char)name.data[i]);
    return (struct bytes){text, name.len};
}

struct function *function_find(const struct scripts *scripts, struct bytes name)
{
    struct bytes lower = lower_name(name);
    struct function *function = table_get(scripts->functions_by_name, lower);
    free((char *)lower.data);
    return function;
}

/* Adds the library and its functions to the tables of names, or removes them. */
static void index_library(struct scripts *scripts, struct library *library, bool is_added)
{
    struct bytes name = bytes_of(library->name);
    if (is_added)
        CHECK(!table_put(scripts->libraries_by_name, name, library));
    else
        CHECK(table_remove(scripts->libraries_by_name, name) == library);
    for (struct function *function = library->functions; function; function = function->next) {
        struct bytes lower = lower_name(bytes_of(function->name));
        if (is_added)
            CHECK(!table_put(scripts->functions_by_name, lower, function));
        else
            CHECK(table_remove(scripts->functions_by_name, lower) == function);
        free((char *)lower.data);
    }
}

void library_free(struct scripts *scripts, struct library *library)
{
    struct script_vm *vm = scripts->states[SCRIPT_FUNCTION];
    vm_count(vm, -(ptrdiff_t)library->code_len);
    for (struct function *function; (function = library->functions);) {
        library->functions = function->next;
        luaL_unref(vm->lua, LUA_REGISTRYINDEX, function->ref);
        free(function->name);
        free(function->description);
        free(function);
    }
    free(library->name);
    free(library->code);
    free(library);
}

void library_remove(struct scripts *scripts, struct library *library)
{
    struct library **link = &scripts->libraries;
    while (*link != library)
        link = &(*link)->next;
    *link = library->next;
    index_library(scripts, library, false);
    library_free(scripts, library);
}

bool library_add(struct scripts *scripts, struct library *library, bool replace, char *error,
                 size_t size)
{
    struct library *old = library_find(scripts, bytes_of(library->name));
    if (old && !replace) {
        (void)snprintf(error, size, "ERR Library %s already exists", library->name);
        return false;
    }
    for (struct function *function = library->functions; function; function = function->next) {
        const struct function *other = function_find(scripts, bytes_of(function->name));
        if (other && other->library != old) {
            (void)snprintf(error, size, "ERR Function %s already exists", function->name);
            return false;
        }
    }
    if (old)
        library_remove(scripts, old);
    library->next = scripts->libraries;
    scripts->libraries = library;
    index_library(scripts, library, true);
    return true;
}

void libraries_forget(struct scripts *scripts)
{
    while (scripts->libraries)
        library_remove(scripts, scripts->libraries);
    scripts->rows_done = 0;
}

/* ---- redis.register_function ---- */

static int raise_library_error(lua_State *lua, const char *text)
{
    convert_push_error(lua, text, strlen(text));
    return lua_error(lua);
}

/* Arguments of redis.register_function; their values stay on the stack. */
struct registration {
    struct bytes name;
    const char *description;
    uint32_t flags;
    int callback; /* stack index; 0: none */
};

static void read_function_flags(lua_State *lua, struct registration *registration)
{
    if (!lua_istable(lua, -1))
        raise_library_error(
            lua, "ERR flags argument to redis.register_function must be a table representing "
                 "function flags");
    for (int i = 1;; i++) {
        lua_rawgeti(lua, -1, i);
        if (lua_isnil(lua, -1))
            break;
        const char *name = lua_type(lua, -1) == LUA_TSTRING ? lua_tostring(lua, -1) : "";
        uint32_t flag = script_flag_named(name);
        if (!flag)
            raise_library_error(lua, "ERR unknown flag given");
        registration->flags |= flag;
        lua_pop(lua, 1);
    }
    lua_pop(lua, 2);
}

static void read_named(lua_State *lua, struct registration *registration)
{
    lua_settop(lua, 4); /* 2: name, 3: callback, 4: description */
    for (lua_pushnil(lua); lua_next(lua, 1); lua_pop(lua, 1)) {
        if (!lua_isstring(lua, -2))
            raise_library_error(
                lua, "ERR named argument key given to redis.register_function is not a string");
        const char *key = lua_type(lua, -2) == LUA_TSTRING ? lua_tostring(lua, -2) : "";
        if (strcasecmp(key, "function_name") == 0) {
            lua_pushvalue(lua, -1);
            lua_replace(lua, 2);
            if (!lua_isstring(lua, 2))
                raise_library_error(
                    lua, "ERR function_name argument given to redis.register_function must be a "
                         "string");
        } else if (strcasecmp(key, "description") == 0) {
            lua_pushvalue(lua, -1);
            lua_replace(lua, 4);
            if (!lua_isstring(lua, 4))
                raise_library_error(
                    lua, "ERR description argument given to redis.register_function must be a "
                         "string");
        } else if (strcasecmp(key, "callback") == 0) {
            lua_pushvalue(lua, -1);
            lua_replace(lua, 3);
            if (!lua_isfunction(lua, 3))
                raise_library_error(
                    lua, "ERR callback argument given to redis.register_function must be a "
                         "function");
        } else if (strcasecmp(key, "flags") == 0) {
            lua_pushvalue(lua, -1);
            read_function_flags(lua, registration);
        } else {
            raise_library_error(lua, "ERR unknown argument given to redis.register_function");
        }
    }
    if (lua_isnil(lua, 2))
        raise_library_error(lua, "ERR redis.register_function must get a function name argument");
    if (lua_isnil(lua, 3))
        raise_library_error(lua, "ERR redis.register_function must get a callback argument");
    registration->name.data = lua_tolstring(lua, 2, &registration->name.len);
    registration->callback = 3;
    registration->description = lua_tostring(lua, 4);
}

static void read_pair(lua_State *lua, struct registration *registration)
{
    if (!lua_isstring(lua, 1))
        raise_library_error(lua, "ERR first argument to redis.register_function must be a string");
    if (!lua_isfunction(lua, 2))
        raise_library_error(lua,
                            "ERR second argument to redis.register_function must be a function");
    registration->name.data = lua_tolstring(lua, 1, &registration->name.len);
    registration->callback = 2;
}

int function_register(lua_State *lua)
{
    struct library *library = vm_of(lua)->loading;
    struct registration registration = {.callback = 0};
    int argc = lua_gettop(lua);
    if (!library)
        return raise_library_error(
            lua, "ERR redis.register_function can only be called on FUNCTION LOAD command");
    if (argc < 1 || argc > 2)
        return raise_library_error(lua, "ERR wrong number of arguments to redis.register_function");
    if (argc == 1 && !lua_istable(lua, 1))
        return raise_library_error(
            lua, "ERR calling redis.register_function with a single argument is only "
                 "applicable to Lua table (representing named arguments).");
    if (argc == 1)
        read_named(lua, &registration);
    else
        read_pair(lua, &registration);
    if (!is_name(registration.name))
        return raise_library_error(lua, bad_name);
    if (find_in(library, registration.name))
        return raise_library_error(lua, "ERR Function already exists in the library");
    lua_pushvalue(lua, registration.callback);
    int ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    struct function *function = calloc(1, sizeof *function);
    CHECK(function);
    *function = (struct function){
        .next = library->functions,
        .library = library,
        .name = strndup(registration.name.data, registration.name.len),
        .description = registration.description ? strdup(registration.description) : NULL,
        .flags = registration.flags,
        .ref = ref,
    };
    library->functions = function;
    return 0;
}

/* ---- loading ---- */

/* Reads the words behind the engine. False: reason in error[size]. */
static bool read_library_words(struct bytes line, char name[LIBRARY_NAME_MAX], char *error,
                               size_t size)
{
    char word[SHEBANG_WORD_MAX];
    bool has_name = false;
    while (shebang_next(&line, word, sizeof word) == SHEBANG_WORD) {
        if (strncasecmp(word, "name=", 5) != 0) {
            (void)snprintf(error, size, "ERR Invalid metadata value given: %s", word);
            return false;
        }
        if (has_name) {
            (void)snprintf(error, size,
                           "ERR Invalid metadata value, name argument was given multiple times");
            return false;
        }
        has_name = true;
        (void)snprintf(name, LIBRARY_NAME_MAX, "%.*s", LIBRARY_NAME_MAX - 1, word + 5);
    }
    if (!has_name)
        (void)snprintf(error, size, "ERR Library name was not given");
    return has_name;
}

/* #!lua name=mylib, also with quotes */
static bool read_library_header(struct bytes code, char name[LIBRARY_NAME_MAX], struct bytes *body,
                                char *error, size_t size)
{
    char engine[SHEBANG_WORD_MAX];
    *name = 0;
    if (code.len < 2 || memcmp(code.data, "#!", 2) != 0) {
        (void)snprintf(error, size, "ERR Missing library metadata");
        return false;
    }
    const char *end = memchr(code.data, '\n', code.len);
    struct bytes line = {code.data, end ? (size_t)(end - code.data) : 0};
    if (!end || !shebang_is_whole(line) ||
        shebang_next(&line, engine, sizeof engine) != SHEBANG_WORD) {
        (void)snprintf(error, size, "ERR Invalid library metadata");
        return false;
    }
    *body = (struct bytes){end, code.len - (size_t)(end - code.data)};
    if (!read_library_words(line, name, error, size))
        return false;
    if (!is_name(bytes_of(name))) {
        (void)snprintf(error, size, "%s", bad_name);
        return false;
    }
    if (strcasecmp(engine, "#!lua") != 0) {
        (void)snprintf(error, size, "ERR Engine '%s' not found", engine + 2);
        return false;
    }
    return true;
}

bool library_name(struct bytes code, char name[LIBRARY_NAME_MAX], char *error, size_t size)
{
    struct bytes body;
    return read_library_header(code, name, &body, error, size);
}

struct load {
    struct script_vm *vm;
    struct bytes body;
    char *error;
    size_t size;
    bool failed;
};

static int load_protected(lua_State *lua)
{
    struct load *load = lua_touserdata(lua, 1);
    lua_settop(lua, 0);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, load->vm->handler_ref);
    load->failed = true;
    if (vm_compile(lua, load->body.data, load->body.len, "@user_function")) {
        (void)snprintf(load->error, load->size, "ERR Error compiling function: %s",
                       lua_tostring(lua, -1));
        return 0;
    }
    if (lua_pcall(lua, 0, 0, 1)) {
        if (lua_istable(lua, -1)) {
            lua_pushliteral(lua, "err");
            lua_rawget(lua, -2);
        }
        const char *text = lua_type(lua, -1) == LUA_TSTRING ? lua_tostring(lua, -1) : "unknown";
        (void)snprintf(load->error, load->size, "ERR Error registering functions: %s", text);
        return 0;
    }
    load->failed = false;
    return 0;
}

struct library *library_load(struct scripts *scripts, struct bytes code, uint64_t limit_ms,
                             char *error, size_t size)
{
    char name[LIBRARY_NAME_MAX];
    struct script_vm *vm = scripts_state(scripts, SCRIPT_FUNCTION);
    struct load load = {.vm = vm, .error = error, .size = size};
    if (!read_library_header(code, name, &load.body, error, size))
        return NULL;
    if (code.len > vm->max || vm->used > vm->max - code.len) {
        (void)snprintf(error, size, "ERR not enough memory for the library (script-memory-limit)");
        return NULL;
    }
    struct library *library = calloc(1, sizeof *library);
    CHECK(library);
    library->name = strdup(name);
    library->code = malloc(code.len + 1);
    CHECK(library->name);
    CHECK(library->code);
    memcpy(library->code, code.data, code.len);
    library->code[code.len] = 0;
    library->code_len = code.len;
    vm_count(vm, (ptrdiff_t)code.len);
    vm->loading = library;
    vm_load_begin(vm, limit_ms * 1000);
    vm_show_globals(vm, true);
    bool good = vm_protect(vm, load_protected, &load, error, size) && !load.failed;
    vm_show_globals(vm, false);
    vm->loading = NULL;
    vm_load_end(vm);
    lua_settop(vm->lua, 0);
    scripts_make_room(scripts, SCRIPT_FUNCTION);
    if (good && !library->functions) {
        (void)snprintf(error, size, "ERR No functions registered");
        good = false;
    }
    if (good)
        return library;
    library_free(scripts, library);
    return NULL;
}

/* ---- calling ---- */

void function_call(struct call *call, const struct function *function, uint32_t keys,
                   bool read_only)
{
    bool may_write = !(function->flags & SCRIPT_NO_WRITES);
    if (!script_may_begin(call, function->flags))
        return;
    if (read_only && may_write) {
        call_error_text(call, "ERR Can not execute a script with write flag using *_ro command.");
        return;
    }
    struct script_run run = {
        .vm = scripts_of(call->session)->states[SCRIPT_FUNCTION],
        .call = call,
        .name = function->name,
        .is_function = true,
        .read_only = read_only || !may_write,
        .allow_oom = function->flags & SCRIPT_ALLOW_OOM,
        .may_cross_slots = function->flags & SCRIPT_CROSS_SLOT,
    };
    run_script(&(struct run_start){.run = &run, .function_ref = function->ref, .keys = keys});
}
