#include "proxy/status/peers.h"

#include "shared/bytes.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/http_get.h"

#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ADDRESS_MAX = 300, SELF_MAX = 1024 };

struct peers {
    char *addresses;
    char *run_id;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t has_work;
    bool is_stopping;   /* guarded by the mutex, as are the fields below */
    uint64_t looked_us; /* when the page was last read, monotonic; 0: never */
    char token[PEERS_TOKEN_MAX];
    uint32_t count;
    struct peer seen[PEERS_MAX];
};

/* ---- one peer ---------------------------------------------------------------------------------- */

/* Copies the word after `name` at the beginning of a line; "": there is none. */
static void read_word(const char *text, const char *name, char *to, size_t size)
{
    size_t len = strlen(name);
    *to = '\0';
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) != 0 || line[len] != ' ')
            continue;
        (void)snprintf(to, size, "%.*s", (int)strcspn(line + len + 1, "\r\n"), line + len + 1);
        return;
    }
}

static uint64_t read_number(const char *text, const char *name)
{
    char word[PEER_TEXT_MAX];
    read_word(text, name, word, sizeof word);
    return strtoull(word, NULL, 10);
}

static void ask_peer(const struct peers *peers, const char *token, const struct addrinfo *info,
                     struct peer *peer)
{
    char host[64];
    char port[16];
    char text[SELF_MAX];
    char run_id[PEER_TEXT_MAX];
    *peer = (struct peer){0};
    if (getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        (void)snprintf(peer->address, sizeof peer->address,
                       info->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    peer->is_up = http_get(info->ai_addr, info->ai_addrlen, "/status/self", token, PEERS_TIMEOUT_MS,
                           text, sizeof text);
    if (!peer->is_up) {
        (void)snprintf(peer->reason, sizeof peer->reason, "%.90s", text);
        return;
    }
    read_word(text, "run_id", run_id, sizeof run_id);
    read_word(text, "version", peer->version, sizeof peer->version);
    peer->is_self = strcmp(run_id, peers->run_id) == 0;
    peer->epoch = read_number(text, "epoch");
    peer->uptime_s = read_number(text, "uptime_s");
}

/* ---- all peers --------------------------------------------------------------------------------- */

/* Polls all peers of one configured address; returns their number. */
static uint32_t ask_address(const struct peers *peers, const char *token, const char *word,
                            size_t len, struct peer *to, uint32_t max)
{
    char address[ADDRESS_MAX];
    struct addrinfo *found = NULL;
    uint32_t count = 0;
    (void)snprintf(address, sizeof address, "%.*s", (int)len, word);
    char *colon = strrchr(address, ':');
    if (!colon || max == 0)
        return 0;
    *colon = '\0';
    bool is_v6 = address[0] == '[' && colon > address && colon[-1] == ']';
    if (is_v6)
        colon[-1] = '\0';
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int problem = getaddrinfo(address + is_v6, colon + 1, &hints, &found);
    for (const struct addrinfo *info = found; info && count < max; info = info->ai_next)
        ask_peer(peers, token, info, &to[count++]);
    if (problem) {
        to[0] = (struct peer){0};
        (void)snprintf(to[0].address, sizeof to[0].address, "%.*s", (int)len, word);
        (void)snprintf(to[0].reason, sizeof to[0].reason, "%s", gai_strerror(problem));
        count = 1;
    } else {
        freeaddrinfo(found);
    }
    return count;
}

static uint32_t ask_peers(const struct peers *peers, const char *token, struct peer to[PEERS_MAX])
{
    uint32_t count = 0;
    const char *at = peers->addresses;
    while (*(at += strspn(at, " \t"))) {
        size_t len = strcspn(at, " \t");
        count += ask_address(peers, token, at, len, to + count, PEERS_MAX - count);
        at += len;
    }
    return count;
}

/* ---- the thread -------------------------------------------------------------------------------- */

static void lock(struct peers *peers)
{
    CHECK(pthread_mutex_lock(&peers->mutex) == 0);
}

static void unlock(struct peers *peers)
{
    CHECK(pthread_mutex_unlock(&peers->mutex) == 0);
}

static bool is_polling_wanted(const struct peers *peers)
{
    return peers->looked_us &&
           clock_mono_us() < peers->looked_us + (uint64_t)PEERS_PATIENCE_MS * 1000;
}

/* Waits for the next round of polling; without polling, until the page is read. The mutex is held. */
static void rest(struct peers *peers)
{
    struct timespec until;
    if (!is_polling_wanted(peers)) {
        CHECK(pthread_cond_wait(&peers->has_work, &peers->mutex) == 0);
        return;
    }
    CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += PEERS_EVERY_MS / 1000;
    while (!peers->is_stopping &&
           pthread_cond_timedwait(&peers->has_work, &peers->mutex, &until) == 0)
        ;
}

static void *poll_peers(void *owner)
{
    struct peers *peers = owner;
    struct peer fresh[PEERS_MAX];
    char token[PEERS_TOKEN_MAX];
    lock(peers);
    while (!peers->is_stopping) {
        if (is_polling_wanted(peers)) {
            memcpy(token, peers->token, sizeof token);
            unlock(peers);
            uint32_t count = ask_peers(peers, token, fresh);
            lock(peers);
            memcpy(peers->seen, fresh, count * sizeof *fresh);
            peers->count = count;
        }
        if (!peers->is_stopping)
            rest(peers);
    }
    unlock(peers);
    return NULL;
}

struct peers *peers_new(const char *addresses, const char *run_id)
{
    struct peers *peers = calloc(1, sizeof *peers);
    pthread_condattr_t monotonic;
    CHECK(peers);
    peers->addresses = strdup(addresses);
    peers->run_id = strdup(run_id);
    CHECK(peers->addresses && peers->run_id);
    CHECK(pthread_mutex_init(&peers->mutex, NULL) == 0);
    CHECK(pthread_condattr_init(&monotonic) == 0);
    CHECK(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&peers->has_work, &monotonic) == 0);
    (void)pthread_condattr_destroy(&monotonic);
    CHECK(pthread_create(&peers->thread, NULL, poll_peers, peers) == 0);
    return peers;
}

void peers_free(struct peers *peers)
{
    if (!peers)
        return;
    lock(peers);
    peers->is_stopping = true;
    CHECK(pthread_cond_signal(&peers->has_work) == 0);
    unlock(peers);
    CHECK(pthread_join(peers->thread, NULL) == 0);
    (void)pthread_cond_destroy(&peers->has_work);
    (void)pthread_mutex_destroy(&peers->mutex);
    free(peers->addresses);
    free(peers->run_id);
    free(peers);
}

uint32_t peers_look(struct peers *peers, const char *token, struct peer to[PEERS_MAX])
{
    lock(peers);
    (void)snprintf(peers->token, sizeof peers->token, "%s", token);
    bool was_wanted = is_polling_wanted(peers);
    uint32_t count = peers->count;
    memcpy(to, peers->seen, count * sizeof *to);
    peers->looked_us = clock_mono_us();
    if (!was_wanted)
        CHECK(pthread_cond_signal(&peers->has_work) == 0);
    unlock(peers);
    return count;
}
