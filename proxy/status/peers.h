/*
 * peers.h - state of the other proxies, above all which map they use.
 *
 *   option `peers`, admin addresses ──► a thread: while the page is open, GET /status/self from each of their addresses
 *                                        └──► struct peer[], under a mutex ──► status page
 *
 * Each address of a name (a headless Service) is one peer. The proxy recognizes itself by its run id. The thread waits
 * for a peer at most PEERS_TIMEOUT_MS, and no other thread waits for peers.
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
    char reason[PEER_TEXT_MAX]; /* why it is unreachable */
};

struct peers;

/* Starts the thread. `addresses` are separated by spaces; `run_id` is this proxy's. Both are copied. */
struct peers *peers_new(const char *addresses, const char *run_id);
void peers_free(struct peers *peers); /* NULL is allowed */
/* Copies the peers' last known state; returns their number. After this call the thread polls for some time. `token`:
 * password of the admin ports. */
uint32_t peers_look(struct peers *peers, const char *token, struct peer to[PEERS_MAX]);
