/*
 * convert.c - RESP to Lua and back: https://redis.io/docs/latest/develop/programmability/lua-api/#data-type-conversion
 *
 * Tables are read without metamethods, so a script's metatables do not change its reply. Each value and each field that is counted is work
 * (vm_spend): tables may contain each other, so a small script can make a reply that takes very long.
 */
#include "backend/script/vm.h"

#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <stdlib.h>

enum { VALUE_WORK = 10, STACK_NEEDED = 8, REPLY_STACK = 4, REPLY_VALUES_MAX = 8 << 20 };

static void set_text_field(lua_State *lua, const char *field, struct bytes text)
{
    lua_pushlstring(lua, text.data, text.len);
    lua_setfield(lua, -2, field);
}

void convert_push_error(lua_State *lua, const char *text, size_t len)
{
    while (len && (text[len - 1] == '\r' || text[len - 1] == '\n'))
        len--;
    if (len && *text == '-')
        text++, len--;
    lua_newtable(lua);
    if (memchr(text, ' ', len))
        lua_pushlstring(lua, text, len);
    else {
        lua_pushliteral(lua, "ERR ");
        lua_pushlstring(lua, text, len);
        lua_concat(lua, 2);
    }
    lua_setfield(lua, -2, "err");
}

/* ---- RESP → Lua ---- */

static void convert_value(lua_State *lua, struct bytes frame, size_t *pos);

static void convert_array(lua_State *lua, struct bytes frame, size_t *pos, int64_t count)
{
    lua_newtable(lua);
    for (int64_t i = 1; i <= count; i++) {
        convert_value(lua, frame, pos);
        lua_rawseti(lua, -2, (int)i);
    }
}

static void convert_pairs(lua_State *lua, struct bytes frame, size_t *pos, int64_t count,
                          bool is_map)
{
    lua_newtable(lua);
    lua_newtable(lua);
    for (int64_t i = 0; i < count; i++) {
        convert_value(lua, frame, pos);
        if (is_map)
            convert_value(lua, frame, pos);
        else
            lua_pushboolean(lua, 1);
        if (lua_isnil(lua, -2))
            lua_pop(lua, 2);
        else
            lua_rawset(lua, -3);
    }
    lua_setfield(lua, -2, is_map ? "map" : "set");
}

static void push_verbatim(lua_State *lua, struct bytes text)
{
    lua_newtable(lua);
    lua_newtable(lua);
    set_text_field(lua, "format", (struct bytes){text.data, text.len < 3 ? text.len : 3});
    set_text_field(lua, "string",
                   text.len > 4 ? (struct bytes){text.data + 4, text.len - 4} : BYTES(""));
    lua_setfield(lua, -2, "verbatim_string");
}

static void push_double(lua_State *lua, struct bytes text)
{
    char copy[DOUBLE_TEXT_MAX];
    size_t len = text.len < sizeof copy - 1 ? text.len : sizeof copy - 1;
    memcpy(copy, text.data, len);
    copy[len] = 0;
    lua_newtable(lua);
    lua_pushnumber(lua, strtod(copy, NULL));
    lua_setfield(lua, -2, "double");
}

static void push_null(lua_State *lua, char type)
{
    if (type == '_')
        lua_pushnil(lua);
    else
        lua_pushboolean(lua, 0);
}

static void push_scalar(lua_State *lua, const struct resp_value *value)
{
    switch (value->type) {
    case ':':
        lua_pushnumber(lua, (lua_Number)value->count);
        break;
    case '+':
        lua_newtable(lua);
        set_text_field(lua, "ok", value->text);
        break;
    case '-':
        convert_push_error(lua, value->text.data, value->text.len);
        lua_pushboolean(lua, 1);
        lua_setfield(lua, -2, "ignore_error_stats_update");
        break;
    case '#':
        lua_pushboolean(lua, value->count != 0);
        break;
    case ',':
        push_double(lua, value->text);
        break;
    case '(':
        lua_newtable(lua);
        set_text_field(lua, "big_number", value->text);
        break;
    case '=':
        push_verbatim(lua, value->text);
        break;
    default:
        lua_pushlstring(lua, value->text.data, value->text.len);
    }
}

/* Pushes the value at *pos. Recursive: the depth is small, because frames are replies of this server. */
static void convert_value(lua_State *lua, struct bytes frame, size_t *pos)
{
    struct resp_value value;
    vm_spend(lua, VALUE_WORK);
    luaL_checkstack(lua, STACK_NEEDED, "reply");
    if (!resp_value_next(frame, pos, &value)) {
        lua_pushboolean(lua, 0);
        return;
    }
    if (value.is_null || value.type == '_')
        push_null(lua, value.type);
    else if (value.type == '*' || value.type == '>')
        convert_array(lua, frame, pos, value.count);
    else if (value.type == '%' || value.type == '~')
        convert_pairs(lua, frame, pos, value.count, value.type == '%');
    else
        push_scalar(lua, &value);
}

void convert_to_lua(lua_State *lua, struct bytes frame)
{
    size_t pos = 0;
    convert_value(lua, frame, &pos);
}

/* ---- Lua → RESP ---- */

/* Pushes the field if it has exactly this type: lua_isstring is also true for a number, which Redis does not accept. */
static bool push_field(lua_State *lua, const char *name, int type)
{
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    if (lua_type(lua, -1) == type)
        return true;
    lua_pop(lua, 1);
    return false;
}

static struct bytes text_at(lua_State *lua, int index)
{
    struct bytes text;
    text.data = lua_tolstring(lua, index, &text.len);
    return text;
}

