/*
 * check.h - assertions that stay on in release builds.
 *
 * CHECK is for what is impossible unless the program has a bug. Input from outside is never
 * checked this way; it is answered.
 */
#pragma once

#include <stddef.h>

/* Prints the failed condition with its place and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *condition);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            check_failed(__FILE__, __LINE__, #condition);                                          \
    } while (0)

#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
