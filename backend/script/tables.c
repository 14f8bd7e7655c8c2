/*
 * tables.c - functions of the module `table` whose single calls may take long. They count their work, so that the
 * time limit and SCRIPT KILL can end them, and they refuse readonly tables.
 */
#include "backend/script/vm.h"

#include <limits.h>

enum { SORT_STACK = 40, COMPARE_COST = 8, CALL_COST = 1000 };

static int length_of(lua_State *lua, int index)
{
    luaL_checktype(lua, index, LUA_TTABLE);
    return (int)lua_objlen(lua, index);
}

static void move_item(lua_State *lua, int from, int to)
{
    vm_spend(lua, 1);
    lua_rawgeti(lua, 1, from);
    lua_rawseti(lua, 1, to);
}

static int table_insert(lua_State *lua)
{
    int end = length_of(lua, 1) + 1;
    int place = end;
    sandbox_refuse_readonly(lua);
    if (lua_gettop(lua) == 3) {
        place = luaL_checkint(lua, 2);
        for (int i = end; i > place; i--)
            move_item(lua, i - 1, i);
    } else if (lua_gettop(lua) != 2) {
        return luaL_error(lua, "wrong number of arguments to 'insert'");
    }
    lua_rawseti(lua, 1, place);
    return 0;
}

static int table_remove(lua_State *lua)
{
    int end = length_of(lua, 1);
    int place = luaL_optint(lua, 2, end);
    if (place < 1 || place > end)
        return 0;
    lua_rawgeti(lua, 1, place);
    for (int i = place; i < end; i++)
        move_item(lua, i + 1, i);
    lua_pushnil(lua);
    lua_rawseti(lua, 1, end);
    return 1;
}

/* ---- sort: Lua's quicksort, so that equal items end in the same order as in Lua ---- */

static size_t compare_cost(lua_State *lua, int index)
{
    switch (lua_type(lua, index)) {
    case LUA_TNUMBER:
        return COMPARE_COST;
    case LUA_TSTRING:
        return COMPARE_COST + lua_objlen(lua, index);
    default:
        return CALL_COST; /* cost of a metamethod */
    }
}

/* Is the value at stack index a less than the value at b? Both indexes are negative. */
static bool is_less(lua_State *lua, int a, int b)
{
    if (lua_isnil(lua, 2)) {
        vm_spend(lua, compare_cost(lua, a));
        return lua_lessthan(lua, a, b);
    }
    vm_spend(lua, CALL_COST);
    lua_pushvalue(lua, 2);
    lua_pushvalue(lua, a - 1);
    lua_pushvalue(lua, b - 2);
    lua_call(lua, 2, 1);
    bool is = lua_toboolean(lua, -1);
    lua_pop(lua, 1);
    return is;
}

/* Pops two values: stores the top value as item i, the value below as item j. */
static void put_two(lua_State *lua, int i, int j)
{
    lua_rawseti(lua, 1, i);
    lua_rawseti(lua, 1, j);
}

static void push_two(lua_State *lua, int i, int j)
{
    lua_rawgeti(lua, 1, i);
    lua_rawgeti(lua, 1, j);
}

/* Sorts the first, the middle and the last item; true: the range has no other items. */
static bool sort_three(lua_State *lua, int first, int middle, int last)
{
    push_two(lua, first, last);
    if (is_less(lua, -1, -2))
        put_two(lua, first, last);
    else
        lua_pop(lua, 2);
    if (last - first == 1)
        return true;
    push_two(lua, middle, first);
    if (is_less(lua, -2, -1)) {
        put_two(lua, middle, first);
    } else {
        lua_pop(lua, 1);
        lua_rawgeti(lua, 1, last);
        if (is_less(lua, -1, -2))
            put_two(lua, middle, last);
        else
            lua_pop(lua, 2);
    }
    return last - first == 2;
}

/* Moves items less than the pivot before the others; the pivot is item last - 1 and at the top of the stack. Returns
 * its new index. */
static int partition(lua_State *lua, int first, int last)
{
    int i = first;
    int j = last - 1;
    for (;;) {
        while (lua_rawgeti(lua, 1, ++i), is_less(lua, -1, -2)) {
            if (i > last)
                luaL_error(lua, "invalid order function for sorting");
            lua_pop(lua, 1);
        }
        while (lua_rawgeti(lua, 1, --j), is_less(lua, -3, -1)) {
            if (j < first)
                luaL_error(lua, "invalid order function for sorting");
            lua_pop(lua, 1);
        }
        if (j < i)
            break;
        put_two(lua, i, j);
    }
    lua_pop(lua, 3);
    push_two(lua, last - 1, i);
    put_two(lua, last - 1, i);
    return i;
}

/* Sorts the items. Only the smaller part is sorted recursively, so the depth is logarithmic. */
static void sort_range(lua_State *lua, int first, int last)
{
    while (first < last) {
        int middle = first + (last - first) / 2;
        if (sort_three(lua, first, middle, last))
            break;
        lua_rawgeti(lua, 1, middle);
        lua_pushvalue(lua, -1);
        lua_rawgeti(lua, 1, last - 1);
        put_two(lua, middle, last - 1);
        int pivot = partition(lua, first, last);
        if (pivot - first < last - pivot) {
            sort_range(lua, first, pivot - 1);
            first = pivot + 1;
        } else {
            sort_range(lua, pivot + 1, last);
            last = pivot - 1;
        }
    }
}

static int table_sort(lua_State *lua)
{
    int length = length_of(lua, 1);
    luaL_checkstack(lua, SORT_STACK, "");
    if (!lua_isnoneornil(lua, 2))
        luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_settop(lua, 2);
    sort_range(lua, 1, length);
    return 0;
}

/* ---- foreach ---- */

/* Calls the function with the key and value at the top; true: it returned a value, which is at the top. */
static bool call_visitor(lua_State *lua)
{
    vm_spend(lua, CALL_COST);
    lua_pushvalue(lua, 2);
    lua_pushvalue(lua, -3);
    lua_pushvalue(lua, -3);
    lua_call(lua, 2, 1);
    if (!lua_isnil(lua, -1))
        return true;
    lua_pop(lua, 2); /* the key stays */
    return false;
}

static int table_foreach(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    for (lua_pushnil(lua); lua_next(lua, 1);)
        if (call_visitor(lua))
            return 1;
    return 0;
}

static int table_foreachi(lua_State *lua)
{
    int length = length_of(lua, 1);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    for (int i = 1; i <= length; i++) {
        lua_pushinteger(lua, i);
        lua_rawgeti(lua, 1, i);
        if (call_visitor(lua))
            return 1;
        lua_pop(lua, 1);
    }
    return 0;
}

void tables_install(lua_State *lua)
{
    static const struct luaL_Reg functions[] = {{"insert", table_insert},
                                                {"remove", table_remove},
                                                {"sort", table_sort},
                                                {"foreach", table_foreach},
                                                {"foreachi", table_foreachi}};
    lua_getglobal(lua, "table");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(lua, functions[i].func);
        lua_setfield(lua, -2, functions[i].name);
    }
    lua_pop(lua, 1);
}
