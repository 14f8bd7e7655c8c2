/*
 * pack.c - the module `struct`: C structures as strings. Format: https://www.inf.puc-rio.br/~roberto/struct/
 *
 *   < > ! = endianness and alignment    b B h H l L T i[n] I[n] integers    f d floats
 *   c[n] n bytes (c0: the number before gives the length)    s up to a zero byte    x one zero byte
 */
#include "backend/script/vm.h"

#include <ctype.h>
#include <limits.h>

enum { INTEGER_BYTES_MAX = 32, ALIGN_MAX = 8 };

struct format {
    const char *at;
    bool is_little;
    size_t align;
};

static struct format format_of(lua_State *lua)
{
    return (struct format){.at = luaL_checkstring(lua, 1), .is_little = true, .align = 1};
}

static int pop_count(lua_State *lua, struct format *format, int fallback)
{
    int count = 0;
    if (!isdigit((unsigned char)*format->at))
        return fallback;
    for (; isdigit((unsigned char)*format->at); format->at++) {
        int digit = *format->at - '0';
        if (count > (INT_MAX - digit) / 10)
            return luaL_error(lua, "integral size overflow");
        count = count * 10 + digit;
    }
    return count;
}

static size_t parse_size(lua_State *lua, struct format *format, char option)
{
    switch (option) {
    case 'B':
    case 'b':
    case 'x':
        return 1;
    case 'H':
    case 'h':
        return 2;
    case 'f':
        return 4;
    case 'L':
    case 'l':
    case 'T':
    case 'd':
        return 8;
    case 'c':
        return (size_t)pop_count(lua, format, 1);
    case 'i':
    case 'I': {
        int size = pop_count(lua, format, 4);
        if (size > INTEGER_BYTES_MAX)
            luaL_error(lua, "integral size %d is larger than limit of %d", size, INTEGER_BYTES_MAX);
        return (size_t)size;
    }
    default:
        return 0;
    }
}

/* Bytes of padding before this option, by its alignment. */
static size_t padding(const struct format *format, size_t at, char option, size_t size)
{
    if (size == 0 || option == 'c')
        return 0;
    if (size > format->align)
        size = format->align;
    return (size - (at & (size - 1))) & (size - 1);
}

static void control(lua_State *lua, struct format *format, char option)
{
    switch (option) {
    case ' ':
        return;
    case '>':
        format->is_little = false;
        return;
    case '<':
        format->is_little = true;
        return;
    case '!': {
        int align = pop_count(lua, format, ALIGN_MAX);
        if (align <= 0 || align & (align - 1))
            luaL_error(lua, "alignment %d is not a power of 2", align);
        format->align = (size_t)align;
        return;
    }
    default:
        luaL_argerror(lua, 1, lua_pushfstring(lua, "invalid format option '%c'", option));
    }
}

/* ---- pack ---- */

static uint64_t integer_of(lua_Number number)
{
    if (number >= 0)
        return number < 18446744073709551616.0 ? (uint64_t)number : 0;
    return number >= -9223372036854775808.0 ? (uint64_t)(int64_t)number : (uint64_t)INT64_MIN;
}

static void append_integer(luaL_Buffer *buffer, const struct format *format, uint64_t value,
                           size_t size)
{
    char bytes[INTEGER_BYTES_MAX];
    for (size_t i = 0; i < size; i++) {
        bytes[format->is_little ? i : size - 1 - i] = (char)value;
        value >>= 8;
    }
    luaL_addlstring(buffer, bytes, size);
}

static uint64_t float_bits(lua_Number number, size_t size)
{
    uint64_t bits = 0;
    float small = (float)number;
    if (size == 4)
        memcpy(&bits, &small, 4);
    else
        memcpy(&bits, &number, 8);
    return bits;
}

/* Packs one string option; returns the number of bytes added. */
static size_t pack_chars(lua_State *lua, luaL_Buffer *buffer, char option, size_t size, int arg)
{
    size_t len;
    const char *text = luaL_checklstring(lua, arg, &len);
    if (size == 0)
        size = len;
    luaL_argcheck(lua, len >= size, arg + 1, "string too short");
    luaL_addlstring(buffer, text, size);
    if (option == 's')
        luaL_addchar(buffer, '\0');
    return size + (option == 's');
}

static int struct_pack(lua_State *lua)
{
    luaL_Buffer buffer;
    struct format format = format_of(lua);
    size_t total = 0;
    int arg = 2;
    lua_pushnil(lua); /* stands for a missing argument */
    luaL_buffinit(lua, &buffer);
    while (*format.at) {
        char option = *format.at++;
        size_t size = parse_size(lua, &format, option);
        size_t gap = padding(&format, total, option, size);
        total += gap;
        for (; gap; gap--)
            luaL_addchar(&buffer, '\0');
        if (strchr("bBhHlLTiI", option)) {
            append_integer(&buffer, &format, integer_of(luaL_checknumber(lua, arg++)), size);
        } else if (option == 'x') {
            luaL_addchar(&buffer, '\0');
        } else if (option == 'f' || option == 'd') {
            append_integer(&buffer, &format, float_bits(luaL_checknumber(lua, arg++), size), size);
        } else if (option == 'c' || option == 's') {
            size = pack_chars(lua, &buffer, option, size, arg++);
        } else {
            control(lua, &format, option);
        }
        total += size;
    }
    luaL_pushresult(&buffer);
    return 1;
}

