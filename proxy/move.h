/*
 * move.h - a client goes to another namespace or database, and what it leaves behind there.
 */
#pragma once

#include "shared/bytes.h"

#include <stdint.h>

struct client;
struct keyspace;
struct proxy_worker;

/* AUTH, SELECT, RESET. An empty name: no namespace. */
void client_move(struct client *client, struct bytes name, uint8_t db);
/* A client has left the keyspace; if it was the worker's last there, what counts by namespace is told. */
void keyspace_left(struct proxy_worker *worker, struct keyspace *keyspace);
