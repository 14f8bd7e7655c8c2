#include "shared/net/http_get.h"

#include "shared/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST_MAX = 2048, ANSWER_MAX = 16 * 1024 };

/* Waits until the socket is ready for `what`; returns 0 or an errno. */
static int poll_until(int fd, short what, uint64_t until_us)
{
    struct pollfd poller = {.fd = fd, .events = what};
    uint64_t now_us = clock_mono_us();
    if (now_us >= until_us)
        return ETIMEDOUT;
    int ready = poll(&poller, 1, (int)((until_us - now_us) / 1000) + 1);
    if (ready < 0)
        return errno == EINTR ? 0 : errno;
    return ready ? 0 : ETIMEDOUT;
}

static int connect_to(int fd, const struct sockaddr *address, socklen_t len, uint64_t until_us)
{
    int err = 0;
    socklen_t err_len = sizeof err;
    if (connect(fd, address, len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    err = poll_until(fd, POLLOUT, until_us);
    if (err)
        return err;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len) < 0)
        return errno;
    return err;
}

static int send_all(int fd, const char *text, size_t len, uint64_t until_us)
{
    while (len > 0) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent > 0) {
            text += sent;
            len -= (size_t)sent;
            continue;
        }
        int err = errno == EAGAIN ? poll_until(fd, POLLOUT, until_us) : errno;
        if (err)
            return err;
    }
    return 0;
}

/* Reads until the end of the stream or until `to` is full. */
static int receive_all(int fd, char *to, size_t size, uint64_t until_us)
{
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t got = recv(fd, to + len, size - 1 - len, 0);
        if (got == 0)
            break;
        int err = got > 0 ? 0 : errno == EAGAIN ? poll_until(fd, POLLIN, until_us) : errno;
        if (err)
            return err;
        len += got > 0 ? (size_t)got : 0;
    }
    to[len] = '\0';
    return 0;
}

/* Sends the request and reads the reply, head and body. */
static int converse(int fd, const char *path, const char *token, uint64_t until_us,
                    char answer[ANSWER_MAX])
{
    char request[REQUEST_MAX];
    int len =
        snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nConnection: close\r\n%s%s%s\r\n",
                 path, *token ? "Authorization: Bearer " : "", token, *token ? "\r\n" : "");
    if (len < 0 || (size_t)len >= sizeof request)
        return EMSGSIZE;
    int err = send_all(fd, request, (size_t)len, until_us);
    return err ? err : receive_all(fd, answer, ANSWER_MAX, until_us);
}

bool http_get(const struct sockaddr *address, socklen_t len, const char *path, const char *token,
              uint64_t timeout_ms, char *body, size_t size)
{
    char answer[ANSWER_MAX];
    uint64_t until_us = clock_mono_us() + timeout_ms * 1000;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int err = fd < 0 ? errno : connect_to(fd, address, len, until_us);
    if (!err)
        err = converse(fd, path, token, until_us, answer);
    if (fd >= 0)
        (void)close(fd);
    if (err) {
        (void)snprintf(body, size, "%s", strerror(err));
        return false;
    }
    const char *text = strstr(answer, "\r\n\r\n");
    bool is_good = strncmp(answer, "HTTP/1.", 7) == 0 && strncmp(answer + 8, " 200 ", 5) == 0;
    if (is_good && text)
        (void)snprintf(body, size, "%s", text + 4);
    else
        (void)snprintf(body, size, "it says: %.*s", (int)strcspn(answer, "\r\n"), answer);
    return is_good && text;
}
