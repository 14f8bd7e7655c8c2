/*
 * bit.c - the module `bit`: operations on 32-bit integers, as https://bitop.luajit.org/api.html describes them.
 *
 * It replaces lua-bitop, which writes beyond a buffer on the stack for bit.tohex(1, -2147483648) (CVE-2024-31449).
 */
#include "backend/script/vm.h"

#include <limits.h>

enum { HEX_DIGITS = 8, BITS = 32 };

/* Adding this to a number puts the number, rounded half to even, modulo 2^32, into the low 32 bits of the sum. */
static const double magic = 6755399441055744.0; /* 2^52 + 2^51 */

static uint32_t argument(lua_State *lua, int index)
{
    uint64_t bits;
    double number = lua_tonumber(lua, index);
    if (number == 0 && !lua_isnumber(lua, index))
        luaL_typerror(lua, index, "number");
    number += magic;
    memcpy(&bits, &number, sizeof bits);
    return (uint32_t)bits;
}

static int push_int32(lua_State *lua, uint32_t value)
{
    lua_pushnumber(lua, (lua_Number)(int32_t)value);
    return 1;
}

static uint32_t rotate_left(uint32_t value, uint32_t count)
{
    return value << count | value >> ((BITS - count) % BITS);
}

static int bit_tobit(lua_State *lua)
{
    return push_int32(lua, argument(lua, 1));
}

static int bit_bnot(lua_State *lua)
{
    return push_int32(lua, ~argument(lua, 1));
}

static int bit_band(lua_State *lua)
{
    uint32_t value = argument(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--)
        value &= argument(lua, i);
    return push_int32(lua, value);
}

static int bit_bor(lua_State *lua)
{
    uint32_t value = argument(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--)
        value |= argument(lua, i);
    return push_int32(lua, value);
}

static int bit_bxor(lua_State *lua)
{
    uint32_t value = argument(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--)
        value ^= argument(lua, i);
    return push_int32(lua, value);
}

static int bit_lshift(lua_State *lua)
{
    uint32_t value = argument(lua, 1);
    return push_int32(lua, value << argument(lua, 2) % BITS);
}

static int bit_rshift(lua_State *lua)
{
    uint32_t value = argument(lua, 1);
    return push_int32(lua, value >> argument(lua, 2) % BITS);
}

static int bit_arshift(lua_State *lua)
{
    int32_t value = (int32_t)argument(lua, 1);
    return push_int32(lua, (uint32_t)(value >> argument(lua, 2) % BITS));
}

static int bit_rol(lua_State *lua)
{
    uint32_t value = argument(lua, 1);
    return push_int32(lua, rotate_left(value, argument(lua, 2) % BITS));
}

static int bit_ror(lua_State *lua)
{
    uint32_t value = argument(lua, 1);
    return push_int32(lua, rotate_left(value, (BITS - argument(lua, 2) % BITS) % BITS));
}

static int bit_bswap(lua_State *lua)
{
    return push_int32(lua, __builtin_bswap32(argument(lua, 1)));
}

/* The second argument is the number of digits; a negative one gives capital letters. */
static int bit_tohex(lua_State *lua)
{
    char text[HEX_DIGITS];
    uint32_t value = argument(lua, 1);
    int64_t count = lua_isnone(lua, 2) ? HEX_DIGITS : (int32_t)argument(lua, 2);
    const char *digits = count < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
    count = count < 0 ? -count : count;
    count = count > HEX_DIGITS ? HEX_DIGITS : count;
    for (int64_t i = count; i-- > 0; value >>= 4)
        text[i] = digits[value & 15];
    lua_pushlstring(lua, text, (size_t)count);
    return 1;
}

int luaopen_bit(lua_State *lua)
{
    static const struct luaL_Reg functions[] = {
        {"tobit", bit_tobit},   {"bnot", bit_bnot},       {"band", bit_band},
        {"bor", bit_bor},       {"bxor", bit_bxor},       {"lshift", bit_lshift},
        {"rshift", bit_rshift}, {"arshift", bit_arshift}, {"rol", bit_rol},
        {"ror", bit_ror},       {"bswap", bit_bswap},     {"tohex", bit_tohex},
    };
    lua_newtable(lua);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(lua, functions[i].func);
        lua_setfield(lua, -2, functions[i].name);
    }
    return 1;
}
