#include "proxy/upstream/probe.h"

#include "shared/tls.h"

#include <unistd.h>

enum { ROUNDS_MAX = 16 }; /* reads from the peer; a handshake takes two or three */

static bool writev_all(int fd, struct out *out)
{
    struct iovec iov[16];
    while (out->bytes > 0) {
        ssize_t sent = writev(fd, iov, out_iov(out, iov, 16));
        if (sent <= 0)
            return false;
        out_consume(out, (size_t)sent);
    }
    return true;
}

/* Repeats one TLS step, reading from the socket, until the step has all the bytes that it needs. */
static bool repeat(int fd, struct tls *tls, enum tls_result (*step)(struct tls *tls))
{
    char bytes[4096];
    for (int round = 0; round < ROUNDS_MAX; round++) {
        enum tls_result result = step(tls);
        tls_keep(tls);
        if (!writev_all(fd, tls_out(tls)) || result != TLS_MORE)
            return result == TLS_DONE;
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got <= 0)
            return false;
        tls_feed(tls, bytes, (size_t)got);
    }
    return false;
}

static enum tls_result read_some(struct tls *tls)
{
    char byte;
    size_t got;
    return tls_read(tls, &byte, 1, &got);
}

bool probe_tls(int fd, struct tls_context *context, const char *host, const char *address)
{
    struct tls *tls = tls_new(context, host, address);
    struct out ping;
    out_init(&ping);
    out_printf(&ping, "*1\r\n$4\r\nPING\r\n");
    bool is_up = repeat(fd, tls, tls_handshake) && tls_write(tls, &ping, 1024) &&
                 writev_all(fd, tls_out(tls)) && repeat(fd, tls, read_some);
    out_clear(&ping);
    tls_free(tls);
    return is_up;
}
