/*
 * error_line.c - the source and line of a script's error, which its text ends with.
 */
#include "backend/script/vm.h"

#include <string.h>

/* Finds the place on the level, or below it if that is a function in C. */
static bool find_line(lua_State *lua, int level, lua_Debug *where)
{
    bool known = lua_getstack(lua, level, where) && lua_getinfo(lua, "Sl", where);
    if (known && strcmp(where->what, "C") == 0)
        known = lua_getstack(lua, level + 1, where) && lua_getinfo(lua, "Sl", where);
    return known;
}

void vm_place_error(lua_State *lua, lua_State *of, int level)
{
    lua_Debug where;
    bool known = find_line(of, level, &where);
    lua_settop(lua, 1);
    if (!lua_istable(lua, 1)) {
        lua_newtable(lua);
        const char *text = lua_tostring(lua, 1);
        lua_pushfstring(lua, "ERR %s", text ? text : luaL_typename(lua, 1));
        lua_setfield(lua, -2, "err");
        lua_replace(lua, 1);
    }
    if (known && !sandbox_is_readonly(lua, 1)) {
        lua_pushliteral(lua, "source");
        lua_pushstring(lua, where.source);
        lua_rawset(lua, 1);
        lua_pushliteral(lua, "line");
        lua_pushinteger(lua, where.currentline);
        lua_rawset(lua, 1);
    }
}
