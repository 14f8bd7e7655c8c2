/*
 * limit_rounds.h - worker 0 sends the limits of namespaces to all shards, and asks what they have (limits.h): once a second, and
 * twenty times while a namespace has max-keys and there are several shards.
 */
#pragma once

struct limits;
struct proxy_worker;

/* From now on rounds begin at once when a namespace gets limits. NULL: the worker stops. */
void limit_rounds_serve(struct limits *limits, struct proxy_worker *worker);
/* timer_fn of worker->thread.limits; the owner is worker 0. */
void limit_rounds_often(void *owner);
/* Begins a round with all shards; to be called once a second. */
void limit_rounds_tick(struct limits *limits, struct proxy_worker *worker);