/* ---- unpack ---- */

static uint64_t read_bytes(const char *data, const struct format *format, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | (uint8_t)data[format->is_little ? size - 1 - i : i];
    return value;
}

static void push_integer(lua_State *lua, const char *data, const struct format *format, size_t size,
                         bool is_signed)
{
    uint64_t value = read_bytes(data, format, size);
    if (!is_signed) {
        lua_pushnumber(lua, (lua_Number)value);
        return;
    }
    if (size > 0 && size < 8 && value >> (size * 8 - 1))
        value |= UINT64_MAX << (size * 8 - 1);
    lua_pushnumber(lua, (lua_Number)(int64_t)value);
}

static void push_float(lua_State *lua, const char *data, const struct format *format, size_t size)
{
    uint64_t bits = read_bytes(data, format, size);
    float small;
    double number;
    if (size == 4) {
        memcpy(&small, &bits, 4);
        number = (double)small;
    } else {
        memcpy(&number, &bits, 8);
    }
    lua_pushnumber(lua, number);
}

static void check_room(lua_State *lua, struct bytes data, size_t at, size_t size)
{
    luaL_argcheck(lua, size <= data.len && at <= data.len - size, 2, "data string too short");
}

/* Pops the previous result, which is the length of c0. */
static size_t pop_previous(lua_State *lua, int *results)
{
    if (*results == 0 || !lua_isnumber(lua, -1))
        return (size_t)luaL_error(lua, "format 'c0' needs a previous size");
    lua_Number number = lua_tonumber(lua, -1);
    lua_pop(lua, 1);
    --*results;
    return number >= 0 && number < 9223372036854775808.0 ? (size_t)number : SIZE_MAX;
}

static size_t push_text(lua_State *lua, struct bytes data, size_t at)
{
    const char *end = memchr(data.data + at, '\0', data.len - at);
    if (!end)
        return (size_t)luaL_error(lua, "unfinished string in data");
    size_t len = (size_t)(end - data.data) - at;
    lua_pushlstring(lua, data.data + at, len);
    return len + 1;
}

static int unpack(lua_State *lua)
{
    struct format format = format_of(lua);
    struct bytes data;
    int results = 0;
    data.data = luaL_checklstring(lua, 2, &data.len);
    size_t at = (size_t)luaL_optinteger(lua, 3, 1);
    luaL_argcheck(lua, at > 0, 3, "offset must be 1 or greater");
    at--;
    lua_settop(lua, 2);
    while (*format.at) {
        char option = *format.at++;
        size_t size = parse_size(lua, &format, option);
        at += padding(&format, at, option, size);
        check_room(lua, data, at, size);
        luaL_checkstack(lua, 2, "too many results");
        if (strchr("bBhHlLTiI", option)) {
            push_integer(lua, data.data + at, &format, size, islower((unsigned char)option));
            results++;
        } else if (option == 'f' || option == 'd') {
            push_float(lua, data.data + at, &format, size);
            results++;
        } else if (option == 'c') {
            if (size == 0)
                size = pop_previous(lua, &results);
            check_room(lua, data, at, size);
            lua_pushlstring(lua, data.data + at, size);
            results++;
        } else if (option == 's') {
            size = push_text(lua, data, at);
            results++;
        } else if (option != 'x') {
            control(lua, &format, option);
        }
        at += size;
    }
    lua_pushnumber(lua, (lua_Number)at + 1);
    return results + 1;
}

static int struct_size(lua_State *lua)
{
    struct format format = format_of(lua);
    size_t total = 0;
    while (*format.at) {
        char option = *format.at++;
        size_t size = parse_size(lua, &format, option);
        total += padding(&format, total, option, size);
        if (option == 's')
            luaL_argerror(lua, 1, "option 's' has no fixed size");
        if (option == 'c' && size == 0)
            luaL_argerror(lua, 1, "option 'c0' has no fixed size");
        if (!isalnum((unsigned char)option))
            control(lua, &format, option);
        total += size;
    }
    lua_pushnumber(lua, (lua_Number)total);
    return 1;
}

int luaopen_struct(lua_State *lua)
{
    lua_newtable(lua);
    lua_pushcfunction(lua, struct_pack);
    lua_setfield(lua, -2, "pack");
    lua_pushcfunction(lua, unpack);
    lua_setfield(lua, -2, "unpack");
    lua_pushcfunction(lua, struct_size);
    lua_setfield(lua, -2, "size");
    return 1;
}
