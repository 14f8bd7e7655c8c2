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
/* A client has left the keyspace; if it was the worker's last one there, memory counts and ephemeral namespaces are
 * updated. */
void keyspace_left(struct proxy_worker *worker, struct keyspace *keyspace);
