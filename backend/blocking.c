#include "backend/blocking.h"

#include "backend/call.h"

bool blocking_wait(struct call *call, const struct bytes *keys, uint32_t count, uint64_t timeout_ms)
{
    return blocking_wait_as(call, keys, count, timeout_ms, call->argv, call->argc);
}

bool blocking_wait_as(struct call *call, const struct bytes *keys, uint32_t count,
                      uint64_t timeout_ms, const struct bytes *argv, uint32_t argc)
{
    (void)keys;
    (void)count;
    (void)timeout_ms;
    (void)argv;
    (void)argc;
    (void)call;
    return false;
}

bool blocking_timeout(struct call *call, uint32_t index, uint64_t *timeout_ms)
{
    (void)call;
    (void)index;
    *timeout_ms = 0;
    return true;
}
