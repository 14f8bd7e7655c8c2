/*
 * fuzz_script.c - untrusted bytes in a Lua state: cmsgpack.unpack, struct, cjson, patterns, the compiler. Nothing may
 * crash, the memory limit holds, and cmsgpack can pack again what it unpacked.
 */
#include "backend/script/vm.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>

enum { MEMORY_MAX = 8 * 1024 * 1024, TIME_US = 100000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char program[] = "local data = ...\n"
                              "local values = {pcall(cmsgpack.unpack, data)}\n"
                              "if values[1] then pcall(cmsgpack.pack, unpack(values)) end\n"
                              "pcall(cmsgpack.unpack_limit, data, 3, 1)\n"
                              "local cut = (data:byte(1) or 0) % 16 + 1\n"
                              "local format, rest = data:sub(1, cut), data:sub(cut + 1)\n"
                              "pcall(struct.unpack, format, rest)\n"
                              "pcall(struct.size, format)\n"
                              "pcall(struct.pack, format, 1, 2, rest, 3, rest, 4, 5)\n"
                              "pcall(struct.pack, format, rest, rest, 1, rest)\n"
                              "pcall(string.find, rest, format)\n"
                              "pcall(string.gsub, rest, format, rest)\n"
                              "pcall(function() for a in string.gmatch(rest, format) do end end)\n"
                              "values = {pcall(cjson.decode, data)}\n"
                              "if values[1] then cjson.encode_invalid_numbers('null')\n"
                              "  cjson.encode_sparse_array(true) cjson.encode(values[2]) end\n"
                              "pcall(cjson.encode, data)\n"
                              "pcall(loadstring, data)\n";

struct input {
    const uint8_t *data;
    size_t size;
};

static int run(lua_State *lua)
{
    const struct input *input = lua_touserdata(lua, 1);
    CHECK(vm_compile(lua, program, sizeof program - 1, "@fuzz") == 0);
    lua_pushlstring(lua, (const char *)input->data, input->size);
    lua_call(lua, 1, 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct script_set set;
    static struct scripts scripts = {.set = &set};
    static struct script_vm *vm;
    char error[256];
    struct input input = {data, size};
    if (!vm)
        vm = vm_new(&scripts, MEMORY_MAX, SCRIPT_EVAL);
    vm->load_until_us = clock_thread_us() + TIME_US;
    (void)vm_protect(vm, run, &input, error, sizeof error);
    vm_hook(vm);
    CHECK(vm->used <= MEMORY_MAX);
    lua_settop(vm->lua, 0);
    return 0;
}
