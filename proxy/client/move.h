/*
 * move.h - moves a client to another namespace or database, and releases its state in the previous one.
 */
#pragma once

#include "shared/bytes.h"

#include <stdint.h>

struct client;
struct keyspace;
struct proxy_worker;

/* For AUTH, SELECT and RESET. An empty name: no namespace. */
void client_move(struct client *client, struct bytes name, uint8_t db);
/* To be called when a client has left the keyspace. If the worker has no other client there, its count of the namespace's memory ends,
 * and if the namespace is ephemeral, the time begins after which it is dropped. */
void keyspace_left(struct proxy_worker *worker, struct keyspace *keyspace);
