#include "guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void guard_init(struct guard *guard, const void *data, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t readable = (len + page) / page * page;
    guard->map_len = readable + page;
    guard->map =
        mmap(NULL, guard->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard->map == MAP_FAILED || mprotect(guard->map + readable, page, PROT_NONE) != 0)
        abort();
    guard->data = guard->map + readable - len;
    guard->len = len;
    if (len)
        memcpy(guard->data, data, len);
}

void guard_fini(struct guard *guard)
{
    if (munmap(guard->map, guard->map_len) != 0)
        abort();
    *guard = (struct guard){0};
}
