/*
 * cjson.c - the module `cjson`: its settings, and Lua to JSON.
 *
 * It behaves as lua-cjson 2.1.0, which Redis has, and replaces it for three reasons: lua-cjson overflows its buffer for
 * a long string (CVE-2022-24834), ends the process when memory is exhausted, and ignores the memory and time limits of
 * scripts: a thousand nested tables, each with two references to the next, would become 2^1000 values of text.
 */
#include "backend/script/cjson.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { DEPTH_DEFAULT = 1000, PRECISION_MAX = 14, NUMBER_MAX = 32, ITEM_COST = 16 };

static const struct cjson_settings defaults = {
    .sparse_ratio = 2,
    .sparse_safe = 10,
    .encode_max_depth = DEPTH_DEFAULT,
    .decode_max_depth = DEPTH_DEFAULT,
    .decode_invalid_numbers = 1,
    .number_precision = PRECISION_MAX,
    .keep_buffer = 1,
};

struct cjson_settings *cjson_settings_of(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

/* ---- settings ---- */

static struct cjson_settings *begin_setting(lua_State *lua, int argc)
{
    luaL_argcheck(lua, lua_gettop(lua) <= argc, argc + 1, "found too many arguments");
    lua_settop(lua, argc);
    return cjson_settings_of(lua);
}

/* Sets a setting whose values are words; `false` and `true` stand for the first two words. Pushes its value. */
static void set_word_setting(lua_State *lua, int index, int *setting, const char *const *words)
{
    if (lua_isboolean(lua, index))
        *setting = lua_toboolean(lua, index);
    else if (!lua_isnil(lua, index))
        *setting = luaL_checkoption(lua, index, NULL, words);
    if (*setting > 1)
        lua_pushstring(lua, words[*setting]);
    else
        lua_pushboolean(lua, *setting);
}

static void set_number_setting(lua_State *lua, int index, int *setting, int min, int max)
{
    if (!lua_isnil(lua, index)) {
        lua_Integer value = luaL_checkinteger(lua, index);
        if (value < min || value > max)
            luaL_argerror(lua, 1,
                          lua_pushfstring(lua, "expected integer between %d and %d", min, max));
        *setting = (int)value;
    }
    lua_pushinteger(lua, *setting);
}

static const char *const off_on[] = {"off", "on", NULL};

static int encode_sparse_array(lua_State *lua)
{
    struct cjson_settings *settings = begin_setting(lua, 3);
    set_word_setting(lua, 1, &settings->sparse_convert, off_on);
    set_number_setting(lua, 2, &settings->sparse_ratio, 0, INT_MAX);
    set_number_setting(lua, 3, &settings->sparse_safe, 0, INT_MAX);
    return 3;
}

static int encode_max_depth(lua_State *lua)
{
    set_number_setting(lua, 1, &begin_setting(lua, 1)->encode_max_depth, 1, INT_MAX);
    return 1;
}

static int decode_max_depth(lua_State *lua)
{
    set_number_setting(lua, 1, &begin_setting(lua, 1)->decode_max_depth, 1, INT_MAX);
    return 1;
}

static int encode_number_precision(lua_State *lua)
{
    set_number_setting(lua, 1, &begin_setting(lua, 1)->number_precision, 1, PRECISION_MAX);
    return 1;
}

static int encode_keep_buffer(lua_State *lua)
{
    set_word_setting(lua, 1, &begin_setting(lua, 1)->keep_buffer, off_on);
    return 1;
}

static int encode_invalid_numbers(lua_State *lua)
{
    static const char *const words[] = {"off", "on", "null", NULL};
    set_word_setting(lua, 1, &begin_setting(lua, 1)->encode_invalid_numbers, words);
    return 1;
}

static int decode_invalid_numbers(lua_State *lua)
{
    set_word_setting(lua, 1, &begin_setting(lua, 1)->decode_invalid_numbers, off_on);
    return 1;
}

/* ---- Lua → JSON: the text grows in the state's scratch ---- */

struct encoder {
    lua_State *lua;
    struct script_vm *vm;
    const struct cjson_settings *settings;
    int depth;
};

static void append_json(const struct encoder *encoder, const char *text, size_t len)
{
    memcpy(scratch_reserve(encoder->lua, len), text, len);
    encoder->vm->scratch.len += len;
}

static int raise_encode_error(const struct encoder *encoder, int index, const char *why)
{
    lua_State *lua = encoder->lua;
    return luaL_error(lua, "Cannot serialise %s: %s", luaL_typename(lua, index), why);
}

/* The letter after the backslash; 'u': \u and four hex digits; 0: the byte is not escaped. */
static char escape_of(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return (char)c;
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    default:
        return c < ' ' || c == 0x7f ? 'u' : 0;
    }
}

