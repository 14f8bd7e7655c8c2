/*
 * control.c - main of a negative control: runs a test with one promise of the program broken on purpose.
 *
 *   main ──--wrap──► here: fork ─► main of the test, with the functions that another file of this folder replaces
 *
 * The control passes when the test fails: a test that still passes does not check the promise. A test that fails
 * leaves its temporary folders, so they are removed here.
 */
#include "shared/path.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
char *__real_mkdtemp(char *pattern);
char *__wrap_mkdtemp(char *pattern);

static int folders[2]; /* a pipe: the paths of the test's folders, each with a zero byte */

char *__wrap_mkdtemp(char *pattern)
{
    char *path = __real_mkdtemp(pattern);
    if (path && write(folders[1], path, strlen(path) + 1) < 0)
        perror(path);
    return path;
}

/* Waits for the end of the test first. */
static void remove_folders(void)
{
    char paths[4096];
    size_t len = 0;
    for (ssize_t got; (got = read(folders[0], paths + len, sizeof paths - len)) > 0;)
        len += (size_t)got;
    for (size_t at = 0; at < len; at += strlen(paths + at) + 1)
        (void)path_remove(paths + at);
}

int __wrap_main(int argc, char **argv)
{
    int status;
    pid_t child = pipe(folders) == 0 ? fork() : -1;
    if (child == 0)
        exit(__real_main(argc, argv));
    (void)close(folders[1]);
    remove_folders();
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("the test cannot be run");
        return EXIT_FAILURE;
    }
    bool is_caught = !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS;
    puts(is_caught ? "caught: the test fails, as it must" : "NOT caught: the test passes");
    return is_caught ? EXIT_SUCCESS : EXIT_FAILURE;
}
