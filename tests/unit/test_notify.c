/*
 * test_notify.c - the letters of notify-keyspace-events.
 */
#include "backend/session/notify.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static void expect(const char *text, const char *shown)
{
    unsigned classes;
    char buffer[NOTIFY_TEXT_MAX];
    ck_assert(notify_parse(bytes_of(text), &classes));
    ck_assert_uint_eq(notify_format(classes, buffer), strlen(shown));
    ck_assert_str_eq(buffer, shown);
}

START_TEST(letters_are_shown_in_redis_order)
{
    expect("", "");
    expect("KEA", "AKE");
    expect("mn", "nm");
    expect("KEg$lshzxetd", "AKE");
    expect("dtexzhsl$gEK", "AKE");
    expect("Kg$lshzxet", "g$lshzxetK");
    expect("KKgg", "gK");
}
END_TEST

START_TEST(n_is_not_shown_beside_A)
{
    expect("KEg$lshzxetmdn", "AKEm");
}
END_TEST

START_TEST(other_letters_are_refused)
{
    unsigned classes;
    ck_assert(!notify_parse(BYTES("q"), &classes));
    ck_assert(!notify_parse(BYTES("KEA "), &classes));
    ck_assert(!notify_parse(BYTES("K\0"), &classes));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *cases = tcase_create("notify");
    tcase_add_test(cases, letters_are_shown_in_redis_order);
    tcase_add_test(cases, n_is_not_shown_beside_A);
    tcase_add_test(cases, other_letters_are_refused);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
