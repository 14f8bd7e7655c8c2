/*
 * Hostile arguments for every function that a script can call: none may crash, exceed the memory limit of the Lua
 * state, or run beyond its time limit. Run it under the sanitizers.
 */
#include "backend/script/vm.h"
#include "shared/clock.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

enum { MEMORY_MAX = 8 * 1024 * 1024, TIME_US = 10000, RANDOM_CALLS = 40000 };

/* attack(a, b, c, d, e): calls function a with the values b to e; 0 ends the list of values. */
static const char program[] =
    "local functions, names, seen = {}, {}, {}\n"
    "local function collect(path, table)\n"
    "  if seen[table] then return end\n"
    "  seen[table] = true\n"
    "  local keys = {}\n"
    "  for key in pairs(table) do if type(key) == 'string' then keys[#keys + 1] = key end end\n"
    "  for i = 1, #keys do\n"
    "    local value = table[keys[i]]\n"
    "    if type(value) == 'table' then collect(path .. keys[i] .. '.', value) end\n"
    "    if type(value) == 'function' then\n"
    "      functions[#functions + 1] = value\n"
    "      names[#names + 1] = path .. keys[i]\n"
    "    end\n"
    "  end\n"
    "end\n"
    "collect('', _G)\n"
    "local s = string.rep\n"
    "local plain = {true, 0, 1, -1, 3, 0.5, 33, 2^31 - 1, -2^31, 2^31, 2^32 + 1, 2^53, -2^63, "
    "1e308,\n"
    "  1/0, -1/0, 0/0, '', 'a', '%', '[', '\\0', '%b', '(()', '-2147483648', '0x7fffffff', '%1',\n"
    "  '%99.99f%99d%q%s%5c', 'c2147483647', 'i32!1073741824s', '<I99999999999', 'c0', '%f[%z]', "
    "'[%',\n"
    "  '\\223\\255\\255\\255\\255', '\\219\\255\\255\\255\\255a', '{\"a\":[\"\\\\ud800\\\\u', "
    "'\\27Lua',\n"
    "  'return ' .. s('a and ', 3000) .. 'a', s('a', 100000), s('.-', 8000) .. 'b', s('[', 5000), "
    "s('(', 40),\n"
    "  s('\\145', 5000), s('b', 2000) .. '\\0', cjson.null, pcall}\n"
    "local function value_of(i)\n"
    "  if i <= #plain then return plain[i] end\n"
    "  local t = {}\n"
    "  i = i - #plain\n"
    "  if i == 1 then return t end\n"
    "  if i == 2 then return {1, 2, 'a'} end\n"
    "  if i == 3 then t[1] = t t.a = t return t end\n"
    "  if i == 4 then return {[2^31 - 1] = 1, [1] = 2} end\n"
    "  if i == 5 then return setmetatable({}, {__index = error, __lt = error, __concat = error}) "
    "end\n"
    "  if i == 6 then for j = 1, 60 do t = {t, t} end return t end\n"
    "  if i == 7 then for j = 1, 300 do t[j] = plain[39] end return t end\n"
    "  if i == 8 then return function(...) return ... end end\n"
    "  if i == 9 then return coroutine.create(coroutine.yield) end\n"
    "  if i == 10 then return string.upper end\n"
    "  return nil\n"
    "end\n"
    "local count = #plain + 11\n"
    "local function attack(f, a, b, c, d)\n"
    "  if not f then return #functions, count end\n"
    "  if names[f] == 'redis.log' then return names[f] end\n"
    "  if d > 0 then pcall(functions[f], value_of(a), value_of(b), value_of(c), value_of(d))\n"
    "  elseif c > 0 then pcall(functions[f], value_of(a), value_of(b), value_of(c))\n"
    "  elseif b > 0 then pcall(functions[f], value_of(a), value_of(b))\n"
    "  elseif a > 0 then pcall(functions[f], value_of(a))\n"
    "  else pcall(functions[f]) end\n"
    "  return names[f]\n"
    "end\n"
    "return attack\n";

struct attack {
    struct script_vm *vm;
    int ref; /* reference to attack() */
    int functions;
    int values;
    int arguments[5]; /* indexes of the function and its arguments */
};

static int begin(lua_State *lua)
{
    struct attack *attack = lua_touserdata(lua, 1);
    ck_assert_int_eq(vm_compile(lua, program, sizeof program - 1, "@attack"), 0);
    lua_call(lua, 0, 1);
    lua_pushvalue(lua, -1);
    attack->ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_call(lua, 0, 2);
    attack->functions = (int)lua_tointeger(lua, -2);
    attack->values = (int)lua_tointeger(lua, -1);
    return 0;
}

static int strike(lua_State *lua)
{
    struct attack *attack = lua_touserdata(lua, 1);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, attack->ref);
    for (int i = 0; i < 5; i++)
        lua_pushinteger(lua, attack->arguments[i]);
    lua_call(lua, 5, 1);
    return 0;
}

static void strike_once(struct attack *attack)
{
    char error[256];
    struct script_vm *vm = attack->vm;
    vm->load_until_us = clock_thread_us() + TIME_US;
    (void)vm_protect(vm, strike, attack, error, sizeof error);
    vm->load_until_us = 0;
    vm_hook(vm);
    lua_settop(vm->lua, 0);
    ck_assert_uint_le(vm->used, MEMORY_MAX);
}

static struct script_set set;
static struct scripts scripts = {.set = &set};

static void setup(struct attack *attack)
{
    char error[256] = "";
    *attack = (struct attack){.vm = vm_new(&scripts, MEMORY_MAX, SCRIPT_EVAL)};
    ck_assert_msg(vm_protect(attack->vm, begin, attack, error, sizeof error), "%s", error);
    ck_assert_int_gt(attack->functions, 100);
}

START_TEST(no_function_crashes_with_one_hostile_argument)
{
    struct attack attack;
    setup(&attack);
    int *arguments = attack.arguments;
    for (arguments[0] = 1; arguments[0] <= attack.functions; arguments[0]++)
        for (arguments[1] = 0; arguments[1] <= attack.values; arguments[1]++)
            strike_once(&attack);
    vm_free(attack.vm);
}
END_TEST

START_TEST(no_function_crashes_with_hostile_arguments_by_chance)
{
    struct attack attack;
    unsigned short seed[3] = {1, 2, 3};
    setup(&attack);
    for (int i = 0; i < RANDOM_CALLS; i++) {
        attack.arguments[0] = 1 + (int)(nrand48(seed) % attack.functions);
        for (int j = 1; j < 5; j++)
            attack.arguments[j] = 1 + (int)(nrand48(seed) % attack.values);
        for (int j = 4; j > 2 && nrand48(seed) % 4; j--)
            attack.arguments[j] = 0;
        strike_once(&attack);
    }
    vm_free(attack.vm);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("script libraries");
    TCase *cases = tcase_create("all");
    tcase_set_timeout(cases, 600);
    tcase_add_test(cases, no_function_crashes_with_one_hostile_argument);
    tcase_add_test(cases, no_function_crashes_with_hostile_arguments_by_chance);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
