/*
 * peers.h - what other proxies say of themselves, above all which map they use.
 *
 *   option `peers`, admin addresses ──► a thread: while somebody looks, GET /status/self from each of their addresses
 *                                        └──► struct peer[], under a mutex ──► status page
 *
 * A name that stands for several addresses (a headless Service) stands for as many peers. The proxy finds itself among
 * them by its run id. The thread waits for a peer PEERS_TIMEOUT_MS at most, and nobody waits for the thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    PEERS_MAX = 64,
    PEERS_TIMEOUT_MS = 500,
    PEERS_EVERY_MS = 2000,
    PEERS_PATIENCE_MS = 10000,
    PEER_TEXT_MAX = 96,
    PEERS_TOKEN_MAX = 1024,
};

struct peer {
    char address[PEER_TEXT_MAX];
    bool is_up;
    bool is_self;
    uint64_t epoch;
    uint64_t uptime_s;
    char version[PEER_TEXT_MAX];
    char reason[PEER_TEXT_MAX]; /* why it is not up */
};

struct peers;

/* `addresses` separated by spaces; `run_id` is this proxy's. Starts the thread. Both are copied. */
struct peers *peers_new(const char *addresses, const char *run_id);
void peers_free(struct peers *peers); /* NULL is allowed */
/* Somebody looks: the peers as last seen; returns how many. `token` is what their admin ports want, as ours does. */
uint32_t peers_look(struct peers *peers, const char *token, struct peer to[PEERS_MAX]);
