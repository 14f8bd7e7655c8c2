/*
 * fuzz_script.c - bytes from outside in a Lua state: cmsgpack.unpack, struct, the compiler. Nothing may crash, the
 * memory limit holds, and what cmsgpack has unpacked it packs again.
 */
#include "backend/script/vm.h"
#include "shared/check.h"

#include <stdlib.h>

enum { MEMORY_MAX = 8 * 1024 * 1024 };

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
    static struct scripts scripts;
    static struct script_vm *vm;
    char error[256];
    struct input input = {data, size};
    if (!vm)
        vm = vm_new(&scripts, MEMORY_MAX, true);
    (void)vm_protect(vm, run, &input, error, sizeof error);
    CHECK(vm->used <= MEMORY_MAX);
    lua_settop(vm->lua, 0);
    return 0;
}
