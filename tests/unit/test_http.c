/*
 * test_http.c - the admin port: GET, HEAD, 401, 404, 405, a port in use, hosts, many connections at once.
 */
#include "shared/net/http_connections.h"
#include "shared/net/http_host.h"
#include "shared/net/http_route.h"
#include "tests/unit/suite.h"

#include <arpa/inet.h>
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
static const char *hosts = "";

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
    {"/big", HTTP_DATA, HTTP_TEXT, answer_big},
    {"/unready", HTTP_HEALTH, HTTP_TEXT, answer_unready},
    {"/metrics", HTTP_DATA, HTTP_METRICS, answer_metrics},
};

static void on_request(void *owner, const struct http_request *request, struct http_reply *to)
{
    int up = 1;
    (void)owner;
    struct http_gate gate = {token, hosts};
    http_route(routes, sizeof routes / sizeof routes[0], gate, request, &up, to);
}

static void setup(void)
{
    token = "";
    hosts = "";
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

/* Sends a request and reads until the server closes the connection. */
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

#define TAIL " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

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
    ask("POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nConnection: "
        "close\r\n\r\nabc");
    ck_assert_ptr_nonnull(strstr(reply, " 405 "));
    ck_assert_ptr_nonnull(strstr(reply, "Allow: GET, HEAD"));
}
END_TEST

#define WITH(line) " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" line "\r\n\r\n"

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

/* More connections than one address may have, and than libmicrohttpd would accept: the oldest ones are closed. */
START_TEST(silent_connections_that_stay_open_keep_no_health_check_out)
{
    enum { DIALS = 200 };
    int fds[DIALS];
    char byte;
    int ended = 0;
    for (int i = 0; i < DIALS; i++)
        fds[i] = dial();
    for (int i = 0; i < 3; i++) {
        ask("GET /unready" TAIL);
        ck_assert_ptr_nonnull(strstr(reply, " 503 "));
    }
    for (int i = 0; i < DIALS - HTTP_ADDRESS_MAX; i++) {
        ck_assert_int_le(read(fds[i], &byte, 1), 0);
        ended++;
    }
    ck_assert_int_eq(ended, DIALS - HTTP_ADDRESS_MAX);
    for (int i = 0; i < DIALS; i++)
        close(fds[i]);
}
END_TEST

static struct http_connection *open_from(struct http_connections *all, const char *address,
                                         uint64_t now_us)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return http_connection_open(all, -1, (const struct sockaddr *)&v4, now_us);
    ck_assert_int_eq(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return http_connection_open(all, -1, (const struct sockaddr *)&v6, now_us);
}

static void close_all(struct http_connections *all)
{
    while (all->first)
        http_connection_close(all, all->first);
}

START_TEST(slow_requests_and_replies_time_out_although_bytes_keep_coming)
{
    struct http_connections all = {0};
    const uint64_t second = 1000000;
    struct http_connection *one = open_from(&all, "10.0.0.1", 0);
    struct http_connection *two = open_from(&all, "10.0.0.1", 0);
    http_connection_answer(&all, two, 9 * second);
    http_connections_expire(&all, HTTP_REQUEST_S * second - 1);
    ck_assert(!one->is_shut && !two->is_shut);
    http_connections_expire(&all, HTTP_REQUEST_S * second);
    ck_assert(one->is_shut && !two->is_shut);
    http_connection_wait(&all, two, 20 * second);
    http_connections_expire(&all, 29 * second);
    ck_assert(!two->is_shut);
    http_connection_answer(&all, two, 29 * second);
    http_connections_expire(&all, (29 + HTTP_ANSWER_S) * second);
    ck_assert(two->is_shut);
    close_all(&all);
}
END_TEST

START_TEST(an_address_with_too_many_connections_loses_its_oldest_unanswered_one)
{
    static const char *const same[] = {"10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1",
                                       "2001:db8::2:2:2:2"};
    for (int kind = 0; kind < 4; kind += 2) {
        struct http_connections all = {0};
        struct http_connection *other = open_from(&all, "10.0.0.2", 0);
        struct http_connection *busy = open_from(&all, same[kind], 0);
        struct http_connection *idle = open_from(&all, same[kind], 0);
        for (int i = 2; i < HTTP_ADDRESS_MAX; i++)
            (void)open_from(&all, same[kind + i % 2], 0);
        http_connection_answer(&all, busy, 0);
        ck_assert(!idle->is_shut);
        struct http_connection *newest = open_from(&all, same[kind + 1], 0);
        ck_assert(idle->is_shut && !busy->is_shut && !other->is_shut && !newest->is_shut);
        close_all(&all);
    }
}
END_TEST

