#include "shared/error.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

START_TEST(every_code_has_a_text_that_begins_with_its_word)
{
    for (int code = OK + 1; code < ERROR_COUNT; code++) {
        const char *text = error_text((enum error)code);
        ck_assert_ptr_nonnull(text);
        size_t word = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        ck_assert_msg(word >= 3 && text[word] == ' ', "%s", text);
        ck_assert_ptr_null(strpbrk(text, "\r\n"));
    }
}
END_TEST

START_TEST(texts_are_those_of_redis)
{
    ck_assert_str_eq(error_text(ERR_SYNTAX), "ERR syntax error");
    ck_assert_str_eq(error_text(ERR_NOAUTH), "NOAUTH Authentication required.");
    ck_assert_str_eq(error_text(OK), "OK");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *tests = tcase_create("error");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, every_code_has_a_text_that_begins_with_its_word);
    tcase_add_test(tests, texts_are_those_of_redis);
    return suite_run(suite);
}
