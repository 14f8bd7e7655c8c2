/*
 * info.h - sections of INFO that are not printed in info.c.
 */
#pragma once

#include "backend/context/call.h"
#include "shared/out.h"

void info_persistence(const struct call *call, struct out *out);
void info_replication(const struct call *call, struct out *out);
void info_rocksdb(const struct call *call, struct out *out);
void info_transactions(const struct call *call, struct out *out);
/* May the keys of all databases be counted? False: the command waits for a transaction over shards. */
bool info_may_count_keys(struct call *call);
