/*
 * msgpack.c - the module `cmsgpack`: MessagePack to Lua and back. Format:
 * https://github.com/msgpack/msgpack/blob/master/spec.md
 *
 * Behaves as Redis' module: whole numbers become integers, a table with keys 1..n becomes an array, values nested deeper
 * than NESTING_MAX become nil, and the types bin and ext are refused.
 */
#include "backend/script/vm.h"

#include <math.h>

enum { NESTING_MAX = 16, ITEM_COST = 16 };

/* ---- pack: everything is added to a buffer that owns the top of the stack ---- */

static void append_tagged(luaL_Buffer *buffer, uint8_t tag, uint64_t value, int size)
{
    char bytes[9];
    bytes[0] = (char)tag;
    for (int i = 0; i < size; i++)
        bytes[1 + i] = (char)(value >> (8 * (size - 1 - i)));
    luaL_addlstring(buffer, bytes, (size_t)size + 1);
}

static void add_integer(luaL_Buffer *buffer, int64_t n)
{
    if (n >= 0) {
        if (n <= 127)
            append_tagged(buffer, (uint8_t)n, 0, 0);
        else if (n <= UINT8_MAX)
            append_tagged(buffer, 0xcc, (uint64_t)n, 1);
        else if (n <= UINT16_MAX)
            append_tagged(buffer, 0xcd, (uint64_t)n, 2);
        else if (n <= UINT32_MAX)
            append_tagged(buffer, 0xce, (uint64_t)n, 4);
        else
            append_tagged(buffer, 0xcf, (uint64_t)n, 8);
    } else if (n >= -32) {
        append_tagged(buffer, (uint8_t)n, 0, 0);
    } else if (n >= INT8_MIN) {
        append_tagged(buffer, 0xd0, (uint64_t)n, 1);
    } else if (n >= INT16_MIN) {
        append_tagged(buffer, 0xd1, (uint64_t)n, 2);
    } else if (n >= INT32_MIN) {
        append_tagged(buffer, 0xd2, (uint64_t)n, 4);
    } else {
        append_tagged(buffer, 0xd3, (uint64_t)n, 8);
    }
}

static void add_double(luaL_Buffer *buffer, double value)
{
    uint64_t wide;
    uint32_t narrow;
    if (value >= -9223372036854775808.0 && value < 9223372036854775808.0 &&
        (double)(int64_t)value == value) {
        add_integer(buffer, (int64_t)value);
        return;
    }
    bool is_narrow = isinf(value) || fabs(value) <= 3.4028234663852886e38;
    float small = is_narrow ? (float)value : 0;
    if (is_narrow && (double)small == value) {
        memcpy(&narrow, &small, sizeof narrow);
        append_tagged(buffer, 0xca, narrow, 4);
        return;
    }
    memcpy(&wide, &value, sizeof wide);
    append_tagged(buffer, 0xcb, wide, 8);
}

static void pack_string(luaL_Buffer *buffer, const char *text, size_t len)
{
    if (len < 32)
        append_tagged(buffer, (uint8_t)(0xa0 | len), 0, 0);
    else if (len <= UINT8_MAX)
        append_tagged(buffer, 0xd9, len, 1);
    else if (len <= UINT16_MAX)
        append_tagged(buffer, 0xda, len, 2);
    else
        append_tagged(buffer, 0xdb, len, 4);
    luaL_addlstring(buffer, text, len);
}

static void add_count(luaL_Buffer *buffer, size_t count, uint8_t tag, uint8_t wide)
{
    if (count <= 15)
        append_tagged(buffer, (uint8_t)(tag | count), 0, 0);
    else if (count <= UINT16_MAX)
        append_tagged(buffer, wide, count, 2);
    else
        append_tagged(buffer, (uint8_t)(wide + 1), count, 4);
}

static void push_packed(lua_State *lua, int level);

/* Packs the value at `index` as a separate string, then appends the string: while luaL_Buffer is in use, no other
 * values may be above it on the stack. */
static void append_packed(lua_State *lua, luaL_Buffer *buffer, int index, int level)
{
    lua_pushvalue(lua, index);
    push_packed(lua, level);
    luaL_addvalue(buffer);
}

/* Counts the pairs of the table at `index`. True: its keys are 1..pairs. */
static bool is_lua_array(lua_State *lua, int index, size_t *pairs)
{
    double max = 0;
    bool good = true;
    *pairs = 0;
    for (lua_pushnil(lua); lua_next(lua, index); lua_pop(lua, 1)) {
        double key = lua_type(lua, -2) == LUA_TNUMBER ? lua_tonumber(lua, -2) : 0;
        vm_spend(lua, 1);
        good &= key > 0 && floor(key) == key;
        max = key > max ? key : max;
        ++*pairs;
    }
    return good && max == (double)*pairs;
}

