/*
 * notify.h - keyspace notifications: which change happened to which key.
 *
 * Redis documents classes and names: https://redis.io/docs/latest/develop/use/keyspace-notifications/
 */
#pragma once

#include "backend/context/notify_class.h"

struct call;
struct space;

/* The event `name` ("lpush") happened to the key, in the call's database. A handler says so where Redis does,
 * behind its effects. Cheap when nobody asked for the class. */
void notify(struct call *call, enum notify_class class, const char *name, struct bytes key);
/* The same for a key of another storage namespace (COPY DB, MOVE, active expiry). */
void notify_in(struct call *call, const struct space *space, enum notify_class class,
               const char *name, struct bytes key);