static void add_escaped(const struct encoder *encoder, unsigned char c, char escape)
{
    static const char digits[] = "0123456789abcdef";
    const char text[] = {'\\', escape, '0', '0', digits[c >> 4], digits[c & 15]};
    append_json(encoder, text, escape == 'u' ? sizeof text : 2);
}

static void append_json_string(const struct encoder *encoder, int index)
{
    size_t len;
    const char *text = lua_tolstring(encoder->lua, index, &len);
    vm_spend(encoder->lua, len);
    append_json(encoder, "\"", 1);
    size_t plain = 0;
    for (size_t i = 0; i < len; i++) {
        char escape = escape_of((unsigned char)text[i]);
        if (!escape)
            continue;
        append_json(encoder, text + plain, i - plain);
        add_escaped(encoder, (unsigned char)text[i], escape);
        plain = i + 1;
    }
    append_json(encoder, text + plain, len - plain);
    append_json(encoder, "\"", 1);
}

static void append_json_number(const struct encoder *encoder, int index)
{
    char text[NUMBER_MAX];
    double number = lua_tonumber(encoder->lua, index);
    int invalid = encoder->settings->encode_invalid_numbers;
    if (invalid == 0 && !isfinite(number))
        raise_encode_error(encoder, index, "must not be NaN or Inf");
    if (invalid == 2 && !isfinite(number))
        append_json(encoder, "null", 4);
    else if (isnan(number))
        append_json(encoder, "nan", 3);
    else
        append_json(encoder, text,
                    (size_t)snprintf(text, sizeof text, "%.*g", encoder->settings->number_precision,
                                     number));
}

static bool is_index(double key)
{
    return key >= 1 && floor(key) == key;
}

/* Number of items of the table at the top if it is an array; 0: it is an object. */
static int array_length(const struct encoder *encoder)
{
    const struct cjson_settings *settings = encoder->settings;
    lua_State *lua = encoder->lua;
    double max = 0;
    double items = 0;
    for (lua_pushnil(lua); lua_next(lua, -2); lua_pop(lua, 1), items++) {
        double key = lua_type(lua, -2) == LUA_TNUMBER ? lua_tonumber(lua, -2) : 0;
        if (!is_index(key)) {
            lua_pop(lua, 2);
            return 0;
        }
        max = key > max ? key : max;
        vm_spend(lua, 1);
    }
    if (max > INT_MAX)
        return 0;
    if (settings->sparse_ratio > 0 && max > items * settings->sparse_ratio &&
        max > settings->sparse_safe) {
        if (!settings->sparse_convert)
            raise_encode_error(encoder, -1, "excessively sparse array");
        return 0;
    }
    return (int)max;
}

static void append_json_value(struct encoder *encoder);

static void add_array(struct encoder *encoder, int count)
{
    append_json(encoder, "[", 1);
    for (int i = 1; i <= count; i++) {
        if (i > 1)
            append_json(encoder, ",", 1);
        lua_rawgeti(encoder->lua, -1, i);
        append_json_value(encoder);
        lua_pop(encoder->lua, 1);
    }
    append_json(encoder, "]", 1);
}

static void append_object_key(struct encoder *encoder)
{
    int type = lua_type(encoder->lua, -2);
    if (type == LUA_TSTRING) {
        append_json_string(encoder, -2);
    } else if (type == LUA_TNUMBER) {
        append_json(encoder, "\"", 1);
        append_json_number(encoder, -2);
        append_json(encoder, "\"", 1);
    } else {
        raise_encode_error(encoder, -2, "table key must be a number or string");
    }
    append_json(encoder, ":", 1);
}

