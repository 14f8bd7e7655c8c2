/*
 * load.c - a load generator: many connections, any commands, at full speed or at a steady rate.
 *
 *   load --port P [options] -- WORD … [';' WORD …]
 *
 *   --clients N   connections (50)                 --seconds S   how long it sends (1), or --count N: how many units
 *   --depth N     units in flight on each (1)      --first N     the number of the first unit, for {s} (0)
 *   --host H      of the server (127.0.0.1)        --seed N      of the random numbers (the time)
 *   --rate R      units a second of all connections together; without it each sends as fast as it can
 *   --readonly 1  each connection sends READONLY first
 *
 *   closed loop (no --rate): each connection sends `depth` units, waits for all their replies, sends again
 *   open loop (--rate):      units are sent by a schedule, independent of replies; their latency counts from the
 *                            scheduled time, so a pause of the server is part of it
 *
 * A unit is one command, or several that belong together, separated by ';' (MULTI … EXEC); it ends with its last reply.
 * Placeholders in a word, replaced for each unit:
 *
 *   {k:N}  a random number below N, 12 digits     {s}  the unit's number from --first on, 12 digits, equal in
 *                                                      all words of the unit
 *   {n:N}  a random number below N                {c}  the connection's number; {c:N}: modulo N
 *   {x:N}  N bytes of filler
 *
 * Two runs draw different random numbers, because the server may still have the keys of the first run in its caches. Runs with equal
 * --seed draw equal numbers.
 *
 * Prints one line of JSON: units, seconds, errors, the quantiles of latency in µs, and its histogram: pairs of a
 * latency in µs and the number of units with that latency.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    WORDS_MAX = 256,
    WORD_MAX = 1 << 20,
    INFLIGHT_MAX = 4096, /* in flight on one connection; a power of two */
    CLIENTS_MAX = 10000,
    READ_BYTES = 64 * 1024,
    SUB_BITS = 6, /* buckets of a histogram: 64 to each power of two */
    BUCKETS = 64 << SUB_BITS,
    EVENTS = 256,
};

struct buffer {
    char *data;
    size_t begin, end, cap;
};

struct client {
    int fd;
    uint32_t index;
    struct buffer in, out;
    uint64_t started_ns[INFLIGHT_MAX];
    uint32_t head, tail;       /* units in flight: [head, tail) */
    uint64_t commands_missing; /* missing replies of the oldest unit; 0: none has begun */
    uint64_t elements_missing; /* missing elements of the reply being read */
    uint64_t next_ns;          /* open loop: when the next unit is sent */
};

static struct {
    const char *host;
    int port;
    uint32_t clients, depth;
    double seconds, rate;
    uint64_t count, first;
    bool is_readonly;
    const char *words[WORDS_MAX]; /* NULL: the end of a command */
    int words_count, commands;
} options = {.host = "127.0.0.1", .clients = 50, .depth = 1, .seconds = 1};

static uint64_t histogram[BUCKETS], units_sent, units_done, errors, random_state;
static char scratch[WORD_MAX];

