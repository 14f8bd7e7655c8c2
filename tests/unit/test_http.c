/*
 * test_http.c - the admin port: GET, HEAD, 401, 404, 405, a port in use, many connections at once.
 */
#include "shared/net/http_route.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct http_server *server;
static char error[128];
static char reply[256 * 1024];

static const char *token = "";

static void answer_big(void *visit, struct http_reply *to)
{
    (void)visit;
    for (int i = 0; i < 10000; i++)
        out_printf(&to->body, "line %d\n", i);
}

static void answer_unready(void *visit, struct http_reply *to)
{
    (void)visit;
    to->status = 503;
}

static void answer_metrics(void *visit, struct http_reply *to)
{
    out_printf(&to->body, "scree_up %d\n", *(const int *)visit);
}

static const struct http_route routes[] = {
    {"/big", false, HTTP_TEXT, answer_big},
    {"/unready", true, HTTP_TEXT, answer_unready},
    {"/metrics", false, HTTP_METRICS, answer_metrics},
};

static void on_request(void *owner, const struct http_request *request, struct http_reply *to)
{
    int up = 1;
    (void)owner;
    http_route(routes, sizeof routes / sizeof routes[0], token, request, &up, to);
}

static void setup(void)
{
    token = "";
    server = http_start("127.0.0.1:0", on_request, NULL, error, sizeof(error));
    ck_assert_msg(server != NULL, "%s", error);
}

static void teardown(void)
{
    http_stop(server);
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)http_port(server))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Sends a request and reads all until the server closes. */
static void ask(const char *request)
{
    int fd = dial();
    size_t len = 0;
    ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    for (ssize_t got; (got = read(fd, reply + len, sizeof(reply) - 1 - len)) > 0;)
        len += (size_t)got;
    reply[len] = '\0';
    close(fd);
}

#define TAIL " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

START_TEST(get_answers_with_status_type_and_body)
{
    ask("GET /metrics" TAIL);
    ck_assert_ptr_nonnull(strstr(reply, "200 OK"));
    ck_assert_ptr_nonnull(strstr(reply, "version=0.0.4"));
    ck_assert_ptr_nonnull(strstr(reply, "\r\n\r\nscree_up 1\n"));
    ask("GET /unready" TAIL);
    ck_assert_ptr_nonnull(strstr(reply, " 503 "));
}
END_TEST

START_TEST(a_big_body_comes_whole)
{
    ask("GET /big" TAIL);
    ck_assert_ptr_nonnull(strstr(reply, "line 0\n"));
    ck_assert_ptr_nonnull(strstr(reply, "line 9999\n"));
}
END_TEST

START_TEST(head_has_no_body)
{
    ask("HEAD /metrics" TAIL);
    ck_assert_ptr_nonnull(strstr(reply, "200 OK"));
    ck_assert_ptr_nonnull(strstr(reply, "Content-Length: 11"));
    ck_assert_ptr_null(strstr(reply, "scree_up"));
}
END_TEST

START_TEST(unknown_paths_are_404_and_other_methods_405)
{
    ask("GET /nothing" TAIL);
    ck_assert_ptr_nonnull(strstr(reply, " 404 "));
    ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
    ck_assert_ptr_nonnull(strstr(reply, " 405 "));
    ck_assert_ptr_nonnull(strstr(reply, "Allow: GET, HEAD"));
}
END_TEST

#define WITH(line) " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" line "\r\n\r\n"

static bool is_let_in(const char *request)
{
    ask(request);
    ck_assert(strstr(reply, " 200 ") || strstr(reply, " 401 "));
    return strstr(reply, "scree_up") != NULL;
}

START_TEST(with_a_token_only_open_paths_need_none)
{
    token = "let me in";
    ck_assert(!is_let_in("GET /metrics" TAIL));
    ck_assert_ptr_nonnull(strstr(reply, "WWW-Authenticate: Bearer"));
    ck_assert(!is_let_in("GET /metrics" WITH("Authorization: Bearer let me i")));
    ck_assert(!is_let_in("GET /metrics" WITH("Authorization: Bearer let me in!")));
    ck_assert(!is_let_in("GET /metrics" WITH("Authorization: let me in")));
    ck_assert(!is_let_in("GET /metrics" WITH("Authorization: Basic bGV0IG1lIGlu")));
    ck_assert(!is_let_in("GET /metrics?token=let%20me%20in" TAIL));
    ck_assert(!is_let_in("GET /nothing" TAIL));
    ask("GET /unready" TAIL);
    ck_assert_ptr_nonnull(strstr(reply, " 503 "));
}
END_TEST

START_TEST(the_token_opens_as_bearer_and_as_password)
{
    token = "let me in";
    ck_assert(is_let_in("GET /metrics" WITH("Authorization: Bearer let me in")));
    ck_assert(is_let_in("GET /metrics?x=1" WITH("Authorization: bearer let me in")));
    ck_assert(is_let_in("GET /metrics" WITH("Authorization: Basic eDpsZXQgbWUgaW4=")));
    ask("GET /nothing" WITH("Authorization: Bearer let me in"));
    ck_assert_ptr_nonnull(strstr(reply, " 404 "));
}
END_TEST

START_TEST(an_address_in_use_is_refused_with_the_reason)
{
    char address[32];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", http_port(server));
    ck_assert_ptr_null(http_start(address, on_request, NULL, error, sizeof(error)));
    ck_assert_str_eq(error, "Address already in use");
    ck_assert_ptr_null(http_start("nonsense", on_request, NULL, error, sizeof(error)));
    ck_assert_str_eq(error, "expected host:port");
}
END_TEST

START_TEST(more_silent_connections_than_allowed_do_no_harm)
{
    enum { DIALS = 80 };
    int fds[DIALS];
    for (int i = 0; i < DIALS; i++)
        fds[i] = dial();
    for (int i = 0; i < DIALS; i++)
        close(fds[i]);
    ask("GET /metrics" TAIL);
    ck_assert_ptr_nonnull(strstr(reply, "200 OK"));
}
END_TEST

START_TEST(stopping_nothing_is_allowed)
{
    http_stop(NULL);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("http");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, get_answers_with_status_type_and_body);
    tcase_add_test(tests, a_big_body_comes_whole);
    tcase_add_test(tests, head_has_no_body);
    tcase_add_test(tests, unknown_paths_are_404_and_other_methods_405);
    tcase_add_test(tests, with_a_token_only_open_paths_need_none);
    tcase_add_test(tests, the_token_opens_as_bearer_and_as_password);
    tcase_add_test(tests, an_address_in_use_is_refused_with_the_reason);
    tcase_add_test(tests, more_silent_connections_than_allowed_do_no_harm);
    tcase_add_test(tests, stopping_nothing_is_allowed);
    Suite *suite = suite_create("http");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
