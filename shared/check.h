/*
 * check.h - assertions that stay on in release builds.
 *
 * CHECK is for conditions that only a bug of this program can violate. Invalid input from outside is answered with an
 * error instead.
 */
#pragma once

#include <stddef.h>

/* Prints and logs the failed condition with its file and line, and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *condition);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            check_failed(__FILE__, __LINE__, #condition);                                          \
    } while (0)

/* Elements of an array. */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
