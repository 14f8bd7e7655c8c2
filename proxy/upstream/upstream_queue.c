/*
 * The queue of parts in flight: parts that fail, and reads that are sent a second time.
 */
#include "proxy/core/error_replies.h"
#include "proxy/core/proxy_metrics.h"
#include "proxy/upstream/upstream_inner.h"

#include "proxy/core/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESEND_BYTES_MAX = 64 * 1024 /* copied reads */ };

void upstream_push_own(struct upstream *upstream, enum part_kind kind)
{
    struct request *request = request_new(upstream->worker, NULL);
    request->is_internal = true;
    request->part.kind = (uint8_t)kind;
    upstream_push(upstream, &request->part);
}

/* The first word of the error: clients repeat requests that fail with TRYAGAIN or LOADING, so it must be certain that
 * nothing was done. Other shards may have executed other parts of the request. ERR would say that the request was wrong. */
static const char *code_of(const struct upstream *upstream, const struct part *part,
                           const char *what)
{
    if (part->request->parts || strcmp(what, NOT_REACHABLE) != 0)
        return SHARD_LOST_CODE;
    return upstream->node->outage.is_restarting ? "LOADING" : "TRYAGAIN";
}

void upstream_fail(struct upstream *upstream, struct part *part, const char *what,
                   const char *reason)
{
    char text[UPSTREAM_TEXT_MAX];
    struct worker_scratch *scratch = &upstream->worker->scratch;
    const struct node *answering = scratch->answering;
    CHECK(part);
    (void)snprintf(text, sizeof(text), "%s shard '%s' (%s): %s%s", code_of(upstream, part, what),
                   upstream->node->name, upstream->node->address, what, reason);
    if (!part->request->is_internal)
        cell_add(upstream->node->cell, SHARD_ERRORS, 1);
    scratch->answering = upstream->node; /* for the slow log */
    scratch->answered_us = 0;
    part_failed(part, text);
    scratch->answering = answering;
}

void upstream_fail_all(struct upstream *upstream, struct part *part, const char *what,
                       const char *reason)
{
    if (upstream->use.is_copy)
        part = upstream->use.events->left(upstream, part);
    while (part) {
        struct part *next = part->next;
        struct client *followed = part->kind == PART_FOLLOWED ? part->request->client : NULL;
        if (upstream->use.is_single_use)
            part->upstream = NULL;
        if (part_is_request(part) && !part->is_answered)
            upstream_fail(upstream, part, what, reason);
        part_unlinked(part);
        if (followed)
            upstream->worker->client_events->followed(followed);
        part = next;
    }
}

void upstream_set_keyspace(struct upstream *upstream, struct keyspace *keyspace)
{
    struct keyspace *before = upstream->keyspace;
    upstream->keyspace = keyspace ? keyspace_ref(keyspace) : NULL;
    keyspace_unref(&upstream->worker->keyspaces, before);
}

/* ---- retries --------------------------------------------------------------------------------- */

void upstream_become_unproven(struct upstream *upstream)
{
    upstream->resend.is_unproven = true;
    upstream->resend.keyspace = upstream->keyspace ? keyspace_ref(upstream->keyspace) : NULL;
}

void upstream_drop_resend(struct upstream *upstream)
{
    upstream->resend.is_unproven = false;
    out_clear(&upstream->resend.frames);
    keyspace_unref(&upstream->worker->keyspaces, upstream->resend.keyspace);
    upstream->resend.keyspace = NULL;
}

void upstream_keep(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                   const struct frame *frame)
{
    if (keyspace != upstream->resend.keyspace ||
        upstream->resend.frames.bytes + frame->len > RESEND_BYTES_MAX)
        return;
    struct frame copied = *frame;
    copied.block = NULL;
    size_t before = upstream->resend.frames.bytes;
    upstream_write_frame(upstream, part, &upstream->resend.frames, &copied);
    part->resend_bytes = (uint32_t)(upstream->resend.frames.bytes - before);
}

/* True when the client has sent a write after this read. The write may have been executed, so a repeated read could see
 * its effect. */
static bool has_later_write(const struct part *part)
{
    for (const struct part *later = part->next; later; later = later->next) {
        if (!later->resend_bytes && later->request->client == part->request->client)
            return true;
    }
    return false;
}

void upstream_collect_resend(struct upstream *upstream, struct part **first)
{
    struct part **end = first;
    struct part **link = &upstream->queue.first;
    struct bytes frames = out_take(&upstream->resend.frames);
    size_t at = 0;
    *first = NULL;
    while (*link) {
        struct part *part = *link;
        if (part->resend_bytes && !part->is_answered && !has_later_write(part)) {
            out_write(&upstream->resend.frames, frames.data + at, part->resend_bytes);
            *link = part->next;
            part->next = NULL;
            *end = part;
            end = &part->next;
        } else {
            link = &part->next;
        }
        at += part->resend_bytes;
    }
    free((char *)frames.data);
}