static void pack_array(lua_State *lua, int table, size_t count, int level)
{
    luaL_Buffer buffer;
    luaL_buffinit(lua, &buffer);
    add_count(&buffer, count, 0x90, 0xdc);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(lua, table, (int)i);
        push_packed(lua, level + 1);
        luaL_addvalue(&buffer);
    }
    luaL_pushresult(&buffer);
}

/* Appends a map. luaL_Buffer pushes pieces to the top of the stack, where lua_next expects the last key; so the key is
 * kept in a slot below them. */
static void push_map(lua_State *lua, int table, size_t pairs, int level)
{
    luaL_Buffer buffer;
    lua_pushnil(lua);
    int key = lua_gettop(lua);
    lua_pushnil(lua);
    int value = lua_gettop(lua);
    luaL_buffinit(lua, &buffer);
    add_count(&buffer, pairs, 0x80, 0xde);
    for (;;) {
        lua_pushvalue(lua, key);
        if (!lua_next(lua, table))
            break;
        lua_replace(lua, value);
        lua_replace(lua, key);
        append_packed(lua, &buffer, key, level + 1);
        append_packed(lua, &buffer, value, level + 1);
    }
    luaL_pushresult(&buffer);
    lua_replace(lua, key);
    lua_settop(lua, key);
}

/* Replaces the value at the top of the stack by its packed form. */
static void push_packed(lua_State *lua, int level)
{
    luaL_Buffer buffer;
    size_t len;
    luaL_checkstack(lua, LUA_MINSTACK, "in function pack");
    vm_spend(lua, ITEM_COST);
    int index = lua_gettop(lua);
    if (lua_type(lua, index) == LUA_TTABLE && level < NESTING_MAX) {
        if (is_lua_array(lua, index, &len))
            pack_array(lua, index, len, level);
        else
            push_map(lua, index, len, level);
        lua_replace(lua, index);
        return;
    }
    lua_pushvalue(lua, index);
    int value = lua_gettop(lua);
    luaL_buffinit(lua, &buffer);
    switch (lua_type(lua, value)) {
    case LUA_TSTRING: {
        const char *text = lua_tolstring(lua, value, &len);
        pack_string(&buffer, text, len);
        break;
    }
    case LUA_TBOOLEAN:
        append_tagged(&buffer, lua_toboolean(lua, value) ? 0xc3 : 0xc2, 0, 0);
        break;
    case LUA_TNUMBER:
        add_double(&buffer, lua_tonumber(lua, value));
        break;
    default:
        append_tagged(&buffer, 0xc0, 0, 0);
    }
    luaL_pushresult(&buffer);
    lua_replace(lua, index);
    lua_settop(lua, index);
}

static int msgpack_pack(lua_State *lua)
{
    int argc = lua_gettop(lua);
    if (argc == 0)
        return luaL_argerror(lua, 0, "MessagePack pack needs input.");
    for (int i = 1; i <= argc; i++) {
        lua_pushvalue(lua, i);
        push_packed(lua, 0);
        lua_replace(lua, i);
    }
    lua_concat(lua, argc);
    return 1;
}

/* ---- unpack ---- */

static void skip_bytes(lua_State *lua, struct bytes *rest, size_t count)
{
    if (rest->len < count)
        luaL_error(lua, "Missing bytes in input.");
    rest->data += count;
    rest->len -= count;
}