static void die(const char *what)
{
    (void)fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Xorshift needs a state other than 0; similar seeds must not begin with similar numbers, hence the multiplication. */
static void random_seed(uint64_t seed)
{
    random_state = (seed * 2 + 1) * 0x9e3779b97f4a7c15;
}

static uint64_t random_below(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return limit ? random_state % limit : 0;
}

/* ---- latency -------------------------------------------------------------------------------- */

static size_t bucket_of(uint64_t ns)
{
    if (ns < 1 << SUB_BITS)
        return ns;
    int shift = 63 - __builtin_clzll(ns) - SUB_BITS;
    return ((size_t)(shift + 1) << SUB_BITS) + (ns >> shift) - (1 << SUB_BITS);
}

static uint64_t bucket_ns(size_t bucket)
{
    if (bucket < 1 << SUB_BITS)
        return bucket;
    size_t shift = (bucket >> SUB_BITS) - 1;
    return ((bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS)) << shift;
}

static double quantile_us(double part)
{
    uint64_t wanted = (uint64_t)(part * (double)units_done), seen = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        if ((seen += histogram[i]) > wanted)
            return (double)bucket_ns(i) / 1000;
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

static char *reserve(struct buffer *buffer, size_t len)
{
    if (buffer->begin == buffer->end)
        buffer->begin = buffer->end = 0;
    if (buffer->end + len > buffer->cap) {
        buffer->cap = (buffer->end + len) * 2;
        buffer->data = realloc(buffer->data, buffer->cap);
        if (!buffer->data)
            die("memory");
    }
    return buffer->data + buffer->end;
}

static void append(struct buffer *buffer, const char *data, size_t len)
{
    memcpy(reserve(buffer, len), data, len);
    buffer->end += len;
}

/* Writes the word, with its placeholders filled in, to `scratch`. */
static size_t expand(const struct client *client, const char *word, uint64_t unit)
{
    size_t len = 0;
    while (*word) {
        char kind = word[0] == '{' ? word[1] : 0;
        const char *close = kind && strchr("knxsc", kind) ? strchr(word, '}') : NULL;
        if (!close || (word[2] != ':' && word[2] != '}')) {
            scratch[len++] = *word++;
            continue;
        }
        uint64_t number = word[2] == ':' ? strtoull(word + 3, NULL, 10) : 0;
        bool is_wide = kind == 'k' || kind == 's';
        uint64_t own = kind == 'c' && number ? client->index % number : client->index;
        uint64_t value = kind == 's' ? unit : kind == 'c' ? own : random_below(number);
        if (kind == 'x') {
            memset(scratch + len, 'x', number);
            len += number;
        } else {
            len += (size_t)sprintf(scratch + len, is_wide ? "%012llu" : "%llu",
                                   (unsigned long long)value);
        }
        word = close + 1;
    }
    return len;
}

static void append_unit(struct client *client, uint64_t started_ns)
{
    char head[32];
    uint64_t unit = options.first + units_sent++;
    for (int i = 0; i < options.words_count;) {
        int end = i;
        while (options.words[end])
            end++;
        append(&client->out, head, (size_t)sprintf(head, "*%d\r\n", end - i));
        for (; i < end; i++) {
            size_t len = expand(client, options.words[i], unit);
            append(&client->out, head, (size_t)sprintf(head, "$%zu\r\n", len));
            append(&client->out, scratch, len);
            append(&client->out, "\r\n", 2);
        }
        i = end + 1;
    }
    client->started_ns[client->tail++ % INFLIGHT_MAX] = started_ns;
}

static void flush(struct client *client)
{
    struct buffer *out = &client->out;
    while (out->begin < out->end) {
        ssize_t sent = write(client->fd, out->data + out->begin, out->end - out->begin);
        if (sent < 0 && errno == EAGAIN)
            return; /* the next event or departure tries again */
        if (sent < 0)
            die("write");
        out->begin += (size_t)sent;
    }
}

static bool may_send(uint64_t end_ns, uint64_t now)
{
    return options.count ? units_sent < options.count : now < end_ns;
}

/* ---- replies -------------------------------------------------------------------------------- */

/* Reads one element at the start of the buffer. False: it is incomplete. */
static bool take_element(struct client *client)
{
    struct buffer *in = &client->in;
    char *data = in->data + in->begin, *end = memchr(data, '\n', in->end - in->begin);
    if (!end)
        return false;
    size_t len = (size_t)(end + 1 - data);
    long long number = strtoll(data + 1, NULL, 10);
    client->elements_missing--;
    if (*data == '$' && number >= 0)
        len += (size_t)number + 2;
    if (len > in->end - in->begin) {
        client->elements_missing++;
        return false;
    }
    if (strchr("*~>%", *data) && number > 0)
        client->elements_missing += (uint64_t)number * (*data == '%' ? 2 : 1);
    if (*data == '-' && errors++ == 0)
        (void)fprintf(stderr, "load: %.*s\n", (int)(end - data), data);
    in->begin += len;
    return true;
}

static void take_replies(struct client *client, uint64_t now)
{
    while (client->head != client->tail) {
        if (!client->commands_missing)
            client->commands_missing = (uint64_t)options.commands;
        if (!client->elements_missing)
            client->elements_missing = 1;
        while (client->elements_missing)
            if (client->in.begin == client->in.end || !take_element(client))
                return;
        if (--client->commands_missing)
            continue;
        uint64_t started = client->started_ns[client->head++ % INFLIGHT_MAX];
        histogram[bucket_of(now > started ? now - started : 0)]++;
        units_done++;
    }
}

static void on_readable(struct client *client)
{
    struct buffer *in = &client->in;
    for (;;) {
        if (in->begin && in->begin < in->end) {
            memmove(in->data, in->data + in->begin, in->end - in->begin);
            in->end -= in->begin;
            in->begin = 0;
        }
        ssize_t got = read(client->fd, reserve(in, READ_BYTES), READ_BYTES);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0)
            die("the server closed the connection");
        in->end += (size_t)got;
        take_replies(client, now_ns());
        if (got < READ_BYTES)
            return;
    }
}

/* ---- the two loops -------------------------------------------------------------------------- */

static void refill(struct client *client, uint64_t end_ns)
{
    uint64_t now = now_ns();
    if (client->head != client->tail)
        return;
    for (uint32_t i = 0; i < options.depth && may_send(end_ns, now); i++)
        append_unit(client, now);
    flush(client);
}

/* Sends the units that are due; returns when the next unit of any client is due. */
static uint64_t depart(struct client *clients, uint64_t end_ns)
{
    uint64_t interval = (uint64_t)(1e9 * options.clients / options.rate), next = UINT64_MAX;
    uint64_t now = now_ns();
    for (uint32_t i = 0; i < options.clients; i++) {
        struct client *client = &clients[i];
        bool is_due = client->next_ns <= now && may_send(end_ns, now);
        while (client->next_ns <= now && may_send(end_ns, now) &&
               client->tail - client->head < INFLIGHT_MAX) {
            append_unit(client, client->next_ns);
            client->next_ns += interval / 2 + random_below(interval); /* one interval on average */
        }
        if (is_due || client->out.begin < client->out.end)
            flush(client);
        if (client->next_ns < next)
            next = client->next_ns;
    }
    return next;
}

static void run(struct client *clients, int epoll)
{
    struct epoll_event events[EVENTS];
    uint64_t begin = now_ns(), end_ns = begin + (uint64_t)(options.seconds * 1e9), next = 0;
    for (uint32_t i = 0; i < options.clients; i++) {
        clients[i].next_ns = begin + (uint64_t)(1e9 / options.rate * i);
        if (options.rate == 0)
            refill(&clients[i], end_ns);
    }
    while (may_send(end_ns, now_ns()) || units_done < units_sent) {
        if (options.rate > 0)
            next = depart(clients, end_ns);
        uint64_t now = now_ns(), wait = options.rate > 0 && next > now ? next - now : 0;
        if (options.rate == 0 || !may_send(end_ns, now) || wait > 100000000)
            wait = 100000000;
        struct timespec timeout = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
        int ready = epoll_pwait2(epoll, events, EVENTS, &timeout, NULL);
        for (int i = 0; i < ready; i++) {
            struct client *client = events[i].data.ptr;
            on_readable(client);
            if (options.rate == 0)
                refill(client, end_ns);
            else
                flush(client);
        }
    }
    double seconds = (double)(now_ns() - begin) / 1e9;
    printf("{\"units\": %llu, \"seconds\": %.4f, \"errors\": %llu, \"p50\": %.1f, \"p90\": %.1f, "
           "\"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f, \"histogram\": [",
           (unsigned long long)units_done, seconds, (unsigned long long)errors, quantile_us(0.5),
           quantile_us(0.9), quantile_us(0.99), quantile_us(0.999), quantile_us(1 - 1e-12));
    const char *comma = "";
    for (size_t i = 0; i < BUCKETS; i++)
        if (histogram[i]) {
            printf("%s[%.3f, %llu]", comma, (double)bucket_ns(i) / 1000,
                   (unsigned long long)histogram[i]);
            comma = ", ";
        }
    printf("]}\n");
}

/* ---- start ---------------------------------------------------------------------------------- */

static void send_readonly(int fd)
{
    static const char request[] = "READONLY\r\n", wanted[] = "+OK\r\n";
    char reply[sizeof wanted - 1];
    if (write(fd, request, strlen(request)) != (ssize_t)strlen(request) ||
        recv(fd, reply, sizeof reply, MSG_WAITALL) != (ssize_t)sizeof reply ||
        memcmp(reply, wanted, sizeof reply) != 0)
        die("READONLY");
}

static void client_connect(struct client *client, uint32_t index, int epoll)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    int on = 1;
    client->index = index;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || inet_pton(AF_INET, options.host, &address.sin_addr) != 1 ||
        connect(client->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("connect");
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (options.is_readonly)
        send_readonly(client->fd);
    (void)fcntl(client->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event) != 0)
        die("epoll_ctl");
}

