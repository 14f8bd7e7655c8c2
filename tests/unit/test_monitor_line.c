/*
 * test_monitor_line.c - MONITOR's line byte for byte, and the arguments it hides.
 */
#include "shared/command/monitor_line.h"

#include "shared/check.h"

#include <stdlib.h>

enum { ARGS_MAX = 8 };

/* Does MONITOR show the command, given as words, as `expected` after the address? */
static bool shows(const char *const *words, const char *expected)
{
    struct bytes argv[ARGS_MAX];
    uint32_t argc = 0;
    for (; words[argc]; argc++)
        argv[argc] = bytes_of(words[argc]);
    const struct monitor_line line = {.at_us = 1339518083107412,
                                      .db = 3,
                                      .peer = "127.0.0.1:60866",
                                      .command = command_find_argv(argv, argc),
                                      .argv = argv,
                                      .argc = argc};
    char text[256] = "+1339518083.107412 [3 127.0.0.1:60866]";
    struct out out;
    out_init(&out);
    monitor_line_write(&line, &out);
    char *copy = malloc(out.bytes);
    CHECK(copy);
    out_copy(&out, copy);
    strcat(strcat(text, expected), "\r\n");
    bool is_same = out.bytes == strlen(text) && memcmp(copy, text, out.bytes) == 0;
    free(copy);
    out_clear(&out);
    return is_same;
}

#define SHOWS(expected, ...) CHECK(shows((const char *const[]){__VA_ARGS__, NULL}, expected))

static void test_words_are_quoted(void)
{
    SHOWS(" \"keys\" \"*\"", "keys", "*");
    SHOWS(" \"GET\" \"a\\\"b\\\\c\\n\\r\\t\\a\\b\\x01\\xff\"", "GET", "a\"b\\c\n\r\t\a\b\x01\xff");
    SHOWS(" \"GET\" \"\"", "GET", "");
}

static void test_passwords_are_hidden(void)
{
    SHOWS(" \"AUTH\" \"(redacted)\"", "AUTH", "secret");
    SHOWS(" \"auth\" \"(redacted)\" \"(redacted)\"", "auth", "user", "secret");
    SHOWS(" \"HELLO\" \"3\"", "HELLO", "3");
    SHOWS(" \"HELLO\" \"3\" \"AUTH\" \"(redacted)\" \"(redacted)\" \"SETNAME\" \"x\"", "HELLO", "3",
          "AUTH", "user", "secret", "SETNAME", "x");
    SHOWS(" \"CONFIG\" \"SET\" \"requirepass\" \"(redacted)\" \"maxclients\" \"9\"", "CONFIG",
          "SET", "requirepass", "secret", "maxclients", "9");
    SHOWS(" \"ACL\" \"SETUSER\" \"(redacted)\" \"(redacted)\"", "ACL", "SETUSER", "joe", ">secret");
}

int main(void)
{
    command_init();
    test_words_are_quoted();
    test_passwords_are_hidden();
    return 0;
}
