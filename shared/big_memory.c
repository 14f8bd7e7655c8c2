#include "shared/big_memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE_BYTES = 4096,
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

/* Maps the pages that lie in the memory as a whole. An older kernel refuses it: then each is mapped when it is written. */
static void map_pages(char *memory, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    size_t before = -(uintptr_t)memory % PAGE_BYTES;
    (void)madvise(memory + before, (bytes - before) / PAGE_BYTES * PAGE_BYTES, MADV_POPULATE_WRITE);
#else
    (void)memory, (void)bytes;
#endif
}

void big_copy(void *to, const void *from, size_t bytes)
{
    if (is_mapped(bytes))
        map_pages(to, bytes);
    if (bytes)
        memcpy(to, from, bytes);
}
