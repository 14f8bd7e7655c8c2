#include "proxy/core/pipeline.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

START_TEST(links_leave_in_the_order_they_came)
{
    struct pipeline pipeline = {0};
    struct pipeline_link links[5];
    for (int i = 0; i < 5; i++)
        pipeline_push(&pipeline, &links[i]);
    ck_assert_uint_eq(pipeline.count, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_ptr_eq(pipeline_pop(&pipeline), &links[i]);
    ck_assert_uint_eq(pipeline.count, 0);
}
END_TEST

START_TEST(an_empty_pipeline_is_usable_again)
{
    struct pipeline pipeline = {0};
    struct pipeline_link link;
    for (int i = 0; i < 3; i++) {
        pipeline_push(&pipeline, &link);
        ck_assert_ptr_eq(pipeline.front, &link);
        ck_assert_ptr_eq(pipeline.back, &link);
        ck_assert_ptr_eq(pipeline_pop(&pipeline), &link);
        ck_assert_ptr_null(pipeline.front);
        ck_assert_ptr_null(pipeline.back);
    }
}
END_TEST

START_TEST(pushing_between_pops_keeps_the_order)
{
    struct pipeline pipeline = {0};
    struct pipeline_link links[100];
    int popped = 0;
    for (int i = 0; i < 100; i++) {
        pipeline_push(&pipeline, &links[i]);
        if (i % 3 == 2)
            ck_assert_ptr_eq(pipeline_pop(&pipeline), &links[popped++]);
    }
    while (pipeline.count > 0)
        ck_assert_ptr_eq(pipeline_pop(&pipeline), &links[popped++]);
    ck_assert_int_eq(popped, 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy_pipeline");
    TCase *tests = tcase_create("proxy_pipeline");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, links_leave_in_the_order_they_came);
    tcase_add_test(tests, an_empty_pipeline_is_usable_again);
    tcase_add_test(tests, pushing_between_pops_keeps_the_order);
    return suite_run(suite);
}
