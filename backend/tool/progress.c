/*
 * progress.c - lines of progress of long tools. scree-copy links it without the tools.
 */
#include "backend/tool/tool.h"
#include "shared/clock.h"

#include <stdarg.h>
#include <stdio.h>

void tool_progress(const char *format, ...)
{
    static uint64_t told_us;
    uint64_t now_us = clock_mono_us();
    va_list arguments;
    if (told_us && now_us - told_us < 1000000)
        return;
    told_us = now_us;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}