static void add_object(struct encoder *encoder)
{
    bool is_first = true;
    append_json(encoder, "{", 1);
    for (lua_pushnil(encoder->lua); lua_next(encoder->lua, -2); lua_pop(encoder->lua, 1)) {
        if (!is_first)
            append_json(encoder, ",", 1);
        is_first = false;
        append_object_key(encoder);
        append_json_value(encoder);
    }
    append_json(encoder, "}", 1);
}

static void add_table(struct encoder *encoder)
{
    encoder->depth++;
    if (encoder->depth > encoder->settings->encode_max_depth || !lua_checkstack(encoder->lua, 3))
        luaL_error(encoder->lua, "Cannot serialise, excessive nesting (%d)", encoder->depth);
    int count = array_length(encoder);
    if (count > 0)
        add_array(encoder, count);
    else
        add_object(encoder);
    encoder->depth--;
}

/* Appends the value at the top of the stack, without popping it. */
static void append_json_value(struct encoder *encoder)
{
    lua_State *lua = encoder->lua;
    vm_spend(lua, ITEM_COST);
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        append_json_string(encoder, -1);
        return;
    case LUA_TNUMBER:
        append_json_number(encoder, -1);
        return;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            append_json(encoder, "true", 4);
        else
            append_json(encoder, "false", 5);
        return;
    case LUA_TTABLE:
        add_table(encoder);
        return;
    case LUA_TNIL:
        append_json(encoder, "null", 4);
        return;
    case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(lua, -1)) { /* cjson.null */
            append_json(encoder, "null", 4);
            return;
        }
    }
    raise_encode_error(encoder, -1, "type not supported");
}

static int cjson_encode(lua_State *lua)
{
    struct encoder encoder = {lua, vm_of(lua), cjson_settings_of(lua), 0};
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    luaL_checkstack(lua, LUA_MINSTACK, "not enough stack");
    encoder.vm->scratch.len = 0;
    append_json_value(&encoder);
    scratch_push(lua);
    return 1;
}

/* ---- the module ---- */

static int new_module(lua_State *lua)
{
    (void)luaopen_cjson(lua);
    return 1;
}

/* Pushes a new module table with its own settings. */
int luaopen_cjson(lua_State *lua)
{
    static const struct luaL_Reg functions[] = {
        {"encode", cjson_encode},
        {"decode", cjson_decode},
        {"encode_sparse_array", encode_sparse_array},
        {"encode_max_depth", encode_max_depth},
        {"decode_max_depth", decode_max_depth},
        {"encode_number_precision", encode_number_precision},
        {"encode_keep_buffer", encode_keep_buffer},
        {"encode_invalid_numbers", encode_invalid_numbers},
        {"decode_invalid_numbers", decode_invalid_numbers},
        {"new", new_module},
    };
    lua_newtable(lua);
    struct cjson_settings *settings = lua_newuserdata(lua, sizeof *settings);
    *settings = defaults;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushvalue(lua, -1);
        lua_pushcclosure(lua, functions[i].func, 1);
        lua_setfield(lua, -3, functions[i].name);
    }
    lua_pop(lua, 1);
    lua_pushlightuserdata(lua, NULL);
    lua_setfield(lua, -2, "null");
    lua_pushliteral(lua, "cjson");
    lua_setfield(lua, -2, "_NAME");
    lua_pushliteral(lua, "2.1.0");
    lua_setfield(lua, -2, "_VERSION");
    return 1;
}

void cjson_install(struct script_vm *vm)
{
    lua_State *lua = vm->lua;
    lua_getglobal(lua, "cjson");
    lua_getfield(lua, -1, "encode");
    (void)lua_getupvalue(lua, -1, 1);
    vm->cjson =
        lua_touserdata(lua, -1); /* lives as long as the function, which the registry references */
    (void)luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_pop(lua, 2);
}

void cjson_reset(struct script_vm *vm)
{
    *vm->cjson = defaults;
}