static int take_option(const char *name, const char *value)
{
    if (strcmp(name, "--host") == 0)
        options.host = value;
    else if (strcmp(name, "--port") == 0)
        options.port = atoi(value);
    else if (strcmp(name, "--clients") == 0)
        options.clients = (uint32_t)atoi(value);
    else if (strcmp(name, "--depth") == 0)
        options.depth = (uint32_t)atoi(value);
    else if (strcmp(name, "--seconds") == 0)
        options.seconds = atof(value);
    else if (strcmp(name, "--count") == 0)
        options.count = strtoull(value, NULL, 10);
    else if (strcmp(name, "--first") == 0)
        options.first = strtoull(value, NULL, 10);
    else if (strcmp(name, "--rate") == 0)
        options.rate = atof(value);
    else if (strcmp(name, "--seed") == 0)
        random_seed(strtoull(value, NULL, 10));
    else if (strcmp(name, "--readonly") == 0)
        options.is_readonly = atoi(value) != 0;
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int i = 1;
    random_seed(now_ns());
    while (i + 1 < argc && take_option(argv[i], argv[i + 1]))
        i += 2;
    if (i + 1 >= argc || strcmp(argv[i], "--") != 0 || argc - i > WORDS_MAX || !options.port ||
        options.clients < 1 || options.clients > CLIENTS_MAX || options.depth < 1 ||
        options.depth > INFLIGHT_MAX) {
        (void)fprintf(
            stderr,
            "load --port P [--clients N] [--depth N] [--seconds S | --count N] "
            "[--first N] [--rate R] [--seed N] [--readonly 1] -- WORD ... [';' WORD ...]\n");
        return 2;
    }
    for (i++; i < argc; i++)
        options.words[options.words_count++] = strcmp(argv[i], ";") == 0 ? NULL : argv[i];
    options.words[options.words_count++] = NULL;
    for (int word = 0; word < options.words_count; word++)
        options.commands += !options.words[word];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct client *clients = calloc(options.clients, sizeof *clients);
    if (epoll < 0 || !clients)
        die("start");
    for (uint32_t index = 0; index < options.clients; index++)
        client_connect(&clients[index], index, epoll);
    run(clients, epoll);
    return 0;
}
