/*
 * shares.h - how many connections of the proxy each namespace holds, in all workers: of its clients, and dedicated ones to
 * backends. What it may hold: share_limits.h.
 *
 *   keyspaces of all workers and databases ──► one share for each namespace
 */
#pragma once

#include "shared/bytes.h"

#include <stdatomic.h>
#include <stdint.h>

/* Of one namespace, in all workers. */
struct share {
    uint32_t refs; /* guarded by the mutex of struct shares */
    _Atomic int64_t clients;
    _Atomic int64_t dedicated;
    struct bytes name;
    char text[];
};

struct shares;

struct shares *shares_new(void);
void shares_free(struct shares *shares);
/* Finds or makes the share; the caller gets a reference. */
struct share *shares_get(struct shares *shares, struct bytes name);
struct share *share_ref(struct shares *shares, struct share *share);
void share_unref(struct shares *shares, struct share *share);