START_TEST(when_all_are_being_answered_the_oldest_answer_makes_room)
{
    struct http_connections all = {0};
    struct http_connection *opened[HTTP_CONNECTIONS_MAX];
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "10.0.0.%d", i + 1);
        opened[i] = open_from(&all, address, 0);
        http_connection_answer(&all, opened[i], 0);
    }
    struct http_connection *newest = open_from(&all, "10.0.1.1", 0);
    ck_assert(opened[0]->is_shut && !opened[1]->is_shut && !newest->is_shut);
    close_all(&all);
}
END_TEST

START_TEST(only_addresses_localhost_and_configured_names_are_hosts_of_ours)
{
    static const char *const ours[] = {"127.0.0.1", "127.0.0.1:7380", "[::1]",      "[::1]:7380",
                                       "localhost", "LocalHost:7380", "localhost.", "10.1.2.3:1"};
    static const char *const strange[] = {"",
                                          ":7380",
                                          "x",
                                          "attacker.example",
                                          "localhost.attacker.example",
                                          "127.1",
                                          "1.2.3.4.5",
                                          "1.2.3.4.nip.io",
                                          "[attacker]",
                                          "[]",
                                          "[::1",
                                          "::1",
                                          "0x7f.0.0.1",
                                          "localhost..",
                                          "127.0.0.1@attacker"};
    ck_assert(http_host_is_ours(NULL, ""));
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        ck_assert_msg(http_host_is_ours(ours[i], ""), "%s", ours[i]);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        ck_assert_msg(!http_host_is_ours(strange[i], "*.ours proxy"), "%s", strange[i]);
    ck_assert(http_host_is_ours("Proxy:7380", " *.ours  proxy "));
    ck_assert(http_host_is_ours("a.ours.", "*.ours proxy"));
    ck_assert(!http_host_is_ours("a.ours.attacker", "*.ours proxy"));
    ck_assert(http_host_is_ours("anything", "*"));
}
END_TEST

START_TEST(another_host_gets_health_checks_only_unless_it_is_named_or_shows_the_token)
{
#define FROM(host) " HTTP/1.1\r\nHost: " host "\r\nConnection: close\r\n"
    ask("GET /metrics" FROM("attacker.example") "\r\n");
    ck_assert_ptr_nonnull(strstr(reply, " 421 "));
    ck_assert_ptr_nonnull(strstr(reply, "list the name in admin-hosts"));
    ask("GET /nothing" FROM("attacker.example") "\r\n");
    ck_assert_ptr_nonnull(strstr(reply, " 421 "));
    ask("GET /unready" FROM("attacker.example") "\r\n");
    ck_assert_ptr_nonnull(strstr(reply, " 503 "));
    ask("GET /metrics HTTP/1.0\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(reply, "scree_up"));
    hosts = "scree *.example";
    ask("GET /metrics" FROM("scree:7380") "\r\n");
    ck_assert_ptr_nonnull(strstr(reply, "scree_up"));
    hosts = "";
    token = "let me in";
    ask("GET /metrics" FROM("scree:7380") "\r\n");
    ck_assert_ptr_nonnull(strstr(reply, " 401 "));
    ask("GET /metrics" FROM("scree:7380") "Authorization: Bearer let me in\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(reply, "scree_up"));
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
    tcase_add_test(tests, silent_connections_that_stay_open_keep_no_health_check_out);
    tcase_add_test(tests, slow_requests_and_replies_time_out_although_bytes_keep_coming);
    tcase_add_test(tests, an_address_with_too_many_connections_loses_its_oldest_unanswered_one);
    tcase_add_test(tests, when_all_are_being_answered_the_oldest_answer_makes_room);
    tcase_add_test(tests, only_addresses_localhost_and_configured_names_are_hosts_of_ours);
    tcase_add_test(tests,
                   another_host_gets_health_checks_only_unless_it_is_named_or_shows_the_token);
    tcase_add_test(tests, stopping_nothing_is_allowed);
    Suite *suite = suite_create("http");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
