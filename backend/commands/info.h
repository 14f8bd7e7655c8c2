/*
 * info.h - sections of INFO that are not printed in info.c.
 */
#pragma once

#include "backend/context/call.h"
#include "shared/out.h"

void info_persistence(const struct call *call, struct out *out);
void info_rocksdb(const struct call *call, struct out *out);
void info_transactions(const struct call *call, struct out *out);
