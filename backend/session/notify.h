/*
 * notify.h - keyspace notifications.
 *
 * Redis documents classes and names: https://redis.io/docs/latest/develop/use/keyspace-notifications/
 */
#pragma once

#include "backend/context/notify_class.h"

struct call;
struct space;

/* Reports the event `name` ("lpush") of a key in the call's database. Handlers call it where Redis does, after their
 * effects. Cheap when the class is not enabled. */
void notify(struct call *call, enum notify_class class, const char *name, struct bytes key);
/* As notify(), for a key of another storage namespace (COPY DB, MOVE, active expiry). */
void notify_in(struct call *call, const struct space *space, enum notify_class class,
               const char *name, struct bytes key);
