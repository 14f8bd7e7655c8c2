/*
 * hot_keys.h - the keys that a worker's clients request most often.
 *
 *   about one request in `hotkeys-sample` ─► its keys ─► sketch (hotkeys.h), under the name
 *
 *   u16 slot | u8 database | u8 length of the namespace | namespace | key
 */
#pragma once

#include "shared/bytes.h"

#include <stdint.h>

struct client;
struct frame;
struct proxy_worker;

/* Applies `hotkeys-sample`. */
void hot_keys_configure(struct proxy_worker *worker);
/* The worker stops: frees the samples. */
void hot_keys_stop(struct proxy_worker *worker);
/* Counts the keys of the client's request. To be called when worker->sampling.left reaches 0; sets it again. */
void hot_keys_sample(struct client *client, const struct frame *frame);
/* Calls `each` for every name that the worker has listed, with its rate. */
typedef void hot_key_fn(void *owner, struct bytes name, double per_second);
void hot_keys_each(struct proxy_worker *worker, hot_key_fn *each, void *owner);
/* The parts of such a name; borrowed from it. */
struct hot_key {
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    uint8_t db;
};
struct hot_key hot_key_parse(struct bytes name);