static void reply_line(struct reply *reply, char type, struct bytes text)
{
    out_write(reply->out, &type, 1);
    for (size_t i = 0, end; i < text.len; i = end + 1) {
        for (end = i; end < text.len && text.data[end] != '\r' && text.data[end] != '\n';)
            end++;
        out_write(reply->out, text.data + i, end - i);
        if (end < text.len)
            out_write(reply->out, " ", 1);
    }
    out_write(reply->out, "\r\n", 2);
}

static void reply_pairs(lua_State *lua, struct script_run *run, bool is_map)
{
    int64_t count = 0;
    for (lua_pushnil(lua); lua_next(lua, -2); lua_pop(lua, 1)) {
        vm_spend(lua, 1);
        count++;
    }
    if (is_map)
        reply_map(&run->call->reply, count);
    else
        reply_set(&run->call->reply, count);
    lua_pushnil(lua);
    while (lua_next(lua, -2)) {
        if (!is_map)
            lua_pop(lua, 1);
        lua_pushvalue(lua, is_map ? -2 : -1); /* the key, which lua_next needs again */
        convert_to_reply(lua, run);
        if (is_map)
            convert_to_reply(lua, run);
        if (convert_is_too_long(run)) {
            lua_pop(lua, 1);
            return;
        }
    }
}

static void reply_big_number(struct reply *reply, struct bytes text)
{
    if (reply->resp > 2)
        reply_line(reply, '(', text);
    else
        reply_bulk(reply, text);
}

/* {verbatim_string = {format = …, string = …}}; pops the inner table. */
static bool reply_verbatim_table(lua_State *lua, struct reply *reply)
{
    bool good = false;
    if (push_field(lua, "format", LUA_TSTRING)) {
        char format[4] = "   ";
        struct bytes text = text_at(lua, -1);
        memcpy(format, text.data, text.len < 3 ? text.len : 3);
        lua_pop(lua, 1);
        if (push_field(lua, "string", LUA_TSTRING)) {
            reply_verbatim(reply, format, text_at(lua, -1));
            lua_pop(lua, 1);
            good = true;
        }
    }
    lua_pop(lua, 1);
    return good;
}

static void reply_list(lua_State *lua, struct script_run *run)
{
    int count = 0;
    for (bool more = true; more; count += more) {
        lua_rawgeti(lua, -1, count + 1);
        more = !lua_isnil(lua, -1);
        lua_pop(lua, 1);
        vm_spend(lua, 1);
    }
    reply_array(&run->call->reply, count);
    for (int i = 1; i <= count && !convert_is_too_long(run); i++) {
        lua_rawgeti(lua, -1, i);
        convert_to_reply(lua, run);
    }
}

/* Replies the error text at the top of the stack, which is a field of the table below. errorstats counts the error
 * unless a command has already replied and counted it. */
static void reply_error_field(lua_State *lua, struct script_run *run)
{
    struct bytes text = text_at(lua, -1);
    lua_pushliteral(lua, "ignore_error_stats_update");
    lua_rawget(lua, -3);
    if (!lua_toboolean(lua, -1))
        stats_error(run->call->partition->metrics.stats,
                    memchr(text.data, ' ', text.len) ? text.data : "ERR");
    lua_pop(lua, 1);
    run->call->failed = true;
    reply_line(&run->call->reply, '-', text);
}

/* Replies the table at the top of the stack, which stays there. */
static void reply_table(lua_State *lua, struct script_run *run)
{
    struct reply *reply = &run->call->reply;
    if (push_field(lua, "err", LUA_TSTRING)) {
        reply_error_field(lua, run);
    } else if (push_field(lua, "ok", LUA_TSTRING)) {
        reply_line(reply, '+', text_at(lua, -1));
    } else if (push_field(lua, "double", LUA_TNUMBER)) {
        reply_double(reply, lua_tonumber(lua, -1));
    } else if (push_field(lua, "map", LUA_TTABLE)) {
        reply_pairs(lua, run, true);
    } else if (push_field(lua, "set", LUA_TTABLE)) {
        reply_pairs(lua, run, false);
    } else if (push_field(lua, "big_number", LUA_TSTRING)) {
        reply_big_number(reply, text_at(lua, -1));
    } else {
        if (push_field(lua, "verbatim_string", LUA_TTABLE) && reply_verbatim_table(lua, reply))
            return;
        reply_list(lua, run);
        return;
    }
    lua_pop(lua, 1);
}

static void reply_lua_number(struct reply *reply, lua_Number number)
{
    bool fits = number > -9223372036854775808.0 && number < 9223372036854775808.0;
    reply_int(reply, fits ? (int64_t)number : INT64_MIN);
}

/* True: the reply has too many values, e.g. because a table contains itself. */
bool convert_is_too_long(const struct script_run *run)
{
    return run->values > REPLY_VALUES_MAX || out_is_over(run->call->reply.out);
}

void convert_to_reply(lua_State *lua, struct script_run *run)
{
    struct reply *reply = &run->call->reply;
    if (convert_is_too_long(run)) {
        lua_pop(lua, 1);
        return;
    }
    run->values++;
    vm_spend(lua, VALUE_WORK);
    if (!lua_checkstack(lua, REPLY_STACK)) {
        reply_error(reply, "ERR reached lua stack limit");
        lua_pop(lua, 1);
        return;
    }
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        reply_bulk(reply, text_at(lua, -1));
        break;
    case LUA_TBOOLEAN:
        if (run->resp > 2)
            reply_bool(reply, lua_toboolean(lua, -1));
        else if (lua_toboolean(lua, -1))
            reply_int(reply, 1);
        else
            reply_null(reply);
        break;
    case LUA_TNUMBER:
        reply_lua_number(reply, lua_tonumber(lua, -1));
        break;
    case LUA_TTABLE:
        reply_table(lua, run);
        break;
    default:
        reply_null(reply);
    }
    lua_pop(lua, 1);
}
