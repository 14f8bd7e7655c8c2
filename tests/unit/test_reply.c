#include "shared/reply.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct out out;
static struct reply two = {&out, 2};
static struct reply three = {&out, 3};

static void expect(const char *text)
{
    char *got = calloc(1, out.bytes + 1);
    out_copy(&out, got);
    ck_assert_str_eq(got, text);
    free(got);
    out_clear(&out);
}

START_TEST(values_that_are_equal_in_both_protocols)
{
    struct reply *both[] = {&two, &three};
    for (int i = 0; i < 2; i++) {
        reply_ok(both[i]);
        reply_status(both[i], "PONG");
        reply_int(both[i], INT64_MIN);
        reply_bulk(both[i], BYTES("abc"));
        reply_bulk(both[i], BYTES(""));
        reply_bulk_text(both[i], "text");
        reply_bulk_int(both[i], -12);
        reply_array(both[i], 0);
        reply_array(both[i], 1000000);
        expect("+OK\r\n+PONG\r\n:-9223372036854775808\r\n$3\r\nabc\r\n$0\r\n\r\n$4\r\ntext\r\n"
               "$3\r\n-12\r\n*0\r\n*1000000\r\n");
    }
}
END_TEST

START_TEST(nulls_follow_the_protocol)
{
    reply_null(&two);
    reply_null_array(&two);
    expect("$-1\r\n*-1\r\n");
    reply_null(&three);
    reply_null_array(&three);
    expect("_\r\n_\r\n");
}
END_TEST

START_TEST(aggregates_follow_the_protocol)
{
    reply_map(&two, 3);
    reply_set(&two, 3);
    reply_push(&two, 3);
    expect("*6\r\n*3\r\n*3\r\n");
    reply_map(&three, 3);
    reply_set(&three, 3);
    reply_push(&three, 3);
    expect("%3\r\n~3\r\n>3\r\n");
}
END_TEST

START_TEST(booleans_follow_the_protocol)
{
    reply_bool(&two, true);
    reply_bool(&two, false);
    expect(":1\r\n:0\r\n");
    reply_bool(&three, true);
    reply_bool(&three, false);
    expect("#t\r\n#f\r\n");
}
END_TEST

START_TEST(doubles_are_printed_as_redis_7_0_does)
{
    double values[] = {0.1, 3, 1e20, -INFINITY, INFINITY, 1e17};
    for (size_t i = 0; i < 6; i++)
        reply_double(&two, values[i]);
    expect("$19\r\n0.10000000000000001\r\n$1\r\n3\r\n$5\r\n1e+20\r\n$4\r\n-inf\r\n$3\r\ninf\r\n"
           "$5\r\n1e+17\r\n");
    for (size_t i = 0; i < 6; i++)
        reply_double(&three, values[i]);
    expect(",0.10000000000000001\r\n,3\r\n,1e+20\r\n,-inf\r\n,inf\r\n,1e+17\r\n");
}
END_TEST

START_TEST(verbatim_text_follows_the_protocol)
{
    reply_verbatim(&two, "txt", BYTES("some text"));
    expect("$9\r\nsome text\r\n");
    reply_verbatim(&three, "txt", BYTES("some text"));
    expect("=13\r\ntxt:some text\r\n");
}
END_TEST

START_TEST(errors_stay_on_one_line)
{
    reply_error(&two, "ERR no such key");
    reply_error(&two, "\r\nERR a\r\nb\n\r\n");
    reply_code(&two, ERR_SYNTAX);
    reply_errorf(&two, "ERR unknown command '%s'", "a\r\nb");
    expect("-ERR no such key\r\n-ERR a  b\r\n-ERR syntax error\r\n-ERR unknown command 'a  b'\r\n");
}
END_TEST

START_TEST(a_long_error_is_not_cut)
{
    char text[3001];
    memset(text, 'x', 3000);
    text[3000] = '\0';
    reply_errorf(&two, "ERR %s", text);
    ck_assert_uint_eq(out.bytes, 1 + 4 + 3000 + 2);
    out_clear(&out);
}
END_TEST

START_TEST(bulks_of_every_size_are_framed)
{
    static char data[3000];
    memset(data, 'x', sizeof(data));
    for (size_t len = 0; len < sizeof(data); len += len < 980 || len > 1040 ? 70 : 1) {
        reply_bulk(&two, (struct bytes){data, len});
        char header[32];
        size_t size = (size_t)snprintf(header, sizeof(header), "$%zu\r\n", len);
        ck_assert_uint_eq(out.bytes, size + len + 2);
        char *got = malloc(out.bytes);
        out_copy(&out, got);
        ck_assert_mem_eq(got, header, size);
        ck_assert_mem_eq(got + size, data, len);
        ck_assert_mem_eq(got + size + len, "\r\n", 2);
        free(got);
        out_clear(&out);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reply");
    TCase *tests = tcase_create("reply");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, values_that_are_equal_in_both_protocols);
    tcase_add_test(tests, nulls_follow_the_protocol);
    tcase_add_test(tests, aggregates_follow_the_protocol);
    tcase_add_test(tests, booleans_follow_the_protocol);
    tcase_add_test(tests, doubles_are_printed_as_redis_7_0_does);
    tcase_add_test(tests, verbatim_text_follows_the_protocol);
    tcase_add_test(tests, errors_stay_on_one_line);
    tcase_add_test(tests, a_long_error_is_not_cut);
    tcase_add_test(tests, bulks_of_every_size_are_framed);
    return suite_run(suite);
}
