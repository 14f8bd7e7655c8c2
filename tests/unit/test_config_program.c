/*
 * test_config_program.c - the arguments of both programs: when they run, when they end, and with which code.
 */
#include "config/program.h"

#include "shared/check.h"

#include <stdlib.h>
#include <unistd.h>

enum { WORDS_MAX = 8 };

/* The exit code for these arguments, or -1 when the program would run. */
static int code_of(const struct config_schema *schema, const char *const *words)
{
    const struct program program = {.name = "scree-test", .schema = schema};
    union {
        struct proxy_config proxy;
        struct backend_config backend;
    } config;
    char *argv[WORDS_MAX + 2] = {(char[]){"scree-test"}};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = strdup(words[argc - 1]);
    int code = -2;
    bool runs = program_parse(&program, argc, argv, &config.proxy.head, &code);
    if (runs)
        config_fini(&config.proxy.head);
    for (int i = 1; i < argc; i++)
        free(argv[i]);
    return runs ? -1 : code;
}

#define CODE(schema, ...) code_of(&(schema), (const char *const[]){__VA_ARGS__, NULL})

static void test_without_arguments_the_defaults_run(void)
{
    const char *const none[] = {NULL};
    CHECK(code_of(&proxy_schema, none) == -1);
    CHECK(code_of(&backend_schema, none) == -1);
}

static void test_answers_end_with_0(void)
{
    CHECK(CODE(proxy_schema, "--help") == 0);
    CHECK(CODE(proxy_schema, "--version") == 0);
    CHECK(CODE(proxy_schema, "--print-config") == 0);
    CHECK(CODE(backend_schema, "--check") == 0);
    CHECK(CODE(backend_schema, "--print-docs", "configuration") == 0);
    CHECK(CODE(backend_schema, "--print-docs=commands") == 0);
    CHECK(CODE(backend_schema, "--print-docs=versions") == 0);
}

static void test_invalid_arguments_end_with_2(void)
{
    CHECK(CODE(proxy_schema, "--colour") == 2);
    CHECK(CODE(proxy_schema, "--config") == 2);
    CHECK(CODE(proxy_schema, "proxy.ini") == 2);
    CHECK(CODE(proxy_schema, "--print-docs", "poems") == 2);
}

static void test_a_file_is_read_and_a_bad_one_ends_with_1(void)
{
    char path[] = "/tmp/scree-program-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(CODE(proxy_schema, "--config", path) == -1);
    CHECK(CODE(backend_schema, "--config", path, "--check") == 0);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs("[proxy]\nworkers = x\n", file) >= 0 && fclose(file) == 0);
    CHECK(CODE(proxy_schema, "--config", path) == 1);
    CHECK(CODE(proxy_schema, "--config", path, "--check") == 1);
    CHECK(unlink(path) == 0);
    CHECK(CODE(proxy_schema, "--config", path) == 1);
}

int main(void)
{
    test_without_arguments_the_defaults_run();
    test_answers_end_with_0();
    test_invalid_arguments_end_with_2();
    test_a_file_is_read_and_a_bad_one_ends_with_1();
    return 0;
}
