#include "shared/big_memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    MAPPED_MIN = 32 * 1024 * 1024, /* malloc keeps less for the next value, without page faults */
#ifdef __SANITIZE_ADDRESS__
    IS_MAPPING = 0, /* the sanitizer sees nothing in a mapping */
#else
    IS_MAPPING = 1,
#endif
};

static bool is_mapped(size_t bytes)
{
    return IS_MAPPING && bytes >= MAPPED_MIN;
}

/* mmap and mremap fail with MAP_FAILED. */
static void *mapped_or_null(void *mapping)
{
    return mapping == MAP_FAILED ? NULL : mapping;
}

void *big_alloc(size_t bytes)
{
    if (!is_mapped(bytes))
        return malloc(bytes);
    return mapped_or_null(
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

void big_free(void *memory, size_t bytes)
{
    if (!is_mapped(bytes))
        free(memory);
    else if (memory)
        (void)munmap(memory, bytes);
}

void *big_grow(void *memory, size_t bytes, size_t more)
{
    if (!is_mapped(bytes))
        return NULL;
    return mapped_or_null(mremap(memory, bytes, more, MREMAP_MAYMOVE));
}
