/*
 * late_file.c - a file that is replaced just after an unchanged program has opened it: LD_PRELOAD=late_file.so.
 *
 *   LATE_FILE=/path    opened for the first time ─► the program reads it, and /path.late has its name from now on
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FILE *fopen(const char *path, const char *mode)
{
    static bool is_over;
    FILE *(*open_file)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    const char *late = getenv("LATE_FILE");
    char next[4096];
    FILE *file = open_file(path, mode);
    if (is_over || !late || strcmp(path, late) != 0)
        return file;
    is_over = true;
    (void)snprintf(next, sizeof next, "%s.late", path);
    if (rename(next, path) != 0)
        abort();
    return file;
}