static uint64_t read_big_endian(lua_State *lua, struct bytes *rest, size_t size)
{
    const uint8_t *at = (const uint8_t *)rest->data;
    uint64_t value = 0;
    skip_bytes(lua, rest, size);
    for (size_t i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

static void push_string(lua_State *lua, struct bytes *rest, uint64_t len)
{
    const char *at = rest->data;
    skip_bytes(lua, rest, len);
    lua_pushlstring(lua, at, len);
}

static void push_unpacked(lua_State *lua, struct bytes *rest);

static void push_items(lua_State *lua, struct bytes *rest, uint64_t count)
{
    lua_newtable(lua);
    for (uint64_t i = 1; i <= count; i++) {
        lua_pushnumber(lua, (lua_Number)i);
        push_unpacked(lua, rest);
        lua_settable(lua, -3);
    }
}

static void unpack_pairs(lua_State *lua, struct bytes *rest, uint64_t count)
{
    lua_newtable(lua);
    for (uint64_t i = 0; i < count; i++) {
        push_unpacked(lua, rest);
        push_unpacked(lua, rest);
        lua_settable(lua, -3);
    }
}

static void unpack_float(lua_State *lua, struct bytes *rest, size_t size)
{
    uint64_t bits = read_big_endian(lua, rest, size);
    if (size == 8) {
        double value;
        memcpy(&value, &bits, sizeof value);
        lua_pushnumber(lua, value);
    } else {
        float value;
        uint32_t narrow = (uint32_t)bits;
        memcpy(&value, &narrow, sizeof value);
        lua_pushnumber(lua, (double)value);
    }
}

/* Reads a value whose tag contains its size, and pushes it. */
static void push_sized(lua_State *lua, struct bytes *rest, uint8_t tag)
{
    switch (tag) {
    case 0xc0:
        lua_pushnil(lua);
        return;
    case 0xc2:
    case 0xc3:
        lua_pushboolean(lua, tag & 1);
        return;
    case 0xca:
    case 0xcb:
        unpack_float(lua, rest, tag == 0xca ? 4 : 8);
        return;
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        lua_pushnumber(lua, (lua_Number)read_big_endian(lua, rest, (size_t)1 << (tag - 0xcc)));
        return;
    case 0xd0:
        lua_pushnumber(lua, (int8_t)read_big_endian(lua, rest, 1));
        return;
    case 0xd1:
        lua_pushnumber(lua, (int16_t)read_big_endian(lua, rest, 2));
        return;
    case 0xd2:
        lua_pushnumber(lua, (int32_t)read_big_endian(lua, rest, 4));
        return;
    case 0xd3:
        lua_pushnumber(lua, (lua_Number)(int64_t)read_big_endian(lua, rest, 8));
        return;
    case 0xd9:
    case 0xda:
    case 0xdb:
        push_string(lua, rest, read_big_endian(lua, rest, (size_t)1 << (tag - 0xd9)));
        return;
    case 0xdc:
    case 0xdd:
        push_items(lua, rest, read_big_endian(lua, rest, tag == 0xdc ? 2 : 4));
        return;
    case 0xde:
    case 0xdf:
        unpack_pairs(lua, rest, read_big_endian(lua, rest, tag == 0xde ? 2 : 4));
        return;
    default:
        luaL_error(lua, "Bad data format in input.");
    }
}

static void push_unpacked(lua_State *lua, struct bytes *rest)
{
    luaL_checkstack(lua, LUA_MINSTACK,
                    "too many return values at once; use unpack_one or "
                    "unpack_limit instead.");
    vm_spend(lua, ITEM_COST);
    uint8_t tag = (uint8_t)read_big_endian(lua, rest, 1);
    if (tag < 0x80)
        lua_pushnumber(lua, tag);
    else if (tag < 0x90)
        unpack_pairs(lua, rest, tag & 0xf);
    else if (tag < 0xa0)
        push_items(lua, rest, tag & 0xf);
    else if (tag < 0xc0)
        push_string(lua, rest, tag & 0x1f);
    else if (tag >= 0xe0)
        lua_pushnumber(lua, (int8_t)tag);
    else
        push_sized(lua, rest, tag);
}

/* Unpacks at most `limit` values from `offset` on. Both 0: all values, and no offset is returned. */
static int unpack_some(lua_State *lua, int limit, int offset)
{
    struct bytes rest;
    int count = 0;
    rest.data = luaL_checklstring(lua, 1, &rest.len);
    size_t len = rest.len;
    bool all = limit == 0 && offset == 0;
    if (offset < 0 || limit < 0)
        return luaL_error(lua, "Invalid request to unpack with offset of %d and limit of %d.",
                          offset, (int)len);
    if ((size_t)offset > len)
        return luaL_error(lua, "Start offset %d greater than input length %d.", offset, (int)len);
    lua_settop(lua, 1);
    rest.data += offset;
    rest.len -= (size_t)offset;
    for (; rest.len && (all || count < limit); count++)
        push_unpacked(lua, &rest);
    if (all)
        return count;
    lua_pushinteger(lua, rest.len ? (lua_Integer)(len - rest.len) : -1);
    lua_insert(lua, 2);
    return count + 1;
}

static int unpack_all(lua_State *lua)
{
    return unpack_some(lua, 0, 0);
}

static int unpack_one(lua_State *lua)
{
    return unpack_some(lua, 1, luaL_optint(lua, 2, 0));
}

static int unpack_limit(lua_State *lua)
{
    int limit = luaL_checkint(lua, 2);
    return unpack_some(lua, limit, luaL_optint(lua, 3, 0));
}

int luaopen_cmsgpack(lua_State *lua)
{
    static const struct luaL_Reg functions[] = {{"pack", msgpack_pack},
                                                {"unpack", unpack_all},
                                                {"unpack_one", unpack_one},
                                                {"unpack_limit", unpack_limit}};
    lua_newtable(lua);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(lua, functions[i].func);
        lua_setfield(lua, -2, functions[i].name);
    }
    lua_pushliteral(lua, "cmsgpack");
    lua_setfield(lua, -2, "_NAME");
    lua_pushliteral(lua, "lua-cmsgpack 0.4.0");
    lua_setfield(lua, -2, "_VERSION");
    return 1;
}
