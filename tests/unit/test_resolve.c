/*
 * test_resolve.c - names whose name server fails or is silent: getaddrinfo is replaced by one of the test's own.
 */
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum server_state { SERVER_ANSWERS, SERVER_FAILS, SERVER_SILENT, SERVER_DENIES };
/* A silent name server has half of the time: enough is left to connect, however busy the machine is. */
enum { CONNECT_MS = 30000, SILENT_MS = 4000, HOPELESS_MS = 200 };

static _Atomic enum server_state server_state;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held while the server is silent */
static atomic_int lookups;

static struct loop *loop;
static struct await await;
static struct listener *listener;
static char port[8];
static int opened;
static int open_err;

/* Every name is this host. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    struct answer {
        struct addrinfo info;
        struct sockaddr_in at;
    } *answer = calloc(1, sizeof *answer);
    (void)name;
    (void)hints;
    atomic_fetch_add(&lookups, 1);
    if (server_state == SERVER_SILENT) {
        pthread_mutex_lock(&gate);
        pthread_mutex_unlock(&gate);
    }
    if (server_state != SERVER_ANSWERS) {
        free(answer);
        return server_state == SERVER_DENIES ? EAI_NONAME : EAI_AGAIN;
    }
    answer->at = (struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)strtoul(service, NULL, 10)),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    answer->info = (struct addrinfo){.ai_family = AF_INET,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_addrlen = sizeof answer->at,
                                     .ai_addr = (struct sockaddr *)&answer->at};
    *found = &answer->info;
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    free(found);
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    (void)owner;
    (void)block;
    (void)data;
    (void)need;
    return len;
}

static void on_end(void *owner, int err)
{
    (void)owner;
    (void)err;
}

static const struct stream_events events = {.on_data = on_data, .on_end = on_end};

static void on_accept(void *owner, struct stream *stream)
{
    (void)owner;
    stream_abort(stream);
}

static void on_open(void *owner, int err)
{
    (void)owner;
    opened++;
    open_err = err;
}

static bool is_opened(void *owner)
{
    (void)owner;
    return opened > 0;
}

/* Connects to the name; returns 0 or the error. */
static int dial(const char *name, uint64_t timeout_ms)
{
    char address[64];
    (void)snprintf(address, sizeof address, "%s:%s", name, port);
    opened = 0;
    struct stream *stream = stream_connect(loop, address, timeout_ms, &events, on_open, NULL);
    ck_assert(await_until(&await, is_opened, NULL));
    stream_abort(stream);
    return open_err;
}

static void setup(void)
{
    char error[128];
    char address[128];
    struct listen_options options = {.address = "127.0.0.1:0", .backlog = 64};
    loop = loop_new();
    await_init(&await, loop);
    int fd = listen_bind(&options, error, sizeof error);
    ck_assert_msg(fd >= 0, "%s", error);
    listen_address(fd, address, sizeof address);
    (void)snprintf(port, sizeof port, "%s", strrchr(address, ':') + 1);
    listener = listener_new(loop, fd, &options, on_accept, NULL);
    server_state = SERVER_ANSWERS;
}

static void teardown(void)
{
    listener_free(listener);
    loop_free(loop);
}

START_TEST(the_last_good_address_serves_while_the_name_server_fails)
{
    ck_assert_int_eq(dial("one", CONNECT_MS), 0);
    server_state = SERVER_FAILS;
    ck_assert_int_eq(dial("one", CONNECT_MS), 0);
    ck_assert_int_eq(dial("never-seen", CONNECT_MS), -EHOSTUNREACH);
    ck_assert_int_eq(lookups, 3); /* the name server is still asked each time */
}
END_TEST

START_TEST(the_last_good_address_serves_while_the_name_server_is_silent)
{
    ck_assert_int_eq(dial("two", CONNECT_MS), 0);
    pthread_mutex_lock(&gate);
    server_state = SERVER_SILENT;
    ck_assert_int_eq(dial("two", SILENT_MS), 0);
    ck_assert_int_eq(dial("never-seen", HOPELESS_MS), -ETIMEDOUT);
    pthread_mutex_unlock(&gate);
}
END_TEST

START_TEST(a_name_that_does_not_exist_any_more_is_not_connected)
{
    ck_assert_int_eq(dial("three", CONNECT_MS), 0);
    server_state = SERVER_DENIES;
    ck_assert_int_eq(dial("three", CONNECT_MS), -EHOSTUNREACH);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("resolve");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, the_last_good_address_serves_while_the_name_server_fails);
    tcase_add_test(tests, the_last_good_address_serves_while_the_name_server_is_silent);
    tcase_add_test(tests, a_name_that_does_not_exist_any_more_is_not_connected);
    Suite *suite = suite_create("resolve");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
