/*
 * pipeline.h - a client's requests in the order they came; replies leave from the front.
 *
 *   front ─► [ready] [waiting] [ready] [waiting] ◄─ back
 *              └─ leaves     └─ stays until the request before it has left
 *
 * The links are members of the requests, so nothing is allocated. Pure.
 */
#pragma once

#include "shared/check.h"

#include <stdbool.h>
#include <stdint.h>

struct pipeline_link {
    struct pipeline_link *next;
};

struct pipeline {
    struct pipeline_link *front;
    struct pipeline_link *back;
    uint32_t count;
    uint64_t popped; /* number of requests that have left */
};

static inline void pipeline_push(struct pipeline *pipeline, struct pipeline_link *link)
{
    link->next = NULL;
    if (pipeline->back)
        pipeline->back->next = link;
    else
        pipeline->front = link;
    pipeline->back = link;
    pipeline->count++;
}

/* Removes the request at the front; the pipeline must not be empty. */
static inline struct pipeline_link *pipeline_pop(struct pipeline *pipeline)
{
    struct pipeline_link *link = pipeline->front;
    CHECK(link);
    pipeline->front = link->next;
    if (!link->next)
        pipeline->back = NULL;
    pipeline->count--;
    pipeline->popped++;
    return link;
}
