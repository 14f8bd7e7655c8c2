/*
 * limit_rounds.h - once a second worker 0 sends the limits of namespaces to all shards, and asks what they have (limits.h).
 */
#pragma once

struct limits;
struct proxy_worker;

void limit_rounds_tick(struct limits *limits, struct proxy_worker *worker);
